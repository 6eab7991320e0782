"""How well scores rank: AUROC, and the true-positive rate where false positives are rare.

Both ask what a threshold could do, not where a probe has put it: a probe that ranks all sentences
rightly but is off by a constant has a low accuracy and an AUROC of 1.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import rankdata

from probing.arrays import FloatArray

FALSE_POSITIVES = 0.01  # the share of negatives that the threshold of ``tpr`` lets through


class Ranking(NamedTuple):
    """AUROC and true-positive rate of one split, as columns of a table."""

    auroc: float = np.nan
    tpr: float = np.nan


def auroc(scores: Any, positive: Any) -> float:
    """The probability that a positive scores higher than a negative; a tie counts half.

    It is nan unless there are both.

    >>> auroc([0.1, 0.4, 0.4, 0.9], [False, False, True, True])
    0.875
    """
    scores, positive = _checked(scores, positive)
    n, n_negatives = positive.sum(), (~positive).sum()
    if not n or not n_negatives:
        return float("nan")
    return float((rankdata(scores)[positive].sum() - n * (n + 1) / 2) / (n * n_negatives))


def tpr_at(scores: Any, positive: Any, false_positives: float = FALSE_POSITIVES) -> float:
    """The share of positives above the lowest threshold that so few negatives exceed.

    A positive that ties with the first negative to be kept out does not count. With fewer than
    1 / ``false_positives`` negatives no false positive at all is allowed. It is nan unless there
    are positives and negatives.

    >>> tpr_at([0.1, 0.4, 0.4, 0.9], [False, False, True, True])
    0.5
    """
    if not 0 <= false_positives < 1:
        raise ValueError(f"false_positives must be at least 0 and below 1, not {false_positives}")
    scores, positive = _checked(scores, positive)
    negatives = np.sort(scores[~positive])[::-1]
    if not positive.any() or not len(negatives):
        return float("nan")
    allowed = int(false_positives * len(negatives) + 1e-9)  # 0.29 * 100 is 28.999...
    return float(np.mean(scores[positive] > negatives[allowed]))


def ranking(logits: Any, labels: Any, classes: Any) -> Ranking:
    """Both measures for logits of ``classes``: (n,), of the second of two, or (n, n_classes).

    With more than two, each label is set against all others by its log-odds, and the mean is over
    the labels that occur.

    >>> ranking(probe.decision_function(X), y, probe.classes_).auroc
    """
    logits, labels = np.asarray(logits), np.asarray(labels)
    if logits.ndim == 1:
        positive = labels == classes[1]
        return Ranking(auroc(logits, positive), tpr_at(logits, positive))
    pairs = [
        (odds, labels == label)
        for odds, label in zip(log_odds(logits).T, classes, strict=True)
        if 0 < np.sum(labels == label) < len(labels)
    ]
    if not pairs:
        return Ranking()
    return Ranking(*(float(np.mean([rate(*pair) for pair in pairs])) for rate in (auroc, tpr_at)))


def log_odds(logits: FloatArray) -> FloatArray:
    """Each label against all others together, shape (n, n_labels): log p / (1 - p)."""
    columns = np.arange(logits.shape[1])
    rest = [logsumexp(logits[:, columns != j], axis=1) for j in columns]
    return np.asarray(logits - np.stack(rest, axis=1))


def _checked(scores: Any, positive: Any) -> tuple[FloatArray, FloatArray]:
    if not np.isin(positive, (0, 1)).all():
        raise ValueError("positive must be True or False for each score")
    scores, positive = np.asarray(scores, dtype=float), np.asarray(positive, dtype=bool)
    if scores.ndim != 1 or scores.shape != positive.shape:
        raise ValueError(f"one score per label is needed: {scores.shape} and {positive.shape}")
    if np.isnan(scores).any():
        raise ValueError("scores must be numbers")
    return scores, positive
