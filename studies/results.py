"""Results on disk: a folder is complete or absent, and is never replaced silently."""

import contextlib
import json
import os
import shutil
import signal
import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SETTINGS = "settings.json"  # written first: what decides the result
FILES = "files.json"  # written last: every file of the result with its size
MADE_BY = {"made_by": "slr-probing"}  # in every settings.json: marks a result of this project


@contextlib.contextmanager
def result_folder(
    path: Path, settings: dict[str, Any], *, overwrite: bool = False
) -> Iterator[Path]:
    """A temporary folder next to ``path`` that becomes ``path`` when the block ends without error.

    If the block fails or the program is stopped (Ctrl-C, SIGTERM, a closed terminal), nothing is
    left behind and an earlier result stays as it was. The next run removes what a SIGKILL leaves.
    """
    path = path.resolve()
    check_output(path, overwrite=overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_dead_partials(path)
    partial = path.with_name(f"{_partial_prefix(path)}{os.getpid()}-{uuid.uuid4().hex}")
    partial.mkdir()
    try:
        with _stops_as_interrupts():
            write_json(partial / SETTINGS, MADE_BY | settings)
            yield partial
            write_json(partial / FILES, _sizes(partial))
            _move_into_place(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_output(path: Path, *, overwrite: bool) -> None:
    """Fail early if results could not be written to ``path``."""
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; choose another folder or add --overwrite")
    if path.exists() and not _is_ours(path):
        raise FileExistsError(f"{path} is not a result of slr-probing and is not overwritten")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written: {parent} is not a writable folder")


def is_current(path: Path, settings: dict[str, Any]) -> bool:
    """Whether ``path`` holds a complete result that was made with these settings."""
    with contextlib.suppress(OSError, ValueError):
        return bool(is_whole(path) and read_json(path / SETTINGS) == MADE_BY | settings)
    return False


def is_whole(path: Path) -> bool:
    """Whether all files of the result exist, with the sizes they had when it was finished."""
    with contextlib.suppress(OSError, ValueError):
        return bool(read_json(path / FILES) == _sizes(path, leave_out=FILES))
    return False


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _is_ours(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return bool(read_json(path / SETTINGS)["made_by"] == MADE_BY["made_by"])
    return False


def _sizes(folder: Path, leave_out: str = "") -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != leave_out
    }


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


def _partial_prefix(path: Path) -> str:
    return f".{path.name}.partial-{socket.gethostname()}-"


def _remove_dead_partials(path: Path) -> None:
    """Remove the folders of killed runs on this machine, whose processes are gone."""
    prefix = _partial_prefix(path)
    for folder in path.parent.glob(prefix + "*"):
        pid = folder.name.removeprefix(prefix).split("-")[0]
        if pid.isdigit() and not _is_alive(int(pid)):
            if folder.name.endswith("-old") and not path.exists():
                folder.rename(path)  # killed between the two renames: restore the earlier result
            else:
                shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # a process of another user is alive
    return True


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
