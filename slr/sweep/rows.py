"""The rows of a sweep on disk: parts that stream in, and in the end one table.

A folder holds sweep.json (what the rows belong to), part-FIRST-LAST.parquet files, and when all
cells are there cells.parquet instead of them. Every file appears whole, by renaming. Parts are
numbered as they come; a merged part bears the numbers of those it replaces, so that one that was
killed between making it and removing them leaves no row twice.
"""

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DESCRIPTION, TABLE, LOCK = "sweep.json", "cells.parquet", ".lock"
CELL = "cell"  # the column with a cell's number
MERGE = 64  # this many small parts become one


class Part(NamedTuple):
    first: int
    last: int
    path: Path


class Parts:
    """The rows in a folder that this process alone may write to: see open_parts."""

    def __init__(self, folder: Path, n_cells: int) -> None:
        self.folder, self.n_cells = folder, n_cells
        for left in folder.glob("*.tmp"):  # by one that was killed while writing
            left.unlink()
        self.complete = (folder / TABLE).exists()
        self._parts = [] if self.complete else _without_merged(_readable(_listed(folder)))
        if self.complete:  # killed while removing them
            self._remove([part.path for part in _listed(folder)])

    def missing(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The numbers of the cells that have no row yet."""
        if self.complete:
            return np.empty(0, dtype=np.int64)
        done = np.zeros(self.n_cells, dtype=bool)
        for part in self._parts:
            done[pq.read_table(part.path, columns=[CELL])[CELL].to_numpy()] = True
        return np.flatnonzero(~done)

    def add(self, columns: Mapping[str, Any]) -> None:
        """Keep rows for good."""
        number = self._parts[-1].last + 1 if self._parts else 0
        self._parts.append(self._write(pa.table(dict(columns)), number, number))
        small = [part for part in self._parts if part.first == part.last]
        if len(small) >= MERGE:
            merged = self._write(_read(small), small[0].first, small[-1].last)
            self._parts = [part for part in self._parts if part not in small] + [merged]
            self._remove([part.path for part in small])

    def compact(self, settings: Any) -> None:
        """All rows, in the order of the cells, in one table; ``settings(cells)`` adds columns."""
        if self.complete:
            return
        rows = _read(self._parts).sort_by(CELL)
        cells = rows[CELL].to_numpy()
        if not np.array_equal(cells, np.arange(self.n_cells)):
            raise RuntimeError(f"{self.folder} does not hold every cell once")
        columns = {CELL: rows[CELL]} | settings(cells)
        columns |= {name: rows[name] for name in rows.column_names if name != CELL}
        _write_whole(pa.table(columns), self.folder / TABLE)
        self.complete = True
        self._remove([part.path for part in self._parts])

    def table(self) -> Any:
        """The whole table, as a pandas DataFrame."""
        return pq.read_table(self.folder / TABLE).to_pandas()

    def _write(self, rows: Any, first: int, last: int) -> Part:
        path = self.folder / f"part-{first:09}-{last:09}.parquet"
        _write_whole(rows, path)
        return Part(first, last, path)

    def _remove(self, paths: list[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def open_parts(folder: Path, description: Mapping[str, Any], n_cells: int) -> Iterator[Parts]:
    """The rows in a folder, new or begun earlier for the same description, for one process."""
    is_new = not folder.exists()
    if not is_new and not (folder.is_dir() and _is_free(folder)):
        raise FileExistsError(f"{folder} is there and does not hold a sweep; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go when the process ends
        except BlockingIOError:
            raise BlockingIOError(f"another sweep is writing to {folder}") from None
        _describe(folder, json.loads(json.dumps(description)))
        try:
            yield Parts(folder, n_cells)
        finally:
            if is_new and not list(folder.glob("*.parquet")):  # it failed before the first row
                shutil.rmtree(folder)


def holds(folder: Path, description: Mapping[str, Any]) -> bool:
    """Was this folder begun for the same description?"""
    try:
        return bool(_description(folder) == json.loads(json.dumps(description)))
    except (OSError, ValueError):
        return False


def remove_parts(folder: Path) -> None:
    """Remove the folder of a sweep, and none but such."""
    if folder.exists():
        if not _is_free(folder):
            raise FileExistsError(f"{folder} does not hold a sweep and is not removed")
        shutil.rmtree(folder)


def _describe(folder: Path, description: Any) -> None:
    if not (folder / DESCRIPTION).exists():
        partial = folder / f"{DESCRIPTION}.tmp"
        partial.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        partial.replace(folder / DESCRIPTION)
        return
    earlier = _description(folder)
    differing = [name for name in description if earlier.get(name) != description[name]]
    if differing:
        raise ValueError(
            f"{folder} was begun with another {' and '.join(differing)}; "
            "choose another folder or start again"
        )


def _description(folder: Path) -> Any:
    return json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))


def _is_free(folder: Path) -> bool:
    """Is there a sweep, or nothing at all?"""
    names = {path.name for path in folder.iterdir()}
    return DESCRIPTION in names or names <= {LOCK, f"{DESCRIPTION}.tmp"}


def _listed(folder: Path) -> list[Part]:
    found = []
    for path in sorted(folder.glob("part-*-*.parquet")):
        _, first, last = path.stem.split("-")
        found.append(Part(int(first), int(last), path))
    return found


def _without_merged(parts: list[Part]) -> list[Part]:
    """Leave out, and remove, what a merged part replaces."""
    kept: list[Part] = []
    for part in sorted(parts, key=lambda part: (part.first, -part.last)):
        if kept and part.last <= kept[-1].last:
            part.path.unlink()
        else:
            kept.append(part)
    return kept


def _readable(parts: list[Part]) -> list[Part]:
    """Leave out, and remove, what a machine that lost power did not finish writing."""
    kept = []
    for part in parts:
        try:
            pq.read_metadata(part.path)
            kept.append(part)
        except (pa.ArrowInvalid, OSError):
            part.path.unlink()
    return kept


def _read(parts: list[Part]) -> Any:
    return pa.concat_tables([pq.read_table(part.path) for part in parts])


def _write_whole(rows: Any, path: Path) -> None:
    partial = path.with_name(path.name + ".tmp")
    pq.write_table(rows, partial)
    partial.replace(path)
