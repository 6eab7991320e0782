"""Your own sentences, from a CSV or JSONL file or from Python.

A file has the columns ``text``, ``label`` (two or more values) and ``word``, the informative word,
which must occur in the text exactly once. Instead of ``word`` there may be ``start`` and ``end``,
its offsets in characters. ``split`` (which must name "train") and ``pattern`` are optional.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_gen.dataset import DatasetError, features
from data_gen.patterns import INFORMATIVE, NEUTRAL
from data_gen.quoting import quoted, spaced
from data_gen.sources.cells import Cells
from data_gen.sources.held_out import held_out, too_few
from data_gen.sources.rows import Row, read_rows
from data_gen.text_files import shown

if TYPE_CHECKING:
    from datasets import DatasetDict

MOST_LABELS = 1_000
MOST_SPLITS = 1_000
FEW_LABELS = 10  # more than these are free text, if most sentences have one of their own


def own_dataset(rows: list[Row], name: str = "data") -> DatasetDict:
    """Sentences given as dictionaries, as a dataset with the columns of a built one.

    ``rows`` have the columns of a file (see above); ``name`` begins every error message. If rows
    name no split, ``info.description`` of each split says what was held out for testing.

    >>> rows = [{"text": "my dog is nice", "label": "good", "word": "nice"}, ...]
    >>> own_dataset(rows)["train"]
    """
    from datasets import Dataset, DatasetDict, DatasetInfo

    name = shown(name)
    cells = _cells(rows, name)
    labels, numbers = _labels(cells, name)
    sentences = [_sentence(row, label) for row, label in zip(cells, numbers, strict=True)]
    names, note = _splits(cells, sentences, labels, name)
    splits: dict[str, list[Row]] = {"train": []}
    for split, sentence in zip(names, sentences, strict=True):
        splits.setdefault(split, []).append(sentence)
    train_labels = {sentence["label"] for sentence in splits["train"]}
    for number, label in enumerate(labels):
        if number not in train_labels:
            problem = f"no sentence of the split 'train' is {quoted(label)}"
            raise DatasetError(f"{name}: {problem}")
    schema, dataset = features(labels), DatasetDict()
    for split in ["train", *sorted(splits.keys() - {"train"})]:
        info = DatasetInfo(description=note, features=schema)
        dataset[split] = Dataset.from_list(splits[split], features=schema, info=info, split=split)
    return dataset


def read_texts(path: Path, *, located: bool = False) -> dict[str, list[Any]]:
    """The texts of a file, for a probe: the column "text" and, if rows have one, "label".

    A .txt file has a text per line, a CSV or JSONL file a column "text"; further columns are
    allowed. With ``located`` the column "span" says where the informative words are, which rows
    must name as in ``read_data``.

    >>> read_texts(Path("reviews.txt"))["text"]
    """
    if path.suffix.lower() not in {".txt", ".csv", ".jsonl"}:
        problem = "must be a text (.txt), CSV (.csv) or JSONL (.jsonl) file"
        raise DatasetError(f"{shown(path)} {problem}")
    cells = _cells(read_rows(path), shown(path))
    columns: dict[str, list[Any]] = {"text": [row.text() for row in cells]}
    if any(row.has("label") for row in cells):
        columns["label"] = [str(row.label()) for row in cells]
    if located:
        pairs = zip(cells, columns["text"], strict=True)
        columns["span"] = [row.span(text) for row, text in pairs]
    return columns


def _cells(rows: Sequence[Row], name: str) -> list[Cells]:
    if len(rows) == 0:
        raise DatasetError(f"{name} holds no sentences")
    return [Cells(row, f"{name}, sentence {number}") for number, row in enumerate(rows, 1)]


def _labels(cells: Sequence[Cells], name: str) -> tuple[list[str], list[int]]:
    """The names of the labels, sorted, and the number of each sentence's label."""
    values = [row.label() for row in cells]
    labels = sorted({str(value) for value in values})
    kinds = {type(value): value for value in values}
    problem = ""
    if len(labels) > MOST_LABELS or (len(labels) > FEW_LABELS and 2 * len(labels) > len(values)):
        some = f"{spaced(len(labels))} labels in {spaced(len(values))} sentences"
        problem = f"{some}: is the column 'label' free text, such as {quoted(labels[0])}?"
    elif len(kinds) > 1:
        one, other = list(kinds.values())[:2]
        problem = f"labels of two types, {quoted(one)} and {quoted(other)}; use one type"
    elif len({label.lower() for label in labels}) < len(labels):
        pairs = zip(sorted(labels, key=str.lower), sorted(labels, key=str.lower)[1:], strict=False)
        one, other = next((a, b) for a, b in pairs if a.lower() == b.lower())
        problem = f"labels {quoted(one)} and {quoted(other)} differ only in case; use one of them"
    elif len(labels) < 2:
        problem = f"there must be at least two labels, not only {quoted(labels[0])}"
    if problem:
        raise DatasetError(f"{name}: {problem}")
    number_of = {label: number for number, label in enumerate(labels)}
    return labels, [number_of[str(value)] for value in values]


def _sentence(row: Cells, label: int) -> Row:
    text = row.text()
    start, end = row.span(text)
    words = text.split(" ")
    if not all(words) or re.search(r"[\t\n\r\v\f]", text):
        raise row.fail(f"words must be separated by single spaces: {quoted(text)}")
    location = text[:start].count(" ")
    return {
        "text": text,
        "label": label,
        "words": words,
        "roles": [INFORMATIVE if i == location else NEUTRAL for i in range(len(words))],
        "location": location,
        "span": [start, end],
        "pattern": row.name("pattern", "own"),
    }


def _splits(
    cells: Sequence[Cells], sentences: Sequence[Row], labels: Sequence[str], name: str
) -> tuple[list[str], str]:
    """The split of each sentence, and what was split if rows do not name it."""
    if not any(row.has("split") for row in cells):
        numbers = [sentence["label"] for sentence in sentences]
        if problem := too_few(labels, numbers):
            raise DatasetError(f"{name}: {problem}")
        words = [sentence["text"][slice(*sentence["span"])].lower() for sentence in sentences]
        tested, note = held_out(words, numbers)
        return ["test" if is_tested else "train" for is_tested in tested], note
    splits = [row.string("split") for row in cells]
    names = dict.fromkeys(splits)
    problem = ""
    if "train" not in names:
        problem = "the column 'split' must name 'train' somewhere"
    elif odd := [each for each in names if not re.fullmatch(r"\w+(\.\w+)*", each)]:
        problem = f"the split {quoted(odd[0])} must be made of letters, digits and _"
    elif len(names) > MOST_SPLITS or len({each.lower() for each in names}) < len(names):
        problem = f"{spaced(len(names))} splits, some of which may differ only in case"
        problem += f"; name at most {spaced(MOST_SPLITS)}"
    if problem:
        raise DatasetError(f"{name}: {problem}")
    return splits, ""
