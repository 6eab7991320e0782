"""Which sentences of a dataset, and which of their words: what every study begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from probing.arrays import BoolArray, FloatArray

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    from probing.states.tokens import States


def draw(n: int, max_sentences: int) -> np.ndarray:
    """Rows of a split, in order, always the same ones.

    Drawn at random: every tenth row of a templated split would hold only half of the adjectives.
    """
    return np.sort(np.random.default_rng(0).permutation(n)[:max_sentences])


def draw_by_word(split: Dataset, max_sentences: int) -> np.ndarray:
    """Rows of a split, in order, every informative word equally often: labels stay balanced.

    >>> dataset["train"].select(draw_by_word(dataset["train"], 480))
    """
    words = np.array(informative_words(split))
    each = max(1, max_sentences // len(np.unique(words)))
    rows = [np.flatnonzero(words == word) for word in np.unique(words)]
    return np.sort(np.concatenate([which[draw(len(which), each)] for which in rows]))


def at_most(dataset: DatasetDict, max_sentences: int) -> DatasetDict:
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


@dataclass(frozen=True, eq=False)
class SentenceView:
    """One sentence token by token, for people: what Figure 1 and the report's token view show."""

    words: list[str]  # of each token; "" at special tokens
    roles: list[str]  # informative, distractor, neutral or special
    attention: FloatArray  # (n_tokens, n_layers, n_heads)

    def words_only(self) -> SentenceView:
        """The view without special tokens."""
        kept = np.array([role != "special" for role in self.roles])
        words, roles = (np.array(x)[kept].tolist() for x in (self.words, self.roles))
        return SentenceView(words, roles, self.attention[kept])


def sentence_views(states: States, rows: Any) -> list[SentenceView]:
    """A view of each sentence. Required: attention, and a tokenizer with one token per word.

    >>> rows = dataset["test"].select(range(5))
    >>> sentence_views(cls_attention(model, tokenizer, rows), rows)[0].words_only()
    """
    rows, tokens, views = columns_of(rows), states.tokens, []
    if states.attention is None:
        raise ValueError("a view needs states with attention; extract them with attention=True")
    for i, (words, roles) in enumerate(zip(rows["words"], rows["roles"], strict=True)):
        here = tokens.sentence(i)
        special = tokens.special[here]
        if (~special).sum() != len(words):
            raise ValueError(f"a view needs one token per word, which {rows['text'][i]!r} has not")
        views.append(
            SentenceView(
                words=_spread(words, special, ""),
                roles=_spread(roles, special, "special"),
                attention=np.asarray(states.attention[here]),
            )
        )
    return views


def _spread(values: Sequence[str], special: BoolArray, otherwise: str) -> list[str]:
    """Values of the words at their tokens, ``otherwise`` at special tokens."""
    rest = iter(values)
    return [otherwise if is_special else next(rest) for is_special in special]
