"""Text files of a user: read whole, or refused in one line before anything can hang or fill up."""

import stat
from pathlib import Path

from data_gen.quoting import one_line, shortened, spaced

LONGEST_PATH = 120  # characters of a path in an error line


def read_text(path: Path, *, most_bytes: int, error: type[ValueError]) -> str:
    """The text of a file in UTF-8, with its line ends as they are.

    Whatever is not a regular file of at most ``most_bytes`` is refused unread: to open a FIFO would
    be to wait for its writer.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise error(one_line(f"{shown(path)} is not a regular file; give a file"))
        if status.st_size > most_bytes:
            size = f"{spaced(status.st_size)} bytes, more than the limit of {spaced(most_bytes)}"
            raise error(one_line(f"{shown(path)} has {size}"))
        content = path.read_bytes()
    except (OSError, ValueError) as problem:
        if isinstance(problem, error):
            raise
        why = getattr(problem, "strerror", None) or str(problem)  # a path with a NUL: ValueError
        raise error(one_line(f"{shown(path)} cannot be read: {why}")) from problem
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise error(one_line(f"{shown(path)} is not UTF-8 text; save it as UTF-8")) from None


def shown(path: str | Path) -> str:
    """A path for an error line: of a long one its two ends."""
    return shortened(str(path), LONGEST_PATH)
