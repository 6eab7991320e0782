"""Text files of a user: read whole, or refused in one line before anything can hang or fill up."""

import stat
from pathlib import Path

from data_gen.quoting import shortened, spaced

LONGEST_PATH = 120  # characters of a path in an error line


def read_text(path: Path, *, most_bytes: int, error: type[ValueError]) -> str:
    """The text of a file in UTF-8, with its line ends as they are.

    Whatever is not a regular file of at most ``most_bytes`` is refused unread: to open a FIFO would
    be to wait for its writer.
    """
    check_file(path, most_bytes=most_bytes, error=error)
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise error(f"{shown(path)} cannot be read: {problem.strerror}") from problem
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise error(f"{shown(path)} is not UTF-8 text; save it as UTF-8") from None


def check_file(path: Path, *, most_bytes: int, error: type[ValueError]) -> None:
    """Refuse whatever is not a regular file of at most ``most_bytes``."""
    try:
        status = path.stat()
    except (OSError, ValueError) as problem:  # ValueError: a path with a NUL
        missing = isinstance(problem, FileNotFoundError | NotADirectoryError)
        why = "does not exist" if missing else "cannot be read; check its name and permissions"
        raise error(f"{shown(path)} {why}") from problem
    if not stat.S_ISREG(status.st_mode):
        raise error(f"{shown(path)} is not a regular file; give a file")
    if status.st_size > most_bytes:
        size = f"{spaced(status.st_size)} bytes, more than the limit of {spaced(most_bytes)}"
        raise error(f"{shown(path)} has {size}")


def exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, or holds a NUL
        return False


def shown(path: str | Path) -> str:
    """A path for an error line: of a long one its two ends."""
    return shortened(str(path), LONGEST_PATH)
