"""Sentences token by token, as Figure 1 and the report's token view show them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probing.arrays import FloatArray
from probing.sentences import columns_of
from probing.states.tokens import States


@dataclass(frozen=True, eq=False)
class SentenceView:
    """The words and roles of one sentence and the attention of its summary token, by token."""

    words: list[str]  # one per token; "" at special tokens
    roles: list[str]  # informative, distractor, neutral or special
    attention: FloatArray  # (n_tokens, n_layers, n_heads)

    def words_only(self) -> "SentenceView":
        """The view without special tokens."""
        is_word = np.array(self.roles) != "special"
        words, roles = (np.array(x)[is_word].tolist() for x in (self.words, self.roles))
        return SentenceView(words, roles, self.attention[is_word])


def sentence_views(states: States, rows: Any) -> list[SentenceView]:
    """One view per sentence. Required: states with attention, and one token per word.

    >>> rows = dataset["test"].select(range(5))
    >>> sentence_views(summary_attention(model, tokenizer, rows), rows)[0].words_only()
    """
    rows, tokens, views = columns_of(rows), states.tokens, []
    if states.attention is None:
        raise ValueError("a view needs states with attention; extract them with attention=True")
    for i, (words, roles) in enumerate(zip(rows["words"], rows["roles"], strict=True)):
        span = tokens.sentence(i)
        special = tokens.special[span]
        if (~special).sum() != len(words):
            raise ValueError(f"a view needs one token per word, unlike in {rows['text'][i]!r}")
        by_token = np.full((2, len(special)), [[""], ["special"]], dtype=object)
        by_token[:, ~special] = words, roles
        words, roles = by_token.tolist()
        views.append(SentenceView(words, roles, np.asarray(states.attention[span])))
    return views
