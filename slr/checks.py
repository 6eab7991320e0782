"""Checks of numbers: each raises a ValueError with one line that says what is wrong."""

import math
from typing import Any

import numpy as np

LARGEST = 2**63 - 1  # of the whole numbers that arrays and tables hold
HUGE = 1e150  # of other numbers: the square is a float
QUOTED = 40  # characters of a value that a message shows


def quoted(value: Any) -> str:
    """A value for a message: all of a short one, of a long one its start and how much is left.

    >>> quoted("sphere")
    "'sphere'"
    >>> quoted("x" * 1000)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... (962 more characters)"
    """
    try:
        text = " ".join(repr(as_python(value)).split())
    except ValueError:  # Python writes no integer of more than 4300 digits
        return f"an integer of {value.bit_length()} bits"
    return shortened(text)


def shortened(text: str, most: int = QUOTED) -> str:
    """All of a short text; of a longer one its start and how much is left."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more characters)"


def as_python(value: Any) -> Any:
    """A numpy scalar, or an array without axes, as the Python number that it holds."""
    return value.item() if isinstance(value, np.generic | np.ndarray) and not value.ndim else value


def check_whole(least: int, *, most: int = LARGEST, **values: Any) -> None:
    """Raise ValueError for the first value that is not a whole number from least to most."""
    for name, value in values.items():
        number = as_python(value)
        if type(number) not in (int, float) or not least <= number <= most or number % 1:
            above = f" and at most {most:.3g}" if type(number) is int and number > most else ""
            raise ValueError(
                f"{name} must be an integer of at least {least}{above}, not {quoted(value)}"
            )


def check_size(*, most: float = math.inf, **values: Any) -> None:
    """Raise ValueError for the first number or array that is negative, not finite or too large."""
    for name, value in values.items():
        if not (is_real(value) and np.greater_equal(value, 0).all()):
            raise ValueError(f"{name} must be at least 0 and finite, not {quoted(value)}")
        if np.greater(value, most).any():
            raise ValueError(f"{name} must be at most {most:g}, not {quoted(value)}")


def check_between(low: float, high: float, **values: Any) -> None:
    """Raise ValueError for the first value that is not a number from low to high."""
    for name, value in values.items():
        number = as_python(value)
        if type(number) not in (int, float) or not low <= number <= high:
            what = "positive and finite, " if low > 0 else ""
            raise ValueError(f"{name} must be {what}from {low:g} to {high:g}, not {quoted(value)}")


def as_floats(name: str, values: Any) -> Any:
    """Numbers as an array of finite floats."""
    try:
        if np.iscomplexobj(values):  # whose imaginary part numpy would drop
            raise TypeError
        array = np.asarray(values, dtype=float)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{name} must be an array of real numbers") from None
    if not (np.abs(array) <= HUGE).all():  # nor NaN
        raise ValueError(f"{name} must be finite, and at most {HUGE:g}")
    return array


def is_real(value: Any) -> bool:
    """Whether a number or array holds finite real numbers only: no text, no complex number."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        return False
    return array.dtype.kind in "iuf" and bool(np.isfinite(array).all())
