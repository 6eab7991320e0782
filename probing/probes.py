"""Linear probes: what a straight line can read from the states of a model.

notation: v_hat, the direction that reads the label; k_hat, the one that marks the informative token
Token states are ragged: (total_tokens, d), and sentence i owns rows offsets[i]:offsets[i + 1].
C is scikit-learn's: |w|^2 / (2 C) is added to the sum of the losses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

FloatArray = npt.NDArray[Any]  # float32 states stay float32
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]
Folds = list[tuple[IntArray, IntArray]]

# Matrices of these sizes gain little from a second BLAS thread, and on a busy machine threads that
# spin for each other have made a fit twenty times slower.
one_thread = threadpool_limits.wrap(limits=1, user_api="blas")

C_GRID: tuple[float, ...] = tuple(float(C) for C in np.logspace(-4, 2, 7))


class LinearProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression of a binary label on one state a sentence.

    On [CLS] this is the paper's probe, on the informative token its direction is v_hat.

    Parameters
    ----------
    C : inverse strength of the penalty; None chooses it from C_GRID by cross-validation grouped
        by ``groups`` (adjectives), a tie going to the stronger penalty.
    standardize : penalise in units of each coordinate's standard deviation. Layers differ by
        orders of magnitude in how far their states vary; without it C means something else in each.
    tol, max_iter : of Newton's method, tol relative to the objective.

    Attributes
    ----------
    coef_, intercept_ : of the logit, in the space of the states as given
    direction_ : coef_ at unit length (v_hat); zero if the states do not vary at all
    C_, cv_scores_ : the chosen C; mean held-out accuracy for each of C_GRID (None if C was given)
    objective_ : minimum of the penalised sum of losses;  classes_ : the two labels;  n_iter_
    """

    def __init__(
        self,
        *,
        C: float | None = None,
        standardize: bool = True,
        tol: float = 1e-5,
        max_iter: int = 100,
    ) -> None:
        self.C = C
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter

    @one_thread
    def fit(self, X: Any, y: Any, groups: Any = None, *, sample_weight: Any = None) -> Self:
        """Fit to states X (n, d) and labels y (n,); groups (n,) are needed to choose C."""
        X = check_states(X)
        self.classes_, positive = check_labels(y, len(X))
        weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
        if weight.shape != (len(X),) or not (np.isfinite(weight) & (weight >= 0)).all():
            raise ValueError("sample_weight must be a finite weight of at least 0 for each row")
        C, self.cv_scores_ = self.C, None
        if self.C is None:
            folds = grouped_folds(positive, groups)
            C, self.cv_scores_ = choose_penalty(
                lambda part: self._path(X[part], positive[part], weight[part]),
                lambda fitted, part: np.mean((_logit(X[part], fitted) > 0) == positive[part]),
                folds,
            )
        self.C_ = check_penalty(C)
        solution = next(self._path(X, positive, weight, (self.C_,)))
        self._keep(solution)
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """The logit of the second class."""
        check_is_fitted(self, "coef_")
        return _logit(check_states(X, len(self.coef_)), (self.coef_, self.intercept_))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        return np.asarray(self.classes_[(self.decision_function(X) > 0).astype(int)])

    def _path(
        self, X: FloatArray, positive: BoolArray, weight: FloatArray, grid: Sequence[float] = C_GRID
    ) -> Any:
        """Solutions for each C of the grid, each starting from the last."""
        X, positive, weight = merge_equal_rows(X, positive, weight)
        mean, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.standardize:
            mean, scale = moments(X, weight)
        Z = ((X - mean) / scale).astype(X.dtype) if self.standardize else X
        w = np.zeros(X.shape[1] + 1)
        for C in grid:
            w, objective, n_iter = fit_logistic(
                Z, positive, weight, C, w, tol=self.tol, max_iter=self.max_iter
            )
            coef = w[:-1] / scale
            yield coef, float(w[-1] - coef @ mean), objective, n_iter

    def _keep(self, solution: tuple[FloatArray, float, float, int]) -> None:
        self.coef_, self.intercept_, self.objective_, self.n_iter_ = solution
        self.direction_ = unit(self.coef_)


class LocationProbe(BaseEstimator):  # type: ignore[misc]
    """Is this token the informative one? Logistic regression on tokens, judged by rank.

    Both kinds of token weigh the same in the fit. ``score`` is the share of sentences whose
    highest token is an informative one: what an attention head along k_hat would look at.

    Parameters
    ----------
    C, standardize : as for LinearProbe; the cross-validation goes by ``score`` on held-out
        adjectives.
    max_tokens : at most this many tokens enter a fit, half of them informative if there are as
        many. Templated tokens repeat; None takes them all.
    random_state : seed of the draw of those tokens.

    Attributes
    ----------
    direction_ (k_hat), coef_, intercept_, C_, cv_scores_ : as for LinearProbe
    """

    def __init__(
        self,
        *,
        C: float | None = None,
        standardize: bool = True,
        max_tokens: int | None = 20_000,
        random_state: int = 0,
    ) -> None:
        self.C = C
        self.standardize = standardize
        self.max_tokens = max_tokens
        self.random_state = random_state

    @one_thread
    def fit(
        self, states: Any, offsets: Any, informative: Any, groups: Any = None, *, mask: Any = None
    ) -> Self:
        """Fit to tokens; groups has one entry a sentence, mask is False at tokens to leave out."""
        states, offsets, informative = _check_tokens(states, offsets, informative, mask)
        rng = np.random.default_rng(self.random_state)
        C, self.cv_scores_ = self.C, None
        if self.C is None:
            folds = grouped_folds(np.zeros(len(offsets) - 1, dtype=bool), groups)

            def rank_score(fitted: Any, part: IntArray) -> float:
                tokens, inner = take_sentences(offsets, part)
                scores = _logit(states[tokens], fitted)
                return float(np.mean(_ranks(scores, inner, informative[tokens]) == 1))

            C, self.cv_scores_ = choose_penalty(
                lambda part: self._path(
                    states, informative, take_sentences(offsets, part)[0], rng, C_GRID
                ),
                rank_score,
                folds,
            )
        self.C_ = check_penalty(C)
        fitted = next(self._path(states, informative, np.arange(len(states)), rng, (self.C_,)))
        self.coef_, self.intercept_ = fitted[:2]
        self.direction_ = unit(self.coef_)
        return self

    def decision_function(self, states: Any) -> FloatArray:
        check_is_fitted(self, "coef_")
        return _logit(check_states(states, len(self.coef_)), (self.coef_, self.intercept_))

    def ranks(self, states: Any, offsets: Any, informative: Any, *, mask: Any = None) -> IntArray:
        """Rank of each sentence's best informative token, 1 being the highest of all.

        A tie counts against the probe, so that a constant score ranks last, not first.
        """
        states, offsets, informative = _check_tokens(states, offsets, informative, mask)
        return _ranks(self.decision_function(states), offsets, informative)

    def score(self, states: Any, offsets: Any, informative: Any, *, mask: Any = None) -> float:
        """Share of sentences in which an informative token comes first."""
        return float(np.mean(self.ranks(states, offsets, informative, mask=mask) == 1))

    def _path(
        self,
        states: FloatArray,
        informative: BoolArray,
        tokens: IntArray,
        rng: np.random.Generator,
        grid: Sequence[float],
    ) -> Any:
        kinds = [tokens[informative[tokens]], tokens[~informative[tokens]]]
        if not all(len(kind) for kind in kinds):
            raise ValueError("tokens of both kinds are needed, informative and other")
        weights = [len(tokens) / 2 / len(kind) for kind in kinds]  # balanced
        if self.max_tokens is not None and len(tokens) > self.max_tokens:
            first = min(len(kinds[0]), self.max_tokens // 2)
            rooms = [first, min(len(kinds[1]), self.max_tokens - first)]
            kinds = [rng.choice(kind, n, False) for kind, n in zip(kinds, rooms, strict=True)]
            weights = [self.max_tokens / 2 / len(kind) for kind in kinds]
        chosen = np.concatenate(kinds)
        weight = np.repeat(weights, [len(kind) for kind in kinds])
        probe = LinearProbe(standardize=self.standardize)
        return probe._path(states[chosen], informative[chosen], weight, grid)


def fit_layers(
    states: Any, y: Any, groups: Any = None, *, C: float | None = None, standardize: bool = True
) -> tuple[LinearProbe, ...]:
    """One probe a layer, for pooled states of shape (n, n_layers + 1, d)."""
    if np.ndim(states) != 3:
        raise ValueError(f"states must have shape (n, n_layers + 1, d), not {np.shape(states)}")
    layers = (np.ascontiguousarray(states[:, i]) for i in range(states.shape[1]))
    return tuple(LinearProbe(C=C, standardize=standardize).fit(X, y, groups) for X in layers)


def shuffled_labels(y: Any, groups: Any, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Labels for the control: what a probe finds when there is nothing to find.

    ``groups=None`` permutes rows: no word means anything any more, and a probe should be at chance
    even on the sentences it was fitted to (but for overfitting). With groups (adjectives, each of
    one label) the labels are permuted over the groups: a word keeps one label in all its
    sentences, so that a probe can learn the words by heart, and only on *other* words must it
    be at chance. With few groups a permutation is now and then the identity: draw several.
    """
    y = np.asarray(y)
    if groups is None:
        return rng.permutation(y)
    groups = np.asarray(groups)
    if groups.shape != y.shape:
        raise ValueError(f"groups must have the shape of y, {y.shape}, not {groups.shape}")
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    if (y[first][codes] != y).any():
        raise ValueError("a group holds both labels: they cannot be permuted over groups")
    return np.asarray(rng.permutation(y[first])[codes])


# ---- regularisation


def grouped_folds(positive: BoolArray, groups: Any, *, max_folds: int = 5) -> Folds:
    """(train, test) indices with no group on both sides, labels balanced over the folds.

    As many folds as the rarer label has groups (six adjectives: three folds, each of which holds
    out one of each label), but at most max_folds.
    """
    if groups is None:
        raise ValueError("give groups (the adjective of each sentence) to choose C, or give C")
    groups = np.asarray(groups)
    if groups.shape != positive.shape:
        raise ValueError(f"groups must be one a sentence, {positive.shape}, not {groups.shape}")
    owners = [len(np.unique(groups[positive == label])) for label in np.unique(positive)]
    n_folds = min(max_folds, *owners) if len(owners) > 1 else min(max_folds, owners[0])
    if n_folds < 2:
        raise ValueError("each label needs at least two groups to choose C; give C instead")
    splitter = StratifiedGroupKFold(n_folds)
    folds = list(splitter.split(np.zeros(len(groups)), positive, groups))
    for train, _ in folds:
        if len(np.unique(positive[train])) < len(owners):
            raise ValueError("a fold's training part lacks a label; give C instead of groups")
    return folds


def choose_penalty(
    path: Callable[[IntArray], Any], score: Callable[[Any, IntArray], Any], folds: Folds
) -> tuple[float, FloatArray]:
    """The C of C_GRID with the best mean held-out score, and all the scores.

    ``path(train)`` yields a fit for each C of the grid, strongest penalty first;
    ``score(fit, test)`` judges it.
    """
    table = [[float(score(fit, test)) for fit in path(train)] for train, test in folds]
    means = np.mean(table, axis=0)
    # The grid ascends: the first of the best has the strongest penalty. Rounding makes no winner.
    return C_GRID[int(np.argmax(means >= means.max() - 1e-9))], means


# ---- the solver


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


def _logit(X: FloatArray, fitted: Any) -> FloatArray:
    """Of the first two entries of a solution, (coefficients, intercept).

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

    A coordinate that varies by no more than rounding does gets scale 1, lest noise be magnified.
    """
    share = (weight / weight.sum()).astype(X.dtype)
    around = X - X[0]  # small numbers: nothing is lost to a large mean
    shift = share @ around
    scale = np.sqrt(np.asarray(share @ (around - shift) ** 2, dtype=float))
    rounding = 16 * np.finfo(X.dtype).eps * np.sqrt(np.asarray(share @ X**2, dtype=float))
    mean = X[0].astype(float) + shift
    return mean, np.where(scale > rounding, scale, 1.0)


# ---- ragged tokens and checks


def take_sentences(offsets: IntArray, sentences: IntArray) -> tuple[IntArray, IntArray]:
    """Rows of the tokens of some sentences, and the offsets among those rows."""
    lengths = np.diff(offsets)[sentences]
    inner = np.append(0, np.cumsum(lengths))
    rows = np.arange(inner[-1]) + np.repeat(offsets[sentences] - inner[:-1], lengths)
    return rows, inner


def keep_tokens(offsets: Any, mask: Any) -> tuple[IntArray, IntArray]:
    """Rows of the tokens where mask is True (no special ones, say), and the offsets among them."""
    offsets, mask = np.asarray(offsets), np.asarray(mask, dtype=bool)
    if mask.shape != (offsets[-1],):
        raise ValueError(f"mask must have one entry for each of {offsets[-1]} tokens")
    inner = np.append(0, np.cumsum(mask))[offsets]
    if (np.diff(inner) == 0).any():
        raise ValueError("mask leaves a sentence without a token")
    return np.flatnonzero(mask), inner


def unit(x: FloatArray) -> FloatArray:
    norm = np.linalg.norm(x)
    return np.asarray(x / norm) if norm > 0 else np.zeros_like(x)


def _ranks(scores: FloatArray, offsets: IntArray, informative: BoolArray) -> IntArray:
    starts = offsets[:-1]
    best = np.maximum.reduceat(np.where(informative, scores, -np.inf), starts)
    ahead = ~informative & (scores >= np.repeat(best, np.diff(offsets)))
    return np.asarray(1 + np.add.reduceat(ahead.astype(np.intp), starts))


def check_states(X: Any, d: int | None = None) -> FloatArray:
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


def check_offsets(offsets: Any, n_tokens: int) -> IntArray:
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or len(offsets) < 2 or not np.issubdtype(offsets.dtype, np.integer):
        raise ValueError("offsets must be n + 1 integers")
    if offsets[0] != 0 or offsets[-1] != n_tokens or (np.diff(offsets) < 1).any():
        raise ValueError(
            f"offsets must rise from 0 to the number of tokens, {n_tokens}, with no empty sentence"
        )
    return offsets.astype(np.intp)


def check_labels(y: Any, n: int) -> tuple[npt.NDArray[Any], BoolArray]:
    """The two labels, and where the second one is."""
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"y must have one label for each of {n} rows, not shape {y.shape}")
    classes = np.unique(y)
    if len(classes) != 2:
        raise ValueError(f"y must hold exactly two labels, not {len(classes)}")
    return classes, y == classes[1]


def check_penalty(C: float | None) -> float:
    if C is None or not (np.isfinite(C) and C > 0):
        raise ValueError(f"C must be positive and finite, not {C}")
    return float(C)


def _check_tokens(
    states: Any, offsets: Any, informative: Any, mask: Any
) -> tuple[FloatArray, IntArray, BoolArray]:
    states = check_states(states)
    offsets, informative = check_offsets(offsets, len(states)), np.asarray(informative, dtype=bool)
    if informative.shape != (len(states),):
        raise ValueError(f"informative must have one entry for each of {len(states)} tokens")
    if mask is not None:
        rows, offsets = keep_tokens(offsets, mask)
        states, informative = states[rows], informative[rows]
    if not np.logical_or.reduceat(informative, offsets[:-1]).all():
        raise ValueError("a sentence has no informative token (left, if there is a mask)")
    return states, offsets, informative
