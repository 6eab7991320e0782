"""Wide things of the report: in a box of their own that scrolls, so that the page never does."""

import html
from collections.abc import Iterable, Sequence


def scroll_box(content: str, label: str) -> str:
    return f'<div class="wide" role="region" aria-label="{html.escape(label)}">{content}</div>'


def table(
    head: Sequence[str],
    rows: Iterable[str],
    *,
    label: str,
    stack: bool = False,
    numbers: bool = False,
) -> str:
    """``rows`` are HTML. On a phone a ``stack`` shows each row as lines, named by data-label;
    columns of ``numbers``, all but the first, are aligned to the right.
    """
    right = ' class="number"' if numbers else ""
    cells = "".join(
        f'<th scope="col"{right if i else ""}>{html.escape(name)}</th>'
        for i, name in enumerate(head)
    )
    titles = f"<thead><tr>{cells}</tr></thead>" if head else ""
    kind = ' class="stack"' if stack else ""
    body = "\n".join(rows)
    return scroll_box(f"<table{kind}>{titles}<tbody>\n{body}\n</tbody></table>", label)
