"""Your own sentences, from a CSV or JSONL file or from Python.

A file has the columns ``text``, ``label`` (two or more values) and ``word``, the informative word,
which must occur in the text exactly once. Instead of ``word`` there may be ``start`` and ``end``,
its offsets in characters. ``split`` (which must name "train") and ``pattern`` are optional.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data_gen.dataset import DatasetError, features
from data_gen.patterns import INFORMATIVE, NEUTRAL

if TYPE_CHECKING:
    from datasets import DatasetDict

Row = dict[str, Any]
TEST_SHARE = 5  # one in five words (or sentences) is for testing


def own_dataset(rows: list[Row], name: str = "data") -> DatasetDict:
    """Sentences given as dictionaries, as a dataset with the columns of a built one.

    ``rows`` have the columns of a file (see above); ``name`` begins every error message.

    >>> rows = [{"text": "my dog is nice", "label": "good", "word": "nice"}, ...]
    >>> own_dataset(rows)["train"]
    """
    from datasets import Dataset, DatasetDict

    if not rows:
        raise DatasetError(f"{name} holds no sentences")
    numbered = {f"{name}, sentence {number}": row for number, row in enumerate(rows, 1)}
    labels = sorted({str(_get(row, "label", where)) for where, row in numbered.items()})
    if len(labels) < 2:
        raise DatasetError(f"{name}: there must be at least two labels, not only {labels[0]!r}")
    sentences = [_sentence(row, labels, where) for where, row in numbered.items()]
    splits: dict[str, list[Row]] = {"train": []}
    for split, sentence in zip(_splits(numbered, sentences, name), sentences, strict=True):
        splits.setdefault(split, []).append(sentence)
    train_labels = {sentence["label"] for sentence in splits["train"]}
    if missing := [label for code, label in enumerate(labels) if code not in train_labels]:
        raise DatasetError(f"{name}: no sentence of the split 'train' is {missing[0]!r}")
    schema, dataset = features(labels), DatasetDict()
    for split in ["train", *sorted(splits.keys() - {"train"})]:
        dataset[split] = Dataset.from_list(splits[split], features=schema, split=split)
    return dataset


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV or JSONL file."""
    text, rows = _content(path), list[Row]()
    if path.suffix.lower() == ".csv":
        for number, row in enumerate(csv.DictReader(io.StringIO(text, newline="")), 1):
            if None in row:  # the key of cells without a column
                raise DatasetError(
                    f"{path}, sentence {number} has more cells than there are columns; "
                    'a text with commas must be in "quotes"'
                )
            rows.append(row)
        return rows
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise DatasetError(f"{path}, line {number} is not JSON: {error.msg}") from None
            if not isinstance(rows[-1], dict):
                raise DatasetError(f"{path}, line {number} must be an object with named values")
    return rows


def read_texts(path: Path, *, located: bool = False) -> dict[str, list[Any]]:
    """The texts of a file, for a probe: the column "text" and, if rows have one, "label".

    A .txt file has a text per line, a CSV or JSONL file a column "text"; further columns are
    allowed. With ``located`` the column "span" says where the informative words are, which rows
    must name as in ``read_data``.

    >>> read_texts(Path("reviews.txt"))["text"]
    """
    if not path.is_file():
        raise DatasetError(f"{path} does not exist")
    kind = path.suffix.lower()
    if kind not in {".txt", ".csv", ".jsonl"}:
        raise DatasetError(f"{path} must be a text (.txt), CSV (.csv) or JSONL (.jsonl) file")
    rows = _lines(path) if kind == ".txt" else read_rows(path)
    numbered = {f"{path}, sentence {number}": row for number, row in enumerate(rows, 1)}
    texts = [str(_get(row, "text", where)) for where, row in numbered.items()]
    if not texts:
        raise DatasetError(f"{path} holds no sentences")
    columns: dict[str, list[Any]] = {"text": texts}
    if any(row.get("label") not in (None, "") for row in rows):
        columns["label"] = [str(_get(row, "label", where)) for where, row in numbered.items()]
    if located:
        pairs = zip(numbered.items(), texts, strict=True)
        columns["span"] = [_span(row, text, where) for (where, row), text in pairs]
    return columns


def _lines(path: Path) -> list[Row]:
    return [{"text": line.strip()} for line in _content(path).splitlines() if line.strip()]


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DatasetError(f"{path} is not UTF-8 text; save it as UTF-8") from None


def _get(row: Row, column: str, where: str) -> Any:
    if row.get(column) in (None, ""):
        raise DatasetError(f"{where}: no {column!r}; its columns are {', '.join(map(str, row))}")
    return row[column]


def _sentence(row: Row, labels: list[str], where: str) -> Row:
    text = str(_get(row, "text", where))
    start, end = _span(row, text, where)
    if text != " ".join(text.split()):
        raise DatasetError(f"{where}: words must be separated by single spaces: {text!r}")
    words = text.split()
    location = text[:start].count(" ")
    return {
        "text": text,
        "label": labels.index(str(row["label"])),
        "words": words,
        "roles": [INFORMATIVE if i == location else NEUTRAL for i in range(len(words))],
        "location": location,
        "span": [start, end],
        "pattern": str(row.get("pattern") or "own"),
    }


def _span(row: Row, text: str, where: str) -> tuple[int, int]:
    if row.get("start") not in (None, "") and row.get("end") not in (None, ""):
        try:
            start, end = int(row["start"]), int(row["end"])
        except ValueError:
            start = end = -1
        if not (0 <= start < end <= len(text) and text[start:end].strip() == text[start:end]):
            raise DatasetError(f"{where}: start and end must enclose a word of {text!r}")
        return start, end
    word = str(_get(row, "word", where))
    places = [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
    if not places:
        raise DatasetError(f"{where}: the word {word!r} is not in {text!r}")
    if len(places) > 1:
        many = f"is {len(places)} times in {text!r}; give start and end instead"
        raise DatasetError(f"{where}: the word {word!r} {many}")
    return places[0]


def _splits(rows: Mapping[str, Row], sentences: list[Row], name: str) -> list[str]:
    """The split of each sentence: that of its row, if rows name one.

    Otherwise a fifth of the informative words is for testing or, if a label has too few of them, a
    fifth of the sentences.
    """
    if any(row.get("split") for row in rows.values()):
        splits = [str(_get(row, "split", where)) for where, row in rows.items()]
        if "train" not in splits:
            raise DatasetError(f"{name}: the column 'split' must name 'train' somewhere")
        return splits
    rng = np.random.default_rng(0)
    words = [sentence["text"][slice(*sentence["span"])].lower() for sentence in sentences]
    labels = [sentence["label"] for sentence in sentences]
    held_out: set[str] = set()
    for label in sorted(set(labels)):
        carriers = sorted({word for word, y in zip(words, labels, strict=True) if y == label})
        if len(carriers) < TEST_SHARE:
            drawn = rng.permutation(len(rows)) < len(rows) / TEST_SHARE
            return ["test" if is_drawn else "train" for is_drawn in drawn]
        n_held_out = len(carriers) // TEST_SHARE
        held_out |= {str(word) for word in rng.permutation(carriers)[:n_held_out]}
    return ["test" if word in held_out else "train" for word in words]
