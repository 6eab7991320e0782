"""What a Transformer holds of each sentence: hidden states of every layer, attention of every head.

``extract`` runs sentences in batches of like length, each distinct one once, and keeps what is
asked for in memory or on disk. ``read`` runs a few hundred as one batch, again and again with other
weights or edits. Batches are padded on the right whatever the tokenizer prefers: then every token
of encoders, decoders and RoBERTa has the position it has alone, and padding is never seen.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probing.arrays import FloatArray, IntArray
from probing.progress import Progress
from probing.sentences import columns_of
from probing.states.anatomy import ActivationError, Anatomy, anatomy_of
from probing.states.recording import Recording, recorded
from probing.states.store import FolderStore, MemoryStore, key_of
from probing.states.tokens import OWN_COLUMNS, States, Tokens, tokenise

POSITIONS = ("summary", "informative", "mean", "tokens")
BATCH_FLOATS = 2**24  # 64 MiB: how much one batch may give in states, and again in attention

Readout = Callable[[Tensor, Tensor], Tensor]  # last states, mask of words -> one logit per sentence


def extract(
    model: Any,
    tokenizer: Any,
    rows: Any,
    *,
    positions: Sequence[str] = ("summary", "informative", "mean"),
    attention: bool = False,
    logits: bool = False,
    max_tokens_per_batch: int = 2048,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> States:
    """Hidden states of every layer for each sentence; attention and logits if asked for.

    ``rows`` is a split of a dataset, or a mapping with the columns "text" and "span" (the
    characters of the informative word) and, for probes, "label".

    ``positions``: "summary" is the token that summarises the sentence, the first of an encoder
    ([CLS]) and the last of a decoder; "informative" is the mean over the tokens of
    ``text[start:end]``, "mean" that over all tokens but special ones, "tokens" every token.
    ``attention`` is that of the summary token, in every head; ``logits`` are those of a
    classifier, of label 1 against label 0.

    With a ``folder`` the arrays are written there and returned as memory maps. Sentences it holds
    already, from a run that was interrupted or finished, are not computed again; a folder that was
    made of anything else is refused. ``progress(done, of)`` counts distinct sentences.

    >>> states = extract(model, tokenizer, dataset["test"], positions=("summary", "tokens"))
    >>> states.at(3, "summary").shape  # (sentences, d_model)
    """
    rows = columns_of(rows)
    _check_request(rows, positions, max_tokens_per_batch)
    asked = [
        (text, int(a), int(b)) for text, (a, b) in zip(rows["text"], rows["span"], strict=True)
    ]
    numbers: dict[Any, int] = {}  # of distinct sentences, as they come
    which = np.array([numbers.setdefault(sentence, len(numbers)) for sentence in asked])
    distinct = np.unique(which, return_index=True)[1]
    tokens = tokenise(tokenizer, {name: [rows[name][i] for i in distinct] for name in rows})
    _check_tokens(model, tokenizer, tokens)
    # A sentence may be there twice, with different labels or patterns.
    own = {key: rows[column] for key, column in OWN_COLUMNS.items() if column in rows}
    everything = replace(tokens.take(which), **own)
    with recorded(model, attention=attention, classify=logits) as record:
        anatomy = anatomy_of(model, record)
        n_tokens = int(everything.offsets[-1])
        shapes: dict[str, tuple[int, ...]] = {
            name: (n_tokens if name == "tokens" else len(asked), anatomy.n_states, anatomy.d_model)
            for name in positions
        }
        if attention:
            shapes["attention"] = (n_tokens, anatomy.n_states - 1, anatomy.n_heads)
        if logits:
            shapes["logits"] = (len(asked),)
        store: MemoryStore | FolderStore = MemoryStore(shapes)
        if folder is not None:
            key = key_of(model, tokenizer, asked, list(shapes))
            store = FolderStore(Path(folder), key, shapes)
        # For each distinct sentence the rows where it was asked for.
        asked_at = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
        left = np.argsort(-tokens.lengths, kind="stable")[store.finished :]
        for batch in _batches(left, tokens, anatomy, max_tokens_per_batch, attention):
            part = tokens.take(batch)
            results = _run_batch(record, part, anatomy, positions, logits)
            _put(store, results, part, [asked_at[i] for i in batch], everything)
            del results  # before the next batch makes its own
            store.finish(store.finished + len(batch))
            if progress:
                progress(store.finished, len(distinct))
    arrays = store.read()
    return States(
        tokens=everything,
        layers=arrays.get("tokens"),
        pooled={name: arrays[name] for name in positions if name != "tokens"},
        attention=arrays.get("attention"),
        logits=arrays.get("logits"),
    )


def read(model: Any, tokens: Tokens, readout: Readout | None = None) -> States:
    """States, attention and logits of all sentences, in one batch, with whatever edits are made.

    The logits are a classifier's own or, if there is a ``readout``, what that makes of the last
    hidden states. Attention is that of the first token, [CLS].

    >>> tokens = tokenise(tokenizer, dataset["test"].select(range(100)))
    >>> read(model, tokens).logits > 0
    """
    padded = tokens.padded()
    with recorded(model, attention=True, classify=readout is None) as record:
        recording = record(**padded.inputs)
        if readout is None:
            logits = _against(recording)
        else:
            logits = readout(recording.states[-1], tokens.site("all words"))
        weights = [layer[:, :, 0].mT for layer in recording.attention]
        parts = (padded.layers(recording.states), padded.layers(weights), logits)
        layers, attention, decided = (part.cpu().numpy() for part in parts)
        return States(tokens, layers, attention=attention, logits=decided)


def _check_request(rows: Any, positions: Sequence[str], max_tokens: int) -> None:
    texts, spans = rows["text"], rows["span"]
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


def _check_tokens(model: Any, tokenizer: Any, tokens: Tokens) -> None:
    config = model.config.get_text_config()
    known = getattr(config, "max_position_embeddings", None)
    most = min(tokenizer.model_max_length, known or tokenizer.model_max_length)
    if (longest := int(tokens.lengths.max())) > most:
        raise ActivationError(f"a text has {longest} tokens, but the model takes {most} at most")
    if (highest := int(tokens.ids.max())) >= config.vocab_size:
        raise ActivationError(
            f"the tokenizer gives token {highest}, but the model knows {config.vocab_size}: "
            "not its tokenizer"
        )


def _batches(
    order: IntArray, tokens: Tokens, anatomy: Anatomy, max_tokens: int, attention: bool
) -> Iterator[IntArray]:
    """Longest first: a batch too large for the memory fails at once, not after an hour."""
    states = anatomy.n_states * anatomy.d_model
    heads = (anatomy.n_states - 1) * anatomy.n_heads if attention else 0
    while len(order):
        length = int(tokens.lengths[order[0]])
        limit = min(max_tokens, BATCH_FLOATS // max(states, heads * length))
        n = max(1, limit // length)
        yield order[:n]
        order = order[n:]


def _run_batch(
    record: Callable[..., Recording],
    tokens: Tokens,
    anatomy: Anatomy,
    positions: Sequence[str],
    logits: bool,
) -> dict[str, FloatArray]:
    padded, lengths = tokens.padded(), torch.from_numpy(tokens.lengths)
    recording = record(**padded.inputs)
    device = recording.states[0].device
    summary = lengths - 1 if anatomy.causal else torch.zeros_like(lengths)
    # Each pooled position is a weighted sum over tokens: one small product per layer gives all.
    chosen = {
        "summary": torch.arange(padded.mask.shape[1]) == summary[:, None],
        "informative": padded.of(tokens.informative),
        "mean": padded.of(~tokens.special),
    }
    pooled = [name for name in positions if name in chosen]
    results: dict[str, Tensor] = {}
    if pooled:
        weights = torch.stack([chosen[name] for name in pooled], dim=1).float()
        weights = (weights / weights.sum(-1, keepdim=True)).to(device)
        sums = torch.stack([weights @ layer.float() for layer in recording.states], dim=2)
        results |= {name: sums[:, i] for i, name in enumerate(pooled)}
    if "tokens" in positions:
        results["tokens"] = padded.layers(recording.states).float()
    if recording.attention:
        sentences, at = torch.arange(len(lengths), device=device), summary.to(device)
        read = [layer[sentences, :, at].mT for layer in recording.attention]
        results["attention"] = padded.layers(read).float()
    if logits:
        results["logits"] = _against(recording).float()
    for name, values in results.items():
        if not bool(values.isfinite().all()):
            raise ActivationError(f"the model gave infinite or undefined numbers at {name!r}")
    return {name: values.cpu().numpy() for name, values in results.items()}


def _against(recording: Recording) -> Tensor:
    """The logit of label 1 against label 0, one per sentence."""
    if recording.logits is None or recording.logits.ndim != 2 or recording.logits.shape[1] != 2:
        raise ActivationError("logits are those of a classifier with two labels; this is not one")
    return recording.logits[:, 1] - recording.logits[:, 0]


def _put(
    store: MemoryStore | FolderStore,
    results: dict[str, FloatArray],
    part: Tokens,
    asked_at: list[IntArray],
    everything: Tokens,
) -> None:
    """Write the results of a batch to every row that asked for them, one repetition at a time."""
    for time in range(max(map(len, asked_at))):
        pairs = [(rows[time], i) for i, rows in enumerate(asked_at) if len(rows) > time]
        rows, having = np.array(sorted(pairs)).T  # rows in order lie together, on disk too
        for name, values in results.items():
            if name in ("tokens", "attention"):
                store.put(name, everything.rows(rows), values[part.rows(having)])
            else:
                store.put(name, rows, values[having])
