"""Attention as an estimate of a conditional mean (arXiv 2212.14852).

Tokens (key, value) are exchangeable: independent given a latent z, here a random function f_z, with
value = f_z(key) + noise and keys uniform on the unit sphere. A new key, the query, should read
E[value | key, z] = f_z(key). Attention over the L tokens estimates this conditional mean:

softmax attention   sum_l softmax_l(q.A k_l) value_l           Nadaraya-Watson: on the sphere
                    q.k = 1 - |q - k|^2/2, so A = beta I is a Gaussian kernel of variance 1/beta
kernel attention    g(q, K) (g(K, K) + ridge I)^-1 values      kernel ridge: the conditional mean
                    in feature space; g(q, k) = exp(precision (q.k - 1))

f_z is a sum of random waves whose covariance is g at the task's ``precision``. With this precision
and ridge = noise_std^2, kernel attention tends to the Bayes estimate as the number of waves grows.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slr.dynamics.reduced import Progress
from slr.task import FloatArray

N_CONTEXTS, N_QUERIES = 32, 16  # per step of learning


@dataclass(frozen=True)
class LatentTask:
    """Dimension of the keys, noise_std of the values, precision and number of waves of f_z."""

    d_key: int = 3
    noise_std: float = 0.3
    precision: float = 2.0
    n_waves: int = 64

    def __post_init__(self) -> None:
        if self.d_key < 2:
            raise ValueError(f"d_key must be at least 2, not {self.d_key}")
        if not (self.noise_std >= 0 and self.precision > 0 and self.n_waves >= 1):
            raise ValueError("noise_std must be at least 0, precision and n_waves positive")


class Contexts(NamedTuple):
    """n contexts with one latent each: L tokens, and queries with their conditional means."""

    keys: Any  # (n, L, d_key), all of numpy or all of torch
    values: Any  # (n, L)
    queries: Any  # (n, n_queries, d_key)
    target: Any  # (n, n_queries)


def sample_contexts(
    task: LatentTask, n: int, L: int, n_queries: int, rng: np.random.Generator
) -> Contexts:
    """n contexts with one latent each: L tokens, and fresh queries with the law of the keys."""
    points = rng.standard_normal((n, L + n_queries, task.d_key))
    points /= np.linalg.norm(points, axis=2, keepdims=True)
    waves = np.sqrt(task.precision) * rng.standard_normal((n, task.d_key, task.n_waves))
    phases = rng.uniform(0, 2 * np.pi, (n, 1, task.n_waves))
    heights = np.sqrt(2 / task.n_waves) * rng.standard_normal((n, task.n_waves, 1))
    f = (np.cos(points @ waves + phases) @ heights)[:, :, 0]
    values = f[:, :L] + task.noise_std * rng.standard_normal((n, L))
    return Contexts(points[:, :L], values, points[:, L:], f[:, L:])


def softmax_attention(contexts: Contexts, metric: Any) -> FloatArray:
    """Nadaraya-Watson at the queries, shape (n, n_queries); metric is A, or beta for beta I."""
    A = metric * np.eye(contexts.keys.shape[2]) if np.ndim(metric) == 0 else np.asarray(metric)
    scores = contexts.queries @ A @ contexts.keys.transpose(0, 2, 1)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    total = weights.sum(axis=2)
    return np.asarray((weights @ contexts.values[:, :, None])[:, :, 0] / total)


def kernel_attention(contexts: Contexts, precision: Any, ridge: Any, xp: Any = np) -> Any:
    """Kernel ridge regression at the queries, shape (n, n_queries); xp is numpy or torch."""
    keys, queries = contexts.keys, contexts.queries
    gram = xp.exp(precision * (keys @ keys.mT - 1)) + ridge * xp.eye(keys.shape[1])
    coefficients = xp.linalg.solve(gram, contexts.values[:, :, None])
    return (xp.exp(precision * (queries @ keys.mT - 1)) @ coefficients)[:, :, 0]


def squared_errors(estimates: FloatArray, contexts: Contexts) -> FloatArray:
    """Mean squared error over the queries of each context, shape (n,); contexts are independent."""
    return np.asarray(np.mean((estimates - contexts.target) ** 2, axis=1))


def best_beta(contexts: Contexts, grid: FloatArray) -> float:
    """The sharpness of softmax attention with the smallest error on these contexts."""
    estimates = (softmax_attention(contexts, beta) for beta in grid)
    errors = [squared_errors(estimate, contexts).mean() for estimate in estimates]
    return float(grid[int(np.argmin(errors))])


class Slope(NamedTuple):
    """Slope of log error against log L, with a 95% bootstrap interval."""

    value: float
    low: float
    high: float


def fit_slope(
    lengths: list[int], errors: list[FloatArray], rng: np.random.Generator, n_boot: int = 1000
) -> Slope:
    """The slope of log mean error in log L, by least squares; the bootstrap resamples contexts.

    ``errors`` has one array per length: the errors of independent contexts.
    """
    x = np.log(lengths)
    x = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    means = np.empty((n_boot, len(errors)))
    for column, sample in enumerate(errors):
        index = rng.integers(len(sample), size=(n_boot, len(sample)))
        means[:, column] = sample[index].mean(axis=1)
    low, high = np.percentile(np.log(means) @ x, [2.5, 97.5])
    value = float(np.log([sample.mean() for sample in errors]) @ x)
    return Slope(value, float(low), float(high))


class Learned(NamedTuple):
    """The parameters that softmax_attention and kernel_attention learned at one length."""

    metric: FloatArray  # (d_key, d_key)
    precision: float
    ridge: float


def learn_attention(
    task: LatentTask,
    L: int,
    rng: np.random.Generator,
    *,
    n_steps: int,
    progress: Progress | None = None,
) -> Learned:
    """Train both kinds of attention with Adam, on fresh contexts of L tokens.

    The metric starts at I, the logarithms of precision and ridge at 0. The step size falls linearly
    to 0, so that the noise of single steps averages out.
    """
    import torch

    metric = torch.eye(task.d_key, dtype=torch.float64, requires_grad=True)
    logs = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    groups = [{"params": [metric], "lr": 0.5}, {"params": [logs], "lr": 0.05}]
    optimiser = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, n_steps)
    for _ in range(n_steps):
        contexts = sample_contexts(task, N_CONTEXTS, L, N_QUERIES, rng)
        keys, values, queries, target = contexts = Contexts(*map(torch.from_numpy, contexts))
        softmax = (queries @ metric @ keys.mT).softmax(dim=2) @ values[:, :, None]
        kernel = kernel_attention(contexts, logs[0].exp(), logs[1].exp(), torch)
        # Neither loss depends on the other's parameters, so one step trains both independently.
        loss = ((softmax[:, :, 0] - target) ** 2).mean() + ((kernel - target) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if progress:
            progress(1)
    precision, ridge = (math.exp(x) for x in logs.tolist())
    return Learned(metric.detach().numpy(), precision, ridge)
