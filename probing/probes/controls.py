"""Controls that reviewers ask for: is it the model that knows, or the probe that learns?

Beside the real task, with a probe of the same kind: control tasks (control_tasks.py), minimum
description length (description_length.py) in a random order and word by word, shuffled labels and
random directions; an untrained model is the caller's second table.

A table has one row for each probe, layer and task: ``accuracy`` on held-out training sentences, on
the ``test`` split and on ``new_words``, means over the draws of a task; ``spread``, the standard
deviation of the first over them;
``selectivity``, the real task's accuracy less the control's; ``compression`` against the uniform
code, by sentence and by word (``word_``); ``seconds`` of one core, what the row cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed  # type: ignore[import-untyped]

from probing.probes.by_layer import POOLED, SplitStates, at_layer, n_states
from probing.probes.control_tasks import FITTED, SCORED, LabelTasks, LocationTasks, Target
from probing.probes.description_length import Code
from probing.probes.logistic import moments
from probing.sentences import draw
from probing.states.ragged import keep_tokens

if TYPE_CHECKING:
    from datasets import DatasetDict

CONTROL_PROBES = ("value", "cls", "location")
Tasks = LabelTasks | LocationTasks


@dataclass(frozen=True)
class Effort:
    """How much of everything: what the cost of a table depends on."""

    n_draws: int = 3  # of control labels and of shuffled ones
    n_orders: int = 6  # of the words, in the code that goes word by word
    n_directions: int = 20
    rows_per_word: int = 30  # in that code: further sentences of a word say little new

    def __post_init__(self) -> None:
        if min(self.n_draws, self.n_orders, self.n_directions, self.rows_per_word) < 1:
            raise ValueError("draws, orders, directions and rows per word must be at least 1")


def control_rows(tasks: Tasks, *, effort: Effort, seed: int) -> list[dict[str, Any]]:
    """One row a task, of one probe at one layer.

    C is chosen on the real task, by cross-validation over training words, and kept for the others:
    a control is about the same probe.
    """
    rngs = np.random.default_rng(seed).spawn(len(tasks.names) + 1)
    rows: list[dict[str, Any]] = []
    C = None
    for task, rng in zip(tasks.names, rngs, strict=False):
        start = time.process_time()
        targets = tasks.targets(task, effort.n_draws, rng)
        probes = [tasks.fit(target, C=C) for target in targets]
        C = probes[0].C_
        scores = _scores([tasks] * len(targets), probes, targets)
        codes = _codes(tasks, task, targets, effort, rng)
        seconds = time.process_time() - start
        rows.append({"task": task, "C": C, **scores, **codes, "seconds": seconds})
    start = time.process_time()
    scores = _along_random(tasks, effort.n_directions, rngs[-1])
    rows.append({"task": "random direction", **scores, "seconds": time.process_time() - start})
    controls = [row["accuracy"] for row in rows if row["task"].startswith("control")]
    rows[0]["selectivity"] = rows[0]["accuracy"] - max(controls)
    return rows


def _scores(
    tasks: Sequence[Tasks], probes: Sequence[Any], targets: Sequence[Target]
) -> dict[str, float]:
    """Means over draws: the i-th probe, on the states of the i-th tasks, for the i-th target."""

    def each(split: str) -> list[float]:
        draws = zip(tasks, probes, targets, strict=True)
        return [one.accuracy(probe, split, target.scored[split]) for one, probe, target in draws]

    scores = {
        name: float(np.mean(each(split))) if split in targets[0].scored else np.nan
        for name, split in SCORED.items()
    }
    held_out = each(SCORED["accuracy"])
    spread = float(np.std(held_out, ddof=1)) if len(held_out) > 1 else np.nan
    return scores | {"spread": spread, "draws": len(held_out)}


def _codes(
    tasks: Tasks, task: str, targets: Sequence[Target], effort: Effort, rng: np.random.Generator
) -> dict[str, float]:
    """Bits and compression, means over draws; word by word for tasks in which words keep labels."""
    # Several draws bring an order each; of the one real task several orders are taken.
    orders, word_orders = (effort.n_draws, effort.n_orders) if len(targets) == 1 else (1, 1)
    found = _mean_code("", [tasks.code(target, rng) for target in targets for _ in range(orders)])
    if task != "shuffled labels":
        by_word = [
            tasks.code(target, rng, effort.rows_per_word)
            for target in targets
            for _ in range(word_orders)
        ]
        found |= _mean_code("word_", by_word)
    return found


def _mean_code(prefix: str, codes: Sequence[Code]) -> dict[str, float]:
    bits = float(np.mean([code.bits for code in codes]))
    uniform = float(np.mean([code.uniform_bits for code in codes]))
    names = (f"{prefix}bits", f"{prefix}uniform_bits", f"{prefix}compression")
    return dict(zip(names, (bits, uniform, uniform / bits), strict=True))


def _along_random(tasks: Tasks, n: int, rng: np.random.Generator) -> dict[str, float]:
    """The best threshold on a random direction, isotropic where each coordinate has variance 1."""
    X = tasks.X["train"]
    _, scale = moments(X, np.ones(len(X)))
    (target,) = tasks.targets("label", 1, rng)
    lines = [tasks.along(rng.standard_normal(X.shape[1]) / scale) for _ in range(n)]
    return _scores(lines, [line.fit(target, C=1.0) for line in lines], [target] * n)


def control_splits(dataset: DatasetDict, *, max_rows: int) -> DatasetDict:
    """Some training sentences, and of each kind that probes are judged on a quarter as many."""
    train = dataset["train"]
    n_fitted = min(max_rows, 4 * len(train) // 5)
    n_scored = n_fitted // 4
    fitted = draw(len(train), n_fitted)
    parts = {
        "train": train.select(fitted),
        "held_out": train.select(np.setdiff1d(draw(len(train), n_fitted + n_scored), fitted)),
    }
    for name in set(SCORED.values()) & set(dataset):
        parts[name] = dataset[name].select(draw(len(dataset[name]), n_scored))
    return type(dataset)(parts)


def control_table(
    states: dict[str, SplitStates],
    *,
    probes: Sequence[str] = CONTROL_PROBES,
    layers: Sequence[int] | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """All controls of one model. ``progress(done, of)`` counts pairs of a probe and a layer."""
    if missing := [name for name in FITTED if name not in states]:
        raise ValueError(f"the controls need a split {missing[0]!r}; control_splits makes it")
    if unknown := [probe for probe in probes if probe not in CONTROL_PROBES]:
        raise ValueError(f"no controls for {unknown[0]!r}; there are {', '.join(CONTROL_PROBES)}")
    kept = {name: states[name] for name in ("train", *SCORED.values()) if name in states}
    chosen = layers if layers is not None else range(n_states(kept["train"]))
    pairs = [(probe, layer) for probe in probes for layer in chosen]
    jobs = (
        delayed(control_rows)(_tasks(kept, probe, layer), effort=effort or Effort(), seed=seed)
        for probe, layer in pairs
    )
    results = Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch=n_jobs)(jobs)
    rows = []
    for done, ((probe, layer), found) in enumerate(zip(pairs, results, strict=True)):
        rows += [{"probe": probe, "layer": layer, **row} for row in found]
        if progress:
            progress(done + 1, len(pairs))
    return pd.DataFrame(rows)


def _tasks(states: dict[str, SplitStates], probe: str, layer: int) -> Tasks:
    splits = {name: at_layer(split, layer, probe) for name, split in states.items()}
    if probe in POOLED:
        return LabelTasks(
            X={name: split.pooled[POOLED[probe]] for name, split in splits.items()},
            y={name: split.labels for name, split in splits.items()},
            words={name: split.words for name, split in splits.items()},
        )
    types = {}
    for name, split in states.items():
        rows, _ = keep_tokens(split.tokens.offsets, ~split.tokens.special)
        types[name] = split.tokens.token_ids[rows]
    return LocationTasks(
        X={name: split.tokens for name, split in splits.items()},
        offsets={name: split.offsets for name, split in splits.items()},
        informative={name: split.informative for name, split in splits.items()},
        words={name: split.words[split.drawn] for name, split in splits.items()},
        types=types,
    )


def by_layer(table: pd.DataFrame) -> pd.DataFrame:
    """One line for each probe and layer, for people: each measure on the task and its controls.

    ``table`` holds the rows of both models, told apart by its column ``model``.
    """
    keys = ["probe", "layer"]

    def column(measure: str, task: str, model: str = "trained") -> pd.Series:
        rows = table[(table["model"] == model) & table["task"].str.startswith(task)]
        return rows.groupby(keys, sort=False)[measure].max()

    found = {
        ("accuracy", "label"): column("accuracy", "label"),
        ("accuracy", "control"): column("accuracy", "control"),
        ("accuracy", "selectivity"): column("selectivity", "label"),
        ("accuracy", "untrained"): column("accuracy", "label", "untrained"),
        ("accuracy", "its selectivity"): column("selectivity", "label", "untrained"),
        ("accuracy", "shuffled"): column("accuracy", "shuffled"),
        ("accuracy", "random"): column("accuracy", "random"),
        ("other splits", "test"): column("test", "label"),
        ("other splits", "new words"): column("new_words", "label"),
    }
    for title, measure in (("compression", "compression"), ("by word", "word_compression")):
        found[title, "label"] = column(measure, "label")
        found[title, "control"] = column(measure, "control")
        if measure == "compression":
            found[title, "shuffled"] = column(measure, "shuffled")
        found[title, "untrained"] = column(measure, "label", "untrained")
    found["cost", "seconds"] = table.groupby(keys, sort=False)["seconds"].sum()
    return pd.DataFrame(found)
