"""Which sentences of a dataset, and which of their words: what every study begins with."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


def draw(n: int, max_sentences: int) -> np.ndarray:
    """Rows of a split, in order, always the same ones.

    Drawn at random: every tenth row of a templated split would hold only half of the adjectives.
    """
    return np.sort(np.random.default_rng(0).permutation(n)[:max_sentences])


def draw_by_word(split: "Dataset", max_sentences: int) -> np.ndarray:
    """Rows of a split, in order, every informative word equally often: labels stay balanced.

    >>> dataset["train"].select(draw_by_word(dataset["train"], 480))
    """
    words = np.array(informative_words(split))
    each = max(1, max_sentences // len(np.unique(words)))
    rows = [np.flatnonzero(words == word) for word in np.unique(words)]
    return np.sort(np.concatenate([which[draw(len(which), each)] for which in rows]))


def at_most(dataset: "DatasetDict", max_sentences: int) -> "DatasetDict":
    """Not more than so many sentences of each split.

    >>> at_most(build_dataset(), 100)
    """
    parts = {name: split.select(draw(len(split), max_sentences)) for name, split in dataset.items()}
    return type(dataset)(parts)


def columns_of(rows: Any) -> Mapping[str, Any]:
    """The columns of a split, decoded once; a mapping of columns as it is."""
    return rows if isinstance(rows, Mapping) else rows[:]


def informative_words(rows: Any) -> list[str]:
    """The informative word of each sentence of a split, in small letters and as its span has it.

    So "Good" and the "good" of "good." are one word, in one fold.
    """
    rows = columns_of(rows)
    return [text[a:b].lower() for text, (a, b) in zip(rows["text"], rows["span"], strict=True)]
