"""The rows of a sweep on disk, in parts that stream in.

A folder holds _sweep.json (what the rows belong to) and part-NUMBER.parquet files, each with the
settings and results of some cells. Every file appears whole, by renaming, so that the folder is a
dataset at any time: ``pandas.read_parquet(folder)`` reads the rows that are there.
"""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

DESCRIPTION, LOCK = "_sweep.json", ".lock"  # readers of datasets skip such names
CELL = "cell"  # the column with a cell's number


class Rows:
    """The rows in a folder that this process alone may write to: see open_rows."""

    def __init__(self, folder: Path, n_cells: int) -> None:
        self.folder, self.n_cells = folder, n_cells
        for path in folder.glob(".*.tmp"):  # left by a process that was killed while writing
            path.unlink()
        for path in self.parts():
            if not path.is_file():  # a pipe would be waited for
                raise ValueError(f"{path} is not a file; delete it, and its cells are computed")
            try:
                pq.read_metadata(path)
            except (pa.ArrowInvalid, OSError):  # cut off: the machine lost power
                path.unlink()

    def parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.parquet"))

    def missing(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The numbers of the cells that have no row yet."""
        done = np.zeros(self.n_cells, dtype=bool)
        for path in self.parts():
            done[np.asarray(pq.read_table(path, columns=[CELL])[CELL])] = True
        return np.flatnonzero(~done)

    def add(self, columns: Mapping[str, Any]) -> None:
        """Keep rows for good, in a part named after its first cell: no other part has that."""
        rows = pa.table(dict(columns))
        path = self.folder / f"part-{columns[CELL][0]:09}.parquet"
        _write_whole(path, lambda partial: pq.write_table(rows, partial))

    def table(self) -> Any:
        """The rows of all cells, in their order, as a pandas DataFrame."""
        return pq.read_table(self.folder).sort_by(CELL).to_pandas()


@contextlib.contextmanager
def open_rows(
    folder: Path, description: Mapping[str, Any], n_cells: int, *, overwrite: bool = False
) -> Iterator[Rows]:
    """The rows in a folder, new or begun earlier for the same description, for one process.

    With ``overwrite`` rows of another description are removed, and without it refused.
    """
    is_new = not folder.exists()
    if not is_new and not (folder.is_dir() and _is_free(folder)):
        raise FileExistsError(f"{folder} is there and does not hold a sweep; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    # The lock of a process that died is free at once: so never a soft lock, whose file would stay.
    lock = FileLock(folder / LOCK, blocking=False, fallback_to_soft=False)
    try:
        held = lock.acquire()
    except Timeout:
        raise BlockingIOError(f"another sweep is writing to {folder}") from None
    with held:
        rows = Rows(folder, n_cells)
        _describe(rows, json.loads(json.dumps(description)), overwrite)
        try:
            yield rows
        finally:
            if is_new and not rows.parts():  # the sweep failed before its first row
                # Windows keeps the file of a lock that is held; a folder with nothing else is free.
                shutil.rmtree(folder, ignore_errors=True)


def _describe(rows: Rows, description: Any, overwrite: bool) -> None:
    path = rows.folder / DESCRIPTION
    if path.exists():
        earlier = json.loads(path.read_text(encoding="utf-8"))
        differing = [name for name in description if earlier.get(name) != description[name]]
        if not differing:
            return
        if not overwrite:
            raise ValueError(
                f"{rows.folder} was begun with another {' and '.join(differing)}; "
                "choose another folder or start again"
            )
        for part in rows.parts():
            part.unlink()
    text = json.dumps(description, indent=2) + "\n"
    _write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _is_free(folder: Path) -> bool:
    """Does the folder hold a sweep, or nothing at all?"""
    names = {path.name for path in folder.iterdir()}
    return DESCRIPTION in names or names <= {LOCK, f".{DESCRIPTION}.tmp"}


def _write_whole(path: Path, write: Callable[[Path], object]) -> None:
    partial = path.with_name(f".{path.name}.tmp")
    write(partial)
    partial.replace(path)
