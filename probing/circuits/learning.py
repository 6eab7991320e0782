"""How a Transformer learned: the theory's quantities at every snapshot of its training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.torch import load_file

from probing.circuits.directions import overlaps, state_directions
from probing.circuits.heads import head_directions
from probing.states.batch import Run, TokenBatch, run_batch


def snapshots(folder: Path) -> dict[int, Path]:
    """By step, in order."""
    found = {int(path.stem.split("-")[1]): path for path in folder.glob("step-*.safetensors")}
    if not found:
        raise ValueError(f"{folder} holds no snapshots; train with --snapshots")
    return dict(sorted(found.items()))


def learning_curve(model: Any, folder: Path, train: TokenBatch, test: TokenBatch) -> pd.DataFrame:
    """One row a snapshot, of the head that ends with most attention on the informative word.

    Directions of states and weights are both taken anew at each snapshot, from ``train``; mass,
    error and cross-entropy are those on ``test``. The model is left with its last weights.
    """
    paths = snapshots(folder)
    model.load_state_dict(load_file(list(paths.values())[-1]))
    layer, head = reading_head(run_batch(model, train), train)
    rows = []
    for step, path in paths.items():
        model.load_state_dict(load_file(path))
        at = state_directions(run_batch(model, train), train, layer - 1)
        heads = head_directions(model, train)
        (own,) = [one for one in heads if (one.layer, one.head) == (layer, head)]
        tested = run_batch(model, test)
        margins = np.where(test.labels == 1, tested.logits, -tested.logits)
        rows.append(
            {
                "step": step,
                **overlaps(own.key, own.value, at.k_hat, at.v_hat),
                "attention_mass": float(tested.mass(test.informative, layer).mean()),
                "error": float(np.mean(margins <= 0)),
                "cross_entropy": float(np.logaddexp(0, -margins).mean()),
            }
        )
    return pd.DataFrame(rows)


def reading_head(run: Run, batch: TokenBatch) -> tuple[int, int]:
    """Layer and head (from 1) with most attention on the informative word."""
    mass = np.array([(layer * batch.informative[:, None]).sum((0, 2)) for layer in run.attention])
    layer, head = np.unravel_index(int(mass.argmax()), mass.shape)
    return int(layer) + 1, int(head) + 1


def first_above(table: pd.DataFrame, column: str, level: float) -> float:
    """The first step from which |column| stays above the level; infinite if it never does."""
    low = np.flatnonzero(table[column].abs().to_numpy() <= level)
    steps = table["step"].to_numpy()
    if len(low) == 0:
        return float(steps[0])
    return float(steps[low[-1] + 1]) if low[-1] + 1 < len(steps) else float("inf")
