"""The theory's quantities at every snapshot of a Transformer's training."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.torch import load_file

from probing.circuits.directions import head_overlaps, overlap_columns, state_directions
from probing.circuits.heads import head_directions
from probing.sparsity import attention_mass
from probing.states.extraction import read
from probing.states.tokens import States, Tokens


def snapshots(folder: Path) -> dict[int, Path]:
    """The files of a training run's snapshots by step, in order."""
    paths = {int(path.stem.split("-")[1]): path for path in folder.glob("step-*.safetensors")}
    if not paths:
        raise ValueError(f"{folder} holds no snapshots; train with --snapshots")
    return dict(sorted(paths.items()))


def learning_curve(model: Any, folder: Path, train: Tokens, test: Tokens) -> pd.DataFrame:
    """Overlaps and errors of the head that ends with most attention on the informative word.

    There is one row per snapshot. Directions of states and weights are computed anew at each
    snapshot, from ``train``; mass, error and cross-entropy are measured on ``test``. The model is
    left with its last weights.

    >>> train(model, tokenizer, texts, labels, config, folder, snapshots=True)
    >>> learning_curve(model, folder / "snapshots", train_tokens, test_tokens)
    """
    paths = snapshots(folder)
    model.load_state_dict(load_file(list(paths.values())[-1]))
    layer, head = reading_head(read(model, train))
    rows = []
    for step, path in paths.items():
        model.load_state_dict(load_file(path))
        directions = state_directions(read(model, train), layer - 1)
        heads = {(each.layer, each.head): each for each in head_directions(model, train)}
        tested = read(model, test)
        margins = np.where(test.labels == 1, tested.logits, -tested.logits)
        effects = {
            "attention_mass": float(attention_mass(tested)[:, layer - 1].mean()),
            "error": float(np.mean(margins <= 0)),
            "cross_entropy": float(np.logaddexp(0, -margins).mean()),
        }
        overlaps = head_overlaps(heads[layer, head], directions)
        rows.append({"step": step} | overlap_columns(overlaps) | effects)
    return pd.DataFrame(rows)


def reading_head(states: States) -> tuple[int, int]:
    """The layer and head (from 1) with most attention on the informative word."""
    mass = attention_mass(states).mean(axis=0)
    layer, head = np.unravel_index(int(mass.argmax()), mass.shape)
    return int(layer) + 1, int(head) + 1


def first_above(table: pd.DataFrame, column: str, level: float) -> float:
    """The step from which on |column| stays above the level; infinite if it never does."""
    low = np.flatnonzero(table[column].abs() <= level)
    first = low[-1] + 1 if len(low) else 0
    return float([*table["step"], np.inf][first])
