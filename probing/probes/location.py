"""Probes of tokens, and the location probe: which token is the informative one?

notation: k_hat, the direction that marks the informative token
A token probe is fitted to ``fit(X, tokens)``, X (n_tokens, d) and a ``Tokens`` that says where
sentences begin and what is to be found: informative tokens, labels, and words for the folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probing.arrays import BoolArray, FloatArray, IntArray, unit
from probing.probes.logistic import (
    check_labels,
    check_states,
    logistic_path,
    logit_of,
    one_blas_thread,
)
from probing.probes.penalty import C_GRID, choose_penalty, grouped_folds
from probing.states.tokens import Tokens


class TokenProbe(BaseEstimator):  # type: ignore[misc]
    """A probe that reads all tokens of a sentence: ``fit``, ``predict`` and ``score``."""

    def predict(self, X: Any, tokens: Tokens) -> npt.NDArray[Any]:
        raise NotImplementedError

    def correct(self, X: Any, tokens: Tokens) -> BoolArray:
        """Is each sentence judged right?"""
        if tokens.labels is None:
            raise ValueError("the tokens have no labels; give one for each sentence")
        return np.asarray(self.predict(X, tokens) == tokens.labels)

    def score(self, X: Any, tokens: Tokens) -> float:
        """The share of sentences that are judged right."""
        return float(np.mean(self.correct(X, tokens)))


def check_labels_given(tokens: Tokens) -> tuple[npt.NDArray[Any], BoolArray]:
    """The two labels, and where the second one is."""
    if tokens.labels is None:
        raise ValueError("the tokens have no labels; give one for each sentence")
    return check_labels(tokens.labels, len(tokens))


def check_tokens(X: Any, tokens: Tokens, d: int | None = None, *, located: bool = False) -> Any:
    """States as an array with one row per token; ``located``: each sentence has its place."""
    X = check_states(X, d)
    if len(X) != tokens.offsets[-1]:
        raise ValueError(f"{len(X)} states, but the offsets end at {tokens.offsets[-1]} tokens")
    if located and not np.logical_or.reduceat(tokens.informative, tokens.offsets[:-1]).all():
        raise ValueError("a sentence has no informative token")
    return X


class LocationProbe(TokenProbe):
    """Is this token the informative one? Logistic regression on tokens, judged by rank.

    Both kinds of token weigh the same in the fit. ``score`` is the share of sentences whose
    highest token is an informative one: what an attention head along k_hat would look at.

    Parameters
    ----------
    C, standardize : as for LinearProbe; the cross-validation goes by ``score`` on held-out words
        (``tokens.words``).
    max_tokens : at most this many tokens enter a fit, half of them informative if there are as
        many. Templated tokens repeat; None takes them all.
    random_state : seed of the draw of those tokens.

    Attributes
    ----------
    direction_ (k_hat), coef_, intercept_, C_, cv_scores_ : as for LinearProbe

    >>> states = extract(model, tokenizer, dataset["train"], positions=["tokens"]).words_only()
    >>> LocationProbe().fit(states.at(3), states.tokens).score(states.at(3), states.tokens)
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

    @one_blas_thread
    def fit(self, X: Any, tokens: Tokens) -> Self:
        """Fit to states X (n_tokens, d); tokens.words are needed to choose C."""
        X = check_tokens(X, tokens, located=True)
        rng = np.random.default_rng(self.random_state)

        def rank_score(fitted: Any, part: IntArray) -> float:
            scores = logit_of(X[tokens.rows(part)], fitted)
            return float(np.mean(informative_ranks(scores, tokens.take(part)) == 1))

        self.C_, self.cv_scores_ = choose_penalty(
            self.C,
            lambda part: self._path(X, tokens.informative, tokens.rows(part), rng, C_GRID),
            rank_score,
            lambda: grouped_folds(np.zeros(len(tokens), dtype=bool), tokens.words),
        )
        everything = np.arange(len(X))
        (fitted,) = self._path(X, tokens.informative, everything, rng, (self.C_,))
        self.coef_, self.intercept_ = fitted[:2]
        self.direction_ = unit(self.coef_)
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """The logit of being informative, for states (n, d)."""
        check_is_fitted(self, "coef_")
        return logit_of(check_states(X, len(self.coef_)), (self.coef_, self.intercept_))

    def predict(self, X: Any, tokens: Tokens) -> IntArray:
        """The row of the highest token of each sentence; of equal ones the first."""
        scores, starts = self.decision_function(check_tokens(X, tokens)), tokens.offsets[:-1]
        highest = np.repeat(np.maximum.reduceat(scores, starts), tokens.lengths)
        rows = np.flatnonzero(scores == highest)
        return np.asarray(rows[np.searchsorted(rows, starts)])

    def ranks(self, X: Any, tokens: Tokens) -> IntArray:
        """Rank of each sentence's best informative token, 1 being the highest of all.

        A tie counts against the probe, so that a constant score ranks last, not first.
        """
        X = check_tokens(X, tokens, located=True)
        return informative_ranks(self.decision_function(X), tokens)

    def correct(self, X: Any, tokens: Tokens) -> BoolArray:
        """Does an informative token come first in each sentence?"""
        return np.asarray(self.ranks(X, tokens) == 1)

    def _path(
        self,
        X: FloatArray,
        informative: BoolArray,
        rows: IntArray,
        rng: np.random.Generator,
        grid: Sequence[float],
    ) -> Any:
        kinds = [rows[informative[rows]], rows[~informative[rows]]]
        if not all(len(kind) for kind in kinds):
            raise ValueError("tokens of both kinds are needed, informative and other")
        weights = [len(rows) / 2 / len(kind) for kind in kinds]  # balanced
        if self.max_tokens is not None and len(rows) > self.max_tokens:
            first = min(len(kinds[0]), self.max_tokens // 2)
            rooms = [first, min(len(kinds[1]), self.max_tokens - first)]
            kinds = [rng.choice(kind, n, False) for kind, n in zip(kinds, rooms, strict=True)]
            weights = [self.max_tokens / 2 / len(kind) for kind in kinds]
        chosen = np.concatenate(kinds)
        weight = np.repeat(weights, [len(kind) for kind in kinds])
        options = {"standardize": self.standardize}
        return logistic_path(X[chosen], informative[chosen], weight, grid, **options)


def informative_ranks(scores: FloatArray, tokens: Tokens) -> IntArray:
    """Rank of the best informative token of each sentence; ties count against it."""
    starts = tokens.offsets[:-1]
    best = np.maximum.reduceat(np.where(tokens.informative, scores, -np.inf), starts)
    ahead = ~tokens.informative & (scores >= np.repeat(best, tokens.lengths))
    return np.asarray(1 + np.add.reduceat(ahead.astype(np.intp), starts))
