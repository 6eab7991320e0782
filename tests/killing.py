"""Programs that are killed with SIGKILL, and the processes that they leave behind.

Only the program itself is killed, as the kernel does when memory is short: all that it started must
end by itself. Orphans get another parent, so that every process of ours carries a mark in its
environment, by which it is found.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

ROOT = Path(__file__).parent.parent
MARK = "SLR_TEST_MARK"
PATIENCE = 5.0  # seconds in which every process must end


@dataclass(frozen=True)
class Program:
    """A program with its mark, and the file of what it says."""

    process: subprocess.Popen[bytes]
    mark: str
    log: Path

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def left(self, seconds: float = PATIENCE) -> list[str]:
        """The command lines of the processes that are still there after so many seconds."""
        end = time.monotonic() + seconds
        while (alive := self.alive()) and time.monotonic() < end:
            time.sleep(0.05)
        return [" ".join(each.cmdline()) for each in alive if each.is_running()]

    def alive(self) -> list[psutil.Process]:
        """All processes that carry the mark, the program itself included."""
        return [each for each in psutil.process_iter() if _mark(each) == self.mark]

    def wait_for(self, processes: int, seconds: float = 60) -> None:
        """Wait until so many processes are there, the program itself included."""
        end = time.monotonic() + seconds
        while len(self.alive()) < processes:
            assert time.monotonic() < end, f"not {processes} processes after {seconds} s"
            assert self.process.poll() is None, self.said()
            time.sleep(0.02)

    def said(self) -> str:
        return self.log.read_text(errors="replace")


def _mark(process: psutil.Process) -> str | None:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return str(process.environ().get(MARK))
    except (psutil.Error, OSError):  # of another user, or just gone
        return None


@contextmanager
def started(arguments: Sequence[str], folder: Path) -> Iterator[Program]:
    """A Python program in this folder; at the end of the block nothing of it is left."""
    mark = uuid.uuid4().hex
    log = folder / f"{mark}.log"
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = os.environ | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", MARK: mark}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a signal to our group does not reach it
        )
    program = Program(process, mark, log)
    try:
        yield program
    finally:
        for each in program.alive():
            each.kill()
        process.wait()
        log.unlink()
