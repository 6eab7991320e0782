"""What a Transformer holds of each sentence: hidden states of every layer, attention of every head.

Sentences run in batches of like length, each distinct one once. Batches are padded on the right
whatever the tokenizer prefers: then every token has the position it has alone, for encoders,
decoders and models that count positions from other numbers than 0 (RoBERTa), and padding is never
seen. Token-level results are ragged: the rows of sentence i are ``activations.sentence(i)``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor

from data_gen import align_spans
from probing.states.recording import (
    ActivationError,
    FolderStore,
    MemoryStore,
    Recording,
    fingerprint,
    recorded,
)

__all__ = ["POSITIONS", "ActivationError", "Activations", "extract", "recorded"]

POSITIONS = ("cls", "informative", "mean", "tokens")
FORMAT = 1  # of the folder; counts up when the same inputs would give other arrays
BATCH_FLOATS = 2**24  # 64 MiB: how much one batch may give in states, and again in attention

Text = tuple[str, int, int]  # a text, and the span of its informative word


@dataclass(frozen=True)
class Activations:
    states: dict[str, NDArray[np.float32]]  # (sentences, or tokens, n_layers + 1, d_model)
    attention: NDArray[np.float32] | None  # (tokens, n_layers, n_heads): of the summary to each
    offsets: NDArray[np.int64]  # (sentences + 1,): where the tokens of each sentence begin
    token_ids: NDArray[np.int64]  # (tokens,), as all below
    special: NDArray[np.bool_]  # [CLS] and [SEP], not [UNK]
    informative: NDArray[np.bool_]  # the tokens of the span

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def sentence(self, i: int) -> slice:
        """The rows of sentence i in every array that has one row a token."""
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))


@dataclass(frozen=True)
class _Tokens:
    """Tokenized texts one behind the other, without padding."""

    offsets: NDArray[np.int64]
    token_ids: NDArray[np.int64]
    special: NDArray[np.bool_]
    informative: NDArray[np.bool_]
    types: NDArray[np.int64] | None  # token_type_ids, of tokenizers that give them

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def rows(self, sentences: NDArray[np.int64]) -> NDArray[np.int64]:
        spans = [np.arange(self.offsets[i], self.offsets[i + 1]) for i in sentences]
        return np.concatenate(spans)

    def take(self, sentences: NDArray[np.int64]) -> _Tokens:
        rows, lengths = self.rows(sentences), self.lengths[sentences]
        return _Tokens(
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            token_ids=self.token_ids[rows],
            special=self.special[rows],
            informative=self.informative[rows],
            types=None if self.types is None else self.types[rows],
        )


@dataclass(frozen=True)
class _Anatomy:
    n_states: int
    d_model: int
    n_heads: int  # 0 unless attention is asked for
    causal: bool  # each token sees only those before it: the last one summarises


def extract(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    spans: Sequence[Sequence[int]],
    *,
    positions: Sequence[str] = ("cls", "informative", "mean"),
    attention: bool = False,
    max_tokens_per_batch: int = 2048,
    folder: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Activations:
    """Hidden states of every layer for each text, and attention of every head if asked for.

    ``positions``: "cls" is the token that summarises the sentence, the first of an encoder and the
    last of a decoder; "informative" the mean over the tokens of ``text[start:end]``; "mean" that
    over all tokens but special ones; "tokens" every token. Attention is that of the "cls" token.

    With a ``folder`` the arrays are written there and returned as memory maps. Sentences it holds
    already, from a run that was interrupted or finished, are not computed again; a folder that was
    made of anything else is refused. ``progress(done, of)`` counts distinct sentences.
    """
    _check_request(texts, spans, positions, max_tokens_per_batch)
    asked = [(text, int(a), int(b)) for text, (a, b) in zip(texts, spans, strict=True)]
    distinct = list(dict.fromkeys(asked))
    number = {text: i for i, text in enumerate(distinct)}
    which = np.array([number[text] for text in asked])  # the distinct sentence of each text
    tokens = _tokenize(tokenizer, distinct)
    _check_tokens(model, tokenizer, tokens)
    everything = tokens.take(which)
    with recorded(model, attention=attention) as record:
        anatomy = _examine(model, record, tokens)
        n_states, d_model = anatomy.n_states, anatomy.d_model
        n_tokens = len(everything.token_ids)
        shapes: dict[str, tuple[int, ...]] = {
            name: (n_tokens if name == "tokens" else len(texts), n_states, d_model)
            for name in positions
        }
        if attention:
            shapes["attention"] = (n_tokens, n_states - 1, anatomy.n_heads)
        store: MemoryStore | FolderStore = MemoryStore(shapes)
        if folder is not None:
            key = _key(model, tokenizer, asked, positions, attention)
            store = FolderStore(Path(folder), key, shapes)
        order = np.argsort(-tokens.lengths, kind="stable")
        occurrences = _occurrences(which, len(distinct))
        for batch in _batches(order[store.finished :], tokens, anatomy, max_tokens_per_batch):
            part = tokens.take(batch)
            results = _run_batch(record, part, anatomy, positions, _pad_id(tokenizer))
            _put(store, results, part, [occurrences[i] for i in batch], everything)
            del results  # before the next batch makes its own
            store.finish(store.finished + len(batch))
            if progress:
                progress(store.finished, len(distinct))
    arrays = store.read()
    return Activations(
        states={name: arrays[name] for name in positions},
        attention=arrays.get("attention"),
        offsets=everything.offsets,
        token_ids=everything.token_ids,
        special=everything.special,
        informative=everything.informative,
    )


def _check_request(
    texts: Sequence[str], spans: Sequence[Any], positions: Sequence[str], max_tokens: int
) -> None:
    if len(texts) == 0:  # a numpy array or a column of a dataset has no truth of its own
        raise ActivationError("there are no texts to run")
    if len(texts) != len(spans):
        raise ActivationError(f"{len(texts)} texts but {len(spans)} spans; give one span per text")
    if isinstance(positions, str):
        raise ActivationError(f"positions is a list of names; write [{positions!r}]")
    if unknown := [name for name in positions if name not in POSITIONS]:
        raise ActivationError(f"unknown position {unknown[0]!r}; there are {', '.join(POSITIONS)}")
    if len(set(positions)) != len(positions):
        raise ActivationError("a position is asked for twice")
    if max_tokens < 1:
        raise ActivationError(f"max_tokens_per_batch is {max_tokens}; it must be at least 1")


def _check_tokens(model: Any, tokenizer: Any, tokens: _Tokens) -> None:
    known = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    most = min(tokenizer.model_max_length, known or tokenizer.model_max_length)
    if (longest := int(tokens.lengths.max())) > most:
        raise ActivationError(f"a text has {longest} tokens, but the model takes {most} at most")
    n_words, highest = model.config.get_text_config().vocab_size, int(tokens.token_ids.max())
    if highest >= n_words:
        raise ActivationError(
            f"the tokenizer gives token {highest}, but the model knows {n_words}: not its tokenizer"
        )


def _tokenize(tokenizer: Any, texts: list[Text]) -> _Tokens:
    ids, special, informative, types = [], [], [], []
    # A thousand at a time: the tokenizer's own notes on each text take far more than its tokens.
    for first in range(0, len(texts), 1000):
        part = texts[first : first + 1000]
        found = align_spans(
            tokenizer,
            [text for text, _, _ in part],
            [span for _, *span in part],
            padding=False,
            return_special_tokens_mask=True,
            verbose=False,
        )
        for row, located in enumerate(found.positions):
            ids.append(np.array(found.encoding["input_ids"][row], np.int64))
            special.append(np.array(found.encoding["special_tokens_mask"][row], bool))
            informative.append(np.isin(np.arange(len(ids[-1])), located))
        if "token_type_ids" in found.encoding:
            types += [np.array(row, np.int64) for row in found.encoding["token_type_ids"]]
    return _Tokens(
        offsets=np.concatenate([[0], np.cumsum([len(row) for row in ids])]).astype(np.int64),
        token_ids=np.concatenate(ids),
        special=np.concatenate(special),
        informative=np.concatenate(informative),
        types=np.concatenate(types) if types else None,
    )


def _pad_id(tokenizer: Any) -> int:
    """Any token will do, as no other sees it; a model may have its reasons to expect the usual."""
    for token in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    return 0


def _batches(
    order: NDArray[np.int64], tokens: _Tokens, anatomy: _Anatomy, max_tokens: int
) -> Iterator[NDArray[np.int64]]:
    """Longest first: a batch too large for the memory fails at once, not after an hour."""
    states, heads = anatomy.n_states * anatomy.d_model, (anatomy.n_states - 1) * anatomy.n_heads
    while len(order):
        length = int(tokens.lengths[order[0]])
        limit = min(max_tokens, BATCH_FLOATS // max(states, heads * length))
        n = max(1, limit // length)
        yield order[:n]
        order = order[n:]


def _examine(model: Any, record: Callable[..., Recording], tokens: _Tokens) -> _Anatomy:
    """Shapes, and whether the model is causal, from two short runs.

    No flag says for every architecture whether it is causal. But only if it is, another last token
    leaves the state of the first as it was.
    """
    longest = tokens.take(np.array([np.argmax(tokens.lengths)]))
    ids = torch.from_numpy(longest.token_ids[None, :8])
    other = ids.clone()
    other[0, -1] = (other[0, -1] + 1) % model.config.get_text_config().vocab_size
    inputs = {"attention_mask": torch.ones_like(ids)}
    if longest.types is not None:
        inputs["token_type_ids"] = torch.from_numpy(longest.types[None, :8])
    one, two = record(input_ids=ids, **inputs), record(input_ids=other, **inputs)
    causal = ids.shape[1] > 1 and all(
        bool((a[0, 0] - b[0, 0]).abs().max() <= 1e-6 * a.abs().max())
        for a, b in zip(one.states, two.states, strict=True)
    )
    return _Anatomy(
        n_states=len(one.states),
        d_model=one.states[0].shape[-1],
        n_heads=one.attention[0].shape[1] if one.attention else 0,
        causal=causal,
    )


def _run_batch(
    record: Callable[..., Recording],
    tokens: _Tokens,
    anatomy: _Anatomy,
    positions: Sequence[str],
    pad_id: int,
) -> dict[str, NDArray[np.float32]]:
    lengths = torch.from_numpy(tokens.lengths)
    mask = torch.arange(int(lengths.max())) < lengths[:, None]  # (sentences, n_tokens)

    def padded(ragged: NDArray[Any], fill: int = 0) -> Tensor:
        flat = torch.from_numpy(ragged)
        return torch.full(mask.shape, fill, dtype=flat.dtype).masked_scatter_(mask, flat)

    inputs = {"input_ids": padded(tokens.token_ids, pad_id), "attention_mask": mask.long()}
    if tokens.types is not None:
        inputs["token_type_ids"] = padded(tokens.types)
    recording = record(**inputs)
    device = recording.states[0].device
    summary = lengths - 1 if anatomy.causal else torch.zeros_like(lengths)
    # Each pooled position is a weighted sum over tokens: one small product a layer gives them all.
    chosen = {
        "cls": torch.arange(mask.shape[1]) == summary[:, None],
        "informative": padded(tokens.informative),
        "mean": padded(~tokens.special),
    }
    pooled = [name for name in positions if name in chosen]
    results: dict[str, Tensor] = {}
    if pooled:
        weights = torch.stack([chosen[name] for name in pooled], dim=1).float()
        weights = (weights / weights.sum(-1, keepdim=True)).to(device)
        sums = torch.stack([weights @ layer.float() for layer in recording.states], dim=2)
        results |= {name: sums[:, i] for i, name in enumerate(pooled)}
    mask, summary = mask.to(device), summary.to(device)
    if "tokens" in positions:
        results["tokens"] = torch.stack([layer[mask].float() for layer in recording.states], dim=1)
    if recording.attention:
        rows = torch.arange(len(lengths), device=device)
        read = [layer[rows, :, summary].float() for layer in recording.attention]
        results["attention"] = torch.stack([layer.mT[mask] for layer in read], dim=1)
    for name, values in results.items():
        if not bool(values.isfinite().all()):
            raise ActivationError(f"the model gave infinite or undefined numbers at {name!r}")
    return {name: values.cpu().numpy() for name, values in results.items()}


def _occurrences(which: NDArray[np.int64], n_distinct: int) -> list[NDArray[np.int64]]:
    """For each distinct sentence the rows where it was asked for."""
    by_sentence = np.argsort(which, kind="stable")
    return np.split(by_sentence, np.cumsum(np.bincount(which, minlength=n_distinct))[:-1])


def _put(
    store: MemoryStore | FolderStore,
    results: dict[str, NDArray[np.float32]],
    part: _Tokens,
    asked_at: list[NDArray[np.int64]],
    everything: _Tokens,
) -> None:
    """Write the results of a batch to every row that asked for them, one repetition at a time."""
    for time in range(max(map(len, asked_at))):
        having = np.array([i for i, rows in enumerate(asked_at) if len(rows) > time])
        rows = np.array([asked_at[i][time] for i in having])
        ascending = np.argsort(rows)  # rows in order lie together, on disk too
        having, rows = having[ascending], rows[ascending]
        token_rows, token_sources = everything.rows(rows), part.rows(having)
        for name, values in results.items():
            if name in ("tokens", "attention"):
                store.put(name, token_rows, values[token_sources])
            else:
                store.put(name, rows, values[having])


def _key(
    model: Any, tokenizer: Any, asked: list[Text], positions: Sequence[str], attention: bool
) -> dict[str, Any]:
    """Everything the arrays depend on, by the name that an error gives it."""
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    for changing in ("padding", "truncation"):  # leftovers of the tokenizer's last call
        settings.pop(changing, None)

    def sha256(value: Any) -> str:
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

    return {
        "format": FORMAT,
        "version of torch": str(torch.__version__),
        "version of transformers": transformers.__version__,
        "list of texts and spans": sha256(asked),
        "choice of positions": sorted(positions),
        "choice of attention": attention,
        "model": fingerprint(model),
        "tokenizer": sha256(settings),
    }
