"""Controls that reviewers ask for: is it the model that knows, or the probe that learns?

Beside the real task, with a probe of the same kind: control tasks (tasks.py), description
length (description_length.py), shuffled labels and random directions; an untrained model is the
caller's second table.

A table has one row for each probe, layer and task: ``accuracy`` on held-out training sentences, on
the ``test`` split and on ``new_words``, means over the draws of a task; ``spread`` and ``low_5``,
the standard deviation and the 5% quantile of the first over them; ``cv_score``, the accuracy of the
real task in cross-validation over words, which chose C; ``selectivity``, the real task's accuracy
less the control's; ``compression`` against the uniform code, by sentence and by word (``word_``),
unless codes are left out; ``seconds`` it took.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from probing.controls.description_length import Code
from probing.controls.tasks import FITTED, SCORED, LabelTasks, LocationTasks, Tasks
from probing.probes.logistic import moments
from probing.probes.splits import POOLED, SplitStates
from probing.progress import Progress, in_processes
from probing.sentences import draw, informative_words
from probing.states.tokens import Tokens

if TYPE_CHECKING:
    from datasets import DatasetDict

CONTROL_PROBES = ("value", "summary", "location")


@dataclass(frozen=True)
class Effort:
    """How much of everything: what the cost of a table depends on."""

    n_draws: int = 3  # of control labels and of shuffled ones
    n_orders: int = 6  # of the words, in the code that goes word by word
    n_directions: int = 20
    rows_per_word: int = 30  # in that code: further sentences of a word say little new
    codes: bool = True  # which take most of the time

    def __post_init__(self) -> None:
        if min(self.n_draws, self.n_orders, self.n_directions, self.rows_per_word) < 1:
            raise ValueError("draws, orders, directions and rows per word must be at least 1")


def control_rows(tasks: Tasks, effort: Effort, seed: int) -> list[dict[str, Any]]:
    """One row per task, of one probe at one layer.

    C is chosen on the real task, by cross-validation over training words, and kept for the others:
    a control is about the same probe.
    """
    rngs = np.random.default_rng(seed).spawn(len(tasks.names) + 1)
    rows: list[dict[str, Any]] = []
    C = None
    for task, rng in zip(tasks.names, rngs, strict=False):
        start = time.process_time()
        draws = tasks.draws(task, effort.n_draws, rng)
        probes = [tasks.fit(drawn, C=C) for drawn in draws]
        C = probes[0].C_
        scores = _scores([tasks] * len(draws), probes, draws)
        if (searched := probes[0].cv_scores_) is not None:
            scores["cv_score"] = float(np.nanmax(searched))
        trains = [drawn["train"] for drawn in draws]
        codes = _codes(tasks, task, trains, effort, rng) if effort.codes else {}
        seconds = time.process_time() - start
        rows.append({"task": task, "C": C, **scores, **codes, "seconds": seconds})
    start = time.process_time()
    scores = _along_random(tasks, effort.n_directions, rngs[-1])
    rows.append({"task": "random direction", **scores, "seconds": time.process_time() - start})
    controls = [row["accuracy"] for row in rows if row["task"].startswith("control")]
    rows[0]["selectivity"] = rows[0]["accuracy"] - max(controls)
    return rows


def _scores(
    tasks: Sequence[Tasks], probes: Sequence[Any], draws: Sequence[dict[str, Tokens]]
) -> dict[str, float]:
    """Means over draws: the i-th probe, on the states of the i-th tasks, for the i-th draw."""
    each = {
        name: [
            own.accuracy(probe, split, drawn[split]) if split in drawn else np.nan
            for own, probe, drawn in zip(tasks, probes, draws, strict=True)
        ]
        for name, split in SCORED.items()
    }
    held_out = each["accuracy"]
    spread = float(np.std(held_out, ddof=1)) if len(held_out) > 1 else np.nan
    means = {name: float(np.mean(values)) for name, values in each.items()}
    low = float(np.quantile(held_out, 0.05))
    return means | {"spread": spread, "low_5": low, "draws": len(held_out)}


def _codes(
    tasks: Tasks, task: str, draws: Sequence[Tokens], effort: Effort, rng: np.random.Generator
) -> dict[str, float]:
    """Bits and compression, means over draws; word by word for tasks in which words keep labels."""
    # Several draws bring an order each; of the one real task several orders are taken.
    orders, word_orders = (effort.n_draws, effort.n_orders) if len(draws) == 1 else (1, 1)
    codes = _mean_code("", [tasks.code(drawn, rng) for drawn in draws for _ in range(orders)])
    if task != "shuffled labels":
        rows = effort.rows_per_word
        by_word = [tasks.code(drawn, rng, rows) for drawn in draws for _ in range(word_orders)]
        codes |= _mean_code("word_", by_word)
    return codes


def _mean_code(prefix: str, codes: Sequence[Code]) -> dict[str, float]:
    bits = float(np.mean([code.bits for code in codes]))
    uniform = float(np.mean([code.uniform_bits for code in codes]))
    columns = {"bits": bits, "uniform_bits": uniform, "compression": uniform / bits}
    return {prefix + name: value for name, value in columns.items()}


def _along_random(tasks: Tasks, n: int, rng: np.random.Generator) -> dict[str, float]:
    """The best threshold on a random direction, isotropic where each coordinate has variance 1."""
    X = tasks.X["train"]
    _, scale = moments(X, np.ones(len(X)))
    lines = [tasks.along(rng.standard_normal(X.shape[1]) / scale) for _ in range(n)]
    return _scores(lines, [line.fit(tasks.tokens, C=1.0) for line in lines], [tasks.tokens] * n)


def control_splits(dataset: "DatasetDict", *, max_sentences: int) -> "DatasetDict":
    """Some training sentences, and of each kind that probes are judged on a quarter as many.

    The held-out training sentences have words of the fitted ones, to which alone a control task
    gives labels; of words with one sentence each there are none.
    """
    train = dataset["train"]
    n_fitted = min(max_sentences, 4 * len(train) // 5)
    n_scored = n_fitted // 4
    fitted = draw(len(train), n_fitted)
    held_out = np.setdiff1d(draw(len(train), n_fitted + n_scored), fitted)
    words = np.array(informative_words(train))
    held_out = held_out[np.isin(words[held_out], words[fitted])]
    if not len(held_out):
        raise ValueError("controls need several training sentences per word; here each has one")
    parts = {"train": train.select(fitted), "held_out": train.select(held_out)}
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
    jobs: int = 1,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """All controls of one model. ``progress(done, of)`` counts pairs of a probe and a layer."""
    if missing := [name for name in FITTED if name not in states]:
        raise ValueError(f"the controls need a split {missing[0]!r}; control_splits makes it")
    if unknown := [probe for probe in probes if probe not in CONTROL_PROBES]:
        raise ValueError(f"no controls for {unknown[0]!r}; there are {', '.join(CONTROL_PROBES)}")
    kept = [name for name in ("train", *SCORED.values()) if name in states]

    def arguments(pair: tuple[str, int]) -> tuple[Tasks, Effort, int]:
        probe, layer = pair
        X, tokens = zip(*(states[name].at(layer, probe) for name in kept), strict=True)
        by_split = dict(zip(kept, X, strict=True)), dict(zip(kept, tokens, strict=True))
        tasks = LabelTasks(*by_split) if probe in POOLED else LocationTasks(*by_split)
        return tasks, effort or Effort(), seed

    pairs = list(product(probes, states["train"].layers if layers is None else layers))
    controlled = in_processes(control_rows, arguments, pairs, jobs=jobs, progress=progress)
    return pd.DataFrame(
        {"probe": probe, "layer": layer, **row}
        for (probe, layer), rows in controlled.items()
        for row in rows
    )
