"""Numbers, paragraphs and tables as they are shown: in the terminal and in markdown."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from studies.study import Said

WIDTH = 80  # columns of a terminal


def number(value: float, digits: int = 2) -> str:
    """A number with so many digits; nothing where there is none."""
    return "" if value != value else f"{value:.{digits}f}"


def interval(value: Any, low: Any, high: Any, digits: int = 2) -> str:
    """As 0.98 [0.97, 0.99], with the ends of a 95% interval, or alone where there is none."""
    if low != low:  # not a number
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def spread(values: Any, digits: int = 2) -> str:
    """Mean and range over repetitions; nothing where there is nothing."""
    if values.isna().all():
        return ""
    return ranged(values.mean(), values.min(), values.max(), digits)


def ranged(value: Any, lowest: Any, highest: Any, digits: int = 2) -> str:
    """As 0.98 (0.97 to 0.99): not an interval but a range over repetitions."""
    return f"{value:.{digits}f} ({lowest:.{digits}f} to {highest:.{digits}f})"


def over_seeds(values: pd.Series) -> str:
    """The range of values over training seeds, as (0.97 to 0.99 over 5 seeds)."""
    return f"({values.min():.3f} to {values.max():.3f} over {len(values)} seeds)"


def pivoted(table: pd.DataFrame, texts: Sequence[str], index: Any, columns: Any) -> pd.DataFrame:
    """One text per row of a tidy table, as a wide table in the same order."""
    return table.assign(text=texts).pivot_table(
        index=index, columns=columns, values="text", aggfunc="first", sort=False
    )


def intervals(table: pd.DataFrame, value: str = "accuracy") -> list[str]:
    """One text per row of a table that has columns low and high."""
    return [interval(*row) for row in table[[value, "low", "high"]].to_numpy()]


def spreads(groups: Any, names: Mapping[str, str]) -> pd.DataFrame:
    """Mean and range of some columns in each group, the columns named anew."""
    return pd.DataFrame({label: groups[name].agg(spread) for name, label in names.items()})


def errors_against(table: pd.DataFrame, axis: str, value: str) -> pd.DataFrame:
    """A value of each attention with two standard errors (if any), at three places of an axis."""
    pairs = table[[value, "stderr"]].to_numpy()
    texts = [f"{x:.4f} ± {2 * error:.4f}" if error else f"{x:.4f}" for x, error in pairs]
    wide = pivoted(table, texts, "attention", axis)
    chosen = wide.iloc[:, [0, wide.shape[1] // 2, -1]]
    return chosen.rename(columns=lambda place: f"{axis} = {place}")


# ---- what studies say: paragraphs and tables


def as_text(said: Said) -> str:
    """For a terminal: wide tables go on below, long texts are cut (files and pages have them)."""
    return "\n".join(
        textwrap.fill(part, WIDTH) if isinstance(part, str) else folded(part) for part in said
    )


def folded(table: pd.DataFrame, **options: Any) -> str:
    """A table as text: columns that do not fit into a line go on below, with the index again."""
    blocks: list[str] = []
    first, n = 0, table.shape[1]
    options = {"max_colwidth": 58} | options
    while first < n or not blocks:
        texts = [table.iloc[:, first:last].to_string(**options) for last in range(first + 1, n + 1)]
        fitting = [text for text in texts if len(text.partition("\n")[0]) <= WIDTH]
        blocks.append((fitting or texts or [table.to_string()])[max(0, len(fitting) - 1)])
        first += max(1, len(fitting))
    return "\n\n".join(blocks)


def as_markdown(said: Said) -> list[str]:
    return [part if isinstance(part, str) else markdown_table(part) for part in said]


def markdown_table(table: pd.DataFrame) -> str:
    """A table with its index as first columns. Pipes would break it, unless escaped."""
    head, rows = cells_of(table)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(x.replace("|", r"\|") for x in line) + " |" for line in lines
    )


def cells_of(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a table as texts, its index as first columns."""
    flat = table.reset_index()
    rows = flat.astype(object).to_numpy().tolist()
    return list(map(str, flat.columns)), [list(map(str, row)) for row in rows]
