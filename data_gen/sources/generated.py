"""A folder that scripts/generate_data.py wrote, read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from data_gen.dataset import DatasetError, features
from data_gen.quoting import shortened
from data_gen.sources.rows import read_rows
from data_gen.text_files import shown

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import DatasetDict

MANIFEST = "manifest.json"
ENDING = "-00000-of-00001"  # of the name of each file, before its suffix


def read_folder(folder: Path) -> DatasetDict:
    """The splits of a folder of parquet or jsonl files."""
    import pyarrow as pa
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
        try:
            table, labels = read(file)
            schema = features(labels).arrow_schema
            table = table.select(schema.names).cast(schema)
        # Arrow raises all of these on a download that was cut off, or on other columns.
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            raise damaged(file, f"cannot be read: {error}") from None
        dataset[split] = Dataset(InMemoryTable(table), split=NamedSplit(split))
    if "train" not in dataset:
        raise damaged(folder, "the split 'train' is missing")
    return dataset


def damaged(file: Path, problem: str) -> DatasetError:
    again = "make the folder again with python scripts/generate_data.py --overwrite"
    return DatasetError(f"{shown(file)}: {shortened(problem, 90)}; {again}")


def _read_parquet(file: Path) -> tuple[pa.Table, list[str]]:
    """The table of a file, and the names of its labels."""
    import pyarrow.parquet as pq
    from datasets import Features

    table = pq.read_table(file)
    return table, list(Features.from_arrow_schema(table.schema)["label"].names)


def _read_jsonl(file: Path) -> tuple[pa.Table, list[str]]:
    """The table of a file, and the names of its labels, which the manifest has."""
    import pyarrow as pa

    folder, split = file.parent.parent, file.name.split(ENDING)[0]
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    labels = list(manifest["splits"][split]["balance"])
    return pa.Table.from_pylist(read_rows(file), schema=features(labels).arrow_schema), labels
