"""The memory that arrays would take, compared with that of the machine before they are made."""

import math
import os

SHARE = 0.8  # of the machine's memory that one computation may take


def machine_memory() -> float:
    """The memory of this machine in bytes; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return math.inf


def check_memory(what: str, n_bytes: float, *, memory: float | None = None) -> None:
    """Raise ValueError if something takes more than SHARE of the memory (default: this machine's).

    >>> check_memory("a grid of 10 cells", 3000)
    """
    memory = machine_memory() if memory is None else memory
    if n_bytes > SHARE * memory:
        raise ValueError(
            f"{what} would take about {in_words(n_bytes)} of memory; this machine has "
            f"{in_words(memory)}: choose less"
        )


def in_words(n_bytes: float) -> str:
    """A number of bytes with its unit.

    >>> in_words(48e9)
    '48 GB'
    """
    units = ["bytes", "kB", "MB", "GB", "TB"]
    while n_bytes >= 1000 and len(units) > 1:
        n_bytes /= 1000
        del units[0]
    return f"{n_bytes:.0f} {units[0]}" if 10 <= n_bytes < 1e6 else f"{n_bytes:.2g} {units[0]}"
