"""The rows of a CSV, JSONL or text file, as dictionaries."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_gen.dataset import MAX_ROWS, DatasetError
from data_gen.quoting import listed, quoted, spaced
from data_gen.text_files import read_text, shown

MOST_BYTES = 1_000_000_000  # of a file
SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'"}  # of columns, instead of commas
Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV or JSONL file, or the lines of a text file as the column "text"."""
    text = read_text(path, most_bytes=MOST_BYTES, error=DatasetError)
    if "\0" in text:
        raise problem(path, "holds NUL characters; save it as UTF-8 text")
    kind = path.suffix.lower()
    readers = {".csv": _csv_rows, ".jsonl": _json_rows, ".txt": _text_rows}
    rows = list[Row]()
    for row in readers[kind](text, path):
        rows.append(row)
        if len(rows) > MAX_ROWS:
            raise problem(path, f"has more than {spaced(MAX_ROWS)} sentences; give fewer")
    return rows


def problem(path: Path, what: str) -> DatasetError:
    return DatasetError(f"{shown(path)} {what}")


def _csv_rows(text: str, path: Path) -> Iterator[Row]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        _check_columns(list(reader.fieldnames or ()), path)
        for number, row in enumerate(reader, 1):
            if None in row:  # the key of cells without a column
                cells = f", sentence {number} has more cells than there are columns"
                raise problem(path, f'{cells}; a text with commas must be in "quotes"')
            yield row
    except csv.Error as error:  # a quote that never ends, a cell of more than 131 072 characters
        where = f", line {reader.line_num} is not CSV: {error}"
        raise problem(path, f'{where}; are its "quotes" right?') from None


def _check_columns(columns: list[str], path: Path) -> None:
    if not columns:
        raise problem(path, "holds no sentences; its first line names the columns")
    if len(columns) == 1:
        for separator, name in SEPARATORS.items():
            if separator in columns[0]:
                separated = f"has columns that are separated by {name}; save it with commas"
                raise problem(path, separated)
    for column in columns:
        if columns.count(column) > 1:
            raise problem(path, f"has two columns {quoted(column)}; rename one")
        if column != column.strip():
            raise problem(path, f"has a column {quoted(column)} with spaces at its ends")
    if "text" not in columns:
        named = f"has no column 'text'; its first line names the columns {listed(columns)}"
        raise problem(path, named)


def _json_rows(text: str, path: Path) -> Iterator[Row]:
    for number, line in _lines(text):
        where = f", line {number}"
        try:
            row = json.loads(line, object_pairs_hook=_unique)
        except json.JSONDecodeError as error:
            raise problem(path, f"{where} is not JSON: {error.msg}") from None
        except RecursionError:
            raise problem(path, f"{where} is not a sentence: nested too deeply") from None
        except ValueError as error:  # a key twice, or a number of more than 4 300 digits
            raise problem(path, f"{where} is not a sentence: {error}") from None
        if not isinstance(row, dict):
            raise problem(path, f"{where} must be an object with named values, one per line")
        yield row


def _unique(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {quoted(twice)} is there twice")
    return row


def _text_rows(text: str, path: Path) -> Iterator[Row]:
    return ({"text": line} for _, line in _lines(text))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers.

    Not those of ``str.splitlines``: U+2028 and U+0085 may stand within a text.
    """
    lines = enumerate(re.split(r"\r\n?|\n", text), 1)
    return ((number, line.strip()) for number, line in lines if line.strip())
