"""Sentences token by token, for people: what Figure 1 and the report's token view show."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probing.arrays import FloatArray
from probing.sentences import columns_of
from probing.states.tokens import States


@dataclass(frozen=True, eq=False)
class SentenceView:
    """One sentence, its words and roles and the attention of the summary, by token."""

    words: list[str]  # of each token; "" at special tokens
    roles: list[str]  # informative, distractor, neutral or special
    attention: FloatArray  # (n_tokens, n_layers, n_heads)

    def words_only(self) -> "SentenceView":
        """The view without special tokens."""
        kept = np.array(self.roles) != "special"
        words, roles = (np.array(x)[kept].tolist() for x in (self.words, self.roles))
        return SentenceView(words, roles, self.attention[kept])


def sentence_views(states: States, rows: Any) -> list[SentenceView]:
    """A view of each sentence. Required: attention, and a tokenizer with one token per word.

    >>> rows = dataset["test"].select(range(5))
    >>> sentence_views(summary_attention(model, tokenizer, rows), rows)[0].words_only()
    """
    rows, tokens, views = columns_of(rows), states.tokens, []
    if states.attention is None:
        raise ValueError("a view needs states with attention; extract them with attention=True")
    for i, (words, roles) in enumerate(zip(rows["words"], rows["roles"], strict=True)):
        here = tokens.sentence(i)
        special = tokens.special[here]
        if (~special).sum() != len(words):
            raise ValueError(f"a view needs one token per word, which {rows['text'][i]!r} has not")
        by_token = np.full((2, len(special)), [[""], ["special"]], dtype=object)
        by_token[:, ~special] = words, roles
        words, roles = by_token.tolist()
        views.append(SentenceView(words, roles, np.asarray(states.attention[here])))
    return views
