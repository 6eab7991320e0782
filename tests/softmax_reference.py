"""Evaluations of the softmax gate's excess risk that share nothing with the package's own.

notation: scores u_l = X_l.k with the informative token first, u_1 = h kappa + c; a = softmax(lam u)
          h = sqrt(d/2)  B = sum_{l>1} a_l u_l  Q = sum_{l>1} a_l^2
Given the scores, Y - T(X) is Gaussian with a known mean and variance; the scores are integrated.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from slr import Estimate, Overlaps, Task, Truth, predict, sample_batch
from slr.task import FloatArray

CHUNK = 4_000_000  # numbers per array: 32 MB, of which a handful exist at a time


def simulated(
    task: Task,
    k: FloatArray,
    v: FloatArray,
    truth: Truth,
    lam: float,
    n_samples: int,
    rng: np.random.Generator,
) -> Estimate:
    """Squared errors on sequences of vectors in R^d, labelled without noise."""
    noiseless, chunk = replace(task, noise_std=0.0), max(1, CHUNK // (task.L * task.d))
    losses = []
    for start in range(0, n_samples, chunk):
        X, y, _ = sample_batch(noiseless, truth, min(chunk, n_samples - start), rng)
        losses.append((y - predict(X, k, v, lam, gate="softmax")) ** 2)
    return Estimate.of(losses)


def loss_given_weights(
    task: Task, overlaps: Overlaps, c: FloatArray, a_1: FloatArray, B: FloatArray, Q: FloatArray
) -> FloatArray:
    """The mean of (Y - T(X))^2 given all the scores, by the Gaussian law of the values."""
    _, nu, theta, eta, rho = overlaps
    variance = task.gamma**2
    mean = eta * c - a_1 * (task.signal * theta + rho * c) - rho * B
    # Y and the informative value, given c; the noise tokens' values, given their scores.
    label, with_value, value = 1 - eta**2, nu - rho * eta, 1 - rho**2
    spread = variance * (label - 2 * a_1 * with_value + a_1**2 * value) + value * Q
    return np.asarray(mean**2 + spread)


def loss_given_scores(
    task: Task, overlaps: Overlaps, lam: float, c: FloatArray, others: FloatArray
) -> FloatArray:
    """The mean of (Y - T(X))^2 given c of shape (n,) and the others' scores, shape (n, L - 1)."""
    scores = np.column_stack([task.signal * overlaps.kappa + c, others])
    weights = np.exp(lam * (scores - scores.max(axis=1, keepdims=True)))
    weights /= weights.sum(axis=1, keepdims=True)
    a_1, rest = weights[:, 0], weights[:, 1:]
    return loss_given_weights(
        task, overlaps, c, a_1, np.sum(rest * others, axis=1), np.sum(rest**2, axis=1)
    )


def simulated_scores(
    task: Task, overlaps: Overlaps, lam: float, n_samples: int, rng: np.random.Generator
) -> Estimate:
    """The mean over simulated scores, for sequences too long for vectors."""
    losses, chunk = [], max(1, CHUNK // task.L)
    for start in range(0, n_samples, chunk):
        z = rng.standard_normal((min(chunk, n_samples - start), task.L))
        losses.append(loss_given_scores(task, overlaps, lam, task.gamma * z[:, 0], z[:, 1:]))
    return Estimate.of(losses)


def quasi_monte_carlo(
    task: Task, overlaps: Overlaps, lam: float, n_points: int, seed: int, n_scrambles: int = 8
) -> Estimate:
    """The mean over Sobol points of the scores, with a standard error from independent scrambles.

    n_points, the number of points per scramble, is a power of 2.
    """
    chunk = min(n_points, 1 << int(math.log2(CHUNK / task.L)))
    means = []
    for rng in np.random.default_rng(seed).spawn(n_scrambles):
        sobol = qmc.Sobol(task.L, bits=52, rng=rng)
        total = 0.0
        for _ in range(n_points // chunk):
            z = ndtri(sobol.random(chunk) + 2.0**-53)  # the middle of a cell: 0 has no quantile
            c, others = task.gamma * z[:, 0], z[:, 1:]
            total += float(loss_given_scores(task, overlaps, lam, c, others).sum())
        means.append(total / n_points)
    return Estimate.of([np.array(means)])


def gaussian_rule(half_width: float, step: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of the trapezoidal rule for a mean over N(0, 1)."""
    half = math.ceil(half_width / step)
    z = step * np.arange(-half, half + 1, dtype=np.float64)
    return z, step * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def two_tokens(task: Task, overlaps: Overlaps, lam: float, refinement: float = 1.0) -> float:
    """The excess risk for L = 2, by the trapezoidal rule over c and the noise token's score.

    As a function of one score, a weight 1 / (1 + exp(lam (u_2 - u_1))) has its nearest poles at a
    distance pi / lam from the real axis. So the rule's error is about exp(-2 pi^2 / (lam step)),
    which is 1e-17 for steps of 0.5 / lam.
    """
    assert task.L == 2
    z, c_weights = gaussian_rule(10, min(0.2, 0.5 / max(lam * task.gamma, 1e-9)) / refinement)
    others, other_weights = gaussian_rule(10, min(0.2, 0.5 / max(lam, 1e-9)) / refinement)
    total = 0.0
    for rows in np.array_split(np.arange(len(z)), math.ceil(len(z) * len(others) / CHUNK)):
        c = task.gamma * z[rows, None]
        scaled = lam * (others - task.signal * overlaps.kappa - c)
        a_1, a_2 = logistic(-scaled), logistic(scaled)
        losses = loss_given_weights(task, overlaps, c, a_1, a_2 * others, a_2**2)
        total += float(c_weights[rows] @ losses @ other_weights)
    return total


def logistic(x: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)), with all its digits when it is small, and without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x > 0, 1.0, small) / (1 + small)


def many_tokens(task: Task, overlaps: Overlaps, lam: float) -> float:
    """The excess risk of a long sequence, by the law of large numbers for the noise tokens.

    Sums over the L - 1 noise tokens are replaced by their means: with w = exp(lam Z),
    E[w] = exp(lam^2/2), E[w Z] = lam E[w] and E[w^2] = exp(2 lam^2). An integral over c remains.
    The error is the relative variance of those sums, (1 + 4 lam^2) exp(lam^2) / L, times a factor
    that does not depend on L.
    """
    n, mean = task.L - 1, math.exp(lam**2 / 2)
    z, weights = gaussian_rule(10, min(0.05, 0.2 / max(lam * task.gamma, 1e-9)))
    c = task.gamma * z
    # The share of the informative token, as a function of log(w_1 / (n E w)).
    log_odds = lam * (task.signal * overlaps.kappa + c) - math.log(n) - lam**2 / 2
    a_1, rest = logistic(log_odds), logistic(-log_odds)
    Q = rest**2 * math.exp(2 * lam**2) / (n * mean**2)
    return float(weights @ loss_given_weights(task, overlaps, c, a_1, lam * rest, Q))
