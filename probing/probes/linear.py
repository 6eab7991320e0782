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
    Fitted,
    check_labels,
    check_search,
    check_states,
    label_of,
    logistic_path,
    logit_of,
    one_blas_thread,
)
from probing.probes.penalty import C_GRID, SEARCH_TOL, choose_penalty


class Linear(BaseEstimator):  # type: ignore[misc]
    """A probe whose logits are linear in a state: ``coef_`` and ``intercept_``."""

    def decision_function(self, X: Any) -> FloatArray:
        """The logit of the second label, or of being informative, for states (n, d): shape (n,).

        With more than two labels a logit for each of them: (n, n_labels).
        """
        check_is_fitted(self, "coef_")
        X = check_states(X, self.coef_.shape[-1])
        return logit_of(X, Fitted(self.coef_, self.intercept_))


class LinearProbe(ClassifierMixin, Linear):  # type: ignore[misc]
    """Logistic regression of a label, one of two or more, on one state per sentence.

    On [CLS] this is the paper's probe, on the informative token its direction is v_hat. With more
    than two labels the logits are those of a softmax.

    Parameters
    ----------
    C
        Inverse strength of the penalty; None chooses it from C_GRID by cross-validation over
        ``groups`` (adjectives) and ``structures``, a tie going to the stronger penalty.
    standardize
        Penalise in units of each coordinate's standard deviation, so that C means the same in all
        layers.
    tol
        L-BFGS stops where no derivative of the objective (in standardised coordinates) exceeds
        this share of the objective.
    max_iter
        Largest number of L-BFGS iterations. A fit that needs more is kept as it is then, and
        scikit-learn's ConvergenceWarning says so.

    Attributes
    ----------
    classes_ : array of shape (n_labels,)
        The labels, sorted.
    coef_ : array of shape (d,) for two labels, else (n_labels, d)
        Weights of the logits, in the space of the states as given; of several rows the sum is 0.
    intercept_ : float for two labels, else array of shape (n_labels,)
        Constants of the logits.
    direction_ : array of the shape of coef_
        ``coef_`` (each row of it) at unit length (v_hat); zero if the states do not vary at all.
    C_ : float
        The C that was given or chosen.
    cv_scores_ : array or None
        Mean held-out accuracy for each of C_GRID (nan where the search had ended); None if C was
        given.
    objective_ : float
        The penalised sum of losses that was reached.
    n_iter_ : int
        Iterations of the last fit.

    >>> states = extract(model, tokenizer, dataset["train"])
    >>> LinearProbe().fit(states.at(3, "summary"), states.tokens.labels, groups=states.tokens.words)
    """

    def __init__(
        self,
        *,
        C: float | None = None,
        standardize: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
    ) -> None:
        self.C = C
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter

    @one_blas_thread
    def fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        *,
        structures: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit to states X (n, d) and labels y (n,).

        To choose C, groups (n,) are needed, and structures (n,) are held out with them.
        """
        check_search(self.tol, self.max_iter)
        X = check_states(X)
        self.classes_, codes = check_labels(y, len(X))
        weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
        if weight.shape != (len(X),) or not (np.isfinite(weight) & (weight >= 0)).all():
            raise ValueError("sample_weight must be a finite weight of at least 0 for each row")
        if not weight.any():
            raise ValueError("sample_weight must not be 0 for all rows")
        options = {name: getattr(self, name) for name in ("standardize", "max_iter")}

        def path(rows: Any, grid: Sequence[float] = C_GRID, tol: float = SEARCH_TOL) -> Any:
            return logistic_path(X[rows], codes[rows], weight[rows], grid, tol=tol, **options)

        def accuracy(fitted: Fitted, part: Any) -> Any:
            return np.mean(label_of(logit_of(X[part], fitted)) == codes[part])

        self.C_, self.cv_scores_ = choose_penalty(self.C, path, accuracy, codes, groups, structures)
        (solution,) = path(slice(None), (self.C_,), self.tol)
        self.coef_, self.intercept_, self.objective_, self.n_iter_ = solution
        self.direction_ = np.apply_along_axis(unit, -1, self.coef_)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The label of the highest logit; of two labels the second where its logit is positive."""
        return np.asarray(self.classes_[label_of(self.decision_function(X))])


def shuffled_labels(y: Any, groups: Any, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Labels for the control: what a probe finds when there is nothing to find.

    ``groups=None`` permutes rows: a probe should be at chance even on the sentences it was fitted
    to (but for overfitting). With groups (adjectives, each of one label) labels are permuted over
    them: a probe can memorise the words, and must be at chance only on *other* ones. The labels
    themselves under other names (for two labels: their opposites), likely draws among few groups,
    are left out.

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
        if len(set(zip(own.tolist(), drawn.tolist(), strict=True))) > len(np.unique(own)):
            break  # else, with one group per label, there is nothing but other names
    return np.asarray(drawn[codes])
