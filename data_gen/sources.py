"""The sources of sentences: a spec, your own file, or a folder that generate_data.py wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from data_gen.dataset import DatasetError, build_dataset
from data_gen.own.sentences import own_dataset, read_rows
from data_gen.patterns import Sentence

if TYPE_CHECKING:
    from datasets import DatasetDict


def read_data(data: str | Path) -> DatasetDict:
    """The dataset of a built-in name, a TOML spec, a CSV or JSONL file, or a generated folder.

    >>> read_data("sentiment")["train"]
    >>> read_data("my-sentences.csv")["test"]
    """
    path = Path(data)
    if path.is_dir():
        return _read_folder(path)
    kind = path.suffix.lower()
    if kind in {".csv", ".jsonl"}:
        if not path.is_file():
            raise DatasetError(f"{path} does not exist")
        return own_dataset(read_rows(path), str(path))
    if path.is_file() and kind != ".toml":
        raise DatasetError(f"{path} must be a CSV (.csv), JSONL (.jsonl) or TOML (.toml) file")
    return build_dataset(data)


def _read_folder(path: Path) -> DatasetDict:
    from datasets import DatasetDict, disable_progress_bars, load_dataset

    disable_progress_bars()
    files = sorted((path / "data").glob("*-00000-of-00001.*"))
    kinds = {file.suffix for file in files}
    if not files or kinds - {".parquet", ".jsonl"} or len(kinds) > 1:
        raise DatasetError(
            f"{path} is not a folder that scripts/generate_data.py wrote (as parquet or jsonl); "
            "give a CSV or JSONL file, a TOML spec or a built-in name instead"
        )
    paths = {file.name.split("-00000")[0]: str(file) for file in files}
    loaded = load_dataset("json" if kinds == {".jsonl"} else "parquet", data_files=paths)
    assert isinstance(loaded, DatasetDict)
    for split, part in loaded.items():
        if missing := [column for column in Sentence._fields if column not in part.column_names]:
            raise DatasetError(f"{path}, split {split}: the column {missing[0]!r} is missing")
    if "train" not in loaded:
        raise DatasetError(f"{path} has no split 'train'")
    return loaded
