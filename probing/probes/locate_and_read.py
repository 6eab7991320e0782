"""Locate, then read: the single-location predictor with two linear probes and a hard choice.

notation: k_hat, v_hat; prediction of sentence x = sign(x_l . v + b) at l = argmax_l x_l . k
"""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from probing.arrays import FloatArray, IntArray
from probing.probes.linear import LinearProbe
from probing.probes.location import LocationProbe, TokenProbe, check_tokens, labels_of
from probing.probes.logistic import check_labels
from probing.probes.penalty import grouped_folds
from probing.states.tokens import Tokens


class LocateAndRead(TokenProbe):
    """A LocationProbe finds the token that decides, a LinearProbe reads the label there.

    Unlike SingleLocationHead it is told, in training, where the informative token is; on new
    sentences it is told nothing.

    Parameters
    ----------
    C : of both probes; None lets each choose its own by cross-validation over ``tokens.words``.
    random_state : of the location probe.

    Attributes
    ----------
    classes_ : the labels, two or more
    location_ : the LocationProbe
    value_ : the LinearProbe
    k_hat_ : the direction of location_
    v_hat_ : the direction of value_; with more than two labels one per label, (n_labels, d)
    C_ : of the value probe
    cv_scores_ : accuracy of both together on held-out words, one per fold (None if C was given)

    >>> states = extract(model, tokenizer, dataset["train"], positions=["tokens"]).words_only()
    >>> LocateAndRead().fit(states.at(3), states.tokens).predict(states.at(3), states.tokens)
    """

    def __init__(self, *, C: float | None = None, random_state: int = 0) -> None:
        self.C = C
        self.random_state = random_state

    def fit(self, X: Any, tokens: Tokens) -> Self:
        """Fit to states X (n_tokens, d) and tokens.labels; tokens.words are needed to choose C."""
        X = check_tokens(X, tokens, located=True)
        self.classes_, codes = check_labels(labels_of(tokens), len(tokens))
        self._fit_both(X, tokens, self.C, self.C)
        self.cv_scores_ = None
        if self.C is None:
            scores = []
            for train, test in grouped_folds(codes, tokens.words):
                part, rows = LocateAndRead(random_state=self.random_state), tokens.rows(train)
                part._fit_both(X[rows], tokens.take(train), self.location_.C_, self.value_.C_)
                scores.append(part.score(X[tokens.rows(test)], tokens.take(test)))
            self.cv_scores_ = np.array(scores)
        self.C_ = self.value_.C_
        self.k_hat_, self.v_hat_ = self.location_.direction_, self.value_.direction_
        return self

    def _fit_both(
        self, X: FloatArray, tokens: Tokens, C_location: float | None, C_value: float | None
    ) -> None:
        location = LocationProbe(C=C_location, random_state=self.random_state)
        self.location_ = location.fit(X, tokens)
        owner = np.repeat(np.arange(len(tokens)), tokens.lengths)[tokens.informative]
        words = None if tokens.words is None else tokens.words[owner]
        value = LinearProbe(C=C_value)
        self.value_ = value.fit(X[tokens.informative], tokens.labels[owner], words)

    def located(self, X: Any, tokens: Tokens) -> IntArray:
        """The row of the token chosen in each sentence."""
        check_is_fitted(self, "location_")
        return self.location_.predict(X, tokens)

    def predict(self, X: Any, tokens: Tokens) -> npt.NDArray[Any]:
        """The label read at the token chosen in each sentence."""
        return np.asarray(self.value_.predict(np.asarray(X)[self.located(X, tokens)]))
