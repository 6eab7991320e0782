"""A folder that scripts/generate_data.py wrote, read back and checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_gen.dataset import MAX_ROWS, DatasetError, features
from data_gen.manifest import describe_split
from data_gen.patterns import Sentence
from data_gen.quoting import shortened, spaced
from data_gen.sources.rows import MOST_BYTES, read_rows
from data_gen.text_files import check_file, read_text, shown

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import DatasetDict

MANIFEST = "manifest.json"
ENDING = "-00000-of-00001"  # of the name of each file, before its suffix
MOST_MANIFEST = 10_000_000  # bytes
MOST_UNPACKED = 10_000_000_000  # bytes of a parquet file that is read


def read_folder(folder: Path) -> DatasetDict:
    """The splits of a folder of parquet or jsonl files, if they are those of its manifest."""
    from datasets import Dataset, DatasetDict, NamedSplit
    from datasets.table import InMemoryTable

    files = sorted((folder / "data").glob(f"*{ENDING}.*"))
    kinds = {file.suffix for file in files}
    if not files or kinds - {".parquet", ".jsonl"} or len(kinds) > 1:
        problem = "is not a folder that scripts/generate_data.py wrote (as parquet or jsonl)"
        hint = "give a CSV or JSONL file, a TOML spec or a built-in name instead"
        raise DatasetError(f"{shown(folder)} {problem}; {hint}")
    read = _read_parquet if kinds == {".parquet"} else _read_jsonl
    dataset = DatasetDict()
    for file in files:
        split = file.name.split(ENDING)[0]
        table, labels = read(file)
        schema = features(labels).arrow_schema
        _check_columns(table, schema, file)
        table = table.select(schema.names).cast(schema)
        _check_rows(table, len(labels), file)
        dataset[split] = Dataset(InMemoryTable(table), split=NamedSplit(split))
    if "train" not in dataset:
        raise damaged(folder, "the split 'train' is missing")
    _check_manifest(folder, dataset)
    return dataset


def damaged(file: Path, problem: str) -> DatasetError:
    again = "make the folder again with python scripts/generate_data.py --overwrite"
    return DatasetError(f"{shown(file)}: {shortened(problem, 90)}; {again}")


def _read_parquet(file: Path) -> tuple[pa.Table, list[str]]:
    """The table of a file, and the names of its labels."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from datasets import ClassLabel, Features

    check_file(file, most_bytes=MOST_BYTES, error=DatasetError)
    try:
        with pq.ParquetFile(file) as parquet:
            groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
            unpacked = sum(group.total_byte_size for group in groups)
            if unpacked > MOST_UNPACKED or parquet.metadata.num_rows > MAX_ROWS:
                raise damaged(file, f"has {spaced(unpacked)} bytes: too many to be read")
            table = parquet.read()
        label = Features.from_arrow_schema(table.schema).get("label")
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        # Arrow raises all of these on damaged bytes, and datasets on a damaged description.
        if isinstance(error, DatasetError):
            raise
        raise damaged(file, f"is not a sound parquet file: {error}") from None
    if not isinstance(label, ClassLabel) or not label.names:
        raise damaged(file, "the column 'label' is missing or has no names")
    return table, list(label.names)


def _read_jsonl(file: Path) -> tuple[pa.Table, list[str]]:
    """The table of a file, and the names of its labels, which the manifest has."""
    import pyarrow as pa

    folder, split = file.parent.parent, file.name.split(ENDING)[0]
    splits = _manifest_splits(folder)
    try:
        labels = list(splits[split]["balance"])
    except (KeyError, TypeError):
        raise damaged(folder / MANIFEST, "is not the manifest of these splits") from None
    rows = read_rows(file)
    for number, row in enumerate(rows, 1):
        for name in Sentence._fields:
            if name not in row:
                raise damaged(file, f"sentence {number}: the column {name!r} is missing")
        integers = [row["label"], row["location"], *_list(row["span"])]
        if not all(type(value) is int for value in integers):  # Arrow would cut 0.5 to 0
            raise damaged(file, f"sentence {number}: label, location or span is not whole")
    try:
        return pa.Table.from_pylist(rows, schema=features(labels).arrow_schema), labels
    except (pa.ArrowException, OverflowError) as error:
        raise damaged(file, f"values of a wrong type: {error}") from None


def _manifest_splits(folder: Path) -> dict[str, Any]:
    """What the manifest says of each split."""
    path = folder / MANIFEST
    try:
        content = read_text(path, most_bytes=MOST_MANIFEST, error=DatasetError)
        return dict(json.loads(content)["splits"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged(path, "is not the manifest of these splits") from None


def _check_manifest(folder: Path, dataset: DatasetDict) -> None:
    """Refuse sentences that are not those that were written: edited, exchanged or lost."""
    splits = _manifest_splits(folder)
    if different := sorted(splits.keys() ^ dataset.keys()):
        where = "files" if different[0] in splits else "manifest"
        raise damaged(folder, f"the split {different[0]!r} is missing in its {where}")
    for name, split in dataset.items():
        told = splits[name].get("sha256") if isinstance(splits[name], dict) else None
        if told != describe_split(split)["sha256"]:
            raise damaged(folder, f"the sentences of {name!r} are not those that were written")


def _check_columns(table: pa.Table, schema: pa.Schema, file: Path) -> None:
    import pyarrow as pa

    for field in schema:
        places = table.schema.get_all_field_indices(field.name)
        if len(places) != 1:
            raise damaged(file, f"the column {field.name!r} is missing or there twice")
        kind = table.schema.field(places[0]).type
        if kind != field.type and not (pa.types.is_integer(kind) and kind.bit_width <= 64):
            raise damaged(file, f"the column {field.name!r} is of type {kind}, not {field.type}")
        if table.column(field.name).null_count:
            raise damaged(file, f"the column {field.name!r} has empty cells")
    if not table.num_rows:
        raise damaged(file, "holds no sentences")


def _check_rows(table: pa.Table, n_labels: int, file: Path) -> None:
    first = 1
    for batch in table.to_batches(max_chunksize=1000):
        for number, row in enumerate(batch.to_pylist(), first):
            if not _is_sound(Sentence(**row), n_labels):
                raise damaged(file, f"sentence {number}: label, words or span do not fit its text")
        first += batch.num_rows


def _is_sound(row: Any, n_labels: int) -> bool:
    """Whether label, words, roles, location and span fit the text."""
    n, (start, end) = len(row.words), _pair(row.span)
    fits = 0 <= row.label < n_labels and 0 <= row.location < n == len(row.roles)
    return fits and None not in row.words and 0 <= start < end <= len(row.text)


def _pair(span: Sequence[int | None]) -> tuple[int, int]:
    start, end = span
    return (-1, -1) if start is None or end is None else (start, end)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
