"""Sweeps: a function of settings, computed at every cell of a grid on any number of cores.

The cells run on the processes of one machine (joblib) or on the workers of a Dask cluster, in
batches of about a second. The rows of a finished batch are written at once. So a sweep that was
stopped, even killed, resumes, and a cell with a row on disk is never computed again.
"""

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slr.compiled import SOURCE
from slr.dynamics.reduced import Progress
from slr.sweep.grid import Grid
from slr.sweep.rows import CELL, open_rows
from slr.workers.pool import workers

Compute = Callable[[Mapping[str, Any]], Mapping[str, Any]]

BATCH_SECONDS = 1.0  # of work per batch; sending it and writing its rows takes some 5 ms
SECONDS_PER_WORKER = 0.02  # longer batches for many workers: the sender handles 50 per second
LARGEST_BATCH = 10_000
RESUME = "finished cells are kept: start the same sweep again to resume it"


@dataclass(frozen=True)
class Swept:
    """The table of a sweep, in the order of the cells, and the cost of this call.

    >>> sweep(train_cell, cell_grid({"runs": 1, "n_steps": 10}), folder, jobs=1).table["runs"][0]
    np.int64(1)
    """

    table: Any  # pandas DataFrame: cell, the settings, what was computed
    computed: int  # cells computed by this call; the others were on disk
    seconds: float  # of computing, summed over workers


def sweep(
    compute: Compute,
    grid: Grid,
    folder: str | Path,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    version: str = "",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Swept:
    """Compute every cell of a grid that has no row in the folder yet.

    ``compute`` maps the settings of a cell to numbers. It must depend on the settings alone, and
    seed its random numbers with them: then the table depends on the grid alone.
    ``jobs`` is the number of processes (default: one per core). ``cluster`` is the address of a
    Dask scheduler whose workers compute instead; ``jobs`` is then the number of cores to keep busy,
    if more will join. ``version`` names what else the rows depend on. A folder that was begun with
    another grid or version is refused; ``overwrite`` starts it again.

    >>> sweep(train_cell, cell_grid({"lam": [0.1, 0.2], "n_steps": 10}), folder, jobs=1).computed
    2
    """
    tell: Progress = progress or (lambda cells: None)
    function = f"{compute.__module__}.{compute.__qualname__}"
    description = {"function": function, "version": version, "grid": grid.axes}
    with (
        workers(jobs, cluster, resume=RESUME) as (run_all, n_workers),  # before a folder is made
        open_rows(Path(folder), description, len(grid), overwrite=overwrite) as rows,
    ):
        missing, seconds = rows.missing(), 0.0
        tell(len(grid) - len(missing))
        if len(missing):
            run = functools.partial(run_batch, compute, grid, source=SOURCE)
            batches = Batches(missing, n_workers)
            with closing(run_all(run, batches)) as results:
                for columns, took in results:
                    cells = columns[CELL]
                    rows.add({CELL: cells} | grid.columns(cells) | columns)
                    batches.learn(len(cells), took)
                    seconds += took
                    tell(len(cells))
        table = rows.table()
        for name, values in grid.columns(table[CELL]).items():
            if name not in table or not np.array_equal(table[name], values):
                raise ValueError(f"{folder} holds rows of another {name}; delete the folder")
        return Swept(table, len(missing), seconds)


def run_batch(
    compute: Compute, grid: Grid, numbers: list[int], *, source: str
) -> tuple[dict[str, list[Any]], float]:
    """Compute cells in a worker: their rows, as columns, and the seconds they took."""
    if source != SOURCE:
        raise ValueError("a worker has another version of slr than the sweep; install the same")
    start = time.perf_counter()
    rows = [{CELL: number, **compute(grid.cell(number))} for number in numbers]
    return {name: [row[name] for row in rows] for name in rows[0]}, time.perf_counter() - start


class Batches:
    """Cells in batches of about the same duration; their size is learnt on the way.

    Batches get smaller towards the end, so that no worker is left alone with a large one.
    """

    def __init__(self, numbers: np.ndarray[Any, Any], workers: int) -> None:
        self.numbers, self.workers, self.size = numbers, workers, 1
        self.seconds = max(BATCH_SECONDS, SECONDS_PER_WORKER * workers)

    def __iter__(self) -> Iterator[list[int]]:
        first = 0
        while first < len(self.numbers):
            share = math.ceil((len(self.numbers) - first) / (2 * self.workers))
            last = first + min(self.size, share)
            yield self.numbers[first:last].tolist()
            first = last

    def learn(self, cells: int, seconds: float) -> None:
        """Adapt the size to the time of a batch; it grows at most fourfold, as cells differ."""
        fitting = int(self.seconds * cells / max(seconds, 1e-9))
        self.size = max(1, min(fitting, 4 * self.size, LARGEST_BATCH))
