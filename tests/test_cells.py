"""A grid numbers its cells, and a cell is a training of its own settings."""

import itertools
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from slr import Experiment, pgd, run_experiment, start_on_sphere
from slr.compiled import SOURCE
from slr.sweep import Grid, cell_grid, expand_range, sweep, train_cell
from slr.sweep.cells import seed_sequence
from slr.sweep.engine import run_batch

# ---- the grid


def test_cells_are_numbered_as_nested_loops_visit_them() -> None:
    axes: dict[str, tuple[Any, ...]] = {"a": (1, 2), "b": ("x", "y", "z"), "c": (0.5,), "d": (3, 4)}
    grid = Grid(axes)
    cells = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    assert [grid.cell(number) for number in range(len(grid))] == cells
    columns = grid.columns(range(len(grid)))
    assert pd.DataFrame(columns).to_dict("records") == cells
    with pytest.raises(IndexError):
        grid.cell(len(grid))


def test_a_million_cells_are_a_small_thing() -> None:
    grid = cell_grid({"lam": "0.01:1:100:log", "step_size": "1e-3:1:100:log", "seed": "0:99:100"})
    assert len(grid) == 10**6
    assert len(pickle.dumps(grid)) < 20_000
    assert grid.cell(123_456)["lam"] == grid.axes["lam"][12]
    assert grid.cell(123_456)["step_size"] == grid.axes["step_size"][34]
    assert grid.cell(123_456)["seed"] == 56


def test_ranges_hold_both_ends() -> None:
    assert expand_range("0:1:3") == [0, 0.5, 1]
    assert expand_range("0.01:1:3:log") == [0.01, 0.1, 1]
    assert cell_grid({"L": "2:5:9"}).axes["L"] == (2, 3, 4, 5)  # whole numbers, each once
    assert cell_grid({"d": 10**17 + 1}).axes["d"] == (10**17 + 1,)


# ---- a cell


def test_a_cell_is_its_runs_of_pgd() -> None:
    experiment = Experiment(lam=0.05, n_steps=3000, runs=8, noise_std=0.3)
    row = train_cell({"lam": 0.05, "n_steps": 3000, "runs": 8, "noise_std": 0.3})
    rng = np.random.default_rng(seed_sequence(experiment).spawn(2)[0])
    start = start_on_sphere(experiment.task, 8, rng)
    found = pgd(experiment.task, start, lam=0.05, step_size=4e-3, n_steps=3000, log_every=100)
    assert row["abs_kappa"] == abs(found.final.kappa).mean()
    assert row["share_aligned"] == found.aligned(0.95).mean()
    assert row["excess_risk"] == pytest.approx(found.excess_risk[:, -1].mean(), rel=1e-12)
    assert row["risk"] == row["excess_risk"] + 0.3**2


def test_a_sweep_over_lam_and_its_decay_is_a_map_of_success(tmp_path: Path) -> None:
    axes = {"d": 100, "lam": [0.1, 0.2, 1.0], "lam_decay": [1e-4, 1e-3], "step_size": 5e-3}
    grid = cell_grid(axes | {"n_steps": 3000, "runs": 8})
    table = sweep(train_cell, grid, tmp_path / "sweep", jobs=1).table
    assert len(table) == 6
    for row in table.to_dict("records"):
        experiment = Experiment(**{name: row[name] for name in grid.axes})
        rng = np.random.default_rng(seed_sequence(experiment))
        outcomes = run_experiment(experiment, rng=rng).outcomes()
        assert row["share_aligned"] == outcomes["aligned"].mean()
        assert row["share_diverged"] == outcomes["diverged"].mean()
    assert 0 < table["share_aligned"].mean() < 1


def test_cells_find_what_the_paper_finds() -> None:
    on_manifold = train_cell({"start": "manifold"})
    assert on_manifold["share_aligned"] == 1
    assert 0 < on_manifold["steps_to_align"] < 20_000
    large = train_cell({"lam": 0.9, "step_size": 1e-3})
    assert large["share_aligned"] == 0
    assert math.isnan(large["steps_to_align"])


@pytest.mark.parametrize("optimiser", ["pgd", "sgd"])
def test_random_numbers_come_from_the_cell_itself(optimiser: str) -> None:
    settings = {"optimiser": optimiser, "d": 40, "n_steps": 50, "runs": 2}
    row = train_cell(settings)
    assert train_cell(settings) == row
    assert train_cell(settings | {"seed": 1})["abs_kappa"] != row["abs_kappa"]
    grid = cell_grid(settings | {"seed": [5, 0, 3]})  # among others, and in another place
    columns, _ = run_batch(train_cell, grid, [2, 1], source=SOURCE)
    assert columns["abs_kappa"][1] == row["abs_kappa"]
