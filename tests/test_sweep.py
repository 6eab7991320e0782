"""A sweep computes each cell once, whatever happens; its table depends on the grid alone."""

import itertools
import math
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil  # type: ignore[import-untyped]
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster
from matplotlib.figure import Figure
from waiting_cells import computed, wait, waiting_grid

from slr import Experiment, pgd, run_experiment, start_on_sphere
from slr.dynamics.compiled import SOURCE
from slr.sweep import Grid, cell_grid, expand_range, sweep, train_cell
from slr.sweep import cluster as cluster_module
from slr.sweep.cells import seed_sequence
from slr.sweep.engine import SECONDS_PER_WORKER, Batches, run_batch
from slr.sweep.rows import CELL, open_rows
from studies.theory.sweep_figure import plot_sweep

ROOT = Path(__file__).parent.parent
SMALL = {"lam": [0.02, 0.1], "step_size": [4e-3, 4e-2, 0.4], "n_steps": 300, "runs": 3}


def read(path: Path, column: str) -> list[int]:
    return [int(x) for x in pq.read_table(path)[column].to_numpy()]


def kept(folder: Path) -> list[int]:
    """The cells whose rows are in the parts."""
    return [x for path in sorted(folder.glob("part-*.parquet")) for x in read(path, CELL)]


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


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


# ---- one machine


def test_the_table_does_not_depend_on_the_number_of_jobs(tmp_path: Path) -> None:
    grid = cell_grid(SMALL | {"optimiser": ["pgd", "sgd"], "n_steps": 50})
    tables = [sweep(train_cell, grid, tmp_path / f"{n}", jobs=n).table for n in (1, 2, 3)]
    assert tables[0][CELL].tolist() == list(range(len(grid)))
    assert set(grid.axes) < set(tables[0])
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0], check_exact=True)


def test_a_finished_sweep_is_not_computed_again(tmp_path: Path) -> None:
    grid = waiting_grid(tmp_path, 7, seconds=0)
    first = sweep(wait, grid, tmp_path / "sweep", jobs=1)
    again = sweep(wait, grid, tmp_path / "sweep", jobs=2)
    assert (first.computed, again.computed) == (7, 0)
    assert set(computed(tmp_path).values()) == {1}
    pd.testing.assert_frame_equal(again.table, first.table)
    on_disk = pd.read_parquet(tmp_path / "sweep").sort_values(CELL, ignore_index=True)
    pd.testing.assert_frame_equal(on_disk, first.table)  # the folder is a dataset


def test_a_killed_sweep_goes_on_and_computes_no_kept_cell_twice(tmp_path: Path) -> None:
    n, folder = 400, tmp_path / "sweep"
    grid = waiting_grid(tmp_path, n)
    code = (
        "from pathlib import Path; from slr.sweep.engine import sweep\n"
        "from waiting_cells import *\n"
        f"p = Path({str(tmp_path)!r}); sweep(wait, waiting_grid(p, {n}), p / 'sweep', jobs=2)"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path})
    for _ in range(3000):
        if len(list(folder.glob("part-*.parquet"))) >= 4:
            break
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = kept(folder)
    workers = {int(pid) for path in folder.glob("part-*.parquet") for pid in read(path, "process")}
    for _ in range(500):  # they end with it
        if not any(map(is_running, workers)):
            break
        time.sleep(0.01)
    else:
        pytest.fail("a killed sweep leaves processes behind")
    assert 4 <= len(before) == len(set(before)) < n
    swept = sweep(wait, grid, folder, jobs=2)
    assert swept.computed == n - len(before)
    counts = computed(tmp_path)
    assert sorted(counts) == list(range(n))
    assert {counts[cell] for cell in before} == {1}
    assert swept.table["square"].tolist() == [x**2 for x in range(n)]


def test_a_cell_that_fails_leaves_the_others_on_disk(tmp_path: Path) -> None:
    mended = tmp_path / "mended"

    def fragile(settings: Mapping[str, Any]) -> dict[str, Any]:
        if settings["x"] == 5 and not mended.exists():
            raise ValueError("cell 5 fails")
        return {"square": settings["x"] ** 2}

    grid = Grid({"x": tuple(range(8))})
    with pytest.raises(ValueError, match="cell 5 fails"):
        sweep(fragile, grid, tmp_path / "sweep", jobs=1)
    assert kept(tmp_path / "sweep") == [0, 1, 2, 3, 4]
    mended.touch()
    assert sweep(fragile, grid, tmp_path / "sweep", jobs=1).computed == 3


def test_a_dead_process_is_one_line_and_loses_nothing(tmp_path: Path) -> None:
    def deadly(settings: Mapping[str, Any]) -> dict[str, Any]:
        if settings["x"] == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"square": settings["x"] ** 2}

    with pytest.raises(OSError, match="a worker process died"):
        sweep(deadly, Grid({"x": tuple(range(40))}), tmp_path / "sweep", jobs=2)
    rows = kept(tmp_path / "sweep")
    assert len(rows) == len(set(rows))


# ---- batches and parts


def test_batches_hold_every_cell_once_and_take_about_a_second() -> None:
    batches = Batches(np.arange(5000), workers=2)
    sizes, seen = [], []
    for batch in batches:
        sizes.append(len(batch))
        seen += batch
        batches.learn(len(batch), 0.01 * len(batch))
    assert seen == list(range(5000))
    assert sizes[0] == 1
    assert max(sizes) == 100
    assert sizes[-1] == 1  # no worker is left alone with a large one
    assert Batches(np.arange(3), workers=1000).seconds == 1000 * SECONDS_PER_WORKER


def part_rows(*cells: int) -> dict[str, Any]:
    return {CELL: list(cells), "value": [float(cell) for cell in cells]}


def test_rows_in_many_parts_are_one_table_in_the_order_of_the_cells(tmp_path: Path) -> None:
    n = 100
    with open_rows(tmp_path, {}, n) as rows:
        for cell in reversed(range(1, n)):
            rows.add(part_rows(cell))
        with pytest.raises(RuntimeError, match="does not hold every cell once"):
            rows.table()
    (tmp_path / ".part-000000999.parquet.tmp").write_bytes(b"half")
    with open_rows(tmp_path, {}, n) as rows:
        assert rows.missing().tolist() == [0]
        rows.add(part_rows(0))
        assert sorted(kept(tmp_path)) == list(range(n))
        assert rows.table()["value"].tolist() == list(range(n))
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_part_that_was_cut_off_is_computed_again(tmp_path: Path) -> None:
    with open_rows(tmp_path, {}, 3) as rows:
        rows.add(part_rows(0))
        rows.add(part_rows(2))
    path = sorted(tmp_path.glob("part-*"))[1]
    path.write_bytes(path.read_bytes()[:50])
    with open_rows(tmp_path, {}, 3) as rows:
        assert rows.missing().tolist() == [1, 2]
        rows.add(part_rows(1, 2))
        assert rows.table()["value"].tolist() == [0, 1, 2]


# ---- a cluster: a real scheduler and two worker processes, over TCP


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=True, protocol="tcp://", dashboard_address=":0"
    ) as found:
        yield found


def test_a_cluster_gives_the_same_numbers(cluster: LocalCluster, tmp_path: Path) -> None:
    assert cluster.scheduler_address.startswith("tcp://")
    grid = cell_grid(SMALL | {"optimiser": ["pgd", "sgd"], "n_steps": 50})
    alone = sweep(train_cell, grid, tmp_path / "alone", jobs=1)
    there = sweep(train_cell, grid, tmp_path / "there", cluster=cluster.scheduler_address)
    pd.testing.assert_frame_equal(there.table, alone.table, check_exact=True)


def test_nothing_is_lost_with_a_worker(cluster: LocalCluster, tmp_path: Path) -> None:
    n = 2000
    with Client(cluster) as client:  # type: ignore[no-untyped-call]
        victim, _ = client.run(os.getpid).values()
    done = 0

    def kill_one(cells: int) -> None:
        nonlocal done, victim
        done += cells
        if done > n / 4 and victim:
            os.kill(victim, signal.SIGKILL)
            victim = 0

    grid, address = waiting_grid(tmp_path, n, seconds=0.001), cluster.scheduler_address
    found = sweep(wait, grid, tmp_path / "sweep", cluster=address, progress=kill_one)
    assert not victim
    assert done == found.computed == n
    assert found.table["square"].tolist() == [x**2 for x in range(n)]
    assert len(set(found.table["process"])) >= 2
    assert os.getpid() not in set(found.table["process"])


@pytest.mark.slow
def test_a_batch_that_kills_every_worker_ends_the_sweep(tmp_path: Path) -> None:
    import dask

    def deadly(settings: Mapping[str, Any]) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        pytest.raises(cluster_module.ClusterError, match="gave up a batch: KilledWorker"),
    ):
        sweep(deadly, Grid({"x": (1, 2)}), tmp_path, cluster=cluster.scheduler_address)


@pytest.mark.slow
def test_a_cluster_of_one_core_is_used(tmp_path: Path) -> None:
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        address = cluster.scheduler_address
        found = sweep(wait, waiting_grid(tmp_path, 5), tmp_path / "sweep", cluster=address)
    assert set(found.table["process"]) & {os.getpid()} == set()


def test_a_worker_with_other_code_is_refused() -> None:
    with pytest.raises(ValueError, match="another version of slr"):
        run_batch(wait, Grid({"x": (1,)}), [0], source="0" * 16)


# ---- bad input: one line that says what is wrong


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"lamda": [1]}, "no setting 'lamda'; there are d, L, gamma,"),
        ({"lam": []}, "the grid is empty: lam has no values"),
        ({"lam": [0.1, 0.1]}, "lam lists 0.1 twice"),
        ({"lam": [-1.0]}, "lam must be at least 0"),
        ({"lam": "a lot"}, "lam must be a number, not 'a lot'"),
        ({"lam": "1:2"}, "is not a range"),
        ({"lam": "0:1:3:log"}, "must be positive"),
        ({"d": 2.5}, "d must be a whole number, not 2.5"),
        ({"d": [400, 1]}, "d must be an integer of at least 2"),
        ({"runs": 0}, "runs must be an integer of at least 1"),
        ({"runs": True}, "runs must be a whole number"),
        ({"start": "north"}, "start must be sphere or manifold, not 'north'"),
        ({"optimiser": ["pgd", "sgd"], "d": [400, 4]}, "sgd needs d of at least"),
    ],
)
def test_a_bad_grid_is_refused(axes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cell_grid(axes)
    with pytest.raises(ValueError, match="the grid is empty"):
        Grid({})


def test_an_unreachable_cluster_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 0.5)
    for address in ("tcp://127.0.0.1:1", "nonsense://x", "localhost:1"):
        with pytest.raises(ConnectionError, match="no Dask scheduler answers at " + address):
            sweep(wait, waiting_grid(tmp_path, 2), tmp_path / "sweep", cluster=address)
    assert not (tmp_path / "sweep").exists()


def test_a_folder_of_another_sweep_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    sweep(wait, waiting_grid(tmp_path, 2, 0), folder, jobs=1)
    with pytest.raises(ValueError, match="was begun with another grid"):
        sweep(wait, waiting_grid(tmp_path, 3, 0), folder, jobs=1)
    with pytest.raises(ValueError, match="was begun with another version"):
        sweep(wait, waiting_grid(tmp_path, 2, 0), folder, jobs=1, version="2")
    again = sweep(wait, waiting_grid(tmp_path, 3, 0), folder, jobs=1, overwrite=True)
    assert again.computed == len(again.table) == 3
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        sweep(wait, waiting_grid(tmp_path, 2, 0), folder, jobs=0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(FileExistsError, match="does not hold a sweep"):
        sweep(wait, waiting_grid(tmp_path, 2, 0), tmp_path / "mine", jobs=1, overwrite=True)


def test_two_sweeps_cannot_share_a_folder(tmp_path: Path) -> None:
    with (
        open_rows(tmp_path, {}, 1),
        pytest.raises(BlockingIOError, match="another sweep is writing"),
        open_rows(tmp_path, {}, 1),
    ):
        pass


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from slr.sweep.rows import open_rows\n"
        "with open_rows(Path(sys.argv[1]), {}, 1): print('open', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "open\n"
        with (
            pytest.raises(BlockingIOError, match=f"^another sweep is writing to {tmp_path}$"),
            open_rows(tmp_path, {}, 1),
        ):
            pass
        process.kill()
    with open_rows(tmp_path, {}, 1) as rows:
        assert rows.missing().tolist() == [0]
    with open_rows(tmp_path, {}, 1):  # and what ended in peace has let go
        pass


@pytest.mark.parametrize(
    "axes",
    [
        {"lam": [0.1, 0.2, 0.3]},
        {"optimiser": ["pgd", "sgd"], "d": [10, 20]},
        {"lam": [0.1, 0.2, 0.4], "d": [10, 20], "L": [3, 4], "gamma": [0.5, 1.0]},
        {},
    ],
)
def test_any_grid_is_drawn(axes: dict[str, Any], tmp_path: Path) -> None:
    grid = cell_grid(axes | {"n_steps": 5, "runs": 1})
    table = sweep(train_cell, grid, tmp_path, jobs=1).table
    assert isinstance(plot_sweep(table, grid), Figure)
