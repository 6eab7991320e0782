"""Temporary folders whose owner may be killed: the next owner removes what dead ones left.

The name of such a folder says which process of which machine owns it.
"""

import glob
import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def owned_name(prefix: str) -> str:
    """A new name for a folder of this process."""
    return f"{_of_this_machine(prefix)}{os.getpid()}-{uuid.uuid4().hex}"


def dead_folders(parent: Path, prefix: str) -> Iterator[Path]:
    """The folders with such names whose owners, on this machine, are gone."""
    start = _of_this_machine(prefix)
    for folder in parent.glob(f"{glob.escape(start)}*"):
        pid = folder.name.removeprefix(start).split("-")[0]
        if pid.isdigit() and not _is_alive(int(pid)):
            yield folder


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A new folder that is removed at the end of the block, or by the next such block."""
    parent = parent or Path(tempfile.gettempdir())
    for dead in dead_folders(parent, prefix):
        shutil.rmtree(dead, ignore_errors=True)
    folder = parent / owned_name(prefix)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _of_this_machine(prefix: str) -> str:
    return f"{prefix}{socket.gethostname()}-"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user: alive; or not a number of a process
        return True
    return True
