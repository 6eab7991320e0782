"""The tables of a result on disk, and what to say if they cannot be read."""

from pathlib import Path

import pandas as pd

from data_gen.quoting import one_line


class ResultError(ValueError):
    """A result on disk that cannot be read; the message is one line that names the file."""


class Tables:
    """The tables of a result on disk, read on demand: ``tables["bars"]``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: list[str] = []  # the files read so far

    def __getitem__(self, name: str) -> pd.DataFrame:
        path = self.folder / f"{name}.parquet"
        self.read.append(path.name)
        if not path.is_file():
            raise ResultError(f"{path} is missing")
        return pd.read_parquet(path)

    def __contains__(self, name: str) -> bool:
        return (self.folder / f"{name}.parquet").is_file()


def reason_of(error: Exception) -> str:
    """The start of a library's complaint, with the kind of error, in one printable line."""
    return one_line(f"{type(error).__name__}: {error}", 80)
