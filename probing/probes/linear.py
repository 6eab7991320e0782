"""Linear probes: what a straight line can read from the states of a model.

notation: v_hat, the direction that reads the label; k_hat, the one that marks the informative token
Token states are ragged: (total_tokens, d), and sentence i owns rows offsets[i]:offsets[i + 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from probing.probes.logistic import (
    BoolArray,
    FloatArray,
    IntArray,
    check_labels,
    check_states,
    fit_logistic,
    logit_of,
    merge_equal_rows,
    moments,
    one_thread,
    unit,
)
from probing.probes.penalty import C_GRID, check_penalty, choose_penalty, grouped_folds
from probing.states.ragged import check_tokens, informative_ranks, take_sentences


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
                lambda fitted, part: np.mean((logit_of(X[part], fitted) > 0) == positive[part]),
                folds,
            )
        self.C_ = check_penalty(C)
        solution = next(self._path(X, positive, weight, (self.C_,)))
        self._keep(solution)
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """The logit of the second class."""
        check_is_fitted(self, "coef_")
        return logit_of(check_states(X, len(self.coef_)), (self.coef_, self.intercept_))

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
        states, offsets, informative = check_tokens(states, offsets, informative, mask)
        rng = np.random.default_rng(self.random_state)
        C, self.cv_scores_ = self.C, None
        if self.C is None:
            folds = grouped_folds(np.zeros(len(offsets) - 1, dtype=bool), groups)

            def rank_score(fitted: Any, part: IntArray) -> float:
                tokens, inner = take_sentences(offsets, part)
                scores = logit_of(states[tokens], fitted)
                return float(np.mean(informative_ranks(scores, inner, informative[tokens]) == 1))

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
        return logit_of(check_states(states, len(self.coef_)), (self.coef_, self.intercept_))

    def ranks(self, states: Any, offsets: Any, informative: Any, *, mask: Any = None) -> IntArray:
        """Rank of each sentence's best informative token, 1 being the highest of all.

        A tie counts against the probe, so that a constant score ranks last, not first.
        """
        states, offsets, informative = check_tokens(states, offsets, informative, mask)
        return informative_ranks(self.decision_function(states), offsets, informative)

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
    be at chance. The labels themselves and their opposites, which among few groups are likely
    draws, are left out; what remains of chance is for several draws to average.
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
    own = y[first]
    for _ in range(1000):
        drawn = rng.permutation(own)
        if 0 < np.mean(drawn == own) < 1:
            break  # else, with two groups, there is nothing but the two
    return np.asarray(drawn[codes])
