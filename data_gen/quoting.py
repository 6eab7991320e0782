"""Values in error lines: a line is printable and at most 300 characters, whatever a file holds."""

import math
from collections.abc import Iterable
from itertools import islice
from reprlib import Repr
from typing import Any

LONGEST_LINE = 300
MOST_CHARACTERS = 60  # of a quoted value
MOST_NAMES = 8  # of a list of names
_CONTAINERS = Repr()  # bounds the depth and the number of entries
_CONTAINERS.maxother = _CONTAINERS.maxstring = _CONTAINERS.maxlong = MOST_CHARACTERS


def quoted(value: Any, most: int = MOST_CHARACTERS) -> str:
    """The value as Python writes it; of a long one the start, and how much more there is.

    >>> quoted("nice")
    "'nice'"
    >>> quoted("a" * 8_000_000, most=4)
    "'aaaa...' and 7 999 996 more characters"
    """
    if isinstance(value, str):
        start = value[:most]
        while len(repr(start)) > 2 * most:  # escapes such as \\U000e0001 are ten characters
            start = start[: len(start) // 2]
        if more := len(value) - len(start):
            return f"{repr(start)[:-1]}...{repr(start)[-1]} and {spaced(more)} more characters"
        return repr(value)
    if type(value) is int and value.bit_length() > 200:  # Python refuses to write the longest
        return f"a number of {spaced(int(value.bit_length() * math.log10(2)) + 1)} digits"
    try:
        text = _CONTAINERS.repr(value)
    except ValueError:  # a list with such a number
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}..."


def listed(names: Iterable[Any], most: int = MOST_NAMES) -> str:
    """Names with commas; of many names the first, and how many more there are.

    >>> listed("abcd", most=2)
    'a, b and 2 more'
    """
    names = list(names)
    shown = [shortened(str(name), 24) for name in islice(names, most)]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {spaced(more)} more" if more else "")


def shortened(text: str, most: int) -> str:
    """The text without its middle, if it is longer than ``most`` characters.

    >>> shortened("a very long name", 9)
    'a v...ame'
    """
    if len(text) <= most:
        return text
    head = (most - 3) // 2
    return f"{text[:head]}...{text[head + 3 - most :]}"


def one_line(text: str, most: int = LONGEST_LINE) -> str:
    """The text as one printable line of at most ``most`` characters.

    Of a longer one the start is kept, which says where the fault is, and the end, which says what
    to do. What does not print is escaped: a file must not write to the terminal.

    >>> one_line("start " + "x" * 1000 + " end", most=60)
    'start xxxxxxx ... (990 more characters) ...  xxx end'
    """
    sample = text if len(text) < 20_000 else text[:10_000] + text[-10_000:]
    line = " ".join(printable(" ".join(sample.split())).split())
    if len(line) <= most:
        return line
    room = most - 40
    start = 2 * room // 3
    left_out = spaced(len(text) - room)
    return f"{line[:start]} ... ({left_out} more characters) ... {line[start - room :]}"


def printable(text: str) -> str:
    """The text with escapes for what does not print: control and bidi characters, surrogates."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def spaced(number: int) -> str:
    """The number with spaces between its thousands."""
    return f"{number:,}".replace(",", " ")
