"""A sweep that was killed is resumed; states on disk that cannot be read are one line."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from bad_input import REFUSED, call
from damage import to_folder, to_half, to_pipe

from probing.states.parts import ActivationError
from probing.states.store import open_folder, read_array, stored_dtype
from slr.sweep import Grid, sweep

# ---- rows of a sweep

GRID = Grid({"x": tuple(range(6)), "y": (0.5,)})
PART = "part-000000000.parquet"


def square(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"square": settings["x"] ** 2}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of six cells of which the last is missing."""
    folder = tmp_path_factory.mktemp("begun") / "sweep"
    sweep(square, GRID, folder, jobs=1)
    (folder / "part-000000005.parquet").unlink()
    return folder


def text(file: str, content: str | bytes) -> Callable[[Path], object]:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / file).write_bytes(data)


def made(change: Callable[[Path], None], file: str) -> Callable[[Path], object]:
    return lambda folder: change(folder / file)


HEALED: dict[str, tuple[int, Callable[[Path], object]]] = {  # cells computed again
    "sound": (1, lambda folder: None),
    "cut off": (2, lambda folder: os.truncate(folder / PART, 20)),
    "temporary file": (1, text(".part-000000005.parquet.tmp", b"half")),
}


@pytest.mark.parametrize("name", HEALED)
def test_a_sweep_that_was_killed_is_resumed(name: str, begun: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(begun, tmp_path / "sweep"))
    computed, damage = HEALED[name]
    damage(folder)
    swept = sweep(square, GRID, folder, jobs=1)
    assert swept.computed == computed
    assert swept.table["square"].tolist() == [x**2 for x in range(6)]


# ---- states

SHAPES: dict[Any, tuple[int, ...]] = {(0, "tokens"): (4, 2), "logits": (3,)}
KEY = {"model": "a", "texts": "b"}


@pytest.fixture
def states(tmp_path: Path) -> Path:
    """A folder of states that an extraction has begun."""
    with open_folder(tmp_path / "states", KEY, SHAPES, 3):
        pass
    return tmp_path / "states"


def test_states_of_another_extraction_are_refused(states: Path) -> None:
    def opened() -> None:
        with open_folder(states, {"model": "another", "texts": "b"}, SHAPES, 3):
            pass

    ended = call(opened, within=states.parent)
    assert ended.outcome == REFUSED, ended.said
    assert str(states) in ended.said
    assert stored_dtype(states) == "float32"


@pytest.mark.parametrize("damage", [to_pipe, to_folder, to_half])
def test_an_array_that_cannot_be_read_is_one_line(damage: Any, states: Path) -> None:
    damage(states / "layer-00.safetensors")
    ended = call(lambda: read_array(states, (0, "tokens")), within=states)
    assert ended.outcome == REFUSED, ended.said
    with pytest.raises(ActivationError, match=r"layer-00\.safetensors .*extract again"):
        read_array(states, (0, "tokens"))
