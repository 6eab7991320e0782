"""Hidden states of every layer of a Transformer, and attention of every head, for each sentence.

``extract`` runs each distinct sentence once, in batches of similar length, and keeps the requested
arrays in memory or on disk. ``read`` runs a few hundred sentences as one batch, for repeated use
with other weights or edits. Batches are padded on the right, whatever the tokenizer's default: then
every token of encoders, decoders and RoBERTa has the position that it has in an unpadded sentence,
and no token attends to padding.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probing.arrays import FloatArray, IntArray, as_array
from probing.progress import Progress
from probing.sentences import columns_of
from probing.states.anatomy import Anatomy, anatomy_of, read_by
from probing.states.attention import NAME
from probing.states.parts import ActivationError, foreign_hooks
from probing.states.readout import Readout
from probing.states.recording import Recording, recorded
from probing.states.store import FolderStore, MemoryStore, key_of
from probing.states.threads import side_by_side
from probing.states.tokens import OWN_COLUMNS, States, Tokens, tokenise

SITES = {"summary": "summary", "informative": "informative", "mean": "all words"}  # pooled
POSITIONS = (*SITES, "tokens")
BATCH_FLOATS = 2**24  # 64 MiB: the largest states of one batch, and the largest attention


def extract(
    model: Any,
    tokenizer: Any,
    rows: Any,
    *,
    positions: Sequence[str] = ("summary", "informative", "mean"),
    attention: bool = False,
    logits: bool = False,
    max_tokens_per_batch: int = 1024,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> States:
    """Hidden states of every layer for each sentence; attention and logits on request.

    Parameters
    ----------
    model, tokenizer
        An encoder or decoder of the Hugging Face library, and its fast tokenizer.
    rows
        A split of a dataset, or a mapping with the columns "text" and "span" (start and end of the
        informative word's characters) and, for probes, "label". New texts may have no "span": then
        the position "informative" does not exist.
    positions
        "summary": the first token of an encoder ([CLS]), the last of a decoder; "informative": the
        mean over the tokens of the informative word; "mean": the mean over all tokens but special
        ones; "tokens": every token.
    attention
        Also return the attention of the summary token to every token, in every head.
    logits
        Also return the logit of label 1 minus that of label 0 or, with more than two labels, all
        logits (sentences, n_labels). Required: a classifier.
    max_tokens_per_batch
        Largest number of tokens per batch, with padding (one sentence may have more). On a CPU
        several batches run at a time.
    folder
        Where the arrays are written; they are then returned as memory maps. A run that was
        interrupted is resumed; a folder made from other inputs is refused.
    progress
        ``progress(done, total)`` counts distinct sentences.

    >>> states = extract(model, tokenizer, dataset["test"], positions=("summary", "tokens"))
    >>> states.at(3, "summary").shape  # (sentences, d_model)
    """
    rows = columns_of(rows)
    _check_request(rows, positions, max_tokens_per_batch)
    spans = rows.get("span", [(0, 0)] * len(rows["text"]))
    requested = [(text, int(a), int(b)) for text, (a, b) in zip(rows["text"], spans, strict=True)]
    numbers: dict[Any, int] = {}  # of distinct sentences, by first occurrence
    which = np.array([numbers.setdefault(sentence, len(numbers)) for sentence in requested])
    distinct = np.unique(which, return_index=True)[1]
    tokens = tokenise(tokenizer, {name: [rows[name][i] for i in distinct] for name in rows})
    _check_tokens(model, tokenizer, tokens)
    # A repeated sentence may have different labels or patterns.
    columns = {key: rows[column] for key, column in OWN_COLUMNS.items() if column in rows}
    tokens, anatomy = read_by(model, tokens), anatomy_of(model)
    if logits:
        _check_padding(model, tokens)
    all_tokens = replace(tokens.take(which), **columns)
    with recorded(model, classify=logits) as record:
        shapes = _shapes(all_tokens, anatomy, positions, attention, logits)
        if logits and model.config.num_labels > 2:
            shapes["logits"] += (model.config.num_labels,)
        store: MemoryStore | FolderStore = MemoryStore(shapes)
        if folder is not None:
            key = key_of(model, tokenizer, requested, list(shapes))
            store = FolderStore(Path(folder), key, shapes)
        # The rows of each distinct sentence.
        rows_of = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
        unfinished = np.argsort(-tokens.lengths, kind="stable")[store.finished :]
        at_once = 1 if attention else _at_once(model, tokens, max_tokens_per_batch)
        limit = _limit(tokens, max_tokens_per_batch, at_once)
        batches = _batches(unfinished, tokens, anatomy, limit, attention)

        def run(batch: IntArray) -> tuple[IntArray, dict[str, FloatArray]]:
            return batch, _run_batch(record, tokens.take(batch), positions, attention, logits)

        with closing(side_by_side(run, batches, at_once)) as finished:
            for batch, results in finished:
                _put(store, results, tokens.take(batch), [rows_of[i] for i in batch], all_tokens)
                del results  # before the next batch makes its own
                store.finish(store.finished + len(batch))
                if progress:
                    progress(store.finished, len(distinct))
    arrays = store.read()
    return States(
        tokens=all_tokens,
        layers=arrays.get("tokens"),
        pooled={name: arrays[name] for name in positions if name != "tokens"},
        attention=arrays.get("attention"),
        logits=arrays.get("logits"),
    )


def read(
    model: Any, tokens: Tokens, readout: Readout | None = None, *, states: bool = True
) -> States:
    """States, attention and logits of all sentences in one batch, under the edits in force.

    The logits are those of the classifier or, with a ``readout``, of the readout applied to the
    last hidden states. Without ``states`` only attention and logits are returned.

    >>> tokens = tokenise(tokenizer, dataset["test"].select(range(100)))
    >>> read(model, tokens).logits > 0
    """
    tokens = read_by(model, tokens)
    _check_lengths(model, tokens)
    if readout is None:
        _check_padding(model, tokens)
    padded = tokens.padded()
    with recorded(model, classify=readout is None) as record:
        recording = record(_summaries(tokens), **padded.inputs)
        last = recording.states[-1]
        logits = _against(recording) if readout is None else readout(last, tokens)
        return States(
            tokens,
            padded.layers(recording.states) if states else None,
            attention=_attention(recording, tokens),
            logits=as_array(logits),
        )


def _summaries(tokens: Tokens) -> Tensor:
    """The place of the summary token in each sentence."""
    return torch.from_numpy(tokens.positions[tokens.mask("summary")])


def _shapes(
    tokens: Tokens, anatomy: Anatomy, positions: Sequence[str], attention: bool, logits: bool
) -> dict[str, tuple[int, ...]]:
    """The shapes of the requested arrays, by name."""
    n_tokens, n_sentences = int(tokens.offsets[-1]), len(tokens)
    shapes: dict[str, tuple[int, ...]] = {
        name: (n_tokens if name == "tokens" else n_sentences, anatomy.n_layers + 1, anatomy.d_model)
        for name in positions
    }
    if attention:
        shapes["attention"] = (n_tokens, anatomy.n_layers, anatomy.n_heads)
    if logits:
        shapes["logits"] = (n_sentences,)
    return shapes


def _check_request(rows: Any, positions: Sequence[str], max_tokens: int) -> None:
    texts, spans = rows["text"], rows.get("span", rows["text"])
    if len(texts) == 0:  # texts may be an array or a column, which have no truth value
        raise ActivationError("there are no texts to run")
    if len(texts) != len(spans):
        raise ActivationError(f"{len(texts)} texts but {len(spans)} spans; give one span per text")
    if isinstance(positions, str):
        raise ActivationError(f"positions is a list of names; write [{positions!r}]")
    if unknown := [name for name in positions if name not in POSITIONS]:
        raise ActivationError(f"unknown position {unknown[0]!r}; there are {', '.join(POSITIONS)}")
    if "informative" in positions and "span" not in rows:
        raise ActivationError("these texts have no spans, so that no word is known as informative")
    if len(set(positions)) != len(positions):
        raise ActivationError("a position is given twice")
    if max_tokens < 1:
        raise ActivationError(f"max_tokens_per_batch is {max_tokens}; it must be at least 1")


def _check_lengths(model: Any, tokens: Tokens, limit: float = float("inf")) -> None:
    n_positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    limit = min(limit, n_positions or limit)
    if (longest := int(tokens.lengths.max())) > limit:
        raise ActivationError(f"a text has {longest} tokens, but the model takes {limit} at most")


def _check_padding(model: Any, tokens: Tokens) -> None:
    """Refuse a decoder's classifier that would take padding for the end of a sentence."""
    theirs = model.config.get_text_config().pad_token_id
    if anatomy_of(model).causal and len(set(tokens.lengths)) > 1 and theirs != tokens.pad_id:
        raise ActivationError(
            f"the classifier finds the end of a sentence by pad_token_id {theirs}, but sentences "
            f"are padded with {tokens.pad_id}; set pad_token_id of the model and the tokenizer"
        )


def _check_tokens(model: Any, tokenizer: Any, tokens: Tokens) -> None:
    config = model.config.get_text_config()
    _check_lengths(model, tokens, tokenizer.model_max_length)
    if (highest := int(tokens.ids.max())) >= config.vocab_size:
        raise ActivationError(
            f"the tokenizer gives token {highest}, but the model knows {config.vocab_size}: "
            "this is not the model's tokenizer"
        )


def _batches(
    order: IntArray, tokens: Tokens, anatomy: Anatomy, max_tokens: int, attention: bool
) -> Iterator[IntArray]:
    """Batches of sentence numbers, longest first: one too large for the memory fails at once."""
    states = (anatomy.n_layers + 1) * anatomy.d_model
    heads = anatomy.n_heads if attention else 0  # one layer at a time
    while len(order):
        length = int(tokens.lengths[order[0]])
        limit = min(max_tokens, BATCH_FLOATS // max(states, heads * length))
        n = max(1, limit // length)
        # Sentences of one length need no mask, without which attention takes half of its time.
        same = int((tokens.lengths[order[:n]] == length).sum())
        n = same if 2 * same >= n else n
        yield order[:n]
        order = order[n:]


def _at_once(model: Any, tokens: Tokens, max_tokens: int) -> int:
    """How many batches run at a time: one per thread, where none can change another.

    It does not depend on what is unfinished: a resumed run has the last digits of a whole one, if
    it has as many threads.
    """
    on_cpu = all(weights.device.type == "cpu" for weights in model.parameters())
    tapped = model.config._attn_implementation == NAME  # taps know the layer by counting calls
    short = tokens.lengths.max() <= 512  # longer sentences change some models' rotary frequencies
    if not on_cpu or not short or tapped or any(foreign_hooks(model)):
        return 1
    if torch.is_autocast_enabled("cpu"):  # which holds for one thread
        return 1
    return max(1, min(torch.get_num_threads(), int(tokens.offsets[-1]) // min(max_tokens, 512)))


def _limit(tokens: Tokens, max_tokens: int, at_once: int) -> int:
    """Largest number of tokens per batch: several batches per thread, so that none waits long."""
    if at_once == 1:
        return max_tokens
    return min(max_tokens, max(256, int(tokens.offsets[-1]) // (8 * at_once)))


def _run_batch(
    record: Callable[..., Recording],
    tokens: Tokens,
    positions: Sequence[str],
    attention: bool,
    logits: bool,
) -> dict[str, FloatArray]:
    padded = tokens.padded()
    recording = record(_summaries(tokens) if attention else None, **padded.inputs)
    results: dict[str, FloatArray] = {}
    if pooled := [name for name in positions if name in SITES]:
        # Each pooled position is a weighted sum over tokens: one small product per layer gives all.
        weights = torch.stack([tokens.site(SITES[name]) for name in pooled], dim=1).float()
        weights /= weights.sum(-1, keepdim=True)
        sums = [as_array(weights.to(layer.device) @ layer.float()) for layer in recording.states]
        results |= dict(zip(pooled, np.stack(sums, axis=2).swapaxes(0, 1), strict=True))
    if "tokens" in positions:
        results["tokens"] = padded.layers(recording.states)
    if attention:
        results["attention"] = _attention(recording, tokens)
    if logits:
        results["logits"] = as_array(_label_logits(recording))
    for name, values in results.items():
        if not np.isfinite(values).all():
            raise ActivationError(f"the model gave infinite or undefined numbers at {name!r}")
    return results


def _attention(recording: Recording, tokens: Tokens) -> FloatArray:
    """The summary's attention, one row per token; refused if it does not sum to 1."""
    weights = tokens.padded().layers(recording.attention)
    tolerance = max(1e-4, 4 * torch.finfo(recording.attention[0].dtype).eps)
    errors = np.abs(np.add.reduceat(weights, tokens.offsets[:-1]) - 1).max(axis=(0, 2))
    if not (errors <= tolerance).all():
        layer = int(np.argmax(~(errors <= tolerance)))
        raise ActivationError(
            f"attention of layer {layer + 1} does not sum to 1 (off by {errors[layer]:.1e})"
        )
    return weights


def _label_logits(recording: Recording) -> Tensor:
    """All logits of more than two labels; of two labels the difference."""
    logits = recording.logits
    is_more = logits is not None and logits.ndim == 2 and logits.shape[1] > 2
    return logits if is_more and logits is not None else _against(recording)


def _against(recording: Recording) -> Tensor:
    """The logit of label 1 minus that of label 0, shape (sentences,)."""
    if recording.logits is None or recording.logits.ndim != 2 or recording.logits.shape[1] != 2:
        raise ActivationError("logits need a classifier with two labels; this model is not one")
    return recording.logits[:, 1] - recording.logits[:, 0]


def _put(
    store: MemoryStore | FolderStore,
    results: dict[str, FloatArray],
    part: Tokens,
    rows_of: list[IntArray],
    all_tokens: Tokens,
) -> None:
    """Write the results of a batch to all rows of its sentences, one repetition at a time."""
    for repetition in range(max(map(len, rows_of))):
        pairs = [(rows[repetition], i) for i, rows in enumerate(rows_of) if len(rows) > repetition]
        rows, sentences = np.array(sorted(pairs)).T  # rows in order are contiguous, on disk too
        for name, values in results.items():
            if name in ("tokens", "attention"):
                store.put(name, all_tokens.rows(rows), values[part.rows(sentences)])
            else:
                store.put(name, rows, values[sentences])
