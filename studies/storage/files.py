"""The files of a result: has any of them changed since the result was made?

Small files (tables, JSON, figures) are compared by their sha256, larger ones (weights, states) by
their size alone: reading gigabytes would make a check as slow as a download.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from probing.models.packaged import file_sha256

SMALL = 16 * 2**20  # bytes up to which the content of a file is compared


def contents(folder: Path) -> dict[str, dict[str, Any]]:
    """The size of every file in the folder and its sub-folders, and the sha256 of small ones."""
    return {name: _entry(path) for name, path in files_in(folder) if path.is_file()}


def _entry(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    return {"size": size} | ({"sha256": file_sha256(path)} if size <= SMALL else {})


def first_change(folder: Path, kept: Any, *, leave_out: str) -> str | None:
    """The first file that is not as ``contents`` has kept it, and how; None if all are.

    Older results have kept sizes alone, one number per file.
    """
    if not isinstance(kept, dict):
        return f"{leave_out} is damaged"
    there = {name: path for name, path in files_in(folder) if name != leave_out}
    for name in sorted(kept.keys() | there.keys()):
        if name not in there:
            return f"{name} is missing"
        if name not in kept:
            return f"{name} is not part of the result"
        entry, path = kept[name], there[name]
        if isinstance(entry, int):
            entry = {"size": entry}
        if not isinstance(entry, dict) or "size" not in entry:
            return f"{leave_out} is damaged"
        if not path.is_file():
            return f"{name} is not a file"
        if path.stat().st_size != entry["size"]:
            return f"{name} has another size"
        if "sha256" in entry and file_sha256(path) != entry["sha256"]:
            return f"{name} has another content"
    return None


def files_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Everything that is not a folder, pipes and broken links too, by its name in the folder."""
    for path in sorted(folder.rglob("*")):
        if not path.is_dir():
            yield path.relative_to(folder).as_posix(), path
