"""Logistic regression on states: scikit-learn's, along a path of penalties.

C is scikit-learn's: |w|^2 / (2 C) is added to the sum of the losses. Two labels have one logit,
that of the second; more labels have a logit each, and the loss is that of their softmax.
"""

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from probing.arrays import BoolArray, FloatArray, IntArray

# Matrices of these sizes gain little from a second BLAS thread, and on a busy machine threads that
# spin for each other have made a fit twenty times slower.
one_blas_thread = threadpool_limits.wrap(limits=1, user_api="blas")

LARGEST = 1e15  # number of a state: the states of models are below 1e5


class Fitted(NamedTuple):
    """A solution: logits are linear in the states as given."""

    coef: FloatArray  # (d,) for two labels, (n_labels, d) for more
    intercept: Any  # a float for two labels, (n_labels,) for more
    objective: float = np.nan
    n_iter: int = 0


def logistic_path(
    X: FloatArray,
    y: IntArray | BoolArray,
    weight: FloatArray,
    grid: Sequence[float],
    *,
    standardize: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> Iterator[Fitted]:
    """The solution for each C, each fit from the last one; the grid should ascend.

    ``y`` holds numbers of labels, 0 .. n_labels - 1, each of which occurs. ``standardize``
    penalises in units of each coordinate's standard deviation. Without it the problem is still
    solved on states that are centred and divided by one number, which C makes up for: the same
    solution, and a tolerance that does not depend on the unit of the states.
    """
    X, y, weight = merge_equal_rows(X, y, weight)
    mean, scale = moments(X, weight)
    dtype = X.dtype
    if not standardize:
        scale = np.full_like(scale, np.median(scale))
        # A C for small raw states is a strong penalty: what the fit gains may be less than the
        # rounding of a loss in single precision.
        dtype = np.dtype(float)
    Z = ((X - mean) / scale).astype(dtype)
    model = LogisticRegression(max_iter=max_iter, warm_start=True)
    for C in grid:
        model.C = C if standardize else C * scale[0] ** 2
        objective, n_iter = _minimise(model, Z, y, weight, tol)
        coef = model.coef_ / scale
        intercept = model.intercept_ - coef @ mean
        if len(coef) == 1:
            yield Fitted(coef[0], float(intercept[0]), objective, n_iter)
        else:
            yield Fitted(coef, intercept, objective, n_iter)


def _minimise(
    model: LogisticRegression, Z: FloatArray, y: Any, weight: FloatArray, tol: float
) -> tuple[float, int]:
    """Fit the model from where it stands: the objective that was reached, and the iterations.

    L-BFGS stops where no derivative of the mean objective exceeds scikit-learn's tol. That has to
    be a share of the objective: on separable labels with a weak penalty the objective is 1e-6
    itself, and a fixed tol would leave the model where it stood.
    """
    start, total, n_iter = _objective(model, Z, y, weight), weight.sum(), 0
    while True:
        model.tol = tol * start / total
        # All of this has been checked; in small fits the checks take longer than the fit.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            model.fit(Z, y, sample_weight=weight)
        n_iter += int(model.n_iter_[0])
        reached = _objective(model, Z, y, weight)
        # Ten times C lowers the minimum less than tenfold: along a grid of decades one fit will do.
        if reached > start / 10 or model.n_iter_[0] >= model.max_iter:
            return reached, n_iter
        start = reached


def _objective(model: LogisticRegression, Z: FloatArray, y: Any, weight: FloatArray) -> float:
    """The sum of the losses and the penalty; for a model that was not fitted, at zero."""
    if not hasattr(model, "coef_"):
        return float(weight.sum() * np.log(len(np.unique(y))))
    logit = np.asarray(Z @ model.coef_.T.astype(Z.dtype), dtype=float) + model.intercept_
    if logit.shape[1] == 1:
        logit = logit * (-0.5, 0.5)  # a softmax of two, with the same difference
    own = logit[np.arange(len(y)), np.asarray(y, dtype=int)]
    losses = np.logaddexp.reduce(logit, axis=1) - own
    return float(weight @ losses + np.sum(model.coef_.astype(float) ** 2) / (2 * model.C))


def logit_of(X: FloatArray, fitted: Fitted) -> FloatArray:
    """Logits of states: (n,) for two labels, (n, n_labels) for more.

    In double precision: states vary little around a mean that is large, and coefficients are large.
    """
    return np.asarray(X @ fitted.coef.T + fitted.intercept)


def label_of(logit: FloatArray) -> IntArray:
    """The number of the label that the logits speak for."""
    return np.asarray(logit > 0, dtype=int) if logit.ndim == 1 else np.argmax(logit, axis=1)


def merge_equal_rows(X: FloatArray, y: Any, weight: FloatArray) -> tuple[FloatArray, Any, Any]:
    """Equal states of equal label as one row that weighs their sum: templated sentences repeat.

    Rows keep the order in which they first occur.
    """
    numbers: dict[tuple[bytes, Any], int] = {}
    keys = zip(map(bytes, np.ascontiguousarray(X)), np.asarray(y).tolist(), strict=True)
    codes = np.array([numbers.setdefault(key, len(numbers)) for key in keys])
    if len(numbers) == len(X):
        return X, y, weight
    first = np.unique(codes, return_index=True)[1]
    return X[first], y[first], np.bincount(codes, weight)


def moments(X: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted mean and standard deviation of each coordinate.

    A coordinate that varies by no more than rounding does gets scale 1: noise is not magnified.
    So does a dead one, of a size that float32 loses beside the others (MiniLM has one of 1e-33).
    """
    share = (weight / weight.sum()).astype(X.dtype)
    around = X - X[0]  # small numbers: nothing is lost to a large mean
    shift = share @ around
    scale = np.sqrt(np.asarray(share @ (around - shift) ** 2, dtype=float))
    rounding = 16 * np.finfo(X.dtype).eps * np.sqrt(np.asarray(share @ X**2, dtype=float))
    dead = np.finfo(np.float32).eps * scale.max()
    mean = X[0].astype(float) + shift
    return mean, np.where(scale > np.maximum(rounding, dead), scale, 1.0)


def check_states(X: Any, d: int | None = None) -> FloatArray:
    """States as a finite array (n, d) of floats."""
    X = np.asarray(X)
    if X.dtype.kind not in "fiub":  # numpy would read text, and drop imaginary parts
        raise ValueError(f"states must be real numbers, not {X.dtype}")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(float)
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"states must have shape (n, d), not {X.shape}")
    if d is not None and X.shape[1] != d:
        raise ValueError(f"states have {X.shape[1]} dimensions, but the fit was on {d}")
    largest = max(X.max(), -X.min())
    if not np.isfinite(largest):
        raise ValueError("states must be finite")
    if largest > LARGEST or 0 < largest < 1 / LARGEST:  # their squares are lost in float32
        raise ValueError(
            f"the largest number of the states is {largest:.3g}; "
            f"scale them to be between {1 / LARGEST:g} and {LARGEST:g}"
        )
    return X


def check_labels(y: Any, n: int) -> tuple[npt.NDArray[Any], IntArray]:
    """The labels, two or more, and the number of each row's label."""
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"y must have one label for each of {n} rows, not shape {y.shape}")
    try:
        classes, codes = np.unique(y, return_inverse=True)
        is_label = bool((classes == classes).all())  # nan is not even itself
    except TypeError:  # numbers and text, or None, which have no order
        is_label = False
    if not is_label:
        raise ValueError("y must hold labels of one kind, none of them missing")
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two labels, not {len(classes)}")
    return classes, codes


def check_search(tol: Any, max_iter: Any) -> None:
    """Refuse a tolerance or a number of iterations with which no fit would start or end."""
    if not (isinstance(tol, Real) and 0 < float(tol) < 1):
        raise ValueError(f"tol must be a number between 0 and 1, not {tol!r}")
    if not (isinstance(max_iter, Integral) and int(max_iter) >= 1):
        raise ValueError(f"max_iter must be an integer of at least 1, not {max_iter!r}")


def check_two_labels(y: Any, n: int) -> tuple[npt.NDArray[Any], BoolArray]:
    """The labels, exactly two, and where the second one is."""
    classes, codes = check_labels(y, n)
    if len(classes) > 2:
        raise ValueError(f"y must hold exactly two labels, not {len(classes)}")
    return classes, codes == 1
