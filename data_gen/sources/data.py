"""Any source of sentences, by its name or path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from data_gen.dataset import DatasetError, build_dataset
from data_gen.sources.generated import read_folder
from data_gen.sources.own_sentences import own_dataset
from data_gen.sources.rows import read_rows
from data_gen.spec import builtin_specs
from data_gen.text_files import exists, shown

if TYPE_CHECKING:
    from datasets import DatasetDict


def read_data(data: str | Path) -> DatasetDict:
    """The dataset of a built-in name, a TOML spec, a CSV or JSONL file, or a generated folder.

    >>> read_data("sentiment")["train"]
    >>> read_data("my-sentences.csv")["test"]
    """
    path = Path(data)
    kind = path.suffix.lower()
    if exists(path) and path.is_dir():
        return read_folder(path)
    if kind in {".csv", ".jsonl"}:
        return own_dataset(read_rows(path), str(path))
    if exists(path) and kind != ".toml" and str(data) not in builtin_specs():
        problem = "must be a CSV (.csv), JSONL (.jsonl) or TOML (.toml) file"
        raise DatasetError(f"{shown(path)} {problem}")
    return build_dataset(data)
