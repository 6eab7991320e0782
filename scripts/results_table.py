"""Tables of the page of results, in markdown."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def markdown(table: "pd.DataFrame") -> str:
    """A table with its index as first columns. Pipes would break it, unless escaped."""
    flat = table.reset_index()
    rows = [list(map(str, flat.columns)), ["---"] * len(flat.columns)]
    rows += [[str(value) for value in row] for row in flat.astype(object).to_numpy().tolist()]
    return "\n".join("| " + " | ".join(x.replace("|", r"\|") for x in row) + " |" for row in rows)


def number(value: float, digits: int = 2) -> str:
    """Nothing where there is none."""
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
