"""Probes of tokens, and the location probe: which token is the informative one?

notation: k_hat, the direction that marks the informative token
A token probe is fitted to ``fit(X, tokens)``, X (n_tokens, d) and a ``Tokens`` that says where
sentences begin and what is to be found: informative tokens, labels, and words for the folds.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from probing.arrays import BoolArray, FloatArray, IntArray, unit
from probing.probes.linear import Linear
from probing.probes.logistic import (
    Fitted,
    check_states,
    logistic_path,
    logit_of,
    one_blas_thread,
)
from probing.probes.penalty import C_GRID, SEARCH_TOL, choose_penalty
from probing.ranking import Ranking, ranking
from probing.states.tokens import Tokens

TOL = 1e-4  # as LinearProbe's


class TokenProbe(BaseEstimator):  # type: ignore[misc]
    """A probe that reads all tokens of a sentence: ``fit``, ``predict`` and ``score``."""

    def predict(self, X: Any, tokens: Tokens) -> npt.NDArray[Any]:
        raise NotImplementedError

    def correct(self, X: Any, tokens: Tokens) -> BoolArray:
        """Is each sentence judged right?"""
        labels = labels_of(tokens)
        if not np.isin(labels, self.classes_).any():
            raise ValueError(f"none of the labels is one of the fit: {self.classes_.tolist()}")
        return np.asarray(self.predict(X, tokens) == labels)

    def score(self, X: Any, tokens: Tokens) -> float:
        """The share of sentences that are judged right."""
        return float(np.mean(self.correct(X, tokens)))

    def ranking(self, X: Any, tokens: Tokens) -> Ranking:
        """AUROC and true-positive rate of the logits of sentences."""
        logits = self.decision_function(X, tokens)
        return ranking(logits, labels_of(tokens), self.classes_)


def labels_of(tokens: Tokens) -> npt.NDArray[Any]:
    """The labels of sentences, which must have them."""
    if tokens.labels is None:
        raise ValueError("the tokens have no labels; give one for each sentence")
    return np.asarray(tokens.labels)


def check_tokens(X: Any, tokens: Tokens, d: int | None = None, *, located: bool = False) -> Any:
    """States as an array with one row per token; ``located``: each sentence has its place."""
    X = check_states(X, d)
    if len(X) != tokens.offsets[-1]:
        raise ValueError(f"{len(X)} states, but the offsets end at {tokens.offsets[-1]} tokens")
    if located and not np.logical_or.reduceat(tokens.informative, tokens.offsets[:-1]).all():
        raise ValueError("a sentence has no informative token")
    return X


class LocationProbe(TokenProbe, Linear):
    """Is this token the informative one? Logistic regression on tokens, judged by rank.

    Both kinds of token weigh the same in the fit. ``score`` is the share of sentences whose
    highest token is an informative one: what an attention head along k_hat would look at.

    Parameters
    ----------
    C
        Inverse strength of the penalty, as for LinearProbe; the cross-validation goes by ``score``
        on held-out words (``tokens.words``) in held-out structures (``tokens.patterns``).
    standardize
        Penalise in units of each coordinate's standard deviation, as for LinearProbe.
    max_tokens
        Largest number of tokens in a fit, half of them informative if there are as many. Templated
        tokens repeat; None takes all tokens.
    random_state
        Seed of the drawn tokens.

    Attributes
    ----------
    coef_ : array of shape (d,)
        Weights of the logit of being informative, in the space of the states as given.
    intercept_ : float
        Constant of that logit.
    direction_ : array of shape (d,)
        ``coef_`` at unit length (k_hat).
    C_ : float
        The C that was given or chosen.
    cv_scores_ : array or None
        Mean held-out score for each of C_GRID, as for LinearProbe; None if C was given.

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

        def rank_score(fitted: Fitted, part: IntArray) -> float:
            scores = logit_of(X[tokens.rows(part)], fitted)
            return float(np.mean(informative_ranks(scores, tokens.take(part)) == 1))

        def path(part: IntArray, grid: Sequence[float] = C_GRID, tol: float = SEARCH_TOL) -> Any:
            chosen, weight = self._drawn(tokens.informative, tokens.rows(part), rng)
            own, as_given = tokens.informative[chosen], self.standardize
            return logistic_path(X[chosen], own, weight, grid, standardize=as_given, tol=tol)

        alike = np.zeros(len(tokens), dtype=int)  # labels need no balance
        self.C_, self.cv_scores_ = choose_penalty(
            self.C, path, rank_score, alike, tokens.words, tokens.patterns
        )
        (fitted,) = path(np.arange(len(tokens)), (self.C_,), TOL)
        self.coef_, self.intercept_ = fitted.coef, fitted.intercept
        self.direction_ = unit(self.coef_)
        return self

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

    def ranking(self, X: Any, tokens: Tokens) -> Ranking:
        """AUROC and true-positive rate of tokens: informative ones against all others."""
        return ranking(self.decision_function(check_tokens(X, tokens)), tokens.informative, (0, 1))

    def _drawn(
        self, informative: BoolArray, rows: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        """At most max_tokens of the rows, and their weights: both kinds weigh the same."""
        kinds = [rows[informative[rows]], rows[~informative[rows]]]
        if not all(len(kind) for kind in kinds):
            raise ValueError("tokens of both kinds are needed, informative and other")
        total = len(rows)
        if self.max_tokens is not None and total > self.max_tokens:
            total = self.max_tokens
            first = min(len(kinds[0]), total // 2)
            rooms = [first, min(len(kinds[1]), total - first)]
            kinds = [rng.choice(kind, n, False) for kind, n in zip(kinds, rooms, strict=True)]
        weights = [np.full(len(kind), total / 2 / len(kind)) for kind in kinds]
        return np.concatenate(kinds), np.concatenate(weights)


def informative_ranks(scores: FloatArray, tokens: Tokens) -> IntArray:
    """Rank of the best informative token of each sentence; ties count against it."""
    starts = tokens.offsets[:-1]
    best = np.maximum.reduceat(np.where(tokens.informative, scores, -np.inf), starts)
    ahead = ~tokens.informative & (scores >= np.repeat(best, tokens.lengths))
    return np.asarray(1 + np.add.reduceat(ahead.astype(np.intp), starts))
