"""Which sentences of a dataset, and which of their words: what every study begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


def draw(n: int, at_most: int) -> np.ndarray:
    """Rows of a split, in order, always the same ones.

    At random: every tenth row of a templated split would hold only half of the adjectives.
    """
    return np.sort(np.random.default_rng(0).permutation(n)[:at_most])


def draw_by_word(split: Dataset, at_most: int) -> np.ndarray:
    """Rows of a split, in order, every informative word equally often: labels stay balanced."""
    words = np.array(informative_words(split))
    each = max(1, at_most // len(np.unique(words)))
    rows = [np.flatnonzero(words == word) for word in np.unique(words)]
    return np.sort(np.concatenate([which[draw(len(which), each)] for which in rows]))


def at_most(dataset: DatasetDict, n: int) -> DatasetDict:
    """Not more than n rows of each split."""
    parts = {name: split.select(draw(len(split), n)) for name, split in dataset.items()}
    return type(dataset)(parts)


def informative_words(split: Dataset) -> list[str]:
    """In small letters and without punctuation: "Good" and "good." are one word, in one fold."""
    rows = split[:]
    return [text[a:b].lower() for text, (a, b) in zip(rows["text"], rows["span"], strict=True)]


def token_roles(tokenizer: Any, split: Dataset) -> list[str]:
    """The role of the word that each token belongs to, special tokens included."""
    roles = []
    for text, words, word_roles in zip(
        split["text"][:], split["words"][:], split["roles"][:], strict=True
    ):
        starts = np.cumsum([0] + [len(word) + 1 for word in words[:-1]])
        for start, end in tokenizer(text, return_offsets_mapping=True)["offset_mapping"]:
            # Some tokenizers count the space before a word as its part.
            word = int(np.searchsorted(starts, max(start, end - 1), side="right")) - 1
            roles.append(word_roles[word] if end > start else "neutral")
    return roles
