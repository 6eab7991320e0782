"""The cells of a sweep: experiments, trained on the five overlaps.

The row of a cell depends on its settings alone, which also seed its random numbers: neither the
other cells of the grid, nor their order, nor the machine makes a difference.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from slr.checks import quoted
from slr.dynamics.experiment import Experiment, run_experiment
from slr.dynamics.threads import thread_limit
from slr.overlaps import Overlaps
from slr.sweep.grid import MOST_VALUES, Grid, Value, expand_range


def train_cell(settings: Mapping[str, Any]) -> dict[str, float]:
    """Train all runs of a cell on one thread, and summarise how they ended.

    The settings are fields of Experiment. Overlaps are means of absolute values over runs, since
    (-k, -v) predicts the same as (k, v). ``steps_to_align`` is the median over the runs that align,
    NaN if none does.

    >>> train_cell({"start": "manifold", "runs": 3})["share_aligned"]
    1.0
    """
    experiment = Experiment(**settings)
    rng = np.random.default_rng(seed_sequence(experiment))
    with thread_limit(1):  # the sweep already has one process per core
        trajectory = run_experiment(experiment, rng=rng)
    outcomes = {name: column.to_numpy() for name, column in trajectory.outcomes().items()}
    steps = outcomes["steps_to_align"][outcomes["aligned"]]
    risk = float(outcomes["excess_risk"].mean())
    return {
        "share_aligned": float(outcomes["aligned"].mean()),
        "share_diverged": float(outcomes["diverged"].mean()),
        "steps_to_align": float(np.median(steps)) if len(steps) else math.nan,
        "excess_risk": risk,
        "risk": risk + experiment.noise_std**2,
        **{f"abs_{name}": float(abs(outcomes[name]).mean()) for name in Overlaps._fields},
    }


def seed_sequence(experiment: Experiment) -> np.random.SeedSequence:
    """The seed of a cell's random numbers, from all settings of its experiment but the gate."""
    settings = {name: value for name, value in asdict(experiment).items() if name != "gate"}
    text = json.dumps(settings, sort_keys=True)
    return np.random.SeedSequence(int.from_bytes(hashlib.sha256(text.encode()).digest(), "big"))


def cell_grid(axes: Mapping[str, Any]) -> Grid:
    """A grid of experiments with one axis per field of Experiment, by default with one value.

    The values of an axis are a number or word, a list of them, or a range (see expand_range).

    >>> len(cell_grid({"lam": "0.01:1:5:log", "start": ["sphere", "manifold"]}))
    10
    """
    known = {field.name: field for field in fields(Experiment)}
    for name in axes:
        if name not in known:
            raise ValueError(f"no setting {quoted(name)}; there are {', '.join(known)}")
    varied: dict[str, tuple[Value, ...]] = {}
    for name, values in axes.items():
        varied[name] = _values(name, known[name].type, values)
    grid = Grid({name: varied.get(name, (field.default,)) for name, field in known.items()})
    for name, values in varied.items():
        for value in values:
            Experiment(**{name: value})
    # The only condition on two settings together.
    for optimiser in grid.axes["optimiser"]:
        Experiment(optimiser=optimiser, d=min(grid.axes["d"]))
    return grid


def _values(name: str, kind: Any, items: Any) -> tuple[Value, ...]:
    """The values of an axis in the type of the setting: words, whole numbers or numbers."""
    axis: list[Value] = []
    for item in items if isinstance(items, list | tuple) else [items]:
        is_range = isinstance(item, str) and ":" in item
        values = expand_range(item) if is_range else [item]
        if kind is int and is_range:  # whole numbers, each once
            values = list(dict.fromkeys(map(round, values)))
        axis += [_value(name, kind, value) for value in values]
        if len(axis) > MOST_VALUES:
            raise ValueError(f"{name} has too many values; at most {MOST_VALUES}")
    return tuple(axis)


def _value(name: str, kind: Any, value: Any) -> Value:
    if kind not in (int, float):
        return str(value)  # Experiment checks it
    try:
        number = float(value)
        if isinstance(value, bool | np.bool_) or (kind is int and not number.is_integer()):
            raise ValueError
        # 10**17 + 1 is not a float: an integer stays an integer
        is_integer = isinstance(value, int) or (isinstance(value, str) and value.isdecimal())
        return int(value) if kind is int and is_integer else kind(number)
    except (ValueError, TypeError, OverflowError):
        expected = "a whole number" if kind is int else "a number"
        raise ValueError(f"{name} must be {expected}, not {quoted(value)}") from None
