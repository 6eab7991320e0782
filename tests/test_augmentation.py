"""Hidden words and gaps keep the order of words, and come at the stated rates."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probing.models.augmentation import PLAIN, Augmentation, augment

UNKNOWN = 1


BOLD = Augmentation(word_dropout=0.5, insertion=1.0, max_inserted=5)


@given(
    words=st.lists(st.integers(5, 50), max_size=15),
    dropout=st.floats(0, 1),
    insertion=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_augmentation_keeps_the_order_of_words(
    words: list[int], dropout: float, insertion: float, seed: int
) -> None:
    """What is left of the words is a part of them, in order; the rest is [UNK]s."""
    changes = Augmentation(word_dropout=dropout, insertion=insertion)
    rng = np.random.default_rng(seed)
    changed = augment(words, UNKNOWN, changes, rng)
    assert len(words) <= len(changed) <= len(words) + changes.max_inserted
    remaining = iter(words)
    assert all(word in remaining for word in changed if word != UNKNOWN)


@given(words=st.lists(st.integers(5, 50), max_size=15))
def test_plain_changes_nothing(words: list[int]) -> None:
    rng = np.random.default_rng(0)
    assert augment(words, UNKNOWN, PLAIN, rng) == words
    always = [augment(words, UNKNOWN, BOLD, rng) for _ in range(20)]
    assert all(changed != words for changed in always), "the control: something else does"


def test_gaps_open_at_both_ends_too() -> None:
    """A decoder is read at its last token, which is an unknown word in some test sentences."""
    words, rng = list(range(5, 15)), np.random.default_rng(0)
    gaps_only = Augmentation(word_dropout=0, insertion=1, max_inserted=1)
    changed = [augment(words, UNKNOWN, gaps_only, rng) for _ in range(2000)]
    for end in (0, -1):
        share, expected = np.mean([ids[end] == UNKNOWN for ids in changed]), 1 / 11
        assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / len(changed))


def test_words_are_hidden_and_gaps_opened_at_the_stated_rates() -> None:
    changes, rng = Augmentation(), np.random.default_rng(0)
    n, words = 20_000, list(range(5, 15))
    found = [augment(words, UNKNOWN, changes, rng) for _ in range(n)]
    inserted = np.array([len(ids) - len(words) for ids in found])
    hidden = np.array([ids.count(UNKNOWN) for ids in found]) - inserted
    measured = {
        "hidden": (hidden.sum() / (n * len(words)), changes.word_dropout, n * len(words)),
        "opened": ((inserted > 0).mean(), changes.insertion, n),
    }
    for number in range(1, changes.max_inserted + 1):  # as many as any other number
        share = changes.insertion / changes.max_inserted
        measured[str(number)] = ((inserted == number).mean(), share, n)
    for name, (rate, expected, size) in measured.items():
        stderr = math.sqrt(expected * (1 - expected) / size)
        assert abs(rate - expected) < 4 * stderr, name


@pytest.mark.parametrize(
    "wrong",
    [{"word_dropout": -0.1}, {"word_dropout": 1.1}, {"insertion": math.nan}, {"max_inserted": -1}],
)
def test_impossible_augmentation_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Augmentation(**wrong)
