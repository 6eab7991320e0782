"""What a model can take and give: a text that is too long, or states that are not numbers.

Libraries fail in other ways: an index error in the middle of a run, the state of another token, or
a silent NaN. Each check refuses in one line that names the text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from data_gen.quoting import quoted
from probing.arrays import FloatArray
from probing.sentences import columns_of
from probing.states.anatomy import anatomy_of
from probing.states.parts import ActivationError
from probing.states.tokens import States, Tokens, tokenise

TOKENS_PER_LETTER = 4  # at most: the bytes of a rare letter
LONG = 10.0  # times the median length of a state: what it says of its word is lost beside this


def n_positions(model: Any) -> float:
    """The largest number of tokens for which the model has positions; infinite without a limit."""
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None) or 0
    limits = [float(limit)] if limit > 0 else []
    for name, part in model.base_model.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, torch.nn.Embedding):
            # RoBERTa and MPNet count positions from behind the number of the padding token.
            unused = 0 if part.padding_idx is None else part.padding_idx + 1
            limits.append(part.num_embeddings - unused)
    return min(limits, default=float("inf"))


def check_lengths(
    model: Any, tokens: Tokens, texts: Sequence[str] | None = None, tokenizer: Any = None
) -> None:
    """Refuse sentences with more tokens than the model, or its tokenizer, allows for."""
    limit = n_positions(model)
    if tokenizer is not None:
        limit = min(limit, tokenizer.model_max_length)
    longest = int(tokens.lengths.argmax())
    if (n_tokens := int(tokens.lengths[longest])) > limit:
        which = "a text" if texts is None else f"the text {quoted(texts[longest])}"
        raise ActivationError(
            f"{which} has {n_tokens} tokens, but the model takes {limit:.0f} at most; shorten it"
        )


def check_texts_fit(model: Any, tokenizer: Any, dataset: Mapping[str, Any]) -> None:
    """Refuse a dataset with a text that is too long for the model, before anything is computed.

    Only texts that may be too long are tokenised.
    """
    limit = min(n_positions(model), tokenizer.model_max_length)
    for split in dataset.values():
        texts = set(columns_of(split)["text"])
        long = sorted(text for text in texts if TOKENS_PER_LETTER * (len(text) + 2) > limit)
        if long:
            check_lengths(model, tokenise(tokenizer, {"text": long}), long, tokenizer)


def check_splits(model: Any, tokenizer: Any, dataset: Mapping[str, Any]) -> None:
    """Refuse a dataset of which the model cannot read every sentence, before a folder is begun."""
    for split in dataset.values():
        rows = columns_of(split)
        check_tokens(model, tokenizer, tokenise(tokenizer, rows), rows["text"])


def check_padding(model: Any, tokens: Tokens) -> None:
    """Refuse a decoder's classifier that would take padding for the end of a sentence."""
    theirs = model.config.get_text_config().pad_token_id
    if theirs != tokens.pad_id and len(set(tokens.lengths)) > 1 and anatomy_of(model).causal:
        raise ActivationError(
            f"the classifier finds the end of a sentence by pad_token_id {theirs}, but sentences "
            f"are padded with {tokens.pad_id}; set pad_token_id of the model and the tokenizer"
        )


def check_tokens(model: Any, tokenizer: Any, tokens: Tokens, texts: Sequence[str]) -> None:
    """Refuse texts that are too long or without a word, and the tokenizer of another model."""
    config = model.config.get_text_config()
    check_lengths(model, tokens, texts, tokenizer)
    empty = np.flatnonzero(np.logical_and.reduceat(tokens.special, tokens.offsets[:-1]))
    if len(empty):
        raise ActivationError(f"the text {quoted(texts[empty[0]])} has only special tokens")
    if (highest := max(int(tokens.ids.max()), tokens.pad_id)) >= config.vocab_size:
        raise ActivationError(
            f"the tokenizer gives token {highest}, but the model knows {config.vocab_size}: "
            "this is not the model's tokenizer"
        )


def check_finite(
    where: str, values: FloatArray, tokens: Tokens, texts: Sequence[str] | None = None
) -> None:
    """Refuse values, one row per token or per sentence, that are infinite or undefined."""
    finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if finite.all():
        return
    row = int(np.argmin(finite))
    if len(values) != len(tokens):  # one row per token
        row = int(np.searchsorted(tokens.offsets, row, side="right")) - 1
    which = f"sentence {row + 1}" if texts is None else quoted(texts[row])
    raise ActivationError(
        f"{where} of the model has infinite or undefined numbers for {which}; "
        "if it runs in float16, try --dtype float32"
    )


def first_state_length(states: States) -> tuple[float, int]:
    """How many times as long as the median state that of a first word is, at the layer named.

    Decoders without a token for the beginning of a text keep the attention that no head needs at
    the first word, in one or two massive dimensions: 150 times as long in SmolLM2.
    """
    words = states.words_only()
    lengths = np.linalg.norm(words.stacked(), axis=2)  # (tokens, layers)
    first = np.median(lengths[words.tokens.offsets[:-1]], axis=0)
    ratios = first / np.maximum(np.median(lengths, axis=0), 1e-30)
    return float(ratios.max()), words.layers[int(ratios.argmax())]
