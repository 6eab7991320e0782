"""Sweeps: a function of settings at every cell of a grid, on as many cores as there are.

The engine is joblib, on the processes of one machine or on the workers of a Dask cluster. Cells
are sent in batches of about a second. A batch that comes back is on disk at once: a sweep that is
stopped, even killed, goes on where it was, and a cell with a row on disk is never computed again.
"""

import functools
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
from joblib.externals.loky.process_executor import BrokenProcessPool  # type: ignore[import-untyped]

from slr.dynamics.compiled import SOURCE
from slr.sweep.grid import Grid
from slr.sweep.rows import CELL, open_parts

Compute = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Progress = Callable[[int], object]  # is told how many cells were done

BATCH_SECONDS = 1.0  # of work in a batch; some 5 ms go into sending it and keeping its rows
SECONDS_PER_WORKER = 0.02  # longer ones for many workers: the sender takes 50 batches a second
LARGEST_BATCH = 10_000


@dataclass(frozen=True)
class Swept:
    """The table of a sweep, in the order of the cells, and what it took this time."""

    table: Any  # pandas DataFrame: cell, the settings, what was computed
    computed: int  # cells; the others were there
    seconds: float  # of computing, summed over workers


def sweep(
    compute: Compute,
    grid: Grid,
    folder: Path,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    version: str = "",
    progress: Progress | None = None,
) -> Swept:
    """Compute every cell of a grid that has no row in the folder yet.

    ``compute`` maps the settings of a cell to numbers, of which it is a function: random numbers
    grow from the settings. So the table depends on nothing but the grid.
    ``jobs`` is the number of processes (default: one a core), ``cluster`` the address of a Dask
    scheduler instead, where ``jobs`` is the number of cores to keep busy if more than there are
    now. ``version`` is what else the rows depend on: a folder begun with another is refused.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")
    function = f"{compute.__module__}.{compute.__qualname__}"
    description = {"function": function, "version": version, "grid": grid.axes}
    with open_parts(Path(folder), description, len(grid)) as parts:
        missing = parts.missing()
        seconds = 0.0
        if progress:
            progress(len(grid) - len(missing))
        if len(missing):
            with _engine(jobs, cluster) as (parallel, workers):
                batches = Batches(missing, workers)
                parent = None if cluster else os.getpid()
                run = functools.partial(run_batch, compute, grid, source=SOURCE, parent=parent)
                calls = (joblib.delayed(run)(batch) for batch in batches)
                with closing(parallel(calls)) as results:
                    for columns, took in results:
                        parts.add(columns)
                        batches.learn(len(columns[CELL]), took)
                        seconds += took
                        if progress:
                            progress(len(columns[CELL]))
        parts.compact(grid.columns)
        return Swept(parts.table(), len(missing), seconds)


def run_batch(
    compute: Compute, grid: Grid, numbers: list[int], *, source: str, parent: int | None = None
) -> tuple[dict[str, list[Any]], float]:
    """The rows of some cells, as columns, and the seconds they took: what a worker does."""
    if parent and parent != os.getpid():
        _end_with(parent)
    if source != SOURCE:
        raise ValueError("a worker has another version of slr than the sweep: install the same")
    start = time.perf_counter()
    rows = [{CELL: number, **compute(grid.cell(number))} for number in numbers]
    return {name: [row[name] for row in rows] for name in rows[0]}, time.perf_counter() - start


@functools.cache
def _end_with(parent: int) -> None:
    """Let this process end when the sweep that started it is gone, even if it was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Batches:
    """Cells in batches that take about as long as is worth sending, learnt on the way.

    Towards the end they get smaller, so that no worker is left alone with a large one.
    """

    def __init__(self, numbers: np.ndarray[Any, Any], workers: int) -> None:
        self.numbers, self.workers, self.size = numbers, workers, 1
        self.seconds = max(BATCH_SECONDS, SECONDS_PER_WORKER * workers)

    def __iter__(self) -> Iterator[list[int]]:
        first = 0
        while first < len(self.numbers):
            share = math.ceil((len(self.numbers) - first) / (2 * self.workers))
            last = first + min(self.size, share)
            # A list: arrays would be spread over workers by joblib, and lost with one of them.
            yield self.numbers[first:last].tolist()
            first = last

    def learn(self, cells: int, seconds: float) -> None:
        """Take note of what a batch took; grow at most fourfold, as cells may differ."""
        fitting = int(self.seconds * cells / max(seconds, 1e-9))
        self.size = max(1, min(fitting, 4 * self.size, LARGEST_BATCH))


@contextmanager
def _engine(jobs: int | None, cluster: str | None) -> Iterator[tuple[joblib.Parallel, int]]:
    """What runs the batches, and on how many cores."""
    options: dict[str, Any] = {"batch_size": 1, "return_as": "generator_unordered"}
    if cluster:
        from slr.sweep.cluster import connected

        with connected(cluster, jobs) as backend:
            yield joblib.Parallel(backend=backend, **options), backend.workers
        return
    jobs = jobs or joblib.cpu_count()
    try:
        yield joblib.Parallel(n_jobs=jobs, backend="loky", **options), jobs
    except BrokenProcessPool as error:
        raise OSError(
            "a worker process died (killed, or out of memory); what was computed is kept: "
            "the same sweep again goes on from there"
        ) from error
