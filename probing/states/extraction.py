"""Hidden states of every layer of a Transformer, and attention of every head, for each sentence.

``extract`` runs each distinct sentence once, in batches of similar length, and keeps the requested
arrays in memory or on disk. ``read`` runs a few hundred sentences as one batch, for repeated use
with other weights or edits. Batches are padded on the right, whatever the tokenizer's default: then
every token of encoders, decoders and RoBERTa has the position that it has in an unpadded sentence,
and no token attends to padding.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from probing.arrays import FloatArray, IntArray, as_array
from probing.processes import rank_and_size
from probing.progress import Progress
from probing.sentences import columns_of
from probing.states.anatomy import Anatomy, anatomy_of, read_by
from probing.states.batches import at_once, planned, side_by_side
from probing.states.fingerprint import key_of
from probing.states.limits import check_finite, check_lengths, check_padding, check_tokens
from probing.states.parts import ActivationError
from probing.states.readout import Readout
from probing.states.recording import Recording, recorded
from probing.states.store import FolderStore, MemoryStore, Name, Shapes, open_folder
from probing.states.tokens import OWN_COLUMNS, States, Tokens, tokenise

SITES = {"summary": "summary", "informative": "informative", "mean": "all words"}  # pooled
POSITIONS = (*SITES, "tokens")
Store = MemoryStore | FolderStore


def extract(
    model: Any,
    tokenizer: Any,
    rows: Any,
    *,
    positions: Sequence[str] = ("summary", "informative", "mean"),
    layers: Sequence[int] | None = None,
    attention: bool = False,
    logits: bool = False,
    max_tokens_per_batch: int = 1024,
    folder: str | Path | None = None,
    storage_dtype: Literal["float32", "bfloat16"] | None = None,
    progress: Progress | None = None,
) -> States:
    """Hidden states of the layers asked for, for each sentence; attention and logits on request.

    Processes that torchrun started, and that have ``joined``, share the sentences.

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
    layers
        Layers to keep (0 is the embeddings); by default all. Layers above the highest are not
        computed, unless attention or logits are asked for.
    attention
        Also return the attention of the summary token to every token, in every head.
    logits
        Also return the logit of label 1 minus that of label 0 or, with more than two labels, all
        logits (sentences, n_labels). Required: a classifier.
    max_tokens_per_batch
        Largest number of tokens per batch, with padding (one sentence may have more). On a CPU
        several batches run at a time.
    folder
        Where the arrays are written, one file per layer; each is read when it is asked for. A run
        that was interrupted is resumed; a folder made from other inputs is refused.
    storage_dtype
        Precision of the files; bfloat16 takes half of the space. By default that of the folder, and
        float32 in a new one.
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
    texts = [rows["text"][i] for i in distinct]
    check_tokens(model, tokenizer, tokens, texts)
    # A repeated sentence may have different labels or patterns.
    columns = {key: rows[column] for key, column in OWN_COLUMNS.items() if column in rows}
    tokens, anatomy = read_by(model, tokens), anatomy_of(model)
    layers = _check_layers(layers, anatomy)
    if logits:
        check_padding(model, tokens)
    all_tokens = replace(tokens.take(which), **columns)
    n_labels = model.config.num_labels if logits else 0
    shapes = _shapes(all_tokens, anatomy, positions, layers, attention, n_labels)
    opened: Any = nullcontext(MemoryStore(shapes, len(distinct)) if folder is None else None)
    if folder is not None:
        key = key_of(model, tokenizer, requested, logits=logits)
        opened = open_folder(Path(folder).resolve(), key, shapes, len(distinct), storage_dtype)
    elif rank_and_size()[1] > 1:
        raise ActivationError("several processes need a folder to write to; give one")
    # The rows of each distinct sentence.
    rows_of = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    with opened as store:
        computed = _computed(model, tokens, texts, store, max_tokens_per_batch, progress)
        for batch, results in computed:
            _put(store, results, tokens.take(batch), [rows_of[i] for i in batch], all_tokens)
    return States(
        tokens=all_tokens,
        hidden=store.states(name for name in shapes if not isinstance(name, str)),
        attention=store.array("attention") if attention else None,
        logits=store.array("logits") if logits else None,
    )


def _computed(
    model: Any,
    tokens: Tokens,
    texts: Sequence[str],
    store: Store,
    max_tokens: int,
    progress: Progress | None,
) -> Iterator[tuple[IntArray, dict[Name, FloatArray]]]:
    """Batches of sentences that are not finished yet and this process's share, with results."""
    order = np.argsort(-tokens.lengths, kind="stable")
    attention, logits = "attention" in store.shapes, "logits" in store.shapes
    plan = planned(model, tokens.lengths[order], max_tokens, attention=attention)
    rank, size = rank_and_size()
    n_before = int(store.finished.sum())
    unfinished = [places for places in plan if not store.finished[places].all()]
    own, n_done = unfinished[rank::size], 0
    if not own:
        return
    names = [name for name in store.shapes if not isinstance(name, str)]
    deepest = None if attention or logits else max((layer for layer, _ in names), default=0)
    with recorded(model, classify=logits, deepest=deepest) as record:

        def run(places: slice) -> tuple[slice, IntArray, dict[Name, FloatArray]]:
            batch = order[places]
            part, spelled = tokens.take(batch), [texts[i] for i in batch]
            return places, batch, _run_batch(record, part, spelled, store.shapes)

        n_threads = at_once(model, tokens.lengths, attention=attention)
        with closing(side_by_side(run, own, n_threads)) as finished:
            for places, batch, results in finished:
                yield batch, results
                del results  # before the next batch makes its own
                store.finish(places)
                n_done += len(batch)
                if progress:  # of all processes, if they are as fast as this one
                    progress(min(n_before + n_done * size, len(tokens)), len(tokens))


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
    check_lengths(model, tokens)
    if readout is None:
        check_padding(model, tokens)
    padded = tokens.padded()
    with recorded(model, classify=readout is None) as record:
        recording = record(_summaries(tokens), **padded.inputs)
        last = recording.states[-1]
        logits = as_array(_against(recording) if readout is None else readout(last, tokens))
        hidden = {
            (layer, "tokens"): as_array(padded.ragged(state))
            for layer, state in enumerate(recording.states if states else ())
        }
        for (layer, _), values in hidden.items():
            check_finite(f"layer {layer}", values, tokens)
        check_finite("the prediction", logits, tokens)
        return States(tokens, hidden, attention=_attention(recording, tokens), logits=logits)


def _summaries(tokens: Tokens) -> Tensor:
    """The place of the summary token in each sentence."""
    return torch.from_numpy(tokens.positions[tokens.mask("summary")])


def _shapes(
    tokens: Tokens,
    anatomy: Anatomy,
    positions: Sequence[str],
    layers: Sequence[int],
    attention: bool,
    n_labels: int,
) -> Shapes:
    """The shapes of the requested arrays, by name."""
    n_tokens, n_sentences = int(tokens.offsets[-1]), len(tokens)
    shapes: dict[Name, tuple[int, ...]] = {
        (layer, name): (n_tokens if name == "tokens" else n_sentences, anatomy.d_model)
        for layer in layers
        for name in positions
    }
    if attention:
        shapes["attention"] = (n_tokens, anatomy.n_layers, anatomy.n_heads)
    if n_labels:  # of two, the difference of the logits
        shapes["logits"] = (n_sentences, n_labels) if n_labels > 2 else (n_sentences,)
    return shapes


def _check_layers(layers: Sequence[int] | None, anatomy: Anatomy) -> list[int]:
    """The layers asked for, in order."""
    if layers is None:
        return list(range(anatomy.n_layers + 1))
    if isinstance(layers, int):
        raise ActivationError(f"layers is a list of numbers; write [{layers}]")
    for layer in layers:
        if not 0 <= layer <= anatomy.n_layers:
            raise ActivationError(f"no layer {layer}; layers are 0 to {anatomy.n_layers}")
    if len(layers) == 0:
        raise ActivationError("layers is empty; leave it out for all layers")
    return sorted(set(layers))


def _check_request(rows: Any, positions: Sequence[str], max_tokens: int) -> None:
    if len(rows["text"]) == 0:  # texts may be an array, which has no truth value
        raise ActivationError("there are no texts to run")
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


def _run_batch(
    record: Callable[..., Recording], tokens: Tokens, texts: Sequence[str], shapes: Shapes
) -> dict[Name, FloatArray]:
    """The arrays of these names for a batch."""
    padded = tokens.padded()
    summary = {"summary": _summaries(tokens)} if "attention" in shapes else {}
    recording = record(**summary, **padded.inputs)
    results: dict[Name, FloatArray] = {}
    positions = {name[1] for name in shapes if not isinstance(name, str)}
    if pooled := [name for name in SITES if name in positions]:
        # Each pooled position is a weighted sum over tokens: one small product per layer gives all.
        weights = torch.stack([tokens.site(SITES[name]) for name in pooled], dim=1).float()
        weights /= weights.sum(-1, keepdim=True)
    for layer in sorted({name[0] for name in shapes if not isinstance(name, str)}):
        state = recording.states[layer]
        if pooled:
            sums = as_array(weights.to(state.device) @ state.float())
            results |= {(layer, name): sums[:, i] for i, name in enumerate(pooled)}
        if "tokens" in positions:
            results[layer, "tokens"] = as_array(padded.ragged(state))
    if "attention" in shapes:
        results["attention"] = _attention(recording, tokens, texts)
    if "logits" in shapes:
        results["logits"] = as_array(_label_logits(recording))
    for name, values in results.items():
        where = f"the {name}" if isinstance(name, str) else f"layer {name[0]}"
        check_finite(where, values, tokens, texts)
    return {name: results[name] for name in shapes}


def _attention(
    recording: Recording, tokens: Tokens, texts: Sequence[str] | None = None
) -> FloatArray:
    """The summary's attention, one row per token; refused if it does not sum to 1."""
    weights = tokens.padded().layers(recording.attention)
    for layer in range(weights.shape[1]):
        check_finite(f"the attention in layer {layer + 1}", weights[:, layer], tokens, texts)
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
    if recording.logits is None or recording.logits.ndim != 2:
        raise ActivationError("logits need a classifier; this model is not one")
    return recording.logits if recording.logits.shape[1] > 2 else _against(recording)


def _against(recording: Recording) -> Tensor:
    """The logit of label 1 minus that of label 0, shape (sentences,)."""
    shape = () if recording.logits is None else tuple(recording.logits.shape)
    if recording.logits is None or len(shape) != 2 or shape[1] != 2:
        how = f"has {shape[1]}" if len(shape) == 2 else "is not one"
        raise ActivationError(f"this needs a classifier with two labels; the model {how}")
    return recording.logits[:, 1] - recording.logits[:, 0]


def _put(
    store: Store,
    results: dict[Name, FloatArray],
    part: Tokens,
    rows_of: list[IntArray],
    all_tokens: Tokens,
) -> None:
    """Write the results of a batch to all rows of its sentences, one repetition at a time."""
    for repetition in range(max(map(len, rows_of))):
        pairs = [(rows[repetition], i) for i, rows in enumerate(rows_of) if len(rows) > repetition]
        rows, sentences = np.array(sorted(pairs)).T  # rows in order are contiguous, on disk too
        token_rows, tokens = all_tokens.rows(rows), part.rows(sentences)
        for name, values in results.items():
            if name == "attention" or name[1] == "tokens":
                store.put(name, token_rows, values[tokens])
            else:
                store.put(name, rows, values[sentences])
