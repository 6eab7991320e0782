"""What became of an input: the outcomes that tests of bad input and the fuzzer count.

Bad input must be refused: one line of at most 300 characters, exit code 2, nothing written.
"""

import contextlib
import io
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.command_line import run

REFUSED, ACCEPTED, TRACEBACK, HANG, LITTER = OUTCOMES = (
    "refused",  # in one line; nothing was written
    "accepted",
    "traceback",  # or several lines, a line that is too long, another exit code
    "hang",
    "litter",  # refused, but something was written
)
LONGEST_LINE = 300


@dataclass(frozen=True)
class Ended:
    """How a call ended: its outcome, and what it said."""

    outcome: str
    said: str
    value: Any = None  # what an accepted call returned


class Hang(BaseException):
    """Not an Exception: nothing that the call catches may hide that it hangs."""


def command(name: str, arguments: Sequence[object], *, within: Path, seconds: float = 10) -> Ended:
    """How a command ends in this process: ``command("probe", ["--model", folder], within=...)``.

    ``within`` is the folder in which nothing may change unless the command is accepted.
    """
    complaint = io.StringIO()

    def call() -> None:
        with contextlib.redirect_stderr(complaint), contextlib.redirect_stdout(io.StringIO()):
            run(name, [str(argument) for argument in arguments], prog=name)

    before = files(within)
    try:
        with at_most(seconds):
            call()
    except SystemExit as stop:
        said = complaint.getvalue()
        ok = stop.code == 2 and is_one_line(said.removesuffix("\n")) and said.startswith("error: ")
        return _refused(said.strip(), ok=ok, clean=files(within) == before)
    except Hang:
        return Ended(HANG, f"not finished after {seconds} s")
    except BaseException:
        return Ended(TRACEBACK, traceback.format_exc())
    return Ended(ACCEPTED, complaint.getvalue())


def call(function: Callable[[], Any], *, within: Path, seconds: float = 10) -> Ended:
    """How a function ends: refused means a ValueError or OSError with one line."""
    before = files(within)
    try:
        with at_most(seconds):
            value = function()
    except (ValueError, OSError) as error:
        ok = is_one_line(str(error)) and type(error) is not UnicodeDecodeError
        return _refused(str(error), ok=ok, clean=files(within) == before)
    except Hang:
        return Ended(HANG, f"not finished after {seconds} s")
    except BaseException:
        return Ended(TRACEBACK, traceback.format_exc())
    return Ended(ACCEPTED, "", value)


def _refused(said: str, *, ok: bool, clean: bool) -> Ended:
    return Ended(REFUSED if ok and clean else LITTER if ok else TRACEBACK, said)


def is_one_line(text: str) -> bool:
    return 0 < len(text) <= LONGEST_LINE and text.isprintable()


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder within, hidden ones too; files with their size and time of change."""
    found = {}
    for path in folder.rglob("*"):
        stat, is_folder = path.lstat(), path.is_dir()
        found[str(path)] = (0, 0) if is_folder else (stat.st_size, stat.st_mtime_ns)
    return found


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Stop the block with Hang when its time is over (in the main thread)."""

    def stop(*_: object) -> None:
        raise Hang

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
