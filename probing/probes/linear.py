"""The linear probe: what a straight line can read from the states of a model.

notation: v_hat, the direction that reads the label
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from probing.arrays import FloatArray, unit
from probing.probes.logistic import (
    check_labels,
    check_states,
    logistic_path,
    logit_of,
    one_blas_thread,
)
from probing.probes.penalty import C_GRID, choose_penalty


class Linear(BaseEstimator):  # type: ignore[misc]
    """A probe whose logit is linear in a state: ``coef_`` and ``intercept_``."""

    def decision_function(self, X: Any) -> FloatArray:
        """The logit of the second class, or of being informative, for states (n, d)."""
        check_is_fitted(self, "coef_")
        return logit_of(check_states(X, len(self.coef_)), (self.coef_, self.intercept_))


class LinearProbe(ClassifierMixin, Linear):  # type: ignore[misc]
    """Logistic regression of a binary label on one state per sentence.

    On [CLS] this is the paper's probe, on the informative token its direction is v_hat.

    Parameters
    ----------
    C : inverse strength of the penalty; None chooses it from C_GRID by cross-validation grouped
        by ``groups`` (adjectives), a tie going to the stronger penalty.
    standardize : penalise in units of each coordinate's standard deviation, so that C means
        the same in all layers.
    tol, max_iter : of Newton's method, tol relative to the objective.

    Attributes
    ----------
    coef_, intercept_ : of the logit, in the space of the states as given
    direction_ : coef_ at unit length (v_hat); zero if the states do not vary at all
    C_, cv_scores_ : the chosen C; mean held-out accuracy for each of C_GRID (None if C was given)
    objective_ : minimum of the penalised sum of losses;  classes_ : the two labels;  n_iter_

    >>> states = extract(model, tokenizer, dataset["train"])
    >>> LinearProbe().fit(states.at(3, "summary"), states.tokens.labels, groups=states.tokens.words)
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

    @one_blas_thread
    def fit(self, X: Any, y: Any, groups: Any = None, *, sample_weight: Any = None) -> Self:
        """Fit to states X (n, d) and labels y (n,); groups (n,) are needed to choose C."""
        X = check_states(X)
        self.classes_, positive = check_labels(y, len(X))
        weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
        if weight.shape != (len(X),) or not (np.isfinite(weight) & (weight >= 0)).all():
            raise ValueError("sample_weight must be a finite weight of at least 0 for each row")
        options = {name: getattr(self, name) for name in ("standardize", "tol", "max_iter")}

        def path(rows: Any, grid: Sequence[float] = C_GRID) -> Any:
            return logistic_path(X[rows], positive[rows], weight[rows], grid, **options)

        def accuracy(fitted: Any, part: Any) -> Any:
            return np.mean((logit_of(X[part], fitted) > 0) == positive[part])

        self.C_, self.cv_scores_ = choose_penalty(self.C, path, accuracy, positive, groups)
        (solution,) = path(slice(None), (self.C_,))
        self.coef_, self.intercept_, self.objective_, self.n_iter_ = solution
        self.direction_ = unit(self.coef_)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])


def shuffled_labels(y: Any, groups: Any, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Labels for the control: what a probe finds when there is nothing to find.

    ``groups=None`` permutes rows: a probe should be at chance even on the sentences it was fitted
    to (but for overfitting). With groups (adjectives, each of one label) labels are permuted over
    them: a probe can memorise the words, and must be at chance only on *other* ones. The labels
    themselves and their opposites, likely draws among few groups, are left out.

    >>> shuffled_labels([0, 0, 1, 1], ["bad", "bad", "good", "good"], np.random.default_rng(0))
    """
    y = np.asarray(y)
    if groups is None:
        return rng.permutation(y)
    groups = np.asarray(groups)
    if groups.shape != y.shape:
        raise ValueError(f"groups must have the shape of y, {y.shape}, not {groups.shape}")
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    own = y[first]
    if (own[codes] != y).any():
        raise ValueError("a group holds both labels: they cannot be permuted over groups")
    for _ in range(1000):
        drawn = rng.permutation(own)
        if 0 < np.mean(drawn == own) < 1:
            break  # else, with two groups, there is nothing but the two
    return np.asarray(drawn[codes])
