"""Results on disk: a folder is complete or absent, and is never replaced silently."""

import contextlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from probing.temporary import dead_folders, owned_name

SETTINGS = "settings.json"  # written first: what decides the result
MADE_BY = {"made_by": "slr-probing"}  # in every settings.json: marks a result of this project


@contextlib.contextmanager
def result_folder(
    path: Path, settings: dict[str, Any], *, overwrite: bool = False
) -> Iterator[Path]:
    """A temporary folder next to ``path`` that becomes ``path`` when the block ends without error.

    If the block fails or the program is stopped (Ctrl-C, SIGTERM, a closed terminal), nothing is
    left behind and an earlier result stays as it was. The next run removes what a SIGKILL leaves.
    """
    check_output(path, overwrite=overwrite, study=settings.get("study"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path = path.resolve()
    _remove_dead_partials(path)
    partial = path.with_name(owned_name(f".{path.name}.partial-"))
    partial.mkdir()
    try:
        with _stops_as_interrupts():
            write_json(partial / SETTINGS, MADE_BY | settings)
            yield partial
            _move_into_place(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_output(path: Path, *, overwrite: bool, study: str | None = None) -> None:
    """Fail early if the results, of this study, could not be written to ``path``."""
    check_links(path)
    if path.exists():
        if (theirs := study_of(path)) is None:
            raise FileExistsError(
                f"{path} is not a result of slr-probing and is not overwritten; "
                "choose another folder"
            )
        if not overwrite:
            raise FileExistsError(f"{path} exists; choose another folder or add --overwrite")
        if study and theirs and theirs != study:
            raise FileExistsError(
                f"{path} is a result of {theirs} and is not overwritten by one of {study}; "
                "choose another folder"
            )
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written: {parent} is not a writable folder")


def check_links(path: Path) -> None:
    """Refuse a path through a symbolic link that leads nowhere."""
    for part in (path, *path.absolute().parents):
        if part.is_symlink() and not part.exists():
            raise ValueError(f"{part} is a symbolic link to nothing, or to itself; delete it")


def is_current(path: Path, settings: dict[str, Any]) -> bool:
    """Whether ``path`` holds a result, which is then whole, that was made with these settings."""
    with contextlib.suppress(OSError, ValueError):
        return bool(read_json(path / SETTINGS) == MADE_BY | settings)
    return False


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON; a file that was there is replaced in one step."""
    write_whole(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is complete or absent, even if the program is killed."""
    partial = path.with_name(f".{path.name}.tmp")  # one name: the next run replaces a dead one's
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError:  # the disk is full, or the path a folder
        partial.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """The value in a JSON file; a file that does not hold one is refused in one line."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        reason = str(error).splitlines()[0][:120]
        raise ValueError(f"{path} is not a JSON file ({reason})") from None


def study_of(path: Path) -> str | None:
    """The study whose result the folder is; "" if it does not say, None if it is not ours."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        settings = read_json(path / SETTINGS)
        if settings["made_by"] == MADE_BY["made_by"]:
            return str(settings.get("study", ""))
    return None


def _move_into_place(partial: Path, path: Path) -> None:
    if not path.exists():
        partial.rename(path)
        return
    old = partial.with_name(partial.name + "-old")
    try:
        path.rename(old)
        partial.rename(path)
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(old, ignore_errors=True)


def _remove_dead_partials(path: Path) -> None:
    """Remove the folders of killed runs on this machine, whose processes are gone."""
    for folder in dead_folders(path.parent, f".{path.name}.partial-"):
        if folder.name.endswith("-old") and not path.exists():
            folder.rename(path)  # killed between the two renames: restore the earlier result
        else:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _stops_as_interrupts() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the program as Ctrl-C does, so that clean-up runs."""
    if threading.current_thread() is not threading.main_thread():  # signals arrive only there
        yield
        return
    stops = (signal.SIGTERM, signal.SIGHUP)
    previous = [signal.signal(stop, signal.default_int_handler) for stop in stops]
    try:
        yield
    finally:
        for stop, handler in zip(stops, previous, strict=True):
            signal.signal(stop, handler)
