"""Hidden words and gaps keep the order of words, and come at the stated rates; sentences move."""

import math
from collections import Counter
from itertools import chain, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probing.models.augmentation import PLAIN, Augmentation, augment, sentences_of

UNKNOWN = 1
STOP = 4
MOVED = Augmentation(word_dropout=0.0, insertion=0.0, shuffling=1.0)


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


@given(
    words=st.lists(st.integers(STOP, 7), max_size=7),
    seed=st.integers(0, 2**32 - 1),
)
def test_shuffling_moves_whole_sentences_and_changes_nothing_else(
    words: list[int], seed: int
) -> None:
    sentences = sentences_of(words, STOP)
    assert [word for sentence in sentences for word in sentence] == words
    for sentence in sentences:
        assert STOP not in sentence[:-1], "a full stop ends its sentence"
    for sentence in sentences[:-1]:
        assert sentence[-1] == STOP
    orders = [list(chain(*order)) for order in permutations(sentences)]
    assert augment(words, UNKNOWN, MOVED, np.random.default_rng(seed), stop=STOP) in orders


def test_all_orders_of_the_sentences_occur_equally_often() -> None:
    """The last sentence has no full stop, as in the dataset."""
    words = [10, 11, STOP, 12, STOP, 13, 14]
    rng, n = np.random.default_rng(0), 6000
    counts = Counter(tuple(augment(words, UNKNOWN, MOVED, rng, stop=STOP)) for _ in range(n))
    orders = permutations([(10, 11, STOP), (12, STOP), (13, 14)])
    assert set(counts) == {a + b + c for a, b, c in orders}
    stderr = math.sqrt(n / 6 * 5 / 6)
    assert all(abs(count - n / 6) < 4 * stderr for count in counts.values())


def test_sentences_are_shuffled_at_the_stated_rate() -> None:
    words, rng, n = [10, STOP, 11, STOP], np.random.default_rng(0), 4000
    half = Augmentation(word_dropout=0.0, insertion=0.0, shuffling=0.5)
    moved = np.mean([augment(words, UNKNOWN, half, rng, stop=STOP) != words for _ in range(n)])
    assert abs(moved - 0.25) < 4 * math.sqrt(0.25 * 0.75 / n), "half of the orders are the old one"


@given(words=st.lists(st.integers(5, 50), max_size=15), seed=st.integers(0, 2**32 - 1))
def test_without_a_full_stop_nothing_moves(words: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert augment(words, UNKNOWN, MOVED, rng, stop=STOP) == words
    assert augment([*words, STOP, *words], UNKNOWN, MOVED, rng) == [*words, STOP, *words]
    assert augment([*words, STOP], UNKNOWN, MOVED, rng, stop=STOP) == [*words, STOP]


def test_without_shuffling_the_random_numbers_are_those_of_before() -> None:
    """A full stop alone changes nothing: results of other trainings stay as they were."""
    words = [10, STOP, 11, STOP, 12]
    first, second = (
        [augment(words, UNKNOWN, BOLD, rng, stop=stop) for _ in range(50)]
        for rng, stop in ((np.random.default_rng(0), None), (np.random.default_rng(0), STOP))
    )
    assert first == second


@pytest.mark.parametrize(
    "wrong",
    [
        {"word_dropout": -0.1},
        {"word_dropout": 1.1},
        {"insertion": math.nan},
        {"shuffling": 1.5},
        {"max_inserted": -1},
    ],
)
def test_impossible_augmentation_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Augmentation(**wrong)
