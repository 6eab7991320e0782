"""AUROC and true-positive rates, against scikit-learn and against their definitions."""

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import roc_auc_score

from probing.ranking import Ranking, auroc, ranking, tpr_at


def tied(seed: int, n: int = 400) -> tuple[Any, Any]:
    """Scores with many ties, and labels that go with them."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < rng.uniform(0.05, 0.9)
    return np.round(rng.standard_normal(n) + 1.5 * positive, 1), positive


@pytest.mark.parametrize("seed", range(5))
def test_auroc_is_scikit_learns_ties_included(seed: int) -> None:
    scores, positive = tied(seed)
    assert auroc(scores, positive) == pytest.approx(roc_auc_score(positive, scores), rel=1e-12)
    pairs = scores[positive][:, None] - scores[~positive]
    assert auroc(scores, positive) == pytest.approx(np.mean((pairs > 0) + 0.5 * (pairs == 0)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [0.0, 0.01, 0.1, 0.29])
def test_the_true_positive_rate_is_the_best_that_any_threshold_gives(
    seed: int, rate: float
) -> None:
    scores, positive = tied(seed)
    rates = [
        np.mean(scores[positive] >= threshold)
        for threshold in [*scores, np.inf]
        if np.mean(scores[~positive] >= threshold) <= rate
    ]
    assert tpr_at(scores, positive, rate) == pytest.approx(max(rates))


def test_a_tie_with_the_negatives_counts_against_a_positive() -> None:
    assert tpr_at([1, 1, 2], [True, False, True]) == 0.5
    assert tpr_at(np.zeros(6), np.arange(6) % 2) == 0
    assert auroc(np.zeros(6), np.arange(6) % 2) == 0.5
    negatives = np.arange(100.0)  # one of a hundred may pass, not two
    assert tpr_at([*negatives, 98.5], [False] * 100 + [True]) == 1
    assert tpr_at([*negatives, 98.0], [False] * 100 + [True]) == 0


@pytest.mark.parametrize("positive", [True, False])
def test_with_one_label_alone_both_are_undefined(positive: bool) -> None:
    labels = np.full(5, positive)
    assert np.isnan([auroc(np.arange(5), labels), tpr_at(np.arange(5), labels)]).all()
    assert np.isnan(ranking(np.zeros((5, 3)), np.full(5, 2), [0, 1, 2])).all()


def test_more_labels_are_each_set_against_the_rest() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=300)
    logits = rng.standard_normal((300, 3)) + 2 * np.eye(3)[labels]
    expected = roc_auc_score(labels, softmax(logits, axis=1), multi_class="ovr")
    names = np.array(["a", "b", "c"])
    found = ranking(logits, names[labels], names)
    assert found.auroc == pytest.approx(expected, rel=1e-12)
    # A constant that is added to all logits of a sentence means nothing.
    moved = ranking(logits + 9 * rng.standard_normal((300, 1)), names[labels], names)
    assert moved == pytest.approx(found)
    # A label that does not occur is left out of the mean.
    part = labels < 2
    two = ranking(logits[part], labels[part], [0, 1, 2])
    odds = softmax(logits[part], axis=1)
    each = [roc_auc_score(labels[part] == j, odds[:, j]) for j in (0, 1)]
    assert two.auroc == pytest.approx(np.mean(each), rel=1e-12)


def test_two_labels_are_judged_by_the_logit_of_the_second() -> None:
    scores, positive = tied(0)
    names = np.where(positive, "good", "bad")
    expected = Ranking(auroc(scores, positive), tpr_at(scores, positive))
    assert ranking(scores, names, ["bad", "good"]) == expected


def test_scores_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="must be numbers"):
        auroc([np.nan, 1], [True, False])
    with pytest.raises(ValueError, match="one score per label"):
        tpr_at([1, 2, 3], [True, False])
    with pytest.raises(ValueError, match="below 1"):
        tpr_at([1, 2], [True, False], 1.0)
