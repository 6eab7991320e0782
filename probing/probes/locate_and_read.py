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
    C
        Of both probes; None lets each choose its own by cross-validation over ``tokens.words`` and
        ``tokens.patterns``.
    random_state
        Seed of the location probe.

    Attributes
    ----------
    classes_ : array of shape (n_labels,)
        The labels, two or more, sorted.
    location_ : LocationProbe
        The probe that says where to look.
    value_ : LinearProbe
        The probe that says what to read.
    k_hat_ : array of shape (d,)
        Direction of the location probe.
    v_hat_ : array of shape (d,) for two labels, else (n_labels, d)
        Direction of the value probe.
    C_ : float
        C of the value probe.
    cv_scores_ : array or None
        Accuracy of both together on held-out words in held-out structures, one per fold; None if C
        was given.

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
            for train, test in grouped_folds(codes, tokens.words, tokens.patterns):
                part, rows = LocateAndRead(random_state=self.random_state), tokens.rows(train)
                part.classes_ = self.classes_
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
        words, structures = (
            None if each is None else each[owner] for each in (tokens.words, tokens.patterns)
        )
        value, X = LinearProbe(C=C_value), X[tokens.informative]
        self.value_ = value.fit(X, tokens.labels[owner], words, structures=structures)

    def located(self, X: Any, tokens: Tokens) -> IntArray:
        """The row of the token chosen in each sentence."""
        check_is_fitted(self, "location_")
        return self.location_.predict(X, tokens)

    def decision_function(self, X: Any, tokens: Tokens) -> FloatArray:
        """The logits of the value probe at the token chosen in each sentence.

        Shape (n,) for two labels, else (n, n_labels), as for LinearProbe.
        """
        return self.value_.decision_function(np.asarray(X)[self.located(X, tokens)])

    def predict(self, X: Any, tokens: Tokens) -> npt.NDArray[Any]:
        """The label read at the token chosen in each sentence."""
        return np.asarray(self.value_.predict(np.asarray(X)[self.located(X, tokens)]))
