"""The values of the report's token view: attention, projections and masking, token by token.

There is one value per model, made of plain numbers: the JSON that html/tokens.js reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from data_gen import build_dataset
from probing.attribution import occlusion_changes
from probing.circuits.directions import informative_states, state_directions, word_states
from probing.models.pretrained import load_model
from probing.models.training import one_torch_thread
from probing.sentences import draw_by_word
from probing.states.extraction import read
from probing.states.tokens import States, tokenise
from probing.states.views import sentence_views
from studies.practice.figures.figure1 import SPLIT_NAMES

N_TRAIN = 480  # sentences that the directions come from, as in studies/practice/bridge.py
SHOWN = {"train": 5, "test": 5, "ood_tokens": 5, "ood_structure": 5, "ood_structure_tokens": 4}


def token_view(folder: Path, name: str, *, spec: str = "sentiment") -> dict[str, Any]:
    """The view of a trained classifier: its name, layers and heads, and 24 sentences."""
    dataset = build_dataset(spec)
    with one_torch_thread():
        model, tokenizer = load_model(str(folder), head="classifier")
        drawn = dataset["train"].select(draw_by_word(dataset["train"], N_TRAIN))
        axes = reading_axes(read(model, tokenise(tokenizer, drawn)))
        sentences: list[dict[str, Any]] = []
        for split, count in SHOWN.items():
            part = dataset[split].select(spread_rows(dataset[split], count))
            sentences += look_at(model, tokenizer, part, axes, SPLIT_NAMES[split])
    n_layers, n_heads = model.config.num_hidden_layers, model.config.num_attention_heads
    return {
        "name": name,
        "layers": list(range(1, n_layers + 1)),
        "heads": [{"layer": i + 1, "head": j + 1} for i, j in np.ndindex(n_layers, n_heads)],
        "sentences": sentences,
    }


def spread_rows(split: Any, count: int) -> list[int]:
    """Row numbers spread evenly over the split, with alternating labels.

    A split lists its sentences in the grammar's order, so its first rows are all alike.
    """
    labels = np.array(split["label"][:])
    by_label = [np.flatnonzero(labels == label) for label in (0, 1)]
    places = (np.arange(count) + 0.5) / count
    return [
        int(by_label[i % 2][int(place * len(by_label[i % 2]))]) for i, place in enumerate(places)
    ]


def reading_axes(states: States) -> list[dict[str, Any]]:
    """The axes (direction, zero, unit) along k_hat and v_hat of the states that each layer reads.

    Along k_hat, 0 is the mean of uninformative tokens and 1 that of informative words; along v_hat,
    -1 and 1 are the means of the informative words of the two labels.
    """
    axes = []
    informative = states.tokens.words_only().informative
    for layer in range(states.attention.shape[1]):
        directions = state_directions(states, layer)
        k_hat = directions.k_hat
        zero = float((word_states(states, layer)[~informative] @ k_hat).mean())
        unit = float((informative_states(states, layer) @ k_hat).mean()) - zero
        v = (directions.v_hat, directions.v_middle, directions.v_distance / 2)
        axes.append({"k": (k_hat, zero, unit), "v": v})
    return axes


def look_at(
    model: Any, tokenizer: Any, split: Any, axes: list[dict[str, Any]], split_name: str
) -> Iterator[dict[str, Any]]:
    """One value per sentence; lists run over its tokens, [CLS] and [SEP] included."""
    tokens = tokenise(tokenizer, split)
    states = read(model, tokens)
    rows = list(split)
    masked = occlusion_changes(model, tokenizer, rows)
    for i, (row, view) in enumerate(zip(rows, sentence_views(states, split), strict=True)):
        span = tokens.sentence(i)
        ids = tokens.ids[span].tolist()
        names = tokenizer.convert_ids_to_tokens(ids)
        # The words of a text are masked, not the marks behind them.
        starts = np.cumsum([0, *(len(word) + 1 for word in row["words"])])
        effects = dict(zip(starts.tolist(), map(rounded, masked[i]), strict=False))
        firsts = tokens.characters[span][:, 0].tolist()
        yield {
            "split": split_name,
            "text": row["text"],
            "label": model.config.id2label[row["label"]],
            "logit": rounded(states.logits[i]),
            "tokens": [word or name for word, name in zip(view.words, names, strict=True)],
            "roles": view.roles,
            "unknown": [
                bool(word) and token == tokenizer.unk_token_id
                for word, token in zip(view.words, ids, strict=True)
            ],
            # one list per head, layer by layer
            "attention": [list(map(rounded, x)) for x in view.attention.reshape(len(ids), -1).T],
            "k": [projections(states, span, layer, axis["k"]) for layer, axis in enumerate(axes)],
            "v": [projections(states, span, layer, axis["v"]) for layer, axis in enumerate(axes)],
            "masking": [
                effects.get(first) if word else None
                for word, first in zip(view.words, firsts, strict=True)
            ],
        }


def projections(states: States, span: slice, layer: int, axis: Any) -> list[float]:
    """Coordinates of one sentence's tokens along an axis (direction, zero, unit)."""
    direction, zero, unit = axis
    along = states.at(layer)[span].astype(float) @ direction
    return [rounded(x) for x in (along - zero) / unit]


def rounded(x: Any) -> float:
    """The number with four decimals, and 0.0 instead of -0.0."""
    return round(float(x), 4) + 0.0
