"""Edits of a model's states while it runs, and what they do to its predictions.

An edit maps states (m, d) to states (m, d). It is made at the tokens of a mask, at one layer: 0 is
what the embeddings give, l the output of layer l. Hooks are always removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from concept_erasure import LeaceEraser  # type: ignore[import-untyped]
from torch import Tensor

from probing.circuits.heads import attention_layers
from probing.probes.logistic import FloatArray

Edit = Callable[[Tensor], Tensor]


@contextmanager
def edited(model: Any, layer: int, edit: Edit, mask: Tensor) -> Iterator[None]:
    """Within the block, states at ``layer`` are edited at the tokens of ``mask`` (n, tokens)."""

    def hook(module: Any, args: Any, output: Any) -> Any:
        states = output if isinstance(output, Tensor) else output[0]
        changed = states.clone()
        changed[mask] = edit(states[mask]).to(states.dtype)
        return changed if isinstance(output, Tensor) else (changed, *output[1:])

    # First in line: the library's own capture must see the edited states (PITFALLS).
    handle = _module(model, layer).register_forward_hook(hook, prepend=True)
    try:
        yield
    finally:
        handle.remove()


def _module(model: Any, layer: int) -> Any:
    layers = attention_layers(model)
    if not 0 <= layer <= len(layers):
        raise ValueError(f"layer must lie between 0 and {len(layers)}, not {layer}")
    return layers[layer - 1] if layer else model.base_model.embeddings


# ---- edits


def erase(direction: FloatArray, at: float) -> Edit:
    """Project out a direction, setting the coordinate along it to ``at``."""
    u = _unit(direction)
    return lambda states: states - ((states @ u) - at)[:, None] * u


def reflect(direction: FloatArray, middle: float) -> Edit:
    """Mirror the states at the plane where the coordinate along the direction is ``middle``."""
    u = _unit(direction)
    return lambda states: states - 2 * ((states @ u) - middle)[:, None] * u


def steer(direction: FloatArray, lengths: FloatArray) -> Edit:
    """Add the direction, so many lengths of it to each row."""
    u, by = _unit(direction), torch.as_tensor(np.asarray(lengths), dtype=torch.float32)
    return lambda states: states + by[:, None] * u


def leace(states: FloatArray, concept: FloatArray) -> Edit:
    """The least change after which no linear probe can tell the concept (Belrose et al. 2023).

    ``states`` (n, d) and ``concept`` (n,) are what it is fitted to. In double precision: states
    of templated sentences span few dimensions, and the whitening inverts their covariance.
    """
    X = torch.as_tensor(np.asarray(states), dtype=torch.float64)
    eraser = LeaceEraser.fit(X, torch.as_tensor(np.asarray(concept), dtype=torch.float64))
    return lambda rows: eraser(rows.double()).to(rows.dtype)


def _unit(direction: FloatArray) -> Tensor:
    u = torch.as_tensor(np.asarray(direction), dtype=torch.float32)
    return u / u.norm()


# ---- heads


@contextmanager
def without_heads(model: Any, heads: list[tuple[int, int]]) -> Iterator[None]:
    """Within the block, these heads (layer, head: both from 1) write nothing."""

    def silence(head: int, size: int) -> Any:
        def hook(module: Any, args: Any) -> Any:
            context = args[0].clone()
            context[..., (head - 1) * size : head * size] = 0
            return (context, *args[1:])

        return hook

    with ExitStack() as stack:
        for layer, head in heads:
            attention = _attention(model, layer, head)
            hook = silence(head, attention.self.attention_head_size)
            stack.callback(attention.output.dense.register_forward_pre_hook(hook).remove)
        yield


@contextmanager
def reading_only(model: Any, layer: int, mask: Tensor) -> Iterator[None]:
    """Within the block, [CLS] reads in all heads of ``layer`` the mean of the masked tokens alone.

    That is attention moved by hand, whatever the scores say.
    """
    attention = _attention(model, layer, 1)
    weights = mask.float() / mask.float().sum(1, keepdim=True).clamp_min(1)
    read: list[Tensor] = []

    def keep(module: Any, args: Any, values: Tensor) -> None:
        read.append(torch.einsum("nt,ntd->nd", weights, values))

    def replace(module: Any, args: Any) -> Any:
        context = args[0].clone()
        context[:, 0] = read.pop()
        return (context, *args[1:])

    with ExitStack() as stack:
        stack.callback(attention.self.value.register_forward_hook(keep).remove)
        stack.callback(attention.output.dense.register_forward_pre_hook(replace).remove)
        yield


def _attention(model: Any, layer: int, head: int) -> Any:
    layers = attention_layers(model)
    if not 1 <= layer <= len(layers):
        raise ValueError(f"layer must lie between 1 and {len(layers)}, not {layer}")
    attention = layers[layer - 1].attention
    if not 1 <= head <= attention.self.num_attention_heads:
        raise ValueError(f"layer {layer} has heads 1 to {attention.self.num_attention_heads}")
    return attention
