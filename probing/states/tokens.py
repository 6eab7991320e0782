"""Tokens of sentences, and the states that a model gives them.

Both are ragged: the tokens of all sentences follow one another, and sentence i has the rows
offsets[i]:offsets[i + 1]. Models need padded batches: ``Padded`` converts in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from data_gen import AlignmentError, align_spans
from data_gen.quoting import quoted
from probing.arrays import BoolArray, FloatArray, IntArray, Known, as_array
from probing.sentences import bare, columns_of, informative_words

if TYPE_CHECKING:
    from torch import Tensor


MASKS = ("informative", "special", "distractor")
OF_TOKENS = (*MASKS, "summary", "ids", "types", "characters")
OF_SENTENCES = ("labels", "words", "patterns")
COLUMNS_OF_TOKENIZERS = {  # field: what tokenizers call it
    "ids": "input_ids",
    "special": "special_tokens_mask",
    "types": "token_type_ids",
}
Key = tuple[int, str]  # layer and position
OWN_COLUMNS = {"labels": "label", "patterns": "pattern"}  # field: column of a dataset


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of sentences before a model runs; only the first two fields are required.

    >>> tokens = tokenise(tokenizer, dataset["test"])
    >>> tokens.take(np.arange(100)).words_only().informative
    """

    offsets: IntArray  # (sentences + 1,)
    informative: BoolArray  # (tokens,), as those below: the tokens of the informative word
    special: Any = None  # [CLS] and [SEP], not [UNK]; no tokens by default
    distractor: Any = None  # the tokens of distractors; no tokens by default
    summary: Known = None  # the token that summarises its sentence, once a model is known
    ids: Known = None
    types: Known = None  # token_type_ids, of tokenizers that give them
    characters: Known = None  # (tokens, 2): the characters of its text that a token stands for
    labels: Known = None  # (sentences,), as those below
    words: Known = None  # the informative word, by which folds and intervals group sentences
    patterns: Known = None
    pad_id: int = 0

    def __post_init__(self) -> None:
        offsets = np.asarray(self.offsets)
        if offsets.ndim != 1 or len(offsets) < 2 or not np.issubdtype(offsets.dtype, np.integer):
            raise ValueError("offsets must be n + 1 integers")
        if offsets[0] != 0 or (np.diff(offsets) < 1).any():
            raise ValueError("offsets must rise from 0, with no empty sentence")
        object.__setattr__(self, "offsets", offsets.astype(np.int64))
        for names, n in ((OF_TOKENS, offsets[-1]), (OF_SENTENCES, len(self))):
            for name in names:
                values, is_mask = getattr(self, name), name in MASKS
                if values is None and not is_mask:
                    continue
                values = np.zeros(n) if values is None else np.asarray(values)
                expected = (n, 2) if name == "characters" else (n,)
                if (shape := values.shape) != expected:
                    raise ValueError(f"{name} must have one entry for each of {n}, not {shape=}")
                object.__setattr__(self, name, values.astype(bool) if is_mask else values)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.offsets)

    @property
    def positions(self) -> IntArray:
        """The place of each token in its sentence, from 0."""
        return np.arange(self.offsets[-1]) - np.repeat(self.offsets[:-1], self.lengths)

    def sentence(self, i: int) -> slice:
        """The rows of sentence i in arrays with one row per token."""
        i = range(len(self))[i]  # -1 is the last
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))

    def rows(self, sentences: IntArray) -> IntArray:
        """The rows of all tokens of the given sentences, sentence by sentence."""
        sentences = np.arange(len(self))[sentences]  # a mask, or counted from the end
        lengths = self.lengths[sentences]
        shift = self.offsets[sentences] - np.cumsum(lengths) + lengths
        return np.arange(lengths.sum()) + np.repeat(shift, lengths)

    def summarised(self, place: Literal["first", "last"]) -> Self:
        """The tokens with the first or the last of each sentence as its summary."""
        rows = self.offsets[:-1] if place == "first" else self.offsets[1:] - 1
        summary = np.zeros(self.offsets[-1], dtype=bool)
        summary[rows] = True
        return replace(self, summary=summary)

    def take(self, sentences: IntArray) -> Self:
        """The tokens of the given sentences, in the given order."""
        offsets = np.append(0, np.cumsum(self.lengths[sentences]))
        return self._picked(offsets, self.rows(sentences), sentences)

    def words_only(self) -> Self:
        """All sentences without their special tokens, without which a model cannot read them."""
        if not self.special.any():
            return self
        inner = np.append(0, np.cumsum(~self.special))[self.offsets]
        words = self._picked(inner, np.flatnonzero(~self.special), np.arange(len(self)))
        return replace(words, summary=np.zeros(inner[-1], dtype=bool))

    def _picked(self, offsets: IntArray, rows: IntArray, sentences: IntArray) -> Self:
        parts: dict[str, Any] = {"offsets": offsets}
        for names, which in ((OF_TOKENS, rows), (OF_SENTENCES, sentences)):
            arrays = {name: getattr(self, name) for name in names}
            parts |= {name: x[which] for name, x in arrays.items() if x is not None}
        return replace(self, **parts)

    def by_length(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Sentences of one length and their rows (sentences, length): rectangular arrays."""
        for length in np.unique(self.lengths):
            sentences = np.flatnonzero(self.lengths == length)
            yield sentences, self.offsets[sentences][:, None] + np.arange(length)

    def padded(self) -> Padded:
        """The inputs of a model, with short sentences padded on the right."""
        padded = Padded(self.lengths)
        padded.inputs["attention_mask"] = padded.of(np.ones(self.offsets[-1], dtype=np.int64))
        if self.ids is not None:
            padded.inputs["input_ids"] = padded.of(self.ids, self.pad_id)
        if self.types is not None:
            padded.inputs["token_type_ids"] = padded.of(self.types)
        return padded

    def site(self, name: str) -> Tensor:
        """A padded mask (sentences, tokens) for ``edited``: True at the tokens to edit.

        ``name`` is "informative", "distractor", "summary" or "all words".
        """
        return self.padded().of(self.mask(name))

    def mask(self, name: str) -> BoolArray:
        """The mask of a site with one entry per token."""
        if name == "summary" and self.summary is None:
            raise ValueError("the summary token depends on the model; use read_by(model, tokens)")
        masks = {"informative": self.informative, "distractor": self.distractor}
        masks |= {"summary": self.summary, "all words": ~self.special}
        if name not in masks:
            raise ValueError(f"no site {name!r}; there are {', '.join(masks)}")
        return np.asarray(masks[name])


@dataclass(frozen=True, eq=False)
class Padded:
    """The tokens as a rectangular batch, padded on the right."""

    lengths: IntArray  # (sentences,)
    inputs: dict[str, Tensor] = field(default_factory=dict)  # of a model

    @cached_property
    def rows(self) -> IntArray:
        """The places of the tokens in the flattened batch, without those of the padding."""
        width = int(self.lengths.max())
        return np.flatnonzero(np.arange(width) < self.lengths[:, None])

    def array(self, ragged: FloatArray, fill: int = 0) -> FloatArray:
        """A padded array (sentences, n_tokens, ...) from an array with one row per token."""
        shape = (len(self.lengths), int(self.lengths.max()), *ragged.shape[1:])
        full = np.full((shape[0] * shape[1], *shape[2:]), fill, dtype=ragged.dtype)
        full[self.rows] = ragged
        return full.reshape(shape)

    def of(self, ragged: FloatArray, fill: int = 0) -> Tensor:
        """A padded tensor (sentences, n_tokens, ...) from an array with one row per token."""
        import torch

        return torch.from_numpy(self.array(ragged, fill))

    def ragged(self, padded: Tensor) -> Tensor:
        """One row per token, from a padded tensor (sentences, n_tokens, ...)."""
        import torch

        return padded.flatten(0, 1)[torch.from_numpy(self.rows).to(padded.device)]

    def layers(self, padded: Sequence[Tensor]) -> FloatArray:
        """One row per token, (tokens, layers, ...), from one padded tensor per layer.

        Layers may lie on different devices.
        """
        return np.stack([as_array(self.ragged(layer)) for layer in padded], axis=1)


class Rows(Mapping[Key, FloatArray]):
    """Chosen rows of arrays, or of several parts one after the other, taken when asked for."""

    def __init__(self, parts: Sequence[Mapping[Key, FloatArray]], rows: Mapping[str, Any]) -> None:
        self.parts, self.rows = parts, rows  # rows by position; other positions are left out

    def __getitem__(self, key: Key) -> FloatArray:
        arrays = [part[key] for part in self.parts]
        whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return whole[self.rows[key[1]]]

    def __iter__(self) -> Iterator[Key]:
        return (key for key in self.parts[0] if key[1] in self.rows)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def only(arrays: Mapping[Key, FloatArray], key: Key) -> Mapping[Key, FloatArray]:
    """What is needed to have one array in another process; from a folder, that reads it itself."""
    if isinstance(arrays, Rows):
        return Rows([only(part, key) for part in arrays.parts], arrays.rows)
    return {key: arrays[key]} if isinstance(arrays, dict) else arrays


@dataclass(frozen=True, eq=False)
class States:
    """Hidden states, attention and logits of a model, with the tokens they belong to.

    >>> states = extract(model, tokenizer, dataset["test"], positions=("tokens",)).words_only()
    >>> LocateAndRead().fit(states.at(3), states.tokens)
    """

    tokens: Tokens
    hidden: Mapping[Key, FloatArray] = field(default_factory=dict)  # (n_tokens or sentences, d)
    attention: Known = None  # (n_tokens, n_layers, n_heads): of the summary token to each token
    logits: Known = None  # (sentences,): of label 1 minus label 0; of more labels all

    def __post_init__(self) -> None:
        for name, n in (("attention", self.tokens.offsets[-1]), ("logits", len(self))):
            if (values := getattr(self, name)) is not None and len(values) != n:
                raise ValueError(f"{name} of other sentences: {len(values)} rows for {n}")

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def layers(self) -> list[int]:
        """The layers whose states are there; 0 is the embeddings."""
        return sorted({layer for layer, _ in self.hidden})

    def at(self, layer: int, position: str = "tokens") -> FloatArray:
        """The states of one layer (0 is the embeddings), shape (tokens or sentences, d_model).

        ``position`` is "tokens" (one row per token), or "summary", "informative" or "mean" (one row
        per sentence).
        """
        self._check(layer, position)
        states = np.ascontiguousarray(self.hidden[layer, position])
        if len(states) != (n := self.tokens.offsets[-1] if position == "tokens" else len(self)):
            raise ValueError(f"states of other sentences: {len(states)} rows for {n}")
        return states

    def _check(self, layer: int, position: str) -> None:
        if position not in {name for _, name in self.hidden}:
            raise ValueError(f"the states hold no {position!r}; extract with this position")
        if layer not in self.layers:
            raise ValueError(f"the states hold no layer {layer}; extract with this layer")

    def stacked(self, position: str = "tokens") -> FloatArray:
        """The states of all layers, shape (tokens or sentences, layers, d_model)."""
        return np.stack([self.at(layer, position) for layer in self.layers], axis=1)

    def only(self, layer: int, position: str) -> Self:
        """Only the states of one layer at one position: what another process needs."""
        self._check(layer, position)
        return replace(self, hidden=only(self.hidden, (layer, position)), attention=None)

    def words_only(self) -> Self:
        """All sentences without their special tokens."""
        is_word = ~self.tokens.special
        rows = {position: slice(None) for _, position in self.hidden} | {"tokens": is_word}
        hidden = Rows([self.hidden], rows)
        attention = None if self.attention is None else self.attention[is_word]
        return replace(self, tokens=self.tokens.words_only(), hidden=hidden, attention=attention)


def tokenise(tokenizer: Any, rows: Any) -> Tokens:
    """The tokens of a dataset's split, or of a mapping with the columns "text" and "span".

    The columns label, pattern, words and roles are optional. Without "span" no token is marked as
    informative.

    >>> rows = {"text": ["my dog is nice"], "span": [(10, 14)], "label": [1]}
    >>> tokenise(tokenizer, rows).informative
    """
    rows = columns_of(rows)
    if "word" in rows and "span" not in rows:
        raise ValueError(
            'a column "word" is not read: give "span", or a file to data_gen.read_data'
        )
    parts: dict[str, list[Any]] = {name: [] for name in (*OF_TOKENS, "lengths")}
    # A thousand at a time: the tokenizer's encodings take far more memory than the token ids.
    for first in range(0, len(rows["text"]), 1000):
        texts = rows["text"][first : first + 1000]
        spans = rows["span"][first : first + 1000] if "span" in rows else None
        options = {"return_special_tokens_mask": True, "return_attention_mask": False}
        aligned = align_spans(tokenizer, texts, spans, padding=False, verbose=False, **options)
        for name, key in COLUMNS_OF_TOKENIZERS.items():
            if key in aligned.encoding:
                parts[name].append(np.fromiter(chain.from_iterable(aligned.encoding[key]), int))
        lengths = np.array([len(ids) for ids in aligned.encoding["input_ids"]])
        if not lengths.all():
            raise AlignmentError(f"the text {quoted(texts[int(lengths.argmin())])} has no tokens")
        starts = np.repeat(np.cumsum(lengths) - lengths, [len(p) for p in aligned.positions])
        informative = np.zeros(lengths.sum(), dtype=bool)
        informative[starts + np.fromiter(chain.from_iterable(aligned.positions), int)] = True
        parts["informative"].append(informative)
        parts["characters"].append(aligned.characters)
        parts["lengths"].append(lengths)
        if "roles" in rows:
            words, roles = (rows[name][first : first + 1000] for name in ("words", "roles"))
            parts["distractor"].append(_in_distractors(aligned.characters, lengths, words, roles))
    # Any token works as padding, since no other token attends to it; a model may still expect its
    # own padding token.
    candidates = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    return Tokens(
        offsets=np.append(0, np.cumsum(np.concatenate(parts.pop("lengths")))),
        **{name: np.concatenate(x) for name, x in parts.items() if x},
        **{key: rows[column] for key, column in OWN_COLUMNS.items() if column in rows},
        words=informative_words(rows) if "span" in rows else None,
        pad_id=next((int(token) for token in candidates if token is not None), 0),
    )


def unknown(tokenizer: Any, ids: IntArray) -> BoolArray:
    """Which tokens stand for a word that the tokenizer does not know; none if it knows all bytes.

    >>> unknown(tokenizer, tokenise(tokenizer, dataset["test"]).ids).mean()
    """
    token = tokenizer.unk_token_id  # None: such a tokenizer cuts any word into pieces
    return np.zeros(len(ids), dtype=bool) if token is None else np.asarray(ids) == token


def _in_distractors(
    characters: IntArray,
    lengths: IntArray,
    words: Sequence[Sequence[str]],
    roles: Sequence[Sequence[str]],
) -> BoolArray:
    """The mask of the tokens (given by their characters) that belong to a distractor."""
    # One long text of all sentences, each word followed by a space.
    sizes = np.fromiter((len(word) + 1 for sentence in words for word in sentence), int)
    starts = np.cumsum(sizes) - sizes
    n_words = [len(sentence) for sentence in words]
    first_words = np.cumsum([0, *n_words[:-1]])
    # Some tokenizers count the space before a word as part of the word.
    inner = np.maximum(characters[:, 0], characters[:, 1] - 1)
    shift = np.repeat(starts[first_words], lengths)
    word = np.searchsorted(starts, shift + inner, side="right") - 1
    is_distractor = np.array([role == "distractor" for sentence in roles for role in sentence])
    # The full stop behind a distractor is not a distractor itself.
    size_of = {word: len(bare(word)) for sentence in words for word in sentence}
    bare_sizes = np.array([size_of[word] for sentence in words for word in sentence])
    is_inside = shift + characters[:, 0] < (starts + bare_sizes)[word]
    return np.asarray(is_distractor[word] & is_inside & (characters[:, 1] > characters[:, 0]))
