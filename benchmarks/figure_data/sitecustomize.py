"""Gate: x and y of every artist of every figure that a command saves, a table per figure.

Python runs this file as each process starts, workers too, if its folder is in PYTHONPATH:

FIGURE_DATA=golden/figures PYTHONPATH=benchmarks/figure_data make reproduce ARGS="--results new"

A result that is current is not drawn again. compare_results.py compares two folders of tables.
"""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.text import Text


def watch(folder: Path) -> None:
    """Let each figure that is saved as PNG also write its data into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save = Figure.savefig

    def savefig(figure: Figure, file: Any, **options: Any) -> None:
        if isinstance(file, Path) and file.suffix == ".png":
            result = re.sub(r"^\.(.+)\.partial-.*", r"\1", file.parent.name)
            data_of(figure).to_parquet(folder / f"{result}-{file.stem}.parquet")
        save(figure, file, **options)

    Figure.savefig = savefig  # type: ignore[assignment, method-assign]


def data_of(figure: Figure) -> pd.DataFrame:
    tables = []
    for i, artist in enumerate(each for axes in figure.axes for each in axes.get_children()):
        name = artist.get_text() if isinstance(artist, Text) else artist.get_label()
        table = pd.DataFrame(points_of(artist), columns=["x", "y"], dtype=float)
        tables.append(table.assign(artist=f"{i} {type(artist).__name__} {name}"))
    return pd.concat(tables, ignore_index=True)


def points_of(artist: Any) -> list[Any]:
    """The points of a line, a text, a bar or a collection, and the values of an image."""
    points: list[Any] = []
    if isinstance(artist, Text):
        points += [artist.get_position()]
    if hasattr(artist, "get_xydata"):
        points += [*artist.get_xydata()]
    if hasattr(artist, "get_patch_transform"):
        points += [*artist.get_path().transformed(artist.get_patch_transform()).vertices]
    if hasattr(artist, "get_offsets"):
        points += [
            *artist.get_offsets(),
            *(v for path in artist.get_paths() for v in path.vertices),
        ]
    if hasattr(artist, "get_array") and artist.get_array() is not None:
        points += [*enumerate(np.ravel(artist.get_array()))]
    return points


if "FIGURE_DATA" in os.environ:
    watch(Path(os.environ["FIGURE_DATA"]))
