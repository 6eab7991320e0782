"""Results on disk: a folder that is there whole or not at all, and never silently replaced."""

import contextlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CONFIG = "config.json"  # written first into every run directory; how we know one of ours


@contextlib.contextmanager
def run_directory(path: Path, config: dict[str, Any], *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder next to ``path`` that becomes ``path`` when the block ends well.

    If the block fails or the program is stopped (Ctrl-C, SIGTERM), nothing is left behind and
    an earlier result stays as it was.
    """
    check_output(path, overwrite=overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.partial-", dir=path.parent))
    partial.chmod(0o777 & ~_umask())  # mkdtemp makes it private; a result is for everybody
    try:
        with _sigterm_as_interrupt():
            write_json(partial / CONFIG, config)
            yield partial
            _move_into_place(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_output(path: Path, *, overwrite: bool) -> None:
    """Fail early if results could not be written to ``path``."""
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; choose another folder or add --overwrite")
    if path.exists() and not (path / CONFIG).is_file():
        raise FileExistsError(
            f"{path} holds no {CONFIG}, so it is not a result of ours and is not overwritten"
        )
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written: {parent} is not a writable folder")


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _move_into_place(partial: Path, path: Path) -> None:
    if not path.exists():
        partial.rename(path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old-", dir=path.parent)) / path.name
    path.rename(old)
    try:
        partial.rename(path)
    except BaseException:
        old.rename(path)
        raise
    shutil.rmtree(old.parent)


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM unwind the program as Ctrl-C does, so that clean-up runs."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
