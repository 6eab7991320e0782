"""How strongly to regularise: cross-validation with no word, and no structure, on both sides.

A probe is meant for new words in new structures, so C (and with it the layer) is chosen on held-out
words in held-out structures, where the training split has enough of them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold

from probing.arrays import FloatArray, IntArray

C_GRID: tuple[float, ...] = tuple(float(C) for C in np.logspace(-4, 2, 7))
MAX_FOLDS = 5
MIN_STRUCTURES = 4  # with fewer, too few would be left to train on
SEARCH_TOL = 1e-2  # of fits that only choose C: tighter ones change the third decimal of a score
PATIENCE = 2  # weaker penalties that do not help, in a row, before the search ends: they cost most
Folds = list[tuple[IntArray, IntArray]]


def grouped_folds(labels: IntArray, groups: Any, structures: Any = None) -> Folds:
    """(train, test) indices with no group on both sides, labels balanced over the folds.

    As many folds as the rarest label has groups (six adjectives: three folds, each of which holds
    out one of each label), but at most MAX_FOLDS. With at least MIN_STRUCTURES ``structures``
    (patterns), crossed with groups and labels, each fold also holds out some of these: its test
    part has held-out groups in held-out structures, its training part neither.
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
    if any(len(np.unique(labels[train])) < len(owners) for train, _ in folds):
        raise ValueError("a fold's training part lacks a label; give C instead of groups")
    return folds if structures is None else _crossed(folds, labels, np.asarray(structures))


def _crossed(folds: Folds, labels: IntArray, structures: Any) -> Folds:
    """The folds with structures held out as well, unless these are few or not crossed."""
    if structures.shape != labels.shape:
        expected = f"{labels.shape}, not {structures.shape}"
        raise ValueError(f"structures must be one per sentence, {expected}")
    names, codes = np.unique(structures, return_inverse=True)
    if len(names) < max(MIN_STRUCTURES, len(folds)):
        return folds
    fold_of = codes % len(folds)  # in turn, by name: structures of a kind go to different folds
    crossed = [
        (train[fold_of[train] != i], test[fold_of[test] == i])
        for i, (train, test) in enumerate(folds)
    ]
    same_labels = [
        np.array_equal(np.unique(labels[new]), np.unique(labels[old]))
        for pair, before in zip(crossed, folds, strict=True)
        for new, old in zip(pair, before, strict=True)
    ]
    return crossed if all(same_labels) else folds


def choose_penalty(
    C: float | None,
    path: Callable[[IntArray], Any],
    score: Callable[[Any, IntArray], Any],
    labels: IntArray,
    groups: Any,
    structures: Any = None,
) -> tuple[float, FloatArray | None]:
    """C if it is given, else the one of C_GRID with the best mean held-out score, and all scores.

    ``path(train)`` yields a fit for each C of the grid, strongest penalty first;
    ``score(fit, test)`` judges it on a fold of ``grouped_folds``. The search ends before the grid
    does if PATIENCE penalties in a row bring no better score: scores are nan from there on. A
    flat start does not count: under so strong a penalty all predictions are the largest label.
    """
    if C is not None:
        if not (np.isfinite(C) and C > 0):
            raise ValueError(f"C must be positive and finite, not {C}")
        return float(C), None
    folds = grouped_folds(labels, groups, structures)
    means, best, since = np.full(len(C_GRID), np.nan), 0, 0
    # The grid ascends: the first of the best has the strongest penalty. Rounding makes no winner.
    for i, fits in enumerate(zip(*(path(train) for train, _ in folds), strict=True)):
        pairs = zip(fits, folds, strict=True)
        means[i] = np.mean([float(score(fit, test)) for fit, (_, test) in pairs])
        if means[i] > means[best] + 1e-9:
            best = since = i
        elif np.ptp(means[: i + 1]) <= 1e-9 and means[i] < 1 - 1e-9:
            since = i
        if i - since >= PATIENCE:
            break
    return C_GRID[best], means
