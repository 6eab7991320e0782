"""Probes from sums: any number of sentences, in the memory of one d x d matrix.

notation: n_c sentences of label c have the mean m_c; W is the scatter within labels, sum_i
(x_i - m_c(i)) (x_i - m_c(i))^T. These are all that the probes below and LEACE need.
"""

import copy
from typing import Any, Literal, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from probing.arrays import FloatArray, unit
from probing.probes.linear import LinearProbe
from probing.probes.logistic import check_states, one_blas_thread

Kind = Literal["mean difference", "lda", "ridge"]
SHRINKAGE = 1e-3  # share of each coordinate's variance that is added to it


class Moments:
    """Counts and means of states by label and their scatter, gathered chunk by chunk.

    Two of them, of different sentences, can be added. Sums are in double precision and around the
    means, so that nothing is lost to a mean that is large.

    >>> moments = Moments(labels=[0, 1])
    >>> for states in streamed(model, tokenizer, stream_dataset("sentiment"), layers=[3]):
    ...     moments.update(states.at(3, "informative"), states.tokens.labels)
    >>> moments.probe("lda").predict(states.at(3, "informative"))
    """

    def __init__(self, labels: Any) -> None:
        self.labels = np.unique(labels)
        if len(self.labels) < 2 or len(self.labels) < len(labels):
            raise ValueError("labels must name two or more labels, each once")
        self.counts = np.zeros(len(self.labels), dtype=int)
        self.means: Any = None  # (n_labels, d)
        self.within: Any = None  # (d, d)

    def __len__(self) -> int:
        return int(self.counts.sum())

    @one_blas_thread
    def update(self, X: Any, y: Any) -> Self:
        """Add states X (n, d) with labels y (n,)."""
        X, y = check_states(X, None if self.means is None else self.means.shape[1]), np.asarray(y)
        if y.shape != (len(X),) or not np.isin(y, self.labels).all():
            known = ", ".join(map(str, self.labels))
            raise ValueError(f"y must hold one of the labels {known} for each of {len(X)} rows")
        part = Moments(self.labels)
        part.means = np.zeros((len(self.labels), X.shape[1]))
        part.within = np.zeros((X.shape[1], X.shape[1]))
        for i, label in enumerate(self.labels):
            rows = X[y == label].astype(float)
            if len(rows):
                part.counts[i], part.means[i] = len(rows), rows.mean(0)
                rows -= part.means[i]
                part.within += rows.T @ rows
        whole = self + part
        self.counts, self.means, self.within = whole.counts, whole.means, whole.within
        return self

    def __add__(self, other: "Moments") -> "Moments":
        if not np.array_equal(self.labels, other.labels):
            raise ValueError("moments of other labels cannot be added")
        if self.means is None or other.means is None:
            return copy.deepcopy(other if self.means is None else self)
        whole = Moments(self.labels)
        whole.counts = self.counts + other.counts
        share = (other.counts / np.maximum(whole.counts, 1))[:, None]
        apart = other.means - self.means
        whole.means = self.means + share * apart
        # Each label's scatter around the common mean (Chan, Golub and LeVeque 1983).
        moved = apart * np.sqrt(self.counts[:, None] * share)
        whole.within = self.within + other.within + moved.T @ moved
        return whole

    @property
    def mean(self) -> FloatArray:
        """The mean of all states, shape (d,)."""
        self._check()
        return np.asarray(self.counts @ self.means / len(self))

    @property
    def scatter(self) -> FloatArray:
        """The scatter of all states around their mean, shape (d, d)."""
        apart = np.sqrt(self.counts)[:, None] * (self.means - self.mean)
        return np.asarray(self.within + apart.T @ apart)

    @property
    def cross(self) -> FloatArray:
        """The scatter of states with labels, one column of 0 and 1 per label: (d, n_labels)."""
        return np.asarray(((self.means - self.mean) * self.counts[:, None]).T)

    @one_blas_thread
    def probe(self, kind: Kind = "lda", *, shrinkage: float = SHRINKAGE) -> LinearProbe:
        """A fitted LinearProbe.

        "mean difference": the nearest mean; "lda": the nearest mean in the metric of the scatter
        within labels, and the labels' frequencies; "ridge": least squares on the labels.
        ``shrinkage`` adds this share of its variance to each coordinate, in "lda" and "ridge".
        """
        self._check()
        n, means = len(self), self.means
        if kind == "ridge":
            coef = solved(self.scatter / n, self.cross / n, shrinkage).T
            intercept = self.counts / n - coef @ self.mean
        else:
            metric = self.within / n
            coef = means if kind == "mean difference" else solved(metric, means.T, shrinkage).T
            intercept = -np.sum(coef * means, axis=1) / 2
            if kind == "lda":
                intercept += np.log(self.counts / n)
        probe = LinearProbe(C=None, standardize=kind != "mean difference")
        probe.classes_ = self.labels
        if len(self.labels) == 2:
            probe.coef_, probe.intercept_ = coef[1] - coef[0], float(intercept[1] - intercept[0])
        else:
            probe.coef_, probe.intercept_ = coef - coef.mean(0), intercept - intercept.mean()
        probe.direction_ = np.apply_along_axis(unit, -1, probe.coef_)
        probe.C_, probe.cv_scores_, probe.objective_, probe.n_iter_ = float("nan"), None, np.nan, 0
        return probe

    def _check(self) -> None:
        if not (self.counts > 0).all():
            raise ValueError("a label has no sentence yet; update the moments with all labels")


def solved(covariance: FloatArray, right: FloatArray, shrinkage: float) -> FloatArray:
    """``covariance^-1 right``, each coordinate's variance raised by a share of itself.

    A coordinate that does not vary gets a variance of 1: where the means agree, it has no weight.
    """
    variances = np.diag(covariance)
    dead = variances <= np.finfo(np.float32).eps ** 2 * variances.max()
    raised = covariance + np.diag(np.where(dead, 1.0, shrinkage * variances))
    return np.asarray(cho_solve(cho_factor(raised, check_finite=False), right))
