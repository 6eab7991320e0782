"""A sweep computes each cell once, whatever happens; its table depends on the grid alone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil  # type: ignore[import-untyped]
import pyarrow.parquet as pq
import pytest
from waiting_cells import computed, wait, waiting_grid

from slr.sweep import Grid, cell_grid, sweep, train_cell
from slr.sweep.engine import SECONDS_PER_WORKER, Batches
from slr.sweep.rows import CELL, open_rows
from slr.workers import cluster as cluster_module

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
    for address in ("tcp://127.0.0.1:1", "localhost:1"):
        with pytest.raises(ConnectionError, match=f"no Dask scheduler answers at '{address}'"):
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
    with pytest.raises(ValueError, match="jobs must be an integer of at least 1"):
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
