"""A whole attention layer read at a [CLS] query.

notation: u = K^T Q x_cls / sqrt(p)                    effective key of a head
          a_l = gate(X_l . u)                          attention, over the tokens l
          z = V sum_l a_l X_l, for all heads           what [CLS] reads
          T(X) = w . (W2 relu(W1 z + b1) + b2)         or w . z without the MLP

The query is the same for every sequence, so the scores are X.u, and K X is never computed.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from slr.predictor import Gate
from slr.task import Task

Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Architecture:
    """The parts of a layer. The gate ``uniform`` freezes attention at 1/L, as a control.

    ``fully_connected`` is a control without attention: two hidden layers on the flattened sequence,
    with about as many parameters as the attention layer.

    ``released`` is the layer of the code that the authors released (transformer-single-head.ipynb):
    the query is that of a register, a random vector that is not trained; softmax attention over
    all tokens and the register, each after a layer norm; residual connections around attention and
    MLP; and the matrix that starts at 0 applies to the tokens, not to the query.
    """

    gate: Gate = "softmax"
    heads: int = 1
    mlp: bool = True
    fully_connected: bool = False
    released: bool = False
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
    "softmax, released": Architecture(released=True),
    **{gate: Architecture(gate) for gate in ("erf", "tanh", "sigmoid", "relu", "linear")},
    "uniform (frozen)": Architecture("uniform"),
    "fully connected": Architecture(fully_connected=True),
}


class Attended(NamedTuple):
    """What the heads of a layer look at and read, for sequences X of shape (n, L, d)."""

    weights: Tensor  # (n, heads, L), and the register last, if there is one
    context: Tensor  # (n, heads, d): sum_l a_l X_l, before V


def start_parameters(
    task: Task, architecture: Architecture, generator: torch.Generator
) -> Parameters:
    """The paper's start: Q and biases zero, w ~ N(0, 1/d^2), the rest N(0, 2/(d_in + d_out)).

    With Q = 0 all scores are 0. A gate that is 0 at 0 passes nothing on, and the MLP's relu has no
    slope at 0, so training would never begin. For such gates Q is Gaussian, too.
    """
    d, m = task.d, architecture.hidden
    p = d if architecture.released else architecture.width  # for its residual connections

    def normal(*shape: int, scale: float) -> Tensor:
        draws = torch.randn(shape, generator=generator, dtype=torch.float64)
        return scale * draws.to(torch.get_default_dtype())

    def matrix(rows: int, columns: int) -> Tensor:
        return normal(rows, columns, scale=math.sqrt(2 / (rows + columns)))

    if architecture.fully_connected:
        n = fully_connected_width(task, architecture)
        start = {"W1": matrix(task.L * d, n), "b1": torch.zeros(n), "W2": matrix(n, n)}
        return start | {"b2": torch.zeros(n), "w": normal(n, scale=1 / d)}
    start = {"K": matrix(p, d), "V": matrix(p, d), "w": normal(p, scale=1 / d)}
    at_zero = activate(torch.zeros(1), architecture.gate)
    start["Q"] = torch.zeros(p, d) if at_zero.any() else matrix(p, d)
    if architecture.mlp:
        start |= {"W1": matrix(p, m), "b1": torch.zeros(m), "W2": matrix(m, p)}
        start["b2"] = torch.zeros(p)
    if architecture.released:
        start["register"] = normal(d, scale=1 / math.sqrt(d))
    return start


def fully_connected_width(task: Task, architecture: Architecture) -> int:
    """Width of the hidden layers that gives as many parameters as the attention layer has."""
    p, m = architecture.width, architecture.hidden
    size = 3 * p * task.d + p + (2 * p * m + m + p if architecture.mlp else 0)
    b = task.L * task.d + 3  # n^2 + (L d + 3) n parameters at width n
    return max(1, round((math.sqrt(b * b + 4 * size) - b) / 2))


def effective_keys(architecture: Architecture, parameters: Parameters) -> Tensor:
    """K^T Q x_cls / sqrt(p) of each head, shape (heads, d).

    Only the length of x_cls matters, since the law of the start is invariant under rotations. x_cls
    is the vector of ones, about as long as a token.
    """
    K = parameters["K"]
    if architecture.released:
        register = layer_norm(parameters["register"].detach())
        return (K @ register @ parameters["Q"])[None] / math.sqrt(len(K))
    query = parameters["Q"].sum(dim=1)
    size = len(K) // architecture.heads
    per_head = query.reshape(-1, 1, size) @ K.reshape(-1, size, K.shape[1])
    return per_head.squeeze(1) / math.sqrt(size)


def predict(architecture: Architecture, parameters: Parameters, X: Tensor) -> Tensor:
    """Predictions (n,) for X of shape (n, L, d)."""
    if not architecture.fully_connected:
        context = attend(architecture, parameters, X).context
        return predict_from_context(architecture, parameters, context)
    hidden = X.flatten(1)
    for layer in "12":
        hidden = (hidden @ parameters[f"W{layer}"] + parameters[f"b{layer}"]).relu()
    return hidden @ parameters["w"]


def attend(architecture: Architecture, parameters: Parameters, X: Tensor) -> Attended:
    if architecture.released:
        register = parameters["register"].detach().expand(len(X), 1, -1)
        X = layer_norm(torch.cat([X, register], dim=1))
    scores = X @ effective_keys(architecture, parameters).T
    weights = activate(scores.mT, architecture.gate)
    return Attended(weights, weights @ X)


def predict_from_context(
    architecture: Architecture, parameters: Parameters, context: Tensor
) -> Tensor:
    """Predictions (n,) from context (n, heads, d), by V, the MLP and the output."""
    n, heads, d = context.shape
    V, w = parameters["V"].reshape(heads, -1, d), parameters["w"]
    z = (context.transpose(0, 1) @ V.mT).transpose(0, 1).reshape(n, -1)
    if not architecture.mlp:
        return z @ w
    if architecture.released:
        z = z + parameters["register"].detach()
    hidden = (z @ parameters["W1"] + parameters["b1"]).relu()
    # W2 w first: the output is a number, so no sequence needs a product with W2.
    output = hidden @ (parameters["W2"] @ w) + parameters["b2"] @ w
    return z @ w + output if architecture.released else output


def layer_norm(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def activate(scores: Tensor, gate: Gate) -> Tensor:
    """slr.predictor.activate for tensors: weights over the tokens of the last axis."""
    if gate == "softmax":
        return scores.softmax(dim=-1)
    if gate == "uniform":
        return torch.full_like(scores, 1 / scores.shape[-1])
    if gate == "one-sided":
        return (1 + torch.erf(scores)) / 2
    return scores if gate == "linear" else getattr(torch, gate)(scores)
