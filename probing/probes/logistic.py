"""Logistic regression on states: a Newton solver made for many rows of a templated dataset.

C is scikit-learn's: |w|^2 / (2 C) is added to the sum of the losses.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from probing.arrays import BoolArray, FloatArray, IntArray

# Matrices of these sizes gain little from a second BLAS thread, and on a busy machine threads that
# spin for each other have made a fit twenty times slower.
one_blas_thread = threadpool_limits.wrap(limits=1, user_api="blas")


def fit_logistic(
    X: FloatArray,
    positive: BoolArray,
    weight: FloatArray,
    C: float,
    w: FloatArray,
    *,
    tol: float,
    max_iter: int,
) -> tuple[FloatArray, float, int]:
    """Minimise the penalised logistic loss by Newton's method from w = (coefficients, intercept).

    The gradient is exact, the Hessian estimated from some rows as long as its steps are good:
    it is nine tenths of the cost and need not be exact. Products are in the precision of X.
    """
    n, d = X.shape
    sign = np.where(positive, 1, -1)
    penalty = np.append(np.full(d, 1 / C), 0.0)
    n_rows = min(n, 8 * d)
    # Strided rows would keep step with the grid of a templated dataset.
    rows = np.random.default_rng(0).permutation(n)[:n_rows]

    def along(w: FloatArray) -> FloatArray:
        return np.asarray(X @ w[:-1].astype(X.dtype), dtype=float) + w[-1]

    logit = along(w)

    def objective(logit: FloatArray, w: FloatArray) -> float:
        return float(weight @ np.logaddexp(0, -sign * logit) + penalty @ w**2 / 2)

    value, n_iter = objective(logit, w), 0
    while n_iter < max_iter:
        n_iter += 1
        wrong = expit(-sign * logit)
        residual = -weight * sign * wrong
        gradient = penalty * w + np.append(residual.astype(X.dtype) @ X, residual.sum())
        curvature = weight * wrong * (1 - wrong)
        step = -cho_solve(cho_factor(_hessian(X, curvature, rows, penalty)), gradient)
        decrement = -float(gradient @ step)
        if decrement <= tol * value:
            break
        change = along(step)
        t, new = 1.0, objective(logit + change, w + step)
        while new > value - 1e-4 * t * decrement and t > 1e-4:
            t /= 2
            new = objective(logit + t * change, w + t * step)
        if t < 1 and len(rows) < n:
            rows = np.arange(n)  # the estimate misled: from here on the exact Hessian
        if new >= value:
            if len(rows) == n:
                break  # as far as rounding lets us see
            continue
        w, logit, value = w + t * step, logit + t * change, new
    return w, value, n_iter


def _hessian(X: FloatArray, curvature: FloatArray, rows: IntArray, penalty: FloatArray) -> Any:
    d, total = X.shape[1], curvature.sum()
    some = curvature[rows]
    scale = total / max(some.sum(), 1e-300) if len(rows) < len(X) else 1.0
    root = np.sqrt(some * scale)
    A = X[rows] * root[:, None].astype(X.dtype)
    H = np.empty((d + 1, d + 1))
    H[:d, :d] = A.T @ A
    H[d, :d] = H[:d, d] = root.astype(X.dtype) @ A
    H[d, d] = total
    H[np.diag_indices(d + 1)] += penalty + 1e-9 * (1 + np.trace(H) / (d + 1))
    return H


def logistic_path(
    X: FloatArray,
    positive: BoolArray,
    weight: FloatArray,
    grid: Sequence[float],
    *,
    standardize: bool = True,
    tol: float = 1e-5,
    max_iter: int = 100,
) -> Iterator[tuple[FloatArray, float, float, int]]:
    """Coefficients, intercept, objective and iterations for each C, each fit from the last one.

    ``standardize`` penalises in units of each coordinate's standard deviation.
    """
    X, positive, weight = merge_equal_rows(X, positive, weight)
    mean, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if standardize:
        mean, scale = moments(X, weight)
    Z = ((X - mean) / scale).astype(X.dtype) if standardize else X
    w = np.zeros(X.shape[1] + 1)
    for C in grid:
        w, objective, n_iter = fit_logistic(Z, positive, weight, C, w, tol=tol, max_iter=max_iter)
        coef = w[:-1] / scale
        yield coef, float(w[-1] - coef @ mean), objective, n_iter


def logit_of(X: FloatArray, fitted: Any) -> FloatArray:
    """Logits of states under a solution, whose first two entries are (coefficients, intercept).

    In double precision: states vary little around a mean that is large, and coefficients are large.
    """
    return np.asarray(X @ fitted[0] + fitted[1])


def merge_equal_rows(
    X: FloatArray, positive: BoolArray, weight: FloatArray
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Equal states of equal label as one row that weighs their sum: templated sentences repeat."""
    # Equal rows have equal projections; that unequal ones differ is checked, not assumed.
    key = X @ np.asarray(np.random.default_rng(0).standard_normal(X.shape[1]), dtype=X.dtype)
    both = np.stack([key.astype(float), positive])
    _, first, codes = np.unique(both, axis=1, return_index=True, return_inverse=True)
    codes = codes.reshape(-1)
    if len(first) == len(X) or not np.array_equal(X[first][codes], X):
        return X, positive, weight
    return X[first], positive[first], np.bincount(codes, weight)


def moments(X: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted mean and standard deviation of each coordinate.

    A coordinate that varies by no more than rounding does gets scale 1: noise is not magnified.
    """
    share = (weight / weight.sum()).astype(X.dtype)
    around = X - X[0]  # small numbers: nothing is lost to a large mean
    shift = share @ around
    scale = np.sqrt(np.asarray(share @ (around - shift) ** 2, dtype=float))
    rounding = 16 * np.finfo(X.dtype).eps * np.sqrt(np.asarray(share @ X**2, dtype=float))
    mean = X[0].astype(float) + shift
    return mean, np.where(scale > rounding, scale, 1.0)


def check_states(X: Any, d: int | None = None) -> FloatArray:
    """States as a finite array (n, d) of floats."""
    X = np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(float)
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"states must have shape (n, d), not {X.shape}")
    if d is not None and X.shape[1] != d:
        raise ValueError(f"states have {X.shape[1]} dimensions, but the fit was on {d}")
    if not np.isfinite(X).all():
        raise ValueError("states must be finite")
    return X


def check_labels(y: Any, n: int) -> tuple[npt.NDArray[Any], BoolArray]:
    """The two labels, and where the second one is."""
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"y must have one label for each of {n} rows, not shape {y.shape}")
    classes = np.unique(y)
    if len(classes) != 2:
        raise ValueError(f"y must hold exactly two labels, not {len(classes)}")
    return classes, y == classes[1]
