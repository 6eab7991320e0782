"""How strongly to regularise: cross-validation in which no word is on both sides."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold

from probing.arrays import FloatArray, IntArray

C_GRID: tuple[float, ...] = tuple(float(C) for C in np.logspace(-4, 2, 7))
MAX_FOLDS = 5


def grouped_folds(labels: IntArray, groups: Any) -> list[tuple[IntArray, IntArray]]:
    """(train, test) indices with no group on both sides, labels balanced over the folds.

    As many folds as the rarest label has groups (six adjectives: three folds, each of which holds
    out one of each label), but at most MAX_FOLDS.
    """
    if groups is None:
        raise ValueError("give groups (the adjective of each sentence) to choose C, or give C")
    groups = np.asarray(groups)
    if groups.shape != labels.shape:
        raise ValueError(f"groups must be one per sentence, {labels.shape}, not {groups.shape}")
    owners = [len(np.unique(groups[labels == label])) for label in np.unique(labels)]
    if (n_folds := min(MAX_FOLDS, *owners)) < 2:
        raise ValueError("each label needs at least two groups to choose C; give C instead")
    folds = list(StratifiedGroupKFold(n_folds).split(labels, labels, groups))
    for train, _ in folds:
        if len(np.unique(labels[train])) < len(owners):
            raise ValueError("a fold's training part lacks a label; give C instead of groups")
    return folds


def choose_penalty(
    C: float | None,
    path: Callable[[IntArray], Any],
    score: Callable[[Any, IntArray], Any],
    labels: IntArray,
    groups: Any,
) -> tuple[float, FloatArray | None]:
    """C if it is given, else the one of C_GRID with the best mean held-out score, and all scores.

    ``path(train)`` yields a fit for each C of the grid, strongest penalty first;
    ``score(fit, test)`` judges it on a fold of ``grouped_folds``.
    """
    if C is not None:
        if not (np.isfinite(C) and C > 0):
            raise ValueError(f"C must be positive and finite, not {C}")
        return float(C), None
    folds = grouped_folds(labels, groups)
    table = [[float(score(fit, test)) for fit in path(train)] for train, test in folds]
    means = np.mean(table, axis=0)
    # The grid ascends: the first of the best has the strongest penalty. Rounding makes no winner.
    return C_GRID[int(np.argmax(means >= means.max() - 1e-9))], means
