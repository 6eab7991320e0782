"""The predictor: one attention head with directions k (where to look) and v (what to read).

notation: T(X) = sum_l gate(lam (X_l.k - threshold)) X_l.v
Gates: "erf" (two-sided, the paper's), "one-sided" (1 + erf)/2, and "softmax" over the tokens; for
comparison sigmoid, tanh, relu, linear, and uniform attention 1/L.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import erf, expit, softmax

from slr.special import erf_prime
from slr.task import FloatArray

Gate = Literal["softmax", "erf", "one-sided", "sigmoid", "tanh", "relu", "linear", "uniform"]
GATES: tuple[Gate, ...] = ("erf", "one-sided", "softmax")  # those that the estimator fits


def attention(
    X: FloatArray, k: FloatArray, lam: float, *, gate: Gate = "erf", threshold: float = 0.0
) -> FloatArray:
    """The weight of each token, shape (n, L), for X of shape (n, L, d) and k of shape (d,).

    >>> attention(np.eye(3)[None], np.eye(3)[0], lam=9.0)
    array([[1., 0., 0.]])
    """
    return activate(lam * (X @ k - threshold), gate)


def predict(
    X: FloatArray,
    k: FloatArray,
    v: FloatArray,
    lam: float,
    *,
    gate: Gate = "erf",
    threshold: float = 0.0,
) -> FloatArray:
    """Predictions T(X) of shape (n,), for X of shape (n, L, d), k and v of shape (d,).

    >>> predict(np.eye(3)[None], np.eye(3)[0], np.ones(3), lam=9.0)
    array([1.])
    """
    weights = attention(X, k, lam, gate=gate, threshold=threshold)
    return np.sum(weights * (X @ v), axis=-1)


def empirical_risk(
    X: FloatArray, y: FloatArray, k: FloatArray, v: FloatArray, lam: float, **options: Any
) -> float:
    """Mean squared error of ``predict`` for targets y of shape (n,); options are those of predict.

    >>> empirical_risk(np.eye(3)[None], np.array([3.0]), np.eye(3)[0], np.ones(3), lam=9.0)
    4.0
    """
    return float(np.mean((y - predict(X, k, v, lam, **options)) ** 2))


def activate(scores: FloatArray, gate: Gate) -> FloatArray:
    """Attention weights of scaled scores, whose last axis is the tokens."""
    if gate == "softmax":
        return np.asarray(softmax(scores, axis=-1))
    if gate == "uniform":
        return np.full_like(scores, 1 / scores.shape[-1])
    by_token: dict[str, Callable[[FloatArray], Any]] = {
        "erf": erf,
        "one-sided": lambda x: (1 + erf(x)) / 2,
        "sigmoid": expit,
        "tanh": np.tanh,
        "relu": lambda x: np.maximum(x, 0),
        "linear": lambda x: x,
    }
    if gate not in by_token:
        raise ValueError(f"gate must be one of {', '.join(get_args(Gate))}, not {gate!r}")
    return np.asarray(by_token[gate](scores))


def gate_pullback(scores: FloatArray, values: FloatArray, gate: Gate) -> FloatArray:
    """The derivative of sum_l gate(scores)_l values_l in the scores, shape (n, L), for GATES."""
    if gate == "softmax":
        weights = activate(scores, gate)
        mean = np.sum(weights * values, axis=-1, keepdims=True)
        return weights * (values - mean)
    slope = erf_prime(scores) if gate == "erf" else erf_prime(scores) / 2
    return np.asarray(slope * values)
