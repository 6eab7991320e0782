"""Numbers as the pages show them."""

from typing import Any


def number(value: float, digits: int = 2) -> str:
    """A number with so many digits; nothing where there is none."""
    return "" if value != value else f"{value:.{digits}f}"


def interval(value: float, low: float, high: float, digits: int = 2) -> str:
    """As 0.98 [0.97, 0.99], or without an interval where there is none."""
    if low != low:  # not a number
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def spread(values: Any, digits: int = 2) -> str:
    """Mean and range over repetitions; nothing where there is nothing."""
    if values.isna().all():
        return ""
    return f"{values.mean():.{digits}f} ({values.min():.{digits}f} to {values.max():.{digits}f})"
