"""Sentences of one's own, from a CSV or JSONL file or from Python.

A file has the columns ``text``, ``label`` (two different ones) and ``word``, the informative word,
which occurs in its text exactly once (or ``start`` and ``end``, its place in characters);
``split`` (with a "train") and ``pattern`` are optional.
"""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data_gen.dataset import DatasetError, features

if TYPE_CHECKING:
    from datasets import DatasetDict

TEST_SHARE = 5  # a fifth of the words, or of the sentences, is for testing


def own_dataset(rows: list[dict[str, Any]], name: str = "data") -> DatasetDict:
    """Sentences given as dictionaries, with the columns of a built dataset.

    >>> rows = [{"text": "my dog is nice", "label": "good", "word": "nice"}, ...]
    >>> own_dataset(rows)["train"]
    """
    from datasets import Dataset, DatasetDict

    if not rows:
        raise DatasetError(f"{name} holds no sentences")
    labels = sorted({str(_get(row, "label", name, i)) for i, row in enumerate(rows, 1)})
    if len(labels) != 2:
        shown = ", ".join(labels[:5])
        raise DatasetError(f"{name}: there must be two labels, not {len(labels)}: {shown}")
    sentences = [_sentence(row, labels, name, i) for i, row in enumerate(rows, 1)]
    splits = np.array(_splits(rows, sentences, name))
    schema = features(labels)
    names = ["train", *sorted({str(split) for split in splits} - {"train"})]
    learned = {sentences[i]["label"] for i in np.flatnonzero(splits == "train")}
    if len(learned) < 2:
        (only,) = learned
        raise DatasetError(f"{name}: all sentences of the split 'train' are {labels[only]!r}")
    return DatasetDict(
        {
            split: Dataset.from_list(
                [sentences[i] for i in np.flatnonzero(splits == split)],
                features=schema,
                split=split,
            )
            for split in names
        }
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV or JSONL file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DatasetError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    if path.suffix.lower() == ".csv":
        return _read_csv(text, path)
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise DatasetError(f"{path}, line {number} is not JSON: {error.msg}") from None
            if not isinstance(row, dict):
                raise DatasetError(f"{path}, line {number} must be an object with named values")
            rows.append(row)
    return rows


def _read_csv(text: str, path: Path) -> list[dict[str, Any]]:
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    for number, row in enumerate(rows, 1):
        if None in row:  # where DictReader puts what has no column
            raise DatasetError(
                f"{path}, sentence {number} has more cells than there are columns; "
                'a text with commas must be in "quotes"'
            )
    return rows


def _get(row: dict[str, Any], column: str, name: str, number: int) -> Any:
    if row.get(column) in (None, ""):
        known = ", ".join(map(str, row))
        raise DatasetError(f"{name}, sentence {number}: no {column!r}; its columns are {known}")
    return row[column]


def _sentence(row: dict[str, Any], labels: list[str], name: str, number: int) -> dict[str, Any]:
    text = str(_get(row, "text", name, number))
    start, end = _span(row, text, name, number)
    if text != " ".join(text.split()):
        raise DatasetError(
            f"{name}, sentence {number}: words must be separated by single spaces: {text!r}"
        )
    words = text.split()
    location = text[:start].count(" ")
    roles = ["neutral"] * len(words)
    roles[location] = "informative"
    return {
        "text": text,
        "label": labels.index(str(row["label"])),
        "words": words,
        "roles": roles,
        "location": location,
        "span": [start, end],
        "pattern": str(row.get("pattern") or "own"),
    }


def _span(row: dict[str, Any], text: str, name: str, number: int) -> tuple[int, int]:
    if row.get("start") not in (None, "") and row.get("end") not in (None, ""):
        try:
            start, end = int(row["start"]), int(row["end"])
        except ValueError:
            start = end = -1
        if not (0 <= start < end <= len(text) and text[start:end].strip() == text[start:end]):
            raise DatasetError(
                f"{name}, sentence {number}: start and end must enclose a word of {text!r}"
            )
        return start, end
    word = str(_get(row, "word", name, number))
    places = [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
    if len(places) != 1:
        many = "is not in" if not places else f"is {len(places)} times in"
        hint = "" if not places else "; give start and end instead"
        raise DatasetError(f"{name}, sentence {number}: the word {word!r} {many} {text!r}{hint}")
    return places[0]


def _splits(rows: list[dict[str, Any]], sentences: list[dict[str, Any]], name: str) -> list[str]:
    """The split of each sentence: as given; else a fifth of the informative words is for testing
    or, if there are too few of them to spare any, a fifth of the sentences.
    """
    if any(row.get("split") for row in rows):
        given = [str(_get(row, "split", name, i)) for i, row in enumerate(rows, 1)]
        if "train" not in given:
            raise DatasetError(f"{name}: the column 'split' must name 'train' somewhere")
        return given
    rng = np.random.default_rng(0)
    spans = [sentence["text"][slice(*sentence["span"])].lower() for sentence in sentences]
    held: set[str] = set()
    for label in (0, 1):
        own = sorted(
            {word for word, own in zip(spans, sentences, strict=True) if own["label"] == label}
        )
        if len(own) < TEST_SHARE:
            drawn = rng.permutation(len(rows)) < len(rows) / TEST_SHARE
            return ["test" if is_drawn else "train" for is_drawn in drawn]
        held |= {str(word) for word in rng.permutation(own)[: len(own) // TEST_SHARE]}
    return ["test" if word in held else "train" for word in spans]
