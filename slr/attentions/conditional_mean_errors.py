"""The exact error of attention as a conditional mean, and how it falls with the number of tokens.

notation: f_z = phi.z with features phi and a latent z ~ N(0, I); attention reads sum_l a_l value_l
"""

import itertools
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from scipy.stats import poisson

from slr.attentions.conditional_mean import LatentTask, sample_keys, softmax_weights
from slr.task import FloatArray

TAIL = 1e-6  # of the variance of f_z, left out by its features


def features(points: FloatArray, precision: float, degree: int | None = None) -> FloatArray:
    """phi with phi(q).phi(k) = g(q, k) on the sphere, shape (..., number of features).

    exp(p q.k) is the sum of p^|m|/m! q^m k^m over all monomials m. In |phi|^2 = 1 the degree has a
    Poisson law of mean p; degrees in its upper tail of TAIL (or above ``degree``) are left out.
    """
    degree = int(poisson.isf(TAIL, precision)) if degree is None else degree
    d = points.shape[-1]
    monomials = _monomials(d, degree)
    log_squares = monomials.sum(axis=1) * np.log(precision) - gammaln(monomials + 1).sum(axis=1)
    powers = points[..., None] ** np.arange(degree + 1)  # (..., d, degree + 1)
    phi = np.exp((log_squares - precision) / 2)
    for axis in range(d):
        phi = phi * powers[..., axis, monomials[:, axis]]
    return np.asarray(phi)


def _features_of(contexts: FloatArray, precision: float) -> FloatArray:
    """Features of the points (n, count, d) of many contexts; one at a time, to save memory."""
    first = features(contexts[0], precision)
    phi = np.empty((len(contexts), *first.shape))
    for context, points in enumerate(contexts):
        phi[context] = features(points, precision)
    return phi


@cache
def _monomials(d: int, degree: int) -> Any:
    """The exponents of all monomials in d variables up to a degree, one row each."""
    every = itertools.product(range(degree + 1), repeat=d)
    return np.array([m for m in every if sum(m) <= degree])


class Trials(NamedTuple):
    """Keys and queries at which the error of attentions is known exactly, with their features."""

    task: LatentTask
    keys: FloatArray  # (n, L, d_key)
    queries: FloatArray  # (n, n_queries, d_key)
    key_features: FloatArray
    query_features: FloatArray

    @classmethod
    def draw(
        cls,
        task: LatentTask,
        n: int,
        L: int,
        n_queries: int,
        rng: np.random.Generator,
        *,
        query_shift: float | None = None,
    ) -> "Trials":
        keys, queries = sample_keys(task, n, L, n_queries, rng, query_shift)
        phi = (_features_of(points, task.precision) for points in (keys, queries))
        return cls(task, keys, queries, *phi)

    def first(self, L: int) -> "Trials":
        """The same queries, with the first L tokens only."""
        return self._replace(keys=self.keys[:, :L], key_features=self.key_features[:, :L])

    def errors(self, weights: FloatArray) -> FloatArray:
        """E[(a.values - f_z(q))^2 | keys, q], mean over the queries of each context, shape (n,).

        Attention is linear in the values, and f_z = phi.z with z ~ N(0, I): latent and noise are
        integrated out, |sum_l a_l phi(k_l) - phi(q)|^2 + noise_std^2 |a|^2.
        """
        bias = weights @ self.key_features - self.query_features
        noise = self.task.noise_std**2 * np.sum(weights**2, axis=2)
        return np.asarray(np.mean(np.sum(bias**2, axis=2) + noise, axis=1))

    def best_beta(self) -> float:
        """The sharpness of softmax attention with the smallest error here."""

        def error(log_beta: float) -> float:
            weights = softmax_weights(self.keys, self.queries, np.exp(log_beta))
            return float(self.errors(weights).mean())

        bounds, options = (0.0, np.log(1000)), {"xatol": 0.01}
        found = minimize_scalar(error, bounds=bounds, method="bounded", options=options)
        return float(np.exp(found.x))


class Slope(NamedTuple):
    """Slope of log error against log L, with a 95% bootstrap interval."""

    value: float
    low: float
    high: float


def fit_slope(
    lengths: Any, errors: FloatArray, rng: np.random.Generator, n_boot: int = 1000
) -> Slope:
    """The slope of log mean error in log L, by least squares; the bootstrap resamples contexts.

    ``errors`` has shape (lengths, contexts): a context has the same queries at every length.
    """
    x = np.log(lengths)
    x = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    index = rng.integers(errors.shape[1], size=(n_boot, errors.shape[1]))
    means = errors[:, index].mean(axis=2)  # (lengths, n_boot)
    low, high = np.percentile(x @ np.log(means), [2.5, 97.5])
    return Slope(float(x @ np.log(errors.mean(axis=1))), float(low), float(high))
