"""What is measured of a layer while it trains, on held-out sequences."""

from typing import NamedTuple

import torch
from torch import Tensor

from slr.attentions.layer import (
    Architecture,
    Parameters,
    attend,
    effective_keys,
    predict,
    predict_from_context,
)
from slr.attentions.layer_sampling import Sequences, Stars
from slr.task import Task


class Measures(NamedTuple):
    """Mass and cosines belong to the head with the most attention on informative tokens.

    They are NaN without attention; the key's cosines are also NaN while the key is 0.
    """

    excess_risk: float  # without the label's noise
    mass: float = torch.nan  # share of |attention| on informative tokens
    key_cosine: float = torch.nan  # of K^T Q x_cls with k*
    value_cosine: float = torch.nan  # of the mean gradient of T in what attention reads, with v*
    swap_cosine: float = torch.nan  # of K^T Q x_cls with v*: runs at the swapped point look there


def measure(
    task: Task, architecture: Architecture, parameters: Parameters, stars: Stars, test: Sequences
) -> Measures:
    parameters = {name: tensor.detach() for name, tensor in parameters.items()}
    if architecture.fully_connected:
        return Measures(_risk(task, predict(architecture, parameters, test.X), test))
    weights, context = attend(architecture, parameters, test.X)
    prediction = predict_from_context(architecture, parameters, context.requires_grad_())
    (slopes,) = torch.autograd.grad(prediction.sum(), context)
    total = weights.abs().sum(dim=2, keepdim=True)
    share = torch.where(total > 0, weights.abs() / total, 0)  # a relu may be 0 everywhere
    index = test.informative[:, None].expand(-1, architecture.heads, -1)
    mass = share.gather(2, index).sum(dim=2).mean(dim=0)  # (heads,)
    best = mass.argmax()
    key, value = effective_keys(architecture, parameters)[best], slopes.mean(dim=0)[best]
    cosines = (_cosine(key, stars.k), _cosine(value, stars.v), _cosine(key, stars.v))
    return Measures(_risk(task, prediction.detach(), test), float(mass[best]), *cosines)


def _risk(task: Task, prediction: Tensor, test: Sequences) -> float:
    """The mean of (T - signal)^2, with signal^2, whose mean is known, as a control variate."""
    losses, control = (prediction - test.signal) ** 2, test.signal**2
    expected = task.gamma**2 / test.informative.shape[1]
    centred = control - control.mean()
    slope = (losses * centred).sum() / (centred**2).sum()
    return float(losses.mean() + slope * (expected - control.mean()))


def _cosine(x: Tensor, unit: Tensor) -> float:
    return float(x @ unit / x.norm())  # 0/0 is NaN: a key of length 0 has no direction
