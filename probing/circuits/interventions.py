"""Edits of a model's states while it runs: small values that can be printed, compared and moved.

An edit maps states (m, d) to states (m, d); ``probing.states.recording.edited`` applies it at
chosen tokens of one layer. In BERT-like encoders heads can also be ablated, and attention set.
"""

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from concept_erasure import LeaceEraser  # type: ignore[import-untyped]
from torch import Tensor

from probing.arrays import FloatArray
from probing.states.anatomy import attention_layers


@dataclass(frozen=True, eq=False)
class Edit:
    """A function from states (m, d) to states (m, d), defined by its fields."""

    def __call__(self, states: Tensor) -> Tensor:
        raise NotImplementedError

    def to(self, states: Tensor) -> Self:
        """A copy of the edit on the device and in the precision of these states."""
        moved = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                object.__setattr__(moved, name, value.to(states))
        return moved

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return False
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(torch.equal(a, b) if isinstance(a, Tensor) else a == b for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class _Along(Edit):
    """An edit along a direction, which is normalised."""

    direction: Any = field(repr=False)  # (d,), stored as a tensor

    def __post_init__(self) -> None:
        u = torch.as_tensor(self.direction, dtype=torch.float32)
        object.__setattr__(self, "direction", u / u.norm())


@dataclass(frozen=True, eq=False)
class Erase(_Along):
    """Project out a direction (d,), setting the coordinate along it to ``at``.

    >>> with edited(model, 1, Erase(v_hat, at=0.0), tokens.site("informative")):
    ...     read(model, tokens).logits
    """

    at: float

    def __call__(self, states: Tensor) -> Tensor:
        u = self.to(states).direction
        return states - ((states @ u) - self.at)[:, None] * u


@dataclass(frozen=True, eq=False)
class Reflect(_Along):
    """Mirror states at the plane where the coordinate along a direction (d,) is ``middle``.

    >>> edit = Reflect(v_hat, middle=0.3)
    >>> torch.allclose(edit(edit(states)), states)
    """

    middle: float

    def __call__(self, states: Tensor) -> Tensor:
        u = self.to(states).direction
        return states - 2 * ((states @ u) - self.middle)[:, None] * u


@dataclass(frozen=True, eq=False)
class Steer(_Along):
    """Add a multiple of a unit direction (d,) to each of m states; ``lengths`` (m,) says how much.

    >>> edit = Steer(v_hat, lengths=np.full(len(states), 2.0))
    >>> edit(states) - states  # 2 v_hat in each row
    """

    lengths: Any = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = torch.as_tensor(self.lengths, dtype=torch.float32)
        object.__setattr__(self, "lengths", lengths)

    def __call__(self, states: Tensor) -> Tensor:
        moved = self.to(states)
        return states + moved.lengths[:, None] * moved.direction


@dataclass(frozen=True, eq=False)
class Leace(Edit):
    """The least edit after which no linear probe can predict a concept (Belrose et al. 2023).

    >>> edit = Leace.fit(states.at(1, "summary"), states.tokens.labels)
    >>> edit(torch.as_tensor(states.at(1, "summary")))
    """

    left: Tensor = field(repr=False)  # (d, 1): the projection is I - left right
    right: Tensor = field(repr=False)  # (1, d)
    bias: Tensor = field(repr=False)

    @classmethod
    def fit(cls, states: FloatArray, concept: FloatArray) -> Self:
        """Fit to states (n, d) and a concept (n,) with two values.

        Double precision is needed: states of templated sentences span few dimensions, and the
        whitening inverts their covariance.
        """
        X = torch.as_tensor(np.asarray(states), dtype=torch.float64)
        eraser = LeaceEraser.fit(X, torch.as_tensor(np.asarray(concept), dtype=torch.float64))
        return cls(eraser.proj_left, eraser.proj_right, eraser.bias)

    def __call__(self, states: Tensor) -> Tensor:
        exact = states.double()
        moved = self.to(exact)
        return LeaceEraser(moved.left, moved.right, moved.bias)(exact).to(states.dtype)


# ---- heads


@contextmanager
def without_heads(model: Any, heads: list[tuple[int, int]]) -> Iterator[None]:
    """Run the block with these heads (layer, head: both from 1) ablated: they write zeros."""

    def silence(head: int, size: int, module: Any, args: Any) -> Any:
        context = args[0].clone()
        context[..., (head - 1) * size : head * size] = 0
        return (context, *args[1:])

    with ExitStack() as stack:
        for layer, head in heads:
            attention = _attention(model, layer, head)
            hook = partial(silence, head, attention.self.attention_head_size)
            stack.enter_context(attention.output.dense.register_forward_pre_hook(hook))
        yield


@contextmanager
def reading_only(model: Any, layer: int, mask: Tensor) -> Iterator[None]:
    """Run the block with the attention of [CLS] set to the masked tokens (n, tokens), equally.

    This holds in all heads of ``layer`` (from 1), whatever their scores.
    """
    attention = _attention(model, layer, 1)
    weights = mask.float() / mask.float().sum(1, keepdim=True).clamp_min(1)
    read: list[Tensor] = []

    def keep(module: Any, args: Any, values: Tensor) -> None:
        read.append(torch.einsum("nt,ntd->nd", weights, values))

    def replaced(module: Any, args: Any) -> Any:
        context = args[0].clone()
        context[:, 0] = read.pop()
        return (context, *args[1:])

    reading = attention.self.value.register_forward_hook(keep)
    with reading, attention.output.dense.register_forward_pre_hook(replaced):
        yield


def _attention(model: Any, layer: int, head: int) -> Any:
    layers = attention_layers(model)
    if not 1 <= layer <= len(layers):
        raise ValueError(f"layer must lie between 1 and {len(layers)}, not {layer}")
    attention = layers[layer - 1]
    if not 1 <= head <= attention.self.num_attention_heads:
        raise ValueError(f"layer {layer} has heads 1 to {attention.self.num_attention_heads}")
    return attention
