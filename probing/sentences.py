"""Choice of sentences from a dataset, and their informative words."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


def draw(n: int, max_sentences: int) -> np.ndarray:
    """At most ``max_sentences`` row numbers below n, in order, the same ones in every call.

    They are drawn at random: every tenth row of a templated split has only half of the adjectives.
    """
    if max_sentences < 0:
        raise ValueError(f"the largest number of sentences is {max_sentences}, below 0")
    return np.sort(np.random.default_rng(0).permutation(n)[:max_sentences])


def draw_by_word(split: "Dataset", max_sentences: int) -> np.ndarray:
    """Row numbers of a split, in order, equally many per informative word: labels stay balanced.

    >>> dataset["train"].select(draw_by_word(dataset["train"], 480))
    """
    if max_sentences < 1:
        raise ValueError(f"the largest number of sentences is {max_sentences}; it must be positive")
    words = np.array(informative_words(split))
    per_word = max(1, max_sentences // len(np.unique(words)))
    by_word = [np.flatnonzero(words == word) for word in np.unique(words)]
    return np.sort(np.concatenate([rows[draw(len(rows), per_word)] for rows in by_word]))


def at_most(dataset: "DatasetDict", max_sentences: int) -> "DatasetDict":
    """The dataset with at most ``max_sentences`` sentences per split.

    >>> at_most(build_dataset(), 100)
    """
    parts = {name: split.select(draw(len(split), max_sentences)) for name, split in dataset.items()}
    return type(dataset)(parts)


def with_suffix(rows: Any, suffix: str) -> dict[str, Any]:
    """The columns of a split, with the same neutral words behind every sentence.

    They prompt a language model to speak about what it has read.

    >>> with_suffix(dataset["test"], "In short, the animal is")["text"][0]
    """
    columns, added = dict(columns_of(rows)), suffix.split()
    columns["text"] = [" ".join([text, *added]) for text in columns["text"]]
    for name, more in (("words", added), ("roles", ["neutral"] * len(added))):
        if name in columns:
            columns[name] = [[*each, *more] for each in columns[name]]
    return columns


def columns_of(rows: Any) -> Mapping[str, Any]:
    """The columns of a split, decoded once; a mapping of columns is returned as it is.

    Columns of pandas become lists, which are counted from 0 whatever their index.
    """
    if isinstance(rows, Mapping) or hasattr(rows, "iloc"):
        columns = {name: rows[name] for name in rows}
        columns = {k: x.tolist() if hasattr(x, "iloc") else x for k, x in columns.items()}
    elif not isinstance(columns := rows[:], Mapping):
        raise ValueError('rows are a split of a dataset, or columns: {"text": [...], ...}')
    if isinstance(columns.get("text"), str):
        raise ValueError('the column "text" is a list of texts, not one text')
    sizes = {name: len(column) for name, column in columns.items()}
    if len({*sizes.values()}) > 1:
        raise ValueError(f"columns of different lengths: {sizes}")
    return columns


def bare(word: str) -> str:
    """A word without the punctuation behind it; a word that is only punctuation stays as it is.

    >>> bare("nice."), bare("nice"), bare(":(")
    ('nice', 'nice', ':(')
    """
    return re.sub(r"[^\w\s]+\Z", "", word) or word


def informative_words(rows: Any) -> list[str]:
    """The informative word of each sentence, in lower case, as its span cuts it from the text.

    So "Good" and the "good" of "good." are one word, in one fold.
    """
    rows = columns_of(rows)
    return [text[a:b].lower() for text, (a, b) in zip(rows["text"], rows["span"], strict=True)]


def begins_with_word(rows: Any) -> np.ndarray:
    """Whether each sentence begins with its informative word."""
    rows = columns_of(rows)
    return np.array(
        [not text[:a].strip() for text, (a, _) in zip(rows["text"], rows["span"], strict=True)]
    )
