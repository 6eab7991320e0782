"""Numbers, paragraphs and tables as they are shown: in the terminal, in markdown, in HTML."""

import html
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from studies.study import Said

WIDTH = 100  # columns of a terminal


def number(value: float, digits: int = 2) -> str:
    """A number with so many digits; nothing where there is none."""
    return "" if value != value else f"{value:.{digits}f}"


def interval(value: Any, low: Any, high: Any, digits: int = 2) -> str:
    """As 0.98 [0.97, 0.99], or without an interval where there is none."""
    if low != low:  # not a number
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def spread(values: Any, digits: int = 2) -> str:
    """Mean and range over repetitions; nothing where there is nothing."""
    if values.isna().all():
        return ""
    return f"{values.mean():.{digits}f} ({values.min():.{digits}f} to {values.max():.{digits}f})"


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
    """A value of each attention with two standard errors, at three places of an axis."""
    texts = [f"{x:.4f} ± {2 * error:.4f}" for x, error in table[[value, "stderr"]].to_numpy()]
    wide = pivoted(table, texts, "attention", axis)
    chosen = wide.iloc[:, [0, wide.shape[1] // 2, -1]]
    return chosen.rename(columns=lambda place: f"{axis} = {place}")


# ---- what studies say: paragraphs and tables


def as_text(said: Said) -> str:
    """For a terminal: wide tables go on below, long texts are cut (files and pages have them)."""
    return "\n".join(
        textwrap.fill(part, WIDTH)
        if isinstance(part, str)
        else part.to_string(line_width=WIDTH, max_colwidth=58)
        for part in said
    )


def as_markdown(said: Said) -> list[str]:
    return [part if isinstance(part, str) else markdown_table(part) for part in said]


def as_html(said: Said, label: str) -> str:
    return "\n".join(
        f"<p>{prose(part)}</p>" if isinstance(part, str) else html_table(part, label)
        for part in said
    )


def prose(text: str) -> str:
    """A paragraph, in which only `code` is marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def markdown_table(table: pd.DataFrame) -> str:
    """A table with its index as first columns. Pipes would break it, unless escaped."""
    head, *rows = cells_of(table)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(x.replace("|", r"\|") for x in line) + " |" for line in lines
    )


def html_table(table: pd.DataFrame, label: str, *, aligned: bool = True) -> str:
    """The same, in a box of its own that scrolls; on a phone each row is shown as lines.

    Where numbers are ``aligned``, cells that begin with one stand on the right.
    """
    head, *rows = cells_of(table)
    names = table.index.nlevels

    def cell(i: int, text: str) -> str:
        if i < names:
            return f'<th scope="row">{html.escape(text)}</th>'
        kind = ' class="measure"' if aligned and re.match(r"[-+]?\d", text) else ""
        return f'<td{kind} data-label="{html.escape(head[i])}">{html.escape(text)}</td>'

    names_row = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    lines = ["".join(cell(i, text) for i, text in enumerate(row)) for row in rows]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    table_html = f"<thead><tr>{names_row}</tr></thead><tbody>\n{body}\n</tbody>"
    return scroll_box(f'<table class="stack">{table_html}</table>', label)


def scroll_box(content: str, label: str) -> str:
    """Wide things in a box of their own that scrolls, so that the page never does."""
    return f'<div class="wide" role="region" aria-label="{html.escape(label)}">{content}</div>'


def cells_of(table: pd.DataFrame) -> list[list[str]]:
    """The head and the rows of a table as texts, its index as first columns."""
    flat = table.reset_index()
    rows = flat.astype(object).to_numpy().tolist()
    return [list(map(str, flat.columns)), *(list(map(str, row)) for row in rows)]
