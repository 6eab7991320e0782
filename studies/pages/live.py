"""The Transformer that runs in the page: its weights at every snapshot, and its axes.

The values are the JSON that html/model/transformer.js reads; tests compare what the page computes
with torch. Snapshots are in half precision, but for the last, which is the model itself.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np

from data_gen import build_dataset
from data_gen.tokenizer import SPECIAL_TOKENS
from probing.arrays import as_array
from probing.circuits.directions import informative_states, state_directions, word_states
from probing.circuits.learning import first_above, learning_curve, snapshots
from probing.models.pretrained import load_model
from probing.models.training import SNAPSHOTS, one_torch_thread
from probing.sentences import draw_by_word
from probing.states.extraction import read
from probing.states.tokens import States, tokenise
from studies.pages import story
from studies.practice import beside
from studies.storage.tables import ResultError

N_SENTENCES = 480  # per split, as in studies/practice/bridge.py: the curves are the same
CURVE = ("step", "kappa", "nu", "attention_mass", "error")
LAYER = "bert.encoder.layer.0."
TENSORS = {  # name in the page: name in the checkpoint
    "word": "bert.embeddings.word_embeddings.weight",
    "position": "bert.embeddings.position_embeddings.weight",
    "type": "bert.embeddings.token_type_embeddings.weight",
    "embedded": "bert.embeddings.LayerNorm",
    "query": f"{LAYER}attention.self.query",
    "key": f"{LAYER}attention.self.key",
    "value": f"{LAYER}attention.self.value",
    "mixed": f"{LAYER}attention.output.dense",
    "attended": f"{LAYER}attention.output.LayerNorm",
    "wide": f"{LAYER}intermediate.dense",
    "narrow": f"{LAYER}output.dense",
    "final": f"{LAYER}output.LayerNorm",
    "pooler": "bert.pooler.dense",
    "classifier": "classifier",
}


def live_model(folder: Path, *, spec: str = "sentiment") -> dict[str, Any]:
    """The values of a trained 1-layer BERT for the page, and its readings of the first sentence."""
    dataset = build_dataset(spec)
    with one_torch_thread():
        model, tokenizer = load_model(str(folder), head="classifier")
        check_shape(model, folder)
        steps = snapshots(folder / SNAPSHOTS)
        train, test = (
            tokenise(tokenizer, dataset[name].select(draw_by_word(dataset[name], N_SENTENCES)))
            for name in ("train", "test")
        )
        states = read(model, train)
        curve = learning_curve(model, folder / SNAPSHOTS, train, test)
        axes = reading_axes(states, 0)
        told = story.values(model, tokenizer, axes, spec)
    tensors = tensors_of(model.state_dict())
    return {
        "labels": [model.config.id2label[i] for i in (0, 1)],
        "vocabulary": sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__),
        "special": SPECIAL_TOKENS,
        "most_tokens": model.config.max_position_embeddings,
        "epsilon": model.config.layer_norm_eps,
        "shapes": {name: list(tensor.shape) for name, tensor in tensors.items()},
        "n_weights": sum(tensor.numel() for tensor in tensors.values()),
        "weights": encoded(tensors, "<f4"),
        "snapshots": [snapshot(path) for path in list(steps.values())[:-1]],
        "curve": {name: story.rounded(curve[name]) for name in CURVE},
        "axes": axes,
        "axes_cosine": float(np.dot(axes["k"]["direction"], axes["v"]["direction"])),
        "learned": {name: learned_at(curve, name) for name in ("kappa", "nu")},
        **told,
    }


def learned_at(curve: Any, name: str) -> int | None:
    """The step from which on an alignment stays above the level of the findings, if it does."""
    step = first_above(curve, name, beside.LEARNED)
    return int(step) if np.isfinite(step) else None


def check_shape(model: Any, folder: Path) -> None:
    """Refuse a model that the page cannot run."""
    config = model.config
    shape = (config.model_type, config.num_hidden_layers, config.num_attention_heads)
    if shape != ("bert", 1, 1) or config.hidden_act != "gelu" or config.num_labels != 2:
        raise ResultError(
            f"{folder} is not a BERT with one layer, one head and two labels, "
            "the only kind that the page runs"
        )


# ---- weights


def tensors_of(weights: Any) -> dict[str, Any]:
    """The tensors by their names in the page, in the order in which the page reads them."""
    tensors = {}
    for name, full in TENSORS.items():
        if full in weights:
            tensors[name] = weights[full]
        else:
            tensors |= {f"{name}_{part}": weights[f"{full}.{part}"] for part in ("weight", "bias")}
    return tensors


def snapshot(path: Path) -> str:
    from safetensors.torch import load_file

    return encoded(tensors_of(load_file(path)), "<f2")


def encoded(tensors: dict[str, Any], dtype: str) -> str:
    flat = np.concatenate([as_array(tensor).ravel() for tensor in tensors.values()])
    return base64.b64encode(flat.astype(dtype).tobytes()).decode()


# ---- directions


def reading_axes(states: States, layer: int) -> dict[str, dict[str, Any]]:
    """The axes along k_hat and v_hat of the states that the layer above reads.

    A coordinate is (state . direction - zero) / unit. Along k_hat, 0 is the mean of uninformative
    tokens and 1 that of informative words; along v_hat, -1 and 1 are the means of the informative
    words of the two labels. Erasing sets the projection to ``mean``, as in the causal tests.
    """
    directions = state_directions(states, layer)
    words, informative = word_states(states, layer), informative_states(states, layer)
    mask = states.tokens.words_only().informative
    zero = float((words[~mask] @ directions.k_hat).mean())
    return {
        "k": {
            "direction": directions.k_hat.tolist(),
            "zero": zero,
            "unit": float((informative @ directions.k_hat).mean()) - zero,
            "mean": float((words @ directions.k_hat).mean()),
        },
        "v": {
            "direction": directions.v_hat.tolist(),
            "zero": directions.v_middle,
            "unit": directions.v_distance / 2,
            "mean": float((informative @ directions.v_hat).mean()),
        },
    }
