"""The theory's quantities at every snapshot of a Transformer's training."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.torch import load_file
from scipy.stats import binomtest

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

    The states that probes see change with the weights, unless embeddings are frozen. So the
    weights of each snapshot are also compared with the k_hat and v_hat of one snapshot: the first
    (kappa_first, nu_first), which were there before any training, and the last (kappa_last,
    nu_last).

    >>> train(model, tokenizer, texts, labels, config, folder, snapshots=True)
    >>> learning_curve(model, folder / "snapshots", train_tokens, test_tokens)
    """
    paths = snapshots(folder)
    model.load_state_dict(load_file(list(paths.values())[-1]))
    layer, head = reading_head(read(model, train))
    rows, heads, directions = [], [], []
    for step, path in paths.items():
        model.load_state_dict(load_file(path))
        directions.append(state_directions(read(model, train), layer - 1))
        by_place = {(each.layer, each.head): each for each in head_directions(model, train)}
        heads.append(by_place[layer, head])
        tested = read(model, test)
        margins = np.where(test.labels == 1, tested.logits, -tested.logits)
        effects = {
            "attention_mass": float(attention_mass(tested)[:, layer - 1].mean()),
            "error": float(np.mean(margins <= 0)),
            "cross_entropy": float(np.logaddexp(0, -margins).mean()),
        }
        overlaps = head_overlaps(heads[-1], directions[-1])
        rows.append({"step": step} | overlap_columns(overlaps) | effects)
    for when, fixed in (("first", directions[0]), ("last", directions[-1])):
        for row, each in zip(rows, heads, strict=True):
            overlaps = head_overlaps(each, fixed)
            row |= {f"kappa_{when}": overlaps.kappa, f"nu_{when}": overlaps.nu}
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


def order_of_learning(
    curves: pd.DataFrame, by: str, level: float, directions: str = ""
) -> pd.DataFrame:
    """Shares of the training after which k and v stay aligned, one row per seed or run.

    They are infinite where an alignment does not end above the level. ``by`` is the column of the
    seed or run; ``directions`` is "_first" or "_last" for the k_hat and v_hat of that snapshot,
    and empty for those of each snapshot.
    """
    rows = []
    for key, part in curves.groupby(by):
        last = part["step"].max()
        names = {"k": f"kappa{directions}", "v": f"nu{directions}"}
        rows.append({by: key} | {k: first_above(part, x, level) / last for k, x in names.items()})
    return pd.DataFrame(rows)


def which_first(order: pd.DataFrame) -> dict[str, float]:
    """In how many rows of ``order_of_learning`` v comes first, and the exact sign test of that.

    v comes first, too, where k never stays aligned. ``together`` counts the rows in which both
    align between the same two snapshots, ``neither`` those in which none does; both count against
    v: the share is one of all rows, and has the interval of Clopper and Pearson. The test is
    one-sided.
    """
    k, v = order["k"], order["v"]
    n, v_first = len(order), int((v < k).sum())
    counts = {"n": n, "v_first": v_first, "k_first": int((k < v).sum())}
    counts |= {"together": int(((k == v) & np.isfinite(k)).sum())}
    counts |= {"neither": int((np.isinf(k) & np.isinf(v)).sum())}
    counts |= {"v_learned": int(np.isfinite(v).sum()), "k_learned": int(np.isfinite(k).sum())}
    low, high = binomtest(v_first, n).proportion_ci(method="exact")
    p_value = float(binomtest(v_first, n, alternative="greater").pvalue)
    share = {"share": v_first / n, "low": float(low), "high": float(high), "p_value": p_value}
    return counts | share | {"v": float(v.median()), "k": float(k.median())}
