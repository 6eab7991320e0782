"""A word-level tokenizer that knows only the words of the training split.

Punctuation is split off, as BERT does: the distractor "nice." and the adjective "nice" are the same
token, so that a model must find out *where* the word that decides stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datasets import DatasetDict
    from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = {f"{name}_token": f"[{name.upper()}]" for name in "pad unk cls sep mask".split()}


def special_token_in(text: str) -> str | None:
    """A special token that the text holds: tokenizers do not read it as a word.

    >>> special_token_in("my [MASK] dog")
    '[MASK]'
    """
    return next((token for token in SPECIAL_TOKENS.values() if token in text), None)


@cache
def _splitter() -> Any:
    from tokenizers.pre_tokenizers import Punctuation, Sequence, WhitespaceSplit

    return Sequence([WhitespaceSplit(), Punctuation()])


def split_words(text: str) -> list[str]:
    """The words and the punctuation marks of a text: the tokens of ``build_tokenizer``.

    >>> split_words("The city is nice.")
    ['The', 'city', 'is', 'nice', '.']
    """
    return [word for word, _ in _splitter().pre_tokenize_str(text)]


def build_tokenizer(texts: Iterable[str], *, ends: bool = True) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are the words and the punctuation marks of these texts.

    Every other word is [UNK]. Sentences become [CLS] words [SEP], or without ``ends`` the words
    alone, for a decoder, which is read at the last word. Padding is on the right.

    >>> tokenizer = build_tokenizer(dataset["train"]["text"][:])
    >>> tokenizer("my dog is nice")["input_ids"]
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    texts = list(texts)
    for text in texts:
        if token := special_token_in(text):
            raise ValueError(f"the texts hold {token}, which is a special token; use another word")
    # In order of first appearance: the same texts give the same numbers, on any machine.
    words = dict.fromkeys(word for text in texts for word in split_words(text))
    vocabulary = {word: i for i, word in enumerate([*SPECIAL_TOKENS.values(), *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=SPECIAL_TOKENS["unk_token"]))
    tokenizer.pre_tokenizer = _splitter()
    if ends:
        cls, sep = SPECIAL_TOKENS["cls_token"], SPECIAL_TOKENS["sep_token"]
        tokenizer.post_processor = TemplateProcessing(
            single=f"{cls} $A {sep}",
            pair=f"{cls} $A {sep} $B:1 {sep}:1",
            special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL_TOKENS)


def unknown_shares(tokenizer: PreTrainedTokenizerFast, dataset: DatasetDict) -> dict[str, float]:
    """The share of [UNK] among the tokens of each split, not counting special tokens.

    Anything but 0 on the training split means that the tokenizer was not built from it.

    >>> unknown_shares(tokenizer, dataset)["ood_tokens"]
    """
    shares = {}
    for name, split in dataset.items():
        tokens = tokenizer(split["text"][:], add_special_tokens=False)["input_ids"]
        n_unknown = sum(ids.count(tokenizer.unk_token_id) for ids in tokens)
        shares[name] = n_unknown / sum(map(len, tokens))
    return shares
