"""A sweep that was killed is resumed; states on disk that cannot be read are one line."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from bad_input import ACCEPTED, REFUSED, call
from damage import to_folder, to_half, to_pipe

from probing.states.parts import ActivationError
from probing.states.store import MANIFEST, open_folder, read_array, stored_dtype
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


def manifest(**changes: Any) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        stored = json.loads((folder / MANIFEST).read_text())
        (folder / MANIFEST).write_text(json.dumps(stored | changes))

    return write


MANIFESTS: dict[str, Callable[[Path], object]] = {
    "pipe": made(to_pipe, MANIFEST),
    "folder": made(to_folder, MANIFEST),
    "half": text(MANIFEST, '{"key": '),
    "empty": text(MANIFEST, ""),
    "list": text(MANIFEST, "[]"),
    "nested": text(MANIFEST, "[" * 10**5),
    "Latin-1": text(MANIFEST, b'{"\xe9": 1}'),
    "key: list of numbers": manifest(key=[1]),
    "key: another": manifest(key={"model": "evil"}),
    "dtype: unknown": manifest(dtype="float99"),
    "dtype: list": manifest(dtype=["float32"]),
    "arrays: number": manifest(arrays=3),
    "arrays: none": manifest(arrays={}),
    "arrays: out of the folder": manifest(
        arrays={"0 tokens": [4, 2], "logits": [3], "../evil": [1]}
    ),
    "arrays: absolute": manifest(arrays={"0 tokens": [4, 2], "logits": [3], "/tmp/evil": [1]}),
    "arrays: another name": manifest(arrays={"0 tokens": [4, 2], "logits": [3], "x ../y": [1]}),
    "shape: other numbers": manifest(arrays={"0 tokens": [4, 3], "logits": [3]}),
    "shape: huge": manifest(arrays={"0 tokens": [10**18, 2], "logits": [3]}),
    "shape: negative": manifest(arrays={"0 tokens": [4, 2], "logits": [3], "1 tokens": [-4, 2]}),
    "shape: texts": manifest(arrays={"0 tokens": ["4", "2"], "logits": [3]}),
    "shape: floats": manifest(arrays={"0 tokens": [4.0, 2.0], "logits": [3]}),
    "shape: number": manifest(arrays={"0 tokens": 8, "logits": [3]}),
    "shape: null": manifest(arrays={"0 tokens": None, "logits": [3]}),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_states_with_a_damaged_manifest_are_refused(name: str, states: Path) -> None:
    MANIFESTS[name](states)

    def opened() -> None:
        with open_folder(states, KEY, SHAPES, 3):
            pass

    ended = call(opened, within=states.parent)
    assert ended.outcome == REFUSED, ended.said
    assert str(states) in ended.said
    dtype = call(lambda: stored_dtype(states), within=states.parent)
    assert dtype.outcome in (REFUSED, ACCEPTED), dtype.said


@pytest.mark.parametrize("damage", [to_pipe, to_folder, to_half])
def test_an_array_that_cannot_be_read_is_one_line(damage: Any, states: Path) -> None:
    damage(states / "layer-00.safetensors")
    ended = call(lambda: read_array(states, (0, "tokens")), within=states)
    assert ended.outcome == REFUSED, ended.said
    with pytest.raises(ActivationError, match=r"layer-00\.safetensors .*extract again"):
        read_array(states, (0, "tokens"))
