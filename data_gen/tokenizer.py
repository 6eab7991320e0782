"""A word-level tokenizer that knows only the words of the training split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import DatasetDict
    from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = {f"{name}_token": f"[{name.upper()}]" for name in "pad unk cls sep mask".split()}


def build_tokenizer(texts: Iterable[str], *, ends: bool = True) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are the space-separated words of these texts.

    A word is what the ``words`` column holds, so the distractor "nice." and the adjective "nice"
    are two words. Every other word is [UNK]. Sentences become [CLS] words [SEP], or without
    ``ends`` the words alone, for a decoder, which is read at the last word. Padding is on the
    right.

    >>> tokenizer = build_tokenizer(dataset["train"]["text"][:])
    >>> tokenizer("my dog is nice")["input_ids"]
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    # In order of first appearance: the same texts give the same numbers, on any machine.
    words = dict.fromkeys(word for text in texts for word in text.split())
    if clashes := [token for token in SPECIAL_TOKENS.values() if token in words]:
        raise ValueError(f"the texts hold {clashes[0]}, which is a special token; use another word")
    vocabulary = {word: i for i, word in enumerate([*SPECIAL_TOKENS.values(), *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=SPECIAL_TOKENS["unk_token"]))
    tokenizer.pre_tokenizer = WhitespaceSplit()
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
