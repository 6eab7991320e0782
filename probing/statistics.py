"""Intervals for means over templated sentences, and for medians over training seeds.

Sentences with the same informative word are right or wrong together: thousands of sentences with
six words are about six independent observations. So words are sampled here, from infinitely many
that might have been chosen; patterns are fixed, and nothing is drawn at random.

notation: p, the mean of n sentences;  n_w, the sentences of word w, one of W;
K = n^2 / sum_w n_w^2, Kish's number of words (W if all have as many sentences)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import betaincinv, stdtrit
from scipy.stats import binom

from probing.arrays import FloatArray, IntArray

FEW_WORDS = 20  # with fewer the variance between words is not estimated
ROUNDING = 1e-6  # attention in float32 may sum to a little more than 1


@dataclass(frozen=True)
class Interval:
    """A mean over sentences, the ends of its confidence interval, and the words behind it."""

    value: float
    low: float
    high: float
    n_words: int

    def __contains__(self, x: float) -> bool:
        return self.low <= x <= self.high


def word_interval(values: Any, words: Any, *, weights: Any = None, level: float = 0.95) -> Interval:
    """Mean of outcomes in [0, 1], with a confidence interval over informative words.

    The interval is that of Korn and Graubard (1998) for proportions in clustered surveys: Clopper
    and Pearson's, with p n_eff successes among n_eff trials, where n_eff is the number of
    independent sentences whose mean would vary as much as p does.

    - With fewer than 20 words (K < 20: a word with nearly all sentences makes the others count for
      little) n_eff = K. This is the exact interval of Clopper and Pearson on words if each is all
      right or all wrong, and wider than needed if words are right in part.
    - With more words n_eff = p (1 - p) / s2, times the squared ratio of the t quantiles with n - 1
      and W - 1 degrees of freedom; s2 = W / (W - 1) sum_w (sum of w's values - p n_w)^2 / n^2.
    - It is then at most n, and at most K max(1, E / 2), where E = K min(p, 1 - p) is the rarer
      outcome in words: a few words that fail widen the interval only if they are in the sample,
      and with E near 1 they may well not be. (Without this limit an interval over 40 words may
      cover a mean of 0.97 in fewer than 90% of samples: tests/test_statistics.py.)

    Parameters
    ----------
    values
        One outcome per sentence: right or wrong, attention mass, a mean over layers; or the mean
        outcome of several sentences with the same word.
    words
        The informative word of each.
    weights
        The number of sentences behind each value; 1 by default.
    level
        Confidence level.

    >>> correct, words = [1, 1, 1, 1, 1, 1], ["good", "bad", "nice", "mean", "clean", "dirty"]
    >>> round(word_interval(correct, words).low, 2)
    0.54
    """
    outcomes, codes, sentences = _checked(values, words, weights)
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    counts = np.bincount(codes, sentences)  # (W,), as the next
    sums = np.bincount(codes, sentences * outcomes)
    mean = min(float(sums.sum() / counts.sum()), 1.0)
    n_eff = _effective_number(counts, sums, mean, level)
    right, wrong, tail = mean * n_eff, (1 - mean) * n_eff, (1 - level) / 2
    low = float(betaincinv(right, wrong + 1, tail)) if right > 0 else 0.0
    high = float(betaincinv(right + 1, wrong, 1 - tail)) if wrong > 0 else 1.0
    return Interval(mean, low, high, len(counts))


def accuracy_columns(correct: Any, words: Any, *, weights: Any = None) -> dict[str, float]:
    """Accuracy, the ends of its 95% interval and the number of words, as columns of a table."""
    interval = word_interval(correct, words, weights=weights)
    ends = {"low": interval.low, "high": interval.high}
    return {"accuracy": interval.value, **ends, "words": interval.n_words}


def _effective_number(counts: FloatArray, sums: FloatArray, mean: float, level: float) -> float:
    n, n_words = float(counts.sum()), len(counts)
    kish = n**2 / float((counts**2).sum())
    if kish < FEW_WORDS:
        return kish
    rarer = kish * min(mean, 1 - mean)
    most = min(n, kish * max(1.0, rarer / 2))
    squares = float(((sums - mean * counts) ** 2).sum())
    if squares == 0:
        return most
    variance = n_words / (n_words - 1) * squares / n**2
    few, many = (stdtrit(df, (1 + level) / 2) for df in (n_words - 1, n - 1))
    return min(most, mean * (1 - mean) / variance * float(many / few) ** 2)


def _checked(values: Any, words: Any, weights: Any) -> tuple[FloatArray, IntArray, FloatArray]:
    """The outcomes, the number of each one's word, and its sentences."""
    outcomes = np.asarray(values, dtype=float)
    if outcomes.ndim != 1 or len(outcomes) == 0:
        raise ValueError(f"values must be one number per sentence, not of shape {outcomes.shape}")
    if not ((outcomes >= -ROUNDING) & (outcomes <= 1 + ROUNDING)).all():
        raise ValueError("values must be finite numbers between 0 and 1")
    labels = np.asarray(words)
    if labels.shape != outcomes.shape:
        shape = labels.shape
        raise ValueError(
            f"words must hold one word for each of {len(outcomes)} values, not {shape=}"
        )
    sentences = np.ones(len(outcomes)) if weights is None else np.asarray(weights, dtype=float)
    if sentences.shape != outcomes.shape or not (np.isfinite(sentences) & (sentences >= 1)).all():
        raise ValueError("weights must be numbers of sentences, at least 1 for each value")
    return outcomes.clip(0, 1), np.unique(labels, return_inverse=True)[1], sentences


# ---- medians over training seeds


class Median(NamedTuple):
    """A median over seeds and the ends of its interval."""

    median: float
    low: float
    high: float


def median_interval(values: Any, *, level: float = 0.95) -> Median:
    """Median of one number per seed, with a confidence interval that supposes nothing of them.

    The ends are order statistics: the number of n seeds below the median of all seeds that might
    have been drawn is binomial (n, 1/2), so that the k-th smallest and the k-th largest of the
    values hold it between them with probability at least ``level``, for the largest k of which this
    is true. Of 20 values these are the 6th and the 15th (0.959), of 6 the smallest and the largest.
    Fewer than 6 values have no such interval of 95%: its ends are then not numbers.
    The median of 20 other seeds (of another machine, say) varies too: it lies outside the interval
    in one case of seven; the two intervals miss one another in fewer than one of a hundred.

    >>> median_interval([3, 1, 2, 5, 4, 6])
    Median(median=3.5, low=1.0, high=6.0)
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    if ordered.ndim != 1 or len(ordered) == 0 or np.isnan(ordered).any():
        raise ValueError("values must be one number per seed, at least one, and no nan")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    k = int(binom.ppf((1 - level) / 2, len(ordered), 0.5))
    low, high = (ordered[k - 1], ordered[-k]) if k else (np.nan, np.nan)
    return Median(float(np.median(ordered)), float(low), float(high))


def medians(table: pd.DataFrame, by: Sequence[str], quantities: Sequence[str]) -> pd.DataFrame:
    """Median and interval over seeds: one row per group and quantity that the group has.

    ``table`` has one row per group and seed; the columns are those of ``by``, quantity, median,
    low, high and n, the number of seeds.
    """
    rows = []
    for keys, group in table.groupby(list(by), sort=False):
        for quantity in quantities:
            values = group[quantity].dropna()
            if len(values):
                row = dict(zip(by, keys, strict=True)) | {"quantity": quantity}
                rows.append(row | median_interval(values)._asdict() | {"n": len(values)})
    return pd.DataFrame(rows)
