"""The predictor: one attention layer of one head, with directions k (where to look) and v.

notation: T(X) = sum_l gate(lam (X_l.k - threshold)) X_l.v
Gates: "erf" (two-sided, the paper's), "one-sided" (1 + erf)/2, and "softmax" over the tokens.
"""

from typing import Any, Literal

import numpy as np
from scipy.special import erf, softmax

from slr.special import erf_prime
from slr.task import FloatArray

Gate = Literal["erf", "one-sided", "softmax"]
GATES: tuple[Gate, ...] = ("erf", "one-sided", "softmax")


def attention(
    X: FloatArray, k: FloatArray, lam: float, *, gate: Gate = "erf", threshold: float = 0.0
) -> FloatArray:
    """The weight of each token, shape (n, L) for X of shape (n, L, d)."""
    return open_gate(lam * (X @ k - threshold), gate)


def predict(
    X: FloatArray,
    k: FloatArray,
    v: FloatArray,
    lam: float,
    *,
    gate: Gate = "erf",
    threshold: float = 0.0,
) -> FloatArray:
    """One number a sequence, shape (n,) for X of shape (n, L, d)."""
    weights = attention(X, k, lam, gate=gate, threshold=threshold)
    return np.sum(weights * (X @ v), axis=-1)


def empirical_risk(
    X: FloatArray, y: FloatArray, k: FloatArray, v: FloatArray, lam: float, **options: Any
) -> float:
    """Mean squared error of the predictor on a sample; options as for predict."""
    return float(np.mean((y - predict(X, k, v, lam, **options)) ** 2))


def open_gate(scores: FloatArray, gate: Gate) -> FloatArray:
    """Weights of scaled scores of shape (n, L)."""
    if gate == "erf":
        return np.asarray(erf(scores))
    if gate == "one-sided":
        return np.asarray((1 + erf(scores)) / 2)
    if gate == "softmax":
        return np.asarray(softmax(scores, axis=-1))
    raise ValueError(f"gate must be one of {', '.join(GATES)}, not {gate!r}")


def gate_pullback(scores: FloatArray, values: FloatArray, gate: Gate) -> FloatArray:
    """The derivative of sum_l gate(scores)_l values_l in the scores, shape (n, L)."""
    if gate == "softmax":
        weights = open_gate(scores, gate)
        mean = np.sum(weights * values, axis=-1, keepdims=True)
        return weights * (values - mean)
    slope = erf_prime(scores) if gate == "erf" else erf_prime(scores) / 2
    return np.asarray(slope * values)
