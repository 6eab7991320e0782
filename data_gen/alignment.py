"""Which tokens spell a word: from character spans to token positions in a padded batch.

Any fast tokenizer will do, and the answer is checked: the tokens must spell the word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerBase

Span = tuple[int, int]


class AlignmentError(ValueError):
    """The tokens of a word could not be found, or do not spell it."""


@dataclass(frozen=True)
class Alignment:
    encoding: BatchEncoding  # the padded batch, ready for a model
    positions: list[tuple[int, ...]]  # per text: the tokens of its span, first to last


def align_spans(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    spans: Sequence[Sequence[int]],
    **tokenizer_options: Any,
) -> Alignment:
    """Tokenise a batch and find, in each text, the tokens of ``text[start:end]``.

    ``spans`` has one (start, end) per text. ``tokenizer_options`` go to the tokenizer
    (``return_tensors="pt"``, ``padding_side="left"``, ...); padding is on by default.

    >>> align_spans(tokenizer, ["my dog is nice"], [(10, 14)]).positions
    [(4,)]
    """
    if not getattr(tokenizer, "is_fast", False):
        slow = f"{type(tokenizer).__name__} is a slow tokenizer, which has no offsets"
        raise AlignmentError(f"{slow}; use a fast one")
    if len(texts) != len(spans):
        raise AlignmentError(f"{len(texts)} texts but {len(spans)} spans; give one span per text")
    if not texts:
        raise AlignmentError("there are no texts to align")
    options = {"padding": True, **tokenizer_options}
    encoding = tokenizer(list(texts), **options)
    if "text_pair" in options or len(encoding.encodings) != len(texts):
        raise AlignmentError(
            "text pairs and overflowing tokens are not supported: one text, one row"
        )
    positions = []
    # Encodings hold plain ids and offsets, whatever return_tensors says.
    for text, (start, end), plain in zip(texts, spans, encoding.encodings, strict=True):
        tokens = tuple(i for i, (a, b) in enumerate(plain.offsets) if a < end and b > start)
        _check_spelling(tokenizer, text, (start, end), plain, tokens)
        positions.append(tokens)
    return Alignment(encoding, positions)


def _check_spelling(
    tokenizer: PreTrainedTokenizerBase, text: str, span: Span, plain: Any, tokens: tuple[int, ...]
) -> None:
    word = text[slice(*span)]
    if not word or word != word.strip() or span[0] < 0 or span[1] > len(text):
        raise AlignmentError(f"the span {span} is empty, ends in a space or is outside {text!r}")
    if not tokens:
        raise AlignmentError(f"no token holds {word!r} of {text!r}; was the text truncated?")
    spelled = ""
    # An unknown word decodes to [UNK], so its letters come from its offsets. Known tokens are
    # decoded together, because the bytes of one letter may be spread over several tokens.
    for unknown, run in groupby(tokens, key=lambda i: plain.ids[i] == tokenizer.unk_token_id):
        if unknown:
            spelled += "".join(text[slice(*plain.offsets[i])] for i in run)
        else:
            ids = [plain.ids[i] for i in run]
            spelled += str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))
    if _letters(tokenizer, spelled) != _letters(tokenizer, word):
        raise AlignmentError(
            f"the tokens of {word!r} in {text!r} spell {spelled!r}; "
            "the tokenizer joins or cuts words, so the word has no tokens of its own"
        )


def _letters(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """The text as the tokenizer sees it (lower-cased if it does that), without white space."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    normalised = normalizer.normalize_str(text) if normalizer else text
    return "".join(normalised.replace("\u2581", " ").split())  # SentencePiece's sign for a space
