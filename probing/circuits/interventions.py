"""Edits of a model's states while it runs: small values that can be printed, compared and moved.

An edit maps states (m, d) to states (m, d); ``probing.states.recording.edited`` applies it at
chosen tokens of one layer. Heads can also be ablated, and the summary's attention set by hand.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from concept_erasure import LeaceEraser  # type: ignore[import-untyped]
from torch import Tensor

from probing.arrays import FloatArray
from probing.probes.logistic import check_states, check_two_labels
from probing.states.anatomy import anatomy_of, read_by
from probing.states.attention import Call, attending
from probing.states.editing import check_mask
from probing.states.tokens import Tokens


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
    """An edit along a direction (d,) of any length, which is kept at unit length.

    ``at`` and ``middle`` are values of ``states @ direction`` for the direction as it was given,
    and are kept in the same unit: (2 * direction, 2 * middle) is the same edit.
    """

    direction: Any = field(repr=False)  # (d,), stored as a tensor

    def __post_init__(self) -> None:
        given = torch.as_tensor(self.direction).cpu().double()
        if given.ndim != 1:
            raise ValueError(f"a direction has shape (d,), not {(*given.shape,)}")
        u, length = given.float(), given.norm().item()
        if not 0 < u.norm() < np.inf:
            raise ValueError(f"a direction needs a finite length above 0, not {length:g}")
        object.__setattr__(self, "direction", u / u.norm())
        for name in vars(self).keys() & {"at", "middle"}:
            coordinate = float(getattr(self, name)) / length
            if not np.isfinite(coordinate):
                raise ValueError(f"{name} must be a finite number")
            object.__setattr__(self, name, coordinate)

    def _unit(self, states: Tensor) -> Tensor:
        """The unit direction on the device and in the precision of the states."""
        _check_d(states, len(self.direction))
        return self.to(states).direction


def _check_d(states: Tensor, d: int) -> None:
    if states.shape[-1] != d:
        raise ValueError(f"the states have {states.shape[-1]} dimensions, the edit {d}")


@dataclass(frozen=True, eq=False)
class Erase(_Along):
    """Project out a direction (d,), so that ``states @ direction`` is ``at``.

    >>> with edited(model, 1, Erase(v_hat, at=0.0), tokens.site("informative")):
    ...     read(model, tokens).logits
    """

    at: float

    def __call__(self, states: Tensor) -> Tensor:
        u = self._unit(states)
        return states - ((states @ u) - self.at)[:, None] * u


@dataclass(frozen=True, eq=False)
class Reflect(_Along):
    """Mirror states at the plane where ``states @ direction`` is ``middle``.

    >>> edit = Reflect(v_hat, middle=0.3)
    >>> torch.allclose(edit(edit(states)), states)
    """

    middle: float

    def __call__(self, states: Tensor) -> Tensor:
        u = self._unit(states)
        return states - 2 * ((states @ u) - self.middle)[:, None] * u


@dataclass(frozen=True, eq=False)
class Steer(_Along):
    """Move each of m states along a direction (d,), by its own of the distances ``lengths`` (m,).

    >>> edit = Steer(v_hat, lengths=np.full(len(states), 2.0))
    >>> edit(states) - states  # in each row 2 v_hat / |v_hat|
    """

    lengths: Any = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = torch.as_tensor(self.lengths, dtype=torch.float32)
        if lengths.ndim != 1 or not lengths.isfinite().all():
            raise ValueError("lengths must be finite numbers (m,), one per state")
        object.__setattr__(self, "lengths", lengths)

    def __call__(self, states: Tensor) -> Tensor:
        u, lengths = self._unit(states), self.to(states).lengths
        if len(lengths) != len(states):
            raise ValueError(f"{len(lengths)} lengths for {len(states)} states")
        return states + lengths[:, None] * u


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
        X = torch.as_tensor(check_states(states), dtype=torch.float64)
        _, second = check_two_labels(concept, len(X))
        eraser = LeaceEraser.fit(X, torch.as_tensor(second, dtype=torch.float64))
        return cls(eraser.proj_left, eraser.proj_right, eraser.bias)

    def __call__(self, states: Tensor) -> Tensor:
        _check_d(states, len(self.bias))
        exact = states.float() if states.device.type == "mps" else states.double()
        moved = self.to(exact)
        return LeaceEraser(moved.left, moved.right, moved.bias)(exact).to(states.dtype)


# ---- heads


@contextmanager
def without_heads(model: Any, heads: list[tuple[int, int]]) -> Iterator[None]:
    """Run the block with these heads (layer, head: both from 1) ablated: they write zeros.

    In arrays both count from 0: head (2, 3) is ``states.attention[:, 1, 2]``.

    >>> with without_heads(model, [(1, 1)]):
    ...     read(model, tokens).logits
    """
    _check_heads(model, heads)

    def silence(call: Call) -> None:
        if ablated := [head - 1 for layer, head in heads if layer == call.layer]:
            call.output = call.output.clone()
            call.output[:, :, ablated] = 0

    with attending(model, silence):
        yield


@contextmanager
def reading_only(model: Any, layer: int, tokens: Tokens, site: str) -> Iterator[None]:
    """Run the block with the summary token reading the tokens of a site alone, all equally.

    This holds in all heads of ``layer`` (from 1), whatever their scores.

    >>> with reading_only(model, 1, tokens, "distractor"):
    ...     read(model, tokens).logits
    """
    _check_heads(model, [(layer, 1)])
    tokens = read_by(model, tokens)
    mask, summary = tokens.site(site).float(), tokens.site("summary")
    if not mask.any(1).all():
        raise ValueError(f"a sentence has no token of the site {site!r}")
    weights = mask / mask.sum(1, keepdim=True)

    def move(call: Call) -> None:
        if call.layer == layer:
            check_mask(mask, call.output)
            values = call.per_head(call.value)
            moved = torch.einsum("nt,nhte->nhe", weights.to(values), values)
            where = summary.to(values.device)[:, :, None, None]
            call.output = torch.where(where, moved[:, None], call.output)
            if call.weights is not None:
                row = weights.to(call.weights)[:, None, None]
                call.weights = torch.where(where[..., 0][:, None], row, call.weights)

    with attending(model, move):
        yield


def _check_heads(model: Any, heads: list[tuple[int, int]]) -> None:
    anatomy = anatomy_of(model)
    if any(np.shape(pair) != (2,) for pair in heads):
        raise ValueError(f"heads is a list of pairs (layer, head), not {heads}")
    for layer, head in heads:
        if not 1 <= layer <= anatomy.n_layers:
            raise ValueError(f"layer must lie between 1 and {anatomy.n_layers}, not {layer}")
        if not 1 <= head <= anatomy.n_heads:
            raise ValueError(f"layer {layer} has heads 1 to {anatomy.n_heads}, not {head}")
