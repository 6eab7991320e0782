"""What any predictor is measured against: Bayes, oracle, best linear, zero.

All are excess risks, that is without noise_std^2.
notation: E[Y|X] = sum_l p_l X_l.v*,  p = softmax_l( h X_l.k*/g^2 - |X_l|^2 (1/g^2 - 1)/2 )
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from slr.erf_risk import excess_risk
from slr.overlaps import ALIGNED
from slr.task import FloatArray, Task, Truth

MAX_TOKENS = 2_000_000  # drawn at a time


@dataclass(frozen=True)
class Estimate:
    """A Monte-Carlo mean with its standard error."""

    value: float
    stderr: float


def bayes_excess_risk(task: Task, n_samples: int, rng: np.random.Generator) -> Estimate:
    """Of E[Y|X], by simulation of what it depends on: X.k*, X.v* and |X|^2 of each token.

    |X|^2 needs one chi-square a token, so the cost does not depend on d.
    """
    if n_samples < 2:
        raise ValueError(f"n_samples must be at least 2, not {n_samples}")
    chunk = max(1, MAX_TOKENS // task.L)
    sizes = [min(chunk, n_samples - first) for first in range(0, n_samples, chunk)]
    losses = np.concatenate([_bayes_losses(task, size, rng) for size in sizes])
    return Estimate(float(losses.mean()), float(losses.std(ddof=1) / math.sqrt(n_samples)))


def _bayes_losses(task: Task, n: int, rng: np.random.Generator) -> FloatArray:
    """(X_J0.v* - E[Y|X])^2 on n sequences; J0 = 0, as tokens are exchangeable."""
    tokens = sample_tokens(task, n, rng)
    p = bayes_weights(task, tokens.along_k, tokens.squared_norm)
    return np.asarray((tokens.along_v[:, 0] - np.sum(p * tokens.along_v, axis=1)) ** 2)


class Tokens(NamedTuple):
    """What Bayes sees of sequences, each of shape (n, L)."""

    along_k: FloatArray  # X.k*
    along_v: FloatArray  # X.v*
    squared_norm: FloatArray


def sample_tokens(task: Task, n: int, rng: np.random.Generator, n_informative: int = 1) -> Tokens:
    """n sequences with their informative tokens first: one chi-square stands for d - 2 numbers."""
    along_k = rng.standard_normal((n, task.L))
    along_v = rng.standard_normal((n, task.L))
    rest = rng.chisquare(task.d - 2, (n, task.L)) if task.d > 2 else np.zeros((n, task.L))
    first = (slice(None), slice(n_informative))
    along_k[first] = task.signal + task.gamma * along_k[first]
    along_v[first] *= task.gamma
    rest[first] *= task.gamma**2
    return Tokens(along_k, along_v, along_k**2 + along_v**2 + rest)


def bayes_logits(task: Task, along_k: FloatArray, squared_norm: FloatArray) -> FloatArray:
    """log of the density of an informative token over that of another, up to a constant."""
    precision = 1 / task.gamma**2
    return precision * task.signal * along_k - (precision - 1) / 2 * squared_norm


def bayes_weights(task: Task, along_k: FloatArray, squared_norm: FloatArray) -> FloatArray:
    """P(J0 = l | X) from X_l.k* and |X_l|^2, all of shape (n, L)."""
    return np.asarray(softmax(bayes_logits(task, along_k, squared_norm), axis=1))


def bayes_predict(task: Task, truth: Truth, X: FloatArray) -> FloatArray:
    """E[Y|X], shape (n,) for X of shape (n, L, d)."""
    p = bayes_weights(task, X @ truth.k_star, np.sum(X**2, axis=2))
    return np.asarray(np.sum(p * (X @ truth.v_star), axis=1))


def oracle_excess_risk(task: Task, lam: Any) -> Any:
    """Of the erf predictor at k = k*, v = v*."""
    return excess_risk(task, ALIGNED, lam)


def best_oracle_lam(task: Task) -> float:
    """The lam at which the oracle's excess risk is smallest."""
    # The best lam lies between 1/sqrt(d) and 1/sqrt(L); search a wide bracket on a log scale.
    low, high = -math.log(task.d) - 5.0, 5.0
    grid = np.linspace(low, high, 200)
    best = grid[np.argmin(oracle_excess_risk(task, np.exp(grid)))]
    width = grid[1] - grid[0]
    found = minimize_scalar(
        lambda x: float(oracle_excess_risk(task, math.exp(x))),
        bounds=(best - width, best + width),
        method="bounded",
    )
    return math.exp(found.x)


def linear_excess_risk(task: Task) -> float:
    """Of the best linear predictor on the L d inputs."""
    g2 = task.gamma**2
    return g2 - g2**2 / (task.L + g2 - 1)


def zero_excess_risk(task: Task) -> float:
    return task.gamma**2
