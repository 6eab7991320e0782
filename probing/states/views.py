"""Sentences token by token, as Figure 1 shows them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probing.arrays import FloatArray
from probing.sentences import columns_of
from probing.states.tokens import States


@dataclass(frozen=True, eq=False)
class SentenceView:
    """The words and roles of one sentence and the attention of its summary token, by token."""

    words: list[str]  # one per token, as the text spells it; "" at special tokens
    roles: list[str]  # informative, distractor, neutral or special
    attention: FloatArray  # (n_tokens, n_layers, n_heads)

    def words_only(self) -> "SentenceView":
        """The view without special tokens."""
        is_word = np.array(self.roles) != "special"
        words, roles = (np.array(x)[is_word].tolist() for x in (self.words, self.roles))
        return SentenceView(words, roles, self.attention[is_word])


def sentence_views(states: States, rows: Any) -> list[SentenceView]:
    """One view per sentence. Required: states with attention, and tokens from ``tokenise``.

    >>> rows = dataset["test"].select(range(5))
    >>> sentence_views(summary_attention(model, tokenizer, rows), rows)[0].words_only()
    """
    rows, tokens, views = columns_of(rows), states.tokens, []
    if states.attention is None:
        raise ValueError("a view needs states with attention; extract them with attention=True")
    if len(rows["text"]) != len(tokens):
        raise ValueError(f"{len(rows['text'])} rows for the states of {len(tokens)} sentences")
    masks = [tokens.special, tokens.informative, tokens.distractor]
    roles = np.select(masks, ["special", "informative", "distractor"], "neutral")
    for i, text in enumerate(rows["text"]):
        span = tokens.sentence(i)
        words = [text[a:b].strip() for a, b in tokens.characters[span].tolist()]
        attention = np.asarray(states.attention[span])
        views.append(SentenceView(words, roles[span].tolist(), attention))
    return views
