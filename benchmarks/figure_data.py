"""Gate: x and y of every artist of every figure that `make reproduce` draws, a table per figure.

python benchmarks/figure_data.py RESULTS FOLDER [OPTIONS] runs scripts/reproduce.py of the current
folder with OPTIONS into RESULTS, which should be new: a result that is current is not drawn again.
compare_results.py compares two such FOLDERs.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure


def main(results: str, folder: Path, options: list[str]) -> int:
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as start:  # every process runs its sitecustomize.py first
        hook = f"from figure_data import Path, watch; watch(Path({str(folder)!r}))"
        Path(start, "sitecustomize.py").write_text(hook)
        path = os.pathsep.join([start, str(Path(__file__).parent), str(Path.cwd())])
        command = [sys.executable, "scripts/reproduce.py", "--results", results, *options]
        return subprocess.run(command, env=os.environ | {"PYTHONPATH": path}).returncode


def watch(folder: Path) -> None:
    """Let each figure that is saved as PNG also write its data into the folder."""
    save = Figure.savefig

    def savefig(figure: Figure, file: Any, **options: Any) -> None:
        if isinstance(file, Path) and file.suffix == ".png":
            result = re.sub(r"^\.(.+)\.partial-.*", r"\1", file.parent.name)
            data_of(figure).to_parquet(folder / f"{result}-{file.stem}.parquet")
        save(figure, file, **options)

    Figure.savefig = savefig  # type: ignore[method-assign]


def data_of(figure: Figure) -> pd.DataFrame:
    tables = []
    for i, artist in enumerate(each for axes in figure.axes for each in axes.get_children()):
        name = getattr(artist, "get_text", artist.get_label)()
        table = pd.DataFrame(points_of(artist), columns=["x", "y"], dtype=float)
        tables.append(table.assign(artist=f"{i} {type(artist).__name__} {name}"))
    return pd.concat(tables, ignore_index=True)


def points_of(artist: Any) -> list[Any]:
    points: list[Any] = []
    if hasattr(artist, "get_xydata"):  # a line
        points += [*artist.get_xydata()]
    if hasattr(artist, "get_text"):
        points += [artist.get_position()]
    if hasattr(artist, "get_patch_transform"):  # a bar
        points += [*artist.get_path().transformed(artist.get_patch_transform()).vertices]
    if hasattr(artist, "get_offsets"):  # points, areas or bundles of lines
        points += [
            *artist.get_offsets(),
            *(v for path in artist.get_paths() for v in path.vertices),
        ]
    if hasattr(artist, "get_array") and artist.get_array() is not None:  # an image, or colours
        points += [*enumerate(np.ravel(artist.get_array()))]
    return points


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3:]))
