"""What may have become of a file: each function does one thing to the file at a path."""

import os
from pathlib import Path


def to_pipe(path: Path) -> None:
    """A pipe, for which a careless reader waits for ever."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def to_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def to_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)
