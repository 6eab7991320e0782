"""Longer sequences than those of training: how often a prediction has the sign of the label.

notation: T(X) = sum_l a_l X_l.v*,  a = gate(lam X_l.k*),  no label noise
Values X_l.v* are independent of scores X_l.k*, so that Y = X_1.v* and T are jointly Gaussian given
the weights, with the correlation c = a_1 gamma / sqrt(a_1^2 gamma^2 + sum_{l>1} a_l^2), and their
signs agree with probability 1/2 + arcsin(c)/pi: values need not be sampled. A common factor of the
weights cancels. Hence softmax has no normaliser here, and the first L tokens of a longer sequence
are a sequence of length L: one sample gives the whole curve, which falls in every sequence.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slr.attentions.best import best_attention, sample_scores
from slr.checks import check_whole
from slr.predictor import Gate, activate
from slr.task import FloatArray, Task
from slr.yardsticks import Estimate, chunk_sizes


class Setting(NamedTuple):
    """A gate and its lam."""

    gate: Gate
    lam: float = 1.0


def tuned(task: Task, gate: Gate, rng: np.random.Generator) -> Setting:
    """The gate with its best lam at the task's length, |v| = 1 as in the paper.

    Softmax gets the lam of Bayes, sqrt(d/2)/gamma^2: exactly the best one at gamma = 1, and one of
    many at other gamma, where the risk of all sharp softmaxes is nearly that of Bayes.

    >>> f"{tuned(Task(400, 10, 0.7), 'erf', rng).lam:.4f}"
    '0.0635'
    """
    if gate == "softmax":
        return Setting(gate, task.signal / task.gamma**2)
    if gate == "uniform":  # has no lam
        return Setting(gate)
    return Setting(gate, best_attention(task, gate, 200, rng, scale=1.0).lam)


def sign_agreement(
    task: Task,
    setting: Setting,
    lengths: Sequence[int],
    n_samples: int,
    rng: np.random.Generator,
) -> list[Estimate]:
    """P(T(X) and Y have the same sign) at each length, whatever the task's own; k = k*, v = v*.

    The mean over n_samples sequences of the longest length, of which the others are beginnings.

    >>> sign_agreement(task, Setting("uniform"), [1], 2, rng)
    [Estimate(value=1.0, stderr=0.0)]
    """
    check_whole(1, **{f"length {L}": L for L in lengths})
    longest, ends = replace(task, L=max(lengths)), np.array(lengths) - 1
    agreements = []
    for size in chunk_sizes(longest, n_samples):
        scores = sample_scores(longest, size, rng)
        weights = activate(setting.lam * scores, setting.gate)
        agreements.append(_agreement(task.gamma, weights)[:, ends])
    samples = np.concatenate(agreements)
    return [Estimate.of([column]) for column in samples.T]


def _agreement(gamma: float, weights: FloatArray) -> FloatArray:
    """P(same sign) given the weights of the first 1, 2, ..., L tokens, shape (n, L)."""
    first = gamma * weights[:, :1]
    others = np.cumsum(weights**2, axis=1) - weights[:, :1] ** 2
    size = np.sqrt(first**2 + np.maximum(others, 0))
    cosine = first / np.where(size > 0, size, 1)  # all weights 0: a guess
    return np.asarray(0.5 + np.arcsin(np.clip(cosine, -1, 1)) / math.pi)
