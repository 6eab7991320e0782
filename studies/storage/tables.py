"""The tables of a result on disk, and what to say if they cannot be read."""

from pathlib import Path

import pandas as pd

from data_gen.quoting import one_line

MOST_ENTRIES = 2 * 10**8  # of a table: a small file may claim far more


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
        if not path.is_file():  # of a folder pandas would read all files, for a pipe it would wait
            raise ResultError(f"{path} is {'not a file' if path.exists() else 'missing'}")
        import pyarrow.parquet as pq

        try:
            shape = pq.read_metadata(path)
            if shape.num_rows * shape.num_columns <= MOST_ENTRIES:
                return pd.read_parquet(path)
        except Exception as error:  # a damaged file makes pyarrow and pandas raise anything
            raise ResultError(f"{path} is not a table ({reason_of(error)})") from error
        raise ResultError(
            f"{path} is too large: {shape.num_rows} rows, {shape.num_columns} columns"
        )

    def __contains__(self, name: str) -> bool:
        return (self.folder / f"{name}.parquet").is_file()


def reason_of(error: Exception) -> str:
    """The start of a library's complaint, with the kind of error, in one printable line."""
    return one_line(f"{type(error).__name__}: {error}", 80)
