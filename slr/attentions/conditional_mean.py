"""Attention as an estimate of a conditional mean (arXiv 2212.14852).

Tokens (key, value) are exchangeable: independent given a latent z, here a random function f_z, with
value = f_z(key) + noise and keys on the unit sphere. A new key, the query, should read
E[value | key, z] = f_z(key). Attention over the L tokens estimates this conditional mean by a
weighted sum of their values, with weights a(query, keys):

softmax attention   a = softmax_l(q.A k_l)                     Nadaraya-Watson: on the sphere
                    q.k = 1 - |q - k|^2/2, so A = beta I is a Gaussian kernel of variance 1/beta
kernel attention    a = g(q, K) (g(K, K) + ridge I)^-1         kernel ridge: the conditional mean
                    in feature space; g(q, k) = exp(precision (q.k - 1))

f_z is Gaussian with covariance g at the task's ``precision``. With this precision and ridge =
noise_std^2, kernel attention is the Bayes estimate E[f_z(q) | tokens, q].
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slr.checks import check_size
from slr.task import FloatArray

JITTER = 1e-9  # variance added to f_z at each point, since its covariance is singular to round-off


@dataclass(frozen=True)
class LatentTask:
    """Dimension of the keys, noise_std of the values, precision of f_z, and the law of the keys.

    Keys are the directions of N(key_shift e_1, I): uniform on the sphere if the shift is 0.
    """

    d_key: int = 3
    noise_std: float = 0.3
    precision: float = 2.0
    key_shift: float = 0.0

    def __post_init__(self) -> None:
        if self.d_key < 2:
            raise ValueError(f"d_key must be at least 2, not {self.d_key}")
        check_size(noise_std=self.noise_std, key_shift=self.key_shift)
        if not self.precision > 0:
            raise ValueError(f"precision must be positive, not {self.precision}")


class Contexts(NamedTuple):
    """n contexts with one latent each: L tokens, and queries with their conditional means."""

    keys: FloatArray  # (n, L, d_key)
    values: FloatArray  # (n, L)
    queries: FloatArray  # (n, n_queries, d_key)
    target: FloatArray  # (n, n_queries)


def sample_points(
    task: LatentTask, n: int, count: int, rng: np.random.Generator, shift: float
) -> FloatArray:
    """Directions of N(shift e_1, I) in R^d_key, shape (n, count, d_key)."""
    points = rng.standard_normal((n, count, task.d_key))
    points[:, :, 0] += shift
    return np.asarray(points / np.linalg.norm(points, axis=2, keepdims=True))


def sample_keys(
    task: LatentTask,
    n: int,
    L: int,
    n_queries: int,
    rng: np.random.Generator,
    query_shift: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Keys of L tokens and queries with the law of the keys, or with the shift that is given."""
    shift = task.key_shift if query_shift is None else query_shift
    keys = sample_points(task, n, L, rng, task.key_shift)
    return keys, sample_points(task, n, n_queries, rng, shift)


def sample_contexts(
    task: LatentTask,
    n: int,
    L: int,
    n_queries: int,
    rng: np.random.Generator,
    *,
    query_shift: float | None = None,
) -> Contexts:
    """n contexts with one latent each; keys and queries are those of ``sample_keys``."""
    keys, queries = sample_keys(task, n, L, n_queries, rng, query_shift)
    points = np.concatenate([keys, queries], axis=1)
    covariance = kernel(points, points, task.precision) + JITTER * np.eye(L + n_queries)
    f = np.linalg.cholesky(covariance) @ rng.standard_normal((n, L + n_queries, 1))
    values = f[:, :L, 0] + task.noise_std * rng.standard_normal((n, L))
    return Contexts(keys, values, queries, f[:, L:, 0])


def kernel(left: FloatArray, right: FloatArray, precision: float) -> FloatArray:
    """g at all pairs of points on the sphere, shape (..., n left, n right)."""
    return np.asarray(np.exp(precision * (left @ right.mT - 1)))


def softmax_weights(keys: FloatArray, queries: FloatArray, metric: Any) -> FloatArray:
    """Weights of Nadaraya-Watson, shape (n, n_queries, L); metric is A, or beta for beta I."""
    A = metric * np.eye(keys.shape[2]) if np.ndim(metric) == 0 else np.asarray(metric)
    scores = queries @ A @ keys.mT
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


def kernel_weights(
    keys: FloatArray, queries: FloatArray, precision: float, ridge: float
) -> FloatArray:
    """Weights of kernel ridge regression, shape (n, n_queries, L)."""
    n, L, _ = keys.shape
    weights = np.empty((n, queries.shape[1], L))
    for part in parts(n, L):
        gram = kernel(keys[part], keys[part], precision) + ridge * np.eye(L)
        solution = np.linalg.solve(gram, kernel(keys[part], queries[part], precision))
        weights[part] = solution.mT
    return weights


def parts(n: int, L: int) -> list[slice]:
    """The contexts in parts whose Gram matrices fit into memory."""
    size = max(1, 1_000_000 // L**2)
    return [slice(first, first + size) for first in range(0, n, size)]


def attend(weights: FloatArray, contexts: Contexts) -> FloatArray:
    """What attention with these weights reads at the queries, shape (n, n_queries)."""
    return np.asarray((weights @ contexts.values[:, :, None])[:, :, 0])
