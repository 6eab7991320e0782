"""A tokenizer as it was loaded: fast, with words, and within the model's table of words."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from data_gen.quoting import quoted
from probing.models.border import model_errors
from probing.models.errors import ModelError

N_WORDS = 20  # of its own vocabulary, of which it must know one
UNKNOWN = "zqxj \u2603"  # hardly a word of any vocabulary
USED = ("unk_token", "pad_token", "cls_token", "sep_token", "mask_token")


def check_tokenizer(name: str, tokenizer: Any, n_rows: int) -> list[int]:
    """The ids of a few tokens; refuse a tokenizer that does not fit a table of ``n_rows`` words."""
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"{name}: its tokenizer is not a fast one, which alone knows where each token stands"
        )
    vocabulary = tokenizer.backend_tokenizer.get_vocab(with_added_tokens=False)
    added = tokenizer.added_tokens_decoder
    words = list(islice((w for w, number in vocabulary.items() if number not in added), N_WORDS))
    if not words:
        raise ModelError(f"{name}: the vocabulary of its tokenizer has no words")
    _check_numbers(name, vocabulary, n_rows)
    used = {str(word): tokenizer.convert_tokens_to_ids(word) for word in _used(tokenizer)}
    _check_numbers(name, used, n_rows)  # a token that no text can reach may lie beyond the table
    with model_errors(f"{name}: its tokenizer fails"):
        text = " ".join(tokenizer.convert_tokens_to_string([word]).strip() for word in words)
        ids, others = tokenizer(text)["input_ids"], tokenizer(UNKNOWN)["input_ids"]
    if set(ids) <= added.keys() | {tokenizer.unk_token_id}:
        raise ModelError(f"{name}: its tokenizer does not know the words of its own vocabulary")
    _check_numbers(name, {"a token of every text": max([*ids, *others])}, n_rows)
    return list(ids[:4])


def _used(tokenizer: Any) -> list[str]:
    return [word for kind in USED if (word := getattr(tokenizer, kind, None)) is not None]


def _check_numbers(name: str, numbers: Mapping[str, int], n_rows: int) -> None:
    if max(numbers.values(), default=0) < n_rows:
        return
    word = max(numbers, key=numbers.__getitem__)
    raise ModelError(
        f"{name}: its tokenizer gives {quoted(word)} the number {numbers[word]}, but the model has "
        f"{n_rows} words; the tokenizer belongs to another model, or lacks that token"
    )
