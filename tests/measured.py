"""Numbers that a document says were measured, compared with the page of results they come from.

A block of a document is opened by a comment that says where docs/results.md has each number:

    <!-- measured: (any words up to the end of this line)
    ## Figure 1
    0.98 = trained / attention on the informative word
    0.5: a setting
    -->
    ... 0.98 of the attention ... (noise 0.5) ...
    <!-- /measured -->

`## ` names a heading of the page. A reference is a column of a table, behind ` / ` and the cells
that mark the row; a column `*` stands for all that begin with a number. `accuracy #2` is the
second number of that cell. A reference without ` / ` is words of the text below the heading, and
means the number right behind them. A line that begins with `=` is a second place where the same
number must stand. What does not come from the page has a colon and a reason instead. The numbers
are in the order of the text, and every decimal number of the text must be there; whole numbers may.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

BLOCK = re.compile(r"<!-- measured[^\n]*\n(.*?)-->(.*?)<!-- /measured -->", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.,])[-−+]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?")  # noqa: RUF001
ENTRY = re.compile(r"(?P<number>[^\s=:]+)?\s*(?:= (?P<reference>.*)|: (?P<reason>.*))")


@dataclass(frozen=True)
class Entry:
    """A number, and the (heading, reference) of each place where it must stand: none if chosen."""

    number: str
    places: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Section:
    """What stands below one heading: text, and the rows of its tables, each column -> cell."""

    text: str
    rows: tuple[dict[str, str], ...]


def value(number: str) -> Decimal:
    return Decimal(number.replace("−", "-").replace(",", ""))  # noqa: RUF001


def agree(said: str, measured: str) -> bool:
    """Whether `said` is `measured`, rounded to the digits that it has."""
    digits = Decimal(1).scaleb(_exponent(said))
    return _exponent(measured) <= _exponent(said) and (
        abs(value(said) - value(measured)) <= digits / 2
    )


@cache
def sections(page: str) -> dict[str, Section]:
    parts = (part.split("\n", 1) for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:])
    return {title: Section(_without_tables(body), tuple(_rows(body))) for title, body in parts}


def blocks(document: str) -> list[tuple[list[Entry], str]]:
    """The entries and the text of each block."""
    return [(list(_entries(comment)), text) for comment, text in BLOCK.findall(document)]


def objections(document: str, page: str) -> list[str]:
    """What is wrong with the measured numbers of a document; nothing if all agree."""
    known = sections(page)
    found: list[str] = []
    for entries, text in blocks(document):
        found += _out_of_order(entries, text)
        for entry in entries:
            for heading, reference in entry.places:
                found += _disagreements(entry.number, heading, reference, known)
    return found


def look_up(section: Section, reference: str) -> list[str]:
    """The numbers that a reference means; there is more than one with the column `*`."""
    reference, _, nth = reference.partition(" #")
    *cells, column = reference.split(" / ")
    if not cells:
        after = section.text.split(f"{reference} ")[1:]
        texts = [text.split("\n")[0] for text in after if _begins(text)]
    else:
        rows = [
            row for row in section.rows if column in (*row, "*") and {*cells} <= {*row.values()}
        ]
        texts = [row[name] for row in rows for name in row if name == column or column == "*"]
    if column == "*":
        texts = list(filter(_begins, texts))
    elif len(texts) > 1:
        raise ValueError(f"{reference!r} means {len(texts)} places; name one")
    numbers = [NUMBER.findall(text)[int(nth or 1) - 1 :][:1] for text in texts]
    if not texts or not all(numbers):
        raise ValueError(f"{reference!r} means no number")
    return [number for (number,) in numbers]


def _disagreements(
    number: str, heading: str, reference: str, known: dict[str, Section]
) -> Iterator[str]:
    try:
        measured = look_up(known[heading], reference)
    except KeyError:
        yield f"the results have no heading {heading!r}"
    except ValueError as error:
        yield f"{heading}: {error}"
    else:
        wrong = [other for other in measured if not agree(number, other)]
        yield from (f"{heading}: {reference!r} is {other}, not {number}" for other in wrong)


def _out_of_order(entries: list[Entry], text: str) -> Iterator[str]:
    """Every decimal number of the text must be the next entry; whole numbers need none."""
    expected = [entry.number for entry in entries]
    for number in NUMBER.findall(text):
        if expected and number == expected[0]:
            expected.pop(0)
        elif "." in number:
            yield f"the text has {number} where the comment has {expected[:1] or 'no more'}"
            return
    if expected:
        yield f"the comment has {expected[0]}, the text does not"


def _entries(comment: str) -> Iterator[Entry]:
    heading, entry = "", None
    for line in filter(None, map(str.strip, comment.splitlines())):
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            continue
        match = ENTRY.fullmatch(line)
        if match is None or (match["number"] is None and (entry is None or match["reason"])):
            raise ValueError(f"{line!r} is neither a heading nor a number with its place")
        place = ((heading, match["reference"]),) if match["reference"] else ()
        if match["number"] is None:
            assert entry is not None
            entry = Entry(entry.number, (*entry.places, *place))
            continue
        if entry is not None:
            yield entry
        entry = Entry(match["number"], place)
    if entry is not None:
        yield entry


def _rows(body: str) -> Iterator[dict[str, str]]:
    header: list[str] | None = None
    for line in body.splitlines():
        if not line.startswith("|"):
            header = None
            continue
        inner = line.strip().removeprefix("|").removesuffix("|")
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]
        if header is None:
            header = cells
        elif set("".join(cells)) != {"-"}:
            yield dict(zip(header, cells, strict=True))


def _without_tables(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if not line.startswith("|"))


def _begins(cell: str) -> bool:
    return NUMBER.match(cell) is not None


def _exponent(number: str) -> int:
    exponent = value(number).as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent
