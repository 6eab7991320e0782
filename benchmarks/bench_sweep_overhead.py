"""Claim: a sweep adds less than 5% to cells of 0.1 s, and handles a million cells.

1. Cells that are busy for 0.1 s, in this process, in two processes and on a Dask cluster of two
   worker processes over TCP. Overhead is all time that is not computing (sending, writing, waiting
   at the end), relative to the computing. Starting the workers is reported separately.
2. A million cells that do nothing: time and memory of the book-keeping. Also the time that a batch
   costs the process that writes the rows, which bounds the number of workers.
3. The default grid of `scripts/run_slr.py sweep`: cost per cell, and projections to a million.
"""

import resource
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
from distributed import LocalCluster

from slr.sweep import Grid, Swept, cell_grid, sweep, train_cell
from slr.sweep.rows import CELL, open_rows
from studies.theory.sweep import DEFAULT

SECONDS, CELLS, TARGET = 0.1, 200, 5


def busy(settings: Mapping[str, Any]) -> dict[str, Any]:
    end = time.perf_counter() + settings["seconds"]
    while time.perf_counter() < end:
        pass
    return {"square": settings["x"] ** 2}


def nothing(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"sum": settings["x"] + settings["y"]}


def timed(compute: Any, grid: Grid, **engine: Any) -> tuple[Swept, float]:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        swept = sweep(compute, grid, Path(folder) / "sweep", **engine)
        return swept, time.perf_counter() - start


def overhead(name: str, workers: int, **engine: Any) -> None:
    first = Grid({"x": tuple(range(workers)), "seconds": (0.0,)})
    _, start_up = timed(busy, first, **engine)
    swept, wall = timed(busy, Grid({"x": tuple(range(CELLS)), "seconds": (SECONDS,)}), **engine)
    lost = workers * wall - swept.seconds
    print(
        f"{name:28} {100 * lost / swept.seconds:4.1f}% ({1e3 * lost / CELLS:.2f} ms per cell); "
        f"start-up {start_up:.1f} s"
    )


def main() -> None:
    print(f"{CELLS} cells of {SECONDS} s; overhead (target: under {TARGET}%)")
    overhead("in this process", 1, jobs=1)
    overhead("2 processes (joblib)", 2, jobs=2)
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=True, protocol="tcp://", dashboard_address=":0"
    ) as cluster:
        overhead("2 workers (Dask over TCP)", 2, cluster=cluster.scheduler_address)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    million = Grid({"x": tuple(range(1000)), "y": tuple(range(1000))})
    _, wall = timed(nothing, million, jobs=1)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"\n10^6 cells that do nothing: {wall:.0f} s, {more:.0f} MB more at the peak")

    with (
        tempfile.TemporaryDirectory() as folder,
        open_rows(Path(folder) / "sweep", {}, 50_000) as rows,
    ):
        row, many = train_cell({"n_steps": 1}), cell_grid({"seed": list(range(50_000))})
        start = time.perf_counter()
        for first in range(0, 50_000, 50):
            columns = {name: [value] * 50 for name, value in row.items()}
            cells = list(range(first, first + 50))
            rows.add({CELL: cells} | many.columns(cells) | columns)
        seconds = (time.perf_counter() - start) / 1000
    rate = f"{1e3 * seconds:.1f} ms, so {1 / seconds:.0f} batches per second"
    print(f"writing the rows of a batch: {rate}")

    grid, cores = cell_grid(DEFAULT), joblib.cpu_count()
    timed(train_cell, cell_grid({"n_steps": 1, "seed": list(range(cores))}))  # compile, or load
    swept, wall = timed(train_cell, grid)
    cost = cores * wall / swept.computed
    print(
        f"\ndefault grid: {swept.computed} cells in {wall:.1f} s on {cores} cores: "
        f"{1e3 * cost:.1f} ms of one core per cell, "
        f"{1e3 * swept.seconds / swept.computed:.1f} ms of it computing"
    )
    for machine, n in (("this machine", cores), ("16 cores", 16), ("1 000 cores", 1000)):
        print(f"10^6 such cells on {machine:13} {1e6 * cost / n / 60:6.1f} minutes (projected)")


if __name__ == "__main__":
    main()
