"""What the report's token view shows: attention, projections and masking, token by token.

One value per model, made of plain numbers: it becomes the JSON that html/tokens.js reads.
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
from studies.practice.figure1_figure import SPLIT_NAMES

N_TRAIN = 480  # sentences that the directions come from, as in studies/practice/bridge.py
SHOWN = {"train": 5, "test": 5, "ood_tokens": 5, "ood_structure": 5, "ood_structure_tokens": 4}


def token_view(folder: Path, name: str, *, spec: str = "sentiment") -> dict[str, Any]:
    """The view of one trained classifier: its heads and layers, and 24 sentences of all splits."""
    dataset = build_dataset(spec)
    with one_torch_thread():
        model, tokenizer = load_model(str(folder), classifier=True)
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
    """Evenly over the split, labels in turn: a split lists its sentences in the grammar's order."""
    labels = np.array(split["label"][:])
    by_label = [np.flatnonzero(labels == label) for label in (0, 1)]
    places = (np.arange(count) + 0.5) / count
    return [
        int(by_label[i % 2][int(place * len(by_label[i % 2]))]) for i, place in enumerate(places)
    ]


def reading_axes(states: States) -> list[dict[str, Any]]:
    """For each layer, of the states that it reads: k_hat and v_hat with their zeros and units.

    Along k_hat 0 is the mean uninformative token and 1 the mean informative one; along v_hat -1
    and 1 are the means of the two labels' informative words.
    """
    axes = []
    informative = states.tokens.words_only().informative
    for layer in range(states.attention.shape[1]):
        at = state_directions(states, layer)
        others = word_states(states, layer)[~informative]
        zero = float((others @ at.k_hat).mean())
        one = float((informative_states(states, layer) @ at.k_hat).mean())
        v = (at.v_hat, at.v_middle, at.v_distance / 2)
        axes.append({"k": (at.k_hat, zero, one - zero), "v": v})
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
        here = tokens.sentence(i)
        ids = tokens.ids[here].tolist()
        names = tokenizer.convert_ids_to_tokens(ids)
        effects = map(rounded, masked[i])
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
            "k": [projections(states, here, layer, at["k"]) for layer, at in enumerate(axes)],
            "v": [projections(states, here, layer, at["v"]) for layer, at in enumerate(axes)],
            "masking": [next(effects) if word else None for word in view.words],
        }


def projections(states: States, here: slice, layer: int, axis: Any) -> list[float]:
    direction, zero, unit = axis
    along = states.at(layer)[here].astype(float) @ direction
    return [rounded(x) for x in (along - zero) / unit]


def rounded(x: Any) -> float:
    return round(float(x), 4) + 0.0
