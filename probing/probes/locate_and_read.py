"""Locate, then read: the single-location predictor with two linear probes and a hard choice.

notation: k_hat, v_hat; prediction of sentence x = sign(x_l . v + b) at l = argmax_l x_l . k
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from probing.probes.linear import LinearProbe, LocationProbe
from probing.probes.logistic import IntArray, check_labels, check_states
from probing.probes.penalty import grouped_folds
from probing.states.ragged import check_offsets, check_tokens, take_sentences


class LocateAndRead(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A LocationProbe finds the token that decides, a LinearProbe reads the label there.

    Unlike SingleLocationHead it is told, in training, where the informative token is; on new
    sentences it is told nothing.

    Parameters
    ----------
    C : of both probes; None lets each choose its own by cross-validation grouped by ``groups``.
    random_state : of the location probe.

    Attributes
    ----------
    location_, value_ : the two probes;  k_hat_, v_hat_ : their directions;  classes_
    C_ : of the value probe
    cv_scores_ : accuracy of both together on held-out groups, one a fold (None if C was given)
    """

    def __init__(self, *, C: float | None = None, random_state: int = 0) -> None:
        self.C = C
        self.random_state = random_state

    def fit(self, states: Any, offsets: Any, informative: Any, y: Any, groups: Any = None) -> Self:
        """Fit to ragged token states; y and groups have one entry a sentence."""
        states, offsets, informative = check_tokens(states, offsets, informative, None)
        y = np.asarray(y)
        self.classes_, positive = check_labels(y, len(offsets) - 1)
        everything = np.arange(len(y))
        self._fit_part(states, offsets, informative, y, groups, everything, (self.C, self.C))
        self.cv_scores_ = None
        if self.C is None:
            chosen = (self.location_.C_, self.value_.C_)
            scores = []
            for train, test in grouped_folds(positive, groups):
                part = LocateAndRead(random_state=self.random_state)
                part.classes_ = self.classes_
                part._fit_part(states, offsets, informative, y, None, train, chosen)
                rows, inner = take_sentences(offsets, test)
                scores.append(part.score(states[rows], inner, y[test]))
            self.cv_scores_ = np.array(scores)
        self.C_ = self.value_.C_
        self.k_hat_, self.v_hat_ = self.location_.direction_, self.value_.direction_
        return self

    def _fit_part(
        self,
        states: Any,
        offsets: IntArray,
        informative: Any,
        y: Any,
        groups: Any,
        sentences: IntArray,
        penalties: tuple[float | None, float | None],
    ) -> None:
        rows, inner = take_sentences(offsets, sentences)
        states, informative = states[rows], informative[rows]
        owner = np.repeat(sentences, np.diff(inner))[informative]
        self.location_ = LocationProbe(C=penalties[0], random_state=self.random_state).fit(
            states, inner, informative, groups
        )
        self.value_ = LinearProbe(C=penalties[1]).fit(
            states[informative], y[owner], None if groups is None else np.asarray(groups)[owner]
        )

    def located(self, states: Any, offsets: Any) -> IntArray:
        """The row of the token chosen in each sentence."""
        check_is_fitted(self, "location_")
        states = check_states(states)
        offsets = check_offsets(offsets, len(states))
        scores = self.location_.decision_function(states)
        highest = np.repeat(np.maximum.reduceat(scores, offsets[:-1]), np.diff(offsets))
        rows = np.flatnonzero(scores == highest)
        return np.asarray(rows[np.searchsorted(rows, offsets[:-1])])  # the first, if several

    def predict(self, states: Any, offsets: Any) -> npt.NDArray[Any]:
        chosen = np.asarray(states)[self.located(states, offsets)]
        return np.asarray(self.value_.predict(chosen))

    def score(self, states: Any, offsets: Any, y: Any) -> float:
        """Accuracy."""
        predicted, y = self.predict(states, offsets), np.asarray(y)
        if y.shape != predicted.shape:
            raise ValueError(f"y must have shape {predicted.shape}, not {y.shape}")
        return float(np.mean(predicted == y))
