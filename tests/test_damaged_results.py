"""Pages name a result that they cannot read, and the command that makes it again."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bad_input import REFUSED, command
from PIL import Image

from studies.storage.results import is_current, result_folder
from studies.theory import paper, portrait

PORTRAIT, MANIFOLD = portrait.STUDY, paper.STUDIES[0]
MADE = {"study": "portrait", "seed": 0}
POINTS = pd.DataFrame({"kappa": [1.0], "nu": [1.0], "kind": ["minimum"]})
RUNS = pd.DataFrame({"aligned": [True], "swapped": [False], "diverged": False, "start": "random"})
RUNS = RUNS.assign(excess_risk=0.1, distance_to_manifold=0.5)
STEPS = pd.DataFrame({"step": [0, 200, 400], "lam": 0.1})


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results that both pages accept."""
    folder = tmp_path_factory.mktemp("sound") / "results"
    made = [(PORTRAIT, {"fixed_points": POINTS}), (MANIFOLD, {"runs": RUNS, "trajectory": STEPS})]
    for study, named in made:
        with result_folder(folder / study.folder, MADE) as partial:
            for name, table in named.items():
                table.to_parquet(partial / f"{name}.parquet")
            for stem in study.figures:
                Image.new("RGB", (60, 10)).save(partial / f"{stem}.png")
    return folder


@pytest.fixture
def results(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "results", symlinks=True))


def test_a_linked_folder_is_a_result_like_any_other(results: Path, tmp_path: Path) -> None:
    folder = results / PORTRAIT.folder
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert is_current(folder, MADE)
    with result_folder(folder, MADE | {"seed": 1}, overwrite=True) as partial:
        (partial / "new").write_text("new")
    assert folder.is_symlink()
    assert is_current(tmp_path / "elsewhere", MADE | {"seed": 1})


UNREADABLE: dict[str, tuple[Any, str, Callable[[Path], object]]] = {
    "without a column": (
        PORTRAIT,
        "fixed_points.parquet",
        POINTS.drop(columns="kind").to_parquet,
    ),
    "truncated": (PORTRAIT, "fixed_points.parquet", lambda path: os.truncate(path, 500)),
    "no table": (MANIFOLD, "runs.parquet", Path.unlink),
    "no figure": (PORTRAIT, "portrait.png", Path.unlink),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_pages_name_what_they_cannot_read(name: str, results: Path) -> None:
    study, file, change = UNREADABLE[name]
    change(results / study.folder / file)
    pages = {
        "results-page": ["--results", results, "--output", results.parent / "results.md"],
        "report": ["--results", results, "--output", results.parent / "report"],
    }
    for page, options in pages.items():
        ended = command(page, options, within=results.parent)
        assert ended.outcome == REFUSED, (page, ended.said)
        assert str(results / study.folder) in ended.said
        assert study.command in ended.said
