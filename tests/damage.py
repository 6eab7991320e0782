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


def to_same_size_and_time(path: Path) -> None:
    """One bit is another; the size and the time of change are as before."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
