"""Intervals for means over templated sentences.

Sentences with the same adjective, or the same pattern, are right or wrong together: a bootstrap of
single sentences counts thousands of independent observations where there are six. Here whole
clusters are resampled.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probing.arrays import IntArray


@dataclass(frozen=True)
class Interval:
    """A value and the ends of its confidence interval."""

    value: float
    low: float
    high: float

    def __contains__(self, x: float) -> bool:
        return self.low <= x <= self.high


def cluster_bootstrap(
    values: Any,
    clusters: Any,
    *,
    n_resamples: int = 2000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> Interval:
    """Mean of values with a percentile interval from resampling whole clusters.

    ``values`` has one number (or True/False) per sentence, ``clusters`` one label per sentence, for
    example its informative word; or two such arrays, ``(words, patterns)``. Two arrays give Owen's
    (2007) pigeonhole bootstrap: words and patterns are resampled independently, and a sentence
    counts as often as its word was drawn times as often as its pattern was. Word-pattern pairs as
    clusters would give too narrow intervals: two pairs that share a word are not independent.

    With few clusters (the OOD splits have four words) any such interval is rough, and usually too
    narrow; if all clusters agree, its width is 0.

    >>> correct, words = [1, 0, 1, 1], ["good", "good", "bad", "nice"]
    >>> cluster_bootstrap(correct, words, rng=np.random.default_rng(0)).value
    0.75
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"values must be one number per sentence, not of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("values must be finite")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1, not {n_resamples}")
    codes = _codes(clusters, len(values))
    sizes = [int(code.max()) + 1 for code in codes]
    if max(sizes) < 2:
        raise ValueError("at least two clusters are needed to see how much they differ")
    if len(codes) == 1:  # a second key with one label changes nothing
        codes.append(np.zeros_like(codes[0]))
        sizes.append(1)
    # A mean needs only the sum and the count of each cell, however many sentences it holds.
    cells = codes[0] * sizes[1] + codes[1]
    n_cells = sizes[0] * sizes[1]
    sums = np.bincount(cells, values, n_cells).reshape(sizes)
    counts = np.bincount(cells, minlength=n_cells).reshape(sizes).astype(float)
    rows, columns = (  # how often each label is drawn, (n_resamples, size)
        rng.multinomial(size, np.full(size, 1 / size), n_resamples).astype(float) for size in sizes
    )
    totals = ((rows @ counts) * columns).sum(axis=1)
    drawn = totals > 0  # with sparsely crossed keys a sample may be empty: it has no mean
    if not drawn.any():
        raise ValueError("no bootstrap sample holds a sentence: the keys hardly cross")
    means = ((rows @ sums) * columns).sum(axis=1)[drawn] / totals[drawn]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def accuracy_columns(
    correct: Any, clusters: Any, *, seed: int = 0, n_resamples: int = 2000
) -> dict[str, float]:
    """Accuracy and the ends of its 95% interval, as columns of a table."""
    rng = np.random.default_rng(seed)
    interval = cluster_bootstrap(correct, clusters, n_resamples=n_resamples, rng=rng)
    return {"accuracy": interval.value, "low": interval.low, "high": interval.high}


def _codes(clusters: Any, n: int) -> list[IntArray]:
    """The one or two arrays of labels, as integers from 0."""
    is_one = len(clusters) == 0 or np.ndim(clusters[0]) == 0
    keys = [np.asarray(labels) for labels in ([clusters] if is_one else clusters)]
    if len(keys) > 2:
        raise ValueError(f"clusters must be one or two arrays of labels, not {len(keys)}")
    for labels in keys:
        if labels.shape != (n,):
            shape = labels.shape
            raise ValueError(f"clusters must hold one label for each of {n} values, not {shape=}")
    return [np.unique(labels, return_inverse=True)[1] for labels in keys]
