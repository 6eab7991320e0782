"""A whole attention layer read at a [CLS] query, for many repetitions at once.

notation: u = K^T Q x_cls / sqrt(p)                    effective key of a head
          a_l = gate(X_l . u)                          attention, over the tokens l
          z = V sum_l a_l X_l, for all heads           what [CLS] reads
          T(X) = w . (W2 relu(W1 z + b1) + b2)         or w . z without the MLP

Every parameter has the repetition as its first axis: one batched product serves all of them.
The query is the same for every sequence, so the scores are X.u, and K X is never computed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from slr.predictor import Gate
from slr.task import Task

Parameters = dict[str, Tensor]  # each of shape (runs, ...)


@dataclass(frozen=True)
class Architecture:
    """The parts of a layer. The gate ``uniform`` freezes attention at 1/L, as a control.

    ``fully_connected`` is a control without attention: two hidden layers on the flattened sequence,
    with about as many parameters as the attention layer.
    """

    gate: Gate = "softmax"
    heads: int = 1
    mlp: bool = True
    fully_connected: bool = False
    width: int = 80  # p, of all heads together
    hidden: int = 200  # m, of the MLP

    def __post_init__(self) -> None:
        if self.gate not in get_args(Gate):
            raise ValueError(f"gate must be one of {', '.join(get_args(Gate))}, not {self.gate!r}")
        if self.heads < 1 or self.width % self.heads:
            raise ValueError(f"width {self.width} does not divide into {self.heads} heads")


ARCHITECTURES = {  # the layer of the paper's appendix, and the same with one part changed
    "softmax": Architecture(),
    "softmax, no MLP": Architecture(mlp=False),
    "softmax, 4 heads": Architecture(heads=4),
    **{gate: Architecture(gate) for gate in ("erf", "tanh", "sigmoid", "relu", "linear")},
    "uniform (frozen)": Architecture("uniform"),
    "fully connected": Architecture(fully_connected=True),
}


class Reading(NamedTuple):
    """The output of a layer for sequences X of shape (runs, n, L, d)."""

    prediction: Tensor  # (runs, n)
    weights: Tensor | None  # (runs, n, heads, L)
    context: Tensor | None  # (runs, n, heads, d): sum_l a_l X_l, before V


def start_parameters(
    task: Task, architecture: Architecture, generators: Sequence[torch.Generator]
) -> Parameters:
    """The paper's start: Q and biases zero, w ~ N(0, 1/d^2), the rest N(0, 2/(d_in + d_out)).

    With Q = 0 all scores are 0. A gate that is 0 at 0 passes nothing on, and the MLP's relu has no
    slope at 0, so training would never begin. For such gates Q is Gaussian, too.
    """
    d, p, m = task.d, architecture.width, architecture.hidden

    def normal(*shape: int, scale: float) -> Tensor:
        draws = [torch.randn(shape, generator=g, dtype=torch.float64) for g in generators]
        return scale * torch.stack(draws).to(torch.get_default_dtype())

    def matrix(rows: int, columns: int) -> Tensor:
        return normal(rows, columns, scale=math.sqrt(2 / (rows + columns)))

    def zeros(*shape: int) -> Tensor:
        return torch.zeros((len(generators), *shape))

    if architecture.fully_connected:
        n = fully_connected_width(task, architecture)
        parameters = {"W1": matrix(task.L * d, n), "b1": zeros(1, n), "W2": matrix(n, n)}
        return parameters | {"b2": zeros(1, n), "w": normal(n, 1, scale=1 / d)}
    start = {"K": matrix(p, d), "V": matrix(p, d), "w": normal(p, 1, scale=1 / d)}
    at_zero = activate(torch.zeros(1), architecture.gate)
    start["Q"] = zeros(p, d) if at_zero.any() else matrix(p, d)
    if architecture.mlp:
        start |= {"W1": matrix(p, m), "b1": zeros(1, m), "W2": matrix(m, p), "b2": zeros(1, p)}
    return start


def fully_connected_width(task: Task, architecture: Architecture) -> int:
    """Width of the hidden layers that gives as many parameters as the attention layer has."""
    p, m = architecture.width, architecture.hidden
    size = 3 * p * task.d + p + (2 * p * m + m + p if architecture.mlp else 0)
    b = task.L * task.d + 3  # n^2 + (L d + 3) n parameters at width n
    return max(1, round((math.sqrt(b * b + 4 * size) - b) / 2))


def effective_keys(architecture: Architecture, parameters: Parameters) -> Tensor:
    """K^T Q x_cls / sqrt(p) of each head, shape (runs, heads, d).

    Only the length of x_cls matters, since the law of the start is invariant under rotations. x_cls
    is the vector of ones, about as long as a token.
    """
    query, K = parameters["Q"].sum(dim=2), parameters["K"]
    runs, p, d = K.shape
    size = p // architecture.heads
    per_head = query.reshape(runs, -1, 1, size) @ K.reshape(runs, -1, size, d)
    return per_head.squeeze(2) / math.sqrt(size)


def read(architecture: Architecture, parameters: Parameters, X: Tensor) -> Reading:
    """The forward pass, on X of shape (runs, n, L, d)."""
    runs, n, L, d = X.shape
    if architecture.fully_connected:
        return Reading(_perceptron(parameters, X.reshape(runs, n, L * d), last=True), None, None)
    keys = effective_keys(architecture, parameters)
    scores = X.reshape(runs, n * L, d) @ keys.mT
    weights = activate(scores.reshape(runs, n, L, -1).mT, architecture.gate)
    context = weights @ X
    return Reading(predict_from_context(architecture, parameters, context), weights, context)


def predict_from_context(
    architecture: Architecture, parameters: Parameters, context: Tensor
) -> Tensor:
    """Predictions (runs, n) from context (runs, n, heads, d), by V, the MLP and the output."""
    runs, n, heads, d = context.shape
    V = parameters["V"].reshape(runs, heads, -1, d)
    z = (context.transpose(1, 2) @ V.mT).transpose(1, 2).reshape(runs, n, -1)
    if architecture.mlp:
        return _perceptron(parameters, z, last=False)
    return (z @ parameters["w"]).squeeze(-1)


def _perceptron(parameters: Parameters, z: Tensor, *, last: bool) -> Tensor:
    """w . (W2 relu(W1 z + b1) + b2); with ``last`` a relu on the second layer too."""
    hidden = torch.relu(torch.baddbmm(parameters["b1"], z, parameters["W1"]))
    out = torch.baddbmm(parameters["b2"], hidden, parameters["W2"])
    return ((torch.relu(out) if last else out) @ parameters["w"]).squeeze(-1)


def activate(scores: Tensor, gate: Gate) -> Tensor:
    """slr.predictor.activate for tensors: weights over the tokens of the last axis."""
    if gate == "softmax":
        return scores.softmax(dim=-1)
    if gate == "uniform":
        return torch.full_like(scores, 1 / scores.shape[-1])
    if gate == "one-sided":
        return (1 + torch.erf(scores)) / 2
    return scores if gate == "linear" else getattr(torch, gate)(scores)
