"""Which tokens spell a word: from character spans to token positions in a padded batch.

Any fast tokenizer will do, and the answer is checked: the tokens must spell the word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from data_gen.quoting import quoted

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerBase

Span = tuple[int, int]
IntArray = npt.NDArray[np.int64]


class AlignmentError(ValueError):
    """The tokens of a word could not be found, or do not spell it."""


@dataclass(frozen=True)
class Alignment:
    encoding: BatchEncoding  # the padded batch, ready for a model
    positions: list[tuple[int, ...]]  # per text: the tokens of its span, first to last
    characters: IntArray  # (tokens of all texts, 2): the characters of each token


def align_spans(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    spans: Sequence[Sequence[int]] | None,
    **tokenizer_options: Any,
) -> Alignment:
    """Tokenise a batch and find, in each text, the tokens of ``text[start:end]``.

    ``spans`` has one (start, end) per text, or is None: no word is looked for.
    ``tokenizer_options`` go to the tokenizer (``return_tensors="pt"``, ``padding_side="left"``,
    ...); padding is on by default.

    >>> align_spans(tokenizer, ["my dog is nice"], [(10, 14)]).positions
    [(4,)]
    """
    if not getattr(tokenizer, "is_fast", False):
        slow = f"{type(tokenizer).__name__} is a slow tokenizer, which has no offsets"
        raise AlignmentError(f"{slow}; use a fast one")
    if spans is not None and len(texts) != len(spans):
        raise AlignmentError(f"{len(texts)} texts but {len(spans)} spans; give one span per text")
    if not texts:
        raise AlignmentError("there are no texts to align")
    options = {"padding": True, **tokenizer_options}
    encoding = _encoded(tokenizer, list(texts), options)
    if "text_pair" in options or len(encoding.encodings) != len(texts):
        raise AlignmentError(
            "text pairs and overflowing tokens are not supported: one text, one row"
        )
    # Encodings hold plain ids and offsets, whatever return_tensors says.
    offsets = [plain.offsets for plain in encoding.encodings]
    flat = chain.from_iterable(chain.from_iterable(offsets))
    characters = np.fromiter(flat, np.int64).reshape(-1, 2)
    if spans is None:
        return Alignment(encoding, [()] * len(texts), characters)
    positions = _tokens_inside(np.array(spans, np.int64).reshape(-1, 2), characters, offsets)
    spelled = set()  # templated sentences repeat their words: each is checked once
    for i, tokens in enumerate(positions):
        ids = encoding.encodings[i].ids
        pieces = tuple((ids[j], texts[i][slice(*offsets[i][j])]) for j in tokens)
        word = _word_at(spans[i], texts[i])
        if (word, pieces) not in spelled:
            _check_spelling(tokenizer, word, pieces, texts[i])
            spelled.add((word, pieces))
    return Alignment(encoding, positions, characters)


def _encoded(
    tokenizer: PreTrainedTokenizerBase, texts: list[str], options: dict[str, Any]
) -> BatchEncoding:
    try:
        return tokenizer(texts, **options)
    except Exception as error:  # tokenizers raises Exception itself, such as for a missing [UNK]
        why = " ".join(str(error).split()) or type(error).__name__
        raise AlignmentError(f"the tokenizer fails on these texts: {quoted(why, 150)}") from error


def _tokens_inside(
    spans: IntArray, characters: IntArray, offsets: Sequence[Sequence[Span]]
) -> list[tuple[int, ...]]:
    """The tokens of each sentence that share a character with its span."""
    lengths = [len(tokens) for tokens in offsets]
    starts, ends = np.repeat(spans, lengths, axis=0).T
    rows = np.flatnonzero((characters[:, 0] < ends) & (characters[:, 1] > starts))
    firsts = np.cumsum([0, *lengths])
    counts = np.diff(np.searchsorted(rows, firsts))
    places = iter((rows - np.repeat(firsts[:-1], counts)).tolist())
    return [tuple(islice(places, n)) for n in counts.tolist()]


def _word_at(span: Sequence[int], text: str) -> str:
    start, end = span
    word = text[start:end]
    if not word or word != word.strip() or start < 0 or end > len(text):
        place = f"the span {(start, end)}"
        raise AlignmentError(f"{place} is empty, outside of or ends in a space of {quoted(text)}")
    return word


def _check_spelling(
    tokenizer: PreTrainedTokenizerBase, word: str, pieces: Sequence[tuple[int, str]], text: str
) -> None:
    """Check that the tokens, each with its id and its characters, spell the word."""
    if not pieces:
        holds = f"no token holds {quoted(word)} of {quoted(text)}"
        raise AlignmentError(f"{holds}; was the text truncated?")
    spelled = ""
    # An unknown word decodes to [UNK], so its letters come from its offsets. Known tokens are
    # decoded together, because the bytes of one letter may be spread over several tokens.
    for unknown, run in groupby(pieces, key=lambda piece: piece[0] == tokenizer.unk_token_id):
        ids, letters = zip(*run, strict=True)
        if unknown:
            spelled += "".join(letters)
        else:
            spelled += str(tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))
    if _letters(tokenizer, spelled) != _letters(tokenizer, word):
        raise AlignmentError(
            f"the tokens of {quoted(word, 30)} in {quoted(text, 50)} spell {quoted(spelled, 30)}; "
            "the tokenizer joins or cuts words, so the word has no tokens of its own"
        )


def _letters(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """The text as the tokenizer sees it (lower-cased if it does that), without white space."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    normalised = normalizer.normalize_str(text) if normalizer else text
    return "".join(normalised.replace("\u2581", " ").split())  # SentencePiece's sign for a space
