"""The cells of a sweep: a task, an optimiser and a number of runs, trained on the five overlaps.

What comes out is a function of the cell alone. Its random numbers grow from its own settings, so
neither the other cells of a grid, nor its order, nor the machine that trains it makes a difference.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import numba
import numpy as np

from slr.dynamics.reduced import pgd, sgd
from slr.dynamics.steps import MIN_D_SGD
from slr.erf_risk import excess_risk
from slr.overlaps import start_on_manifold, start_on_sphere
from slr.sweep.grid import Grid, Value, expand_range
from slr.task import Task

STARTS = {"sphere": start_on_sphere, "manifold": start_on_manifold}


@dataclass(frozen=True)
class Cell:
    """One cell of a sweep; defaults as in the paper's pgd-small-lambda."""

    d: int = 400
    L: int = 10
    gamma: float = math.sqrt(1 / 2)
    noise_std: float = 0.0
    start: Literal["sphere", "manifold"] = "sphere"
    optimiser: Literal["pgd", "sgd"] = "pgd"
    batch_size: int = 5  # of SGD
    lam: float = 0.1
    lam_decay: float = 0.0
    step_size: float = 4e-3
    n_steps: int = 20_000
    log_every: int = 100
    runs: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        _ = self.task
        for name in ("lam", "lam_decay", "step_size"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, not {getattr(self, name)}")
        for name, least in (
            ("batch_size", 1), ("n_steps", 0), ("log_every", 1), ("runs", 1), ("seed", 0),
        ):  # fmt: skip
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.optimiser == "sgd" and self.d < MIN_D_SGD:
            raise ValueError(f"sgd needs d of at least {MIN_D_SGD}, not {self.d}")

    @property
    def task(self) -> Task:
        return Task(self.d, self.L, self.gamma, self.noise_std)


def train_cell(settings: Mapping[str, Any]) -> dict[str, float]:
    """Train all runs of a cell, on one thread, and say where they ended.

    The overlaps are means over runs of absolute values (k and v may both be turned around),
    ``steps_to_align`` is the median over the runs that align, NaN if none does.
    """
    cell = Cell(**settings)
    start_rng, noise_rng = map(np.random.default_rng, seed_sequence(cell).spawn(2))
    start = STARTS[cell.start](cell.task, cell.runs, start_rng)
    options: dict[str, Any] = {
        name: getattr(cell, name)
        for name in ("lam", "lam_decay", "step_size", "n_steps", "log_every")
    }
    threads = numba.get_num_threads()
    numba.set_num_threads(1)  # the sweep has a process for each core already
    try:
        if cell.optimiser == "pgd":
            found = pgd(cell.task, start, **options)
        else:
            found = sgd(cell.task, start, **options, batch_size=cell.batch_size, rng=noise_rng)
    finally:
        numba.set_num_threads(threads)
    risk = float(np.mean(excess_risk(found.final, cell.task, found.lam[:, -1])))
    aligned = found.aligned()
    steps = found.steps_to_align()[aligned]
    return {
        "share_aligned": float(aligned.mean()),
        "share_diverged": float(found.diverged.mean()),
        "steps_to_align": float(np.median(steps)) if len(steps) else math.nan,
        "excess_risk": risk,
        "risk": risk + cell.noise_std**2,
        **{f"abs_{name}": float(abs(x).mean()) for name, x in found.final._asdict().items()},
    }


def seed_sequence(cell: Cell) -> np.random.SeedSequence:
    """The random numbers of a cell, from all of its settings."""
    text = json.dumps(asdict(cell), sort_keys=True)
    return np.random.SeedSequence(int.from_bytes(hashlib.sha256(text.encode()).digest(), "big"))


def cell_grid(axes: Mapping[str, Any]) -> Grid:
    """A grid of cells: every setting is an axis, those that are not named with their default.

    The values of an axis are a number or word, a list of them, or a range (see slr.sweep.grid).
    """
    known = {field.name: field for field in fields(Cell)}
    for name in axes:
        if name not in known:
            raise ValueError(f"no setting {name!r}; there are {', '.join(known)}")
    grid = Grid(
        {
            name: _values(name, field.type, axes[name]) if name in axes else (field.default,)
            for name, field in known.items()
        }
    )
    for name, values in grid.axes.items():
        for value in values:
            Cell(**{name: value})
    # The one condition that joins two settings.
    for optimiser in grid.axes["optimiser"]:
        Cell(optimiser=optimiser, d=min(grid.axes["d"]))
    return grid


def _values(name: str, kind: Any, given: Any) -> tuple[Value, ...]:
    """The values of an axis as what the setting takes: words, whole numbers or numbers."""
    items: Iterable[Any] = given if isinstance(given, list | tuple) else [given]
    found: list[Value] = []
    for item in items:
        is_range = isinstance(item, str) and ":" in item
        values = expand_range(item) if is_range else [item]
        if kind is int and is_range:  # whole numbers, each once
            values = list(dict.fromkeys(map(round, values)))
        found += [_value(name, kind, value) for value in values]
    return tuple(found)


def _value(name: str, kind: Any, value: Any) -> Value:
    if kind not in (int, float):
        if value not in get_args(kind):
            raise ValueError(f"{name} must be {' or '.join(get_args(kind))}, not {value!r}")
        return str(value)
    try:
        number = float(value)
        if isinstance(value, bool) or (kind is int and not number.is_integer()):
            raise ValueError
        # 10**17 + 1 is no float: an integer stays one
        return int(value) if kind is int and isinstance(value, int) else kind(number)
    except (ValueError, TypeError, OverflowError):
        expected = "a whole number" if kind is int else "a number"
        raise ValueError(f"{name} must be {expected}, not {value!r}") from None
