"""What studies say (paragraphs and tables) as markdown and as HTML."""

import html
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from studies.study import Said

if TYPE_CHECKING:
    import pandas as pd


def markdown(said: Said) -> list[str]:
    return [part if isinstance(part, str) else markdown_table(part) for part in said]


def as_html(said: Said, label: str) -> str:
    return "\n".join(
        f"<p>{prose(part)}</p>" if isinstance(part, str) else html_table(part, label)
        for part in said
    )


def prose(text: str) -> str:
    """A paragraph, in which only `code` is marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def markdown_table(table: "pd.DataFrame") -> str:
    """A table with its index as first columns. Pipes would break it, unless escaped."""
    head, *rows = cells_of(table)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(x.replace("|", r"\|") for x in line) + " |" for line in lines
    )


def html_table(table: "pd.DataFrame", label: str) -> str:
    """The same, in a box of its own that scrolls; on a phone each row is shown as lines."""
    head, *rows = cells_of(table)
    names = table.index.nlevels

    def cell(i: int, text: str) -> str:
        if i < names:
            return f'<th scope="row">{html.escape(text)}</th>'
        kind = ' class="number"' if re.match(r"[-+\d]", text) else ""
        return f'<td{kind} data-label="{html.escape(head[i])}">{html.escape(text)}</td>'

    lines = ["".join(cell(i, text) for i, text in enumerate(row)) for row in rows]
    return rows_table(head, [f"<tr>{line}</tr>" for line in lines], label=label)


def rows_table(head: Sequence[str], rows: Iterable[str], *, label: str) -> str:
    """A table of rows that are HTML, named by data-label where a phone shows them as lines."""
    names = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    titles = f"<thead><tr>{names}</tr></thead>" if head else ""
    body = "\n".join(rows)
    table = f'<table class="stack">{titles}<tbody>\n{body}\n</tbody></table>'
    return scroll_box(table, label)


def scroll_box(content: str, label: str) -> str:
    """Wide things in a box of their own that scrolls, so that the page never does."""
    return f'<div class="wide" role="region" aria-label="{html.escape(label)}">{content}</div>'


def cells_of(table: "pd.DataFrame") -> list[list[str]]:
    """The head and the rows of a table as texts, its index as first columns."""
    flat = table.reset_index()
    rows = flat.astype(object).to_numpy().tolist()
    return [list(map(str, flat.columns)), *(list(map(str, row)) for row in rows)]
