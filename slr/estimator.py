"""The predictor as a scikit-learn estimator for token states of any kind."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from slr.checks import as_floats, check_between, check_whole, quoted
from slr.predictor import GATES, Gate, activate, attention, gate_pullback
from slr.task import FloatArray


class SingleLocationRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """T(X) = sum_l gate(lam (X_l.k - threshold)) X_l.v, with k and v found by least squares.

    Parameters
    ----------
    gate
        "erf" (two-sided, the paper's), "one-sided" ((1 + erf)/2) or "softmax".
    lam
        Sharpness of the gate, which is not fitted.
    threshold
        Score at which the gate opens (without effect on a softmax).
    fit_threshold
        Fit the threshold, too, starting from ``threshold``.
    unit_v
        Keep v on the unit sphere, as in the paper; False fits the length of v, too.
    n_starts
        Number of starts, as the problem is not convex: one from moments of the data, the others
        at random; the best fit is kept.
    max_iter
        Largest number of L-BFGS iterations per start.
    tol
        Tolerance of L-BFGS on the gradient, and a thousandth of it on the loss (relative).
    random_state
        Seed of the random starts.

    Attributes
    ----------
    k_ : array of shape (d,)
        Unit vector that says where to look.
    v_ : array of shape (d,)
        Vector that says what to read.
    threshold_ : float
        The threshold, fitted or given.
    loss_ : float
        Mean squared error on the training data.
    n_iter_ : int
        Iterations of the best start.

    >>> X, y, _ = sample_batch(task, sample_truth(task, rng), 100, rng)
    >>> SingleLocationRegressor(gate="softmax", n_starts=1).fit(X, y).predict(X).shape
    (100,)
    """

    def __init__(
        self,
        *,
        gate: Gate = "erf",
        lam: float = 1.0,
        threshold: float = 0.0,
        fit_threshold: bool = False,
        unit_v: bool = True,
        n_starts: int = 4,
        max_iter: int = 500,
        tol: float = 1e-8,
        random_state: int = 0,
    ) -> None:
        self.gate = gate
        self.lam = lam
        self.threshold = threshold
        self.fit_threshold = fit_threshold
        self.unit_v = unit_v
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to sequences X of shape (n, L, d) and targets y of shape (n,)."""
        self._check_parameters()
        X, y = _check_data(X, y)
        rng = np.random.default_rng(self.random_state)
        random = [self._random_start(X.shape[2], rng) for _ in range(self.n_starts - 1)]
        options = {"maxiter": self.max_iter, "ftol": self.tol * 1e-3, "gtol": self.tol}
        fits = [
            minimize(self._loss_and_gradient, start, (X, y), "L-BFGS-B", jac=True, options=options)
            for start in (self._moment_start(X, y), *random)
        ]
        best = min(fits, key=lambda fit: fit.fun)
        self.k_, self.v_, self.threshold_ = self._directions(best.x)
        self.loss_ = float(best.fun)
        self.n_iter_ = int(best.nit)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predictions of shape (n,) for X of shape (n, L, d)."""
        return np.sum(self.attention(X) * (np.asarray(X, dtype=float) @ self.v_), axis=-1)

    def attention(self, X: Any) -> FloatArray:
        """The weight of each token, shape (n, L), for X of shape (n, L, d)."""
        check_is_fitted(self, "k_")
        X = _check_states(X)
        if X.shape[2] != len(self.k_):
            raise ValueError(f"X has {X.shape[2]} features, but the fit had {len(self.k_)}")
        return attention(X, self.k_, self.lam, gate=self.gate, threshold=self.threshold_)

    def _check_parameters(self) -> None:
        if not isinstance(self.gate, str) or self.gate not in GATES:
            raise ValueError(f"gate must be one of {', '.join(GATES)}, not {quoted(self.gate)}")
        check_between(1e-150, 1e150, lam=self.lam)
        check_between(-1e150, 1e150, threshold=self.threshold)
        check_between(0, 1, tol=self.tol)
        check_whole(1, n_starts=self.n_starts, max_iter=self.max_iter)
        check_whole(0, random_state=self.random_state)

    # ---- parameters are one vector (k, v, threshold), with k (and v) normalised before use

    def _directions(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        k, v = parameters[:-1].reshape(2, -1)
        return _unit(k), _unit(v) if self.unit_v else v.copy(), float(parameters[-1])

    def _loss_and_gradient(
        self, parameters: FloatArray, X: FloatArray, y: FloatArray
    ) -> tuple[float, FloatArray]:
        raw_k, raw_v = parameters[:-1].reshape(2, -1)
        k, v, threshold = self._directions(parameters)
        scores, values = self.lam * (X @ k - threshold), X @ v
        weights = activate(scores, self.gate)
        error = np.sum(weights * values, axis=1) - y
        slopes = 2 / len(y) * error[:, None] * self.lam * gate_pullback(scores, values, self.gate)
        flat = X.reshape(-1, X.shape[2])
        gradient_k = _through_unit(slopes.ravel() @ flat, raw_k)
        gradient_v = (2 / len(y) * error[:, None] * weights).ravel() @ flat
        if self.unit_v:
            gradient_v = _through_unit(gradient_v, raw_v)
        gradient_threshold = -slopes.sum() if self.fit_threshold else 0.0
        gradient = np.concatenate([gradient_k, gradient_v, [gradient_threshold]])
        return float(np.mean(error**2)), gradient

    def _random_start(self, d: int, rng: np.random.Generator) -> FloatArray:
        k, v = _unit(rng.standard_normal(d)), _unit(rng.standard_normal(d))
        return np.concatenate([k, v, [self.threshold]])

    def _moment_start(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """A start from moments: on the paper's task E[y sum_l X_l] ~ v*, E[y (X_l.v*) X_l] ~ k*."""
        centred = X - X.mean(axis=(0, 1))
        label = y - y.mean()
        v = _unit(label @ centred.sum(axis=1))
        k = _unit((label[:, None] * (centred @ v)).ravel() @ centred.reshape(-1, X.shape[2]))
        return np.concatenate([k, v, [self.threshold]])


def _unit(x: FloatArray) -> FloatArray:
    norm = np.linalg.norm(x)
    return np.asarray(x / norm) if norm > 0 else np.eye(len(x))[0]


def _through_unit(gradient: FloatArray, raw: FloatArray) -> FloatArray:
    """The gradient in ``raw`` of a function of x = raw/|raw|, from its gradient in x."""
    norm = np.linalg.norm(raw) or 1.0
    unit = _unit(raw)
    return np.asarray((gradient - (gradient @ unit) * unit) / norm)


def _check_states(X: Any) -> FloatArray:
    X = as_floats("X", X)
    if X.ndim != 3:
        raise ValueError(f"X must have shape (n, L, d): sequences of tokens, not {X.shape}")
    if not X.shape[1] or not X.shape[2]:
        raise ValueError(f"X must have shape (n, L, d) with a token and a feature, not {X.shape}")
    return X


def _check_data(X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    X, y = _check_states(X), as_floats("y", y)
    if y.shape != X.shape[:1]:
        raise ValueError(f"y must have shape {X.shape[:1]}, one entry per sequence, not {y.shape}")
    if len(y) == 0:
        raise ValueError("y must be finite, and not empty")
    return X, y
