"""A damaged result is noticed; pages name the file and the command that makes it again."""

import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bad_input import ACCEPTED, REFUSED, call, command
from damage import to_folder, to_pipe, to_same_size_and_time
from PIL import Image

from studies.pages.claims import keep_claims, kept_claims
from studies.pages.results import page_of
from studies.storage.files import contents
from studies.storage.results import FILES, SETTINGS, is_current, is_whole, result_folder, write_json
from studies.study import Claim
from studies.theory import paper, portrait

PORTRAIT, MANIFOLD = portrait.STUDY, paper.STUDIES[0]
MADE = {"study": "portrait", "seed": 0}
CLAIM = {"claim": "a", "required": "b", "measured": "c", "passed": True}
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
    keep_claims(folder, [Claim(**CLAIM, origin="")])  # type: ignore[arg-type]
    return folder


@pytest.fixture
def results(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "results", symlinks=True))


# ---- a stage notices that its result is not as it was


CHANGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "altered table": ("fixed_points.parquet", to_same_size_and_time),
    "altered figure": ("portrait.png", to_same_size_and_time),
    "altered settings": (SETTINGS, to_same_size_and_time),
    "missing table": ("fixed_points.parquet", Path.unlink),
    "truncated table": ("fixed_points.parquet", lambda path: os.truncate(path, 100)),
    "empty table": ("fixed_points.parquet", lambda path: path.write_bytes(b"")),
    "pipe as table": ("fixed_points.parquet", to_pipe),
    "folder as table": ("fixed_points.parquet", to_folder),
    "added file": ("notes.txt", lambda path: path.write_text("mine")),
    "added pipe": ("pipe", to_pipe),
    "added broken link": ("link", lambda path: path.symlink_to("nowhere")),
    "missing list": (FILES, Path.unlink),
    "pipe as list": (FILES, to_pipe),
    "folder as list": (FILES, to_folder),
    "half a list": (FILES, lambda path: os.truncate(path, 50)),
    "list of files that is a list": (FILES, lambda path: path.write_text("[]")),
    "list of files that is a number": (FILES, lambda path: path.write_text("1e999")),
    "list of names alone": (FILES, lambda path: path.write_text('{"portrait.png": null}')),
    "list with other types": (
        FILES,
        lambda path: path.write_text('{"portrait.png": {"size": []}}'),
    ),
    "list without sizes": (FILES, lambda path: path.write_text('{"portrait.png": {}}')),
    "list in Latin-1": (FILES, lambda path: path.write_bytes(b'{"\xe9": 1}')),
    "nested list": (FILES, lambda path: path.write_text("[" * 10**5)),
    "missing settings": (SETTINGS, Path.unlink),
    "pipe as settings": (SETTINGS, to_pipe),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_result_is_noticed(name: str, results: Path) -> None:
    folder = results / PORTRAIT.folder
    assert is_current(folder, MADE)
    file, change = CHANGES[name]
    change(folder / file)
    for asked in (lambda: is_whole(folder), lambda: is_current(folder, MADE)):
        ended = call(asked, within=results)
        assert (ended.outcome, ended.value) == (ACCEPTED, False)
    ended = call(lambda: page_of(results, results / "times.json"), within=results)
    assert ended.outcome == REFUSED, ended.said
    assert str(folder) in ended.said
    assert "make it again: " in ended.said
    assert PORTRAIT.command in ended.said


def test_a_result_of_older_code_is_compared_by_size(results: Path) -> None:
    folder = results / PORTRAIT.folder
    kept = json.loads((folder / FILES).read_text())
    assert {"size", "sha256"} == kept["portrait.png"].keys()
    write_json(folder / FILES, {name: entry["size"] for name, entry in kept.items()})
    assert is_current(folder, MADE)
    os.truncate(folder / "portrait.png", 10)
    assert not is_current(folder, MADE)


def test_large_files_are_compared_by_size_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studies.storage.files.SMALL", 100)
    with result_folder(tmp_path / "x", MADE) as partial:
        (partial / "weights").write_bytes(b"0" * 101)
        (partial / "table").write_bytes(b"0" * 100)
    assert contents(tmp_path / "x")["weights"] == {"size": 101}
    (tmp_path / "x" / "weights").write_bytes(b"1" * 101)
    assert is_whole(tmp_path / "x")
    (tmp_path / "x" / "table").write_bytes(b"1" * 100)
    assert not is_whole(tmp_path / "x")


def test_a_linked_folder_is_a_result_like_any_other(results: Path, tmp_path: Path) -> None:
    folder = results / PORTRAIT.folder
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert is_current(folder, MADE)
    with result_folder(folder, MADE | {"seed": 1}, overwrite=True) as partial:
        (partial / "new").write_text("new")
    assert folder.is_symlink()
    assert is_current(tmp_path / "elsewhere", MADE | {"seed": 1})


# ---- pages on results that are whole, but of another shape


def table(name: str, value: Any) -> Callable[[Path], None]:
    return lambda results: pd.DataFrame(value).to_parquet(results / f"{name}.parquet")


def content(file: str, data: bytes | str) -> Callable[[Path], object]:
    return lambda folder: (folder / file).write_bytes(
        data if isinstance(data, bytes) else data.encode()
    )


def png(width: int, height: int, data: bytes = b"") -> bytes:
    """A PNG that says that it has this size."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


SVG = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"
SHAPES: dict[str, tuple[Any, Callable[[Path], object]]] = {
    "no columns": (PORTRAIT, table("fixed_points", {})),
    "other columns": (PORTRAIT, table("fixed_points", {"x": [1]})),
    "a column is missing": (PORTRAIT, table("fixed_points", POINTS.drop(columns="kind"))),
    "texts for numbers": (PORTRAIT, table("fixed_points", POINTS.assign(kappa="<b>"))),
    "lists for numbers": (PORTRAIT, table("fixed_points", POINTS.assign(kappa=[[1.0, 2.0]]))),
    "truncated table": (PORTRAIT, lambda folder: os.truncate(folder / "fixed_points.parquet", 500)),
    "empty table file": (PORTRAIT, content("fixed_points.parquet", b"")),
    "CSV as table": (PORTRAIT, content("fixed_points.parquet", "kappa,nu,kind\n1,1,minimum\n")),
    "text as table": (PORTRAIT, content("fixed_points.parquet", b"PAR1" + b"\xff" * 99 + b"PAR1")),
    "runs: no rows": (MANIFOLD, table("runs", RUNS[:0])),
    "runs: no columns": (MANIFOLD, table("runs", RUNS[["aligned"]])),
    "runs: texts": (MANIFOLD, table("runs", RUNS.assign(excess_risk="much"))),
    "runs: dates": (MANIFOLD, table("runs", RUNS.assign(aligned=pd.Timestamp("2024-01-01")))),
    "steps: no rows": (MANIFOLD, table("trajectory", STEPS[:0])),
    "steps: one row": (MANIFOLD, table("trajectory", STEPS[:1])),
    "steps: texts": (MANIFOLD, table("trajectory", STEPS.astype(str))),
    "no trajectory": (MANIFOLD, lambda folder: (folder / "trajectory.parquet").unlink()),
    "settings: a list": (MANIFOLD, content(SETTINGS, "[]")),
    "settings: not JSON": (MANIFOLD, content(SETTINGS, "{")),
    "bomb of 100000 x 100000": (PORTRAIT, content("portrait.png", png(10**5, 10**5))),
    "bomb of 8000 x 8000": (PORTRAIT, content("portrait.png", png(8000, 8000, bytes(8001)))),
    "picture of 2^31 x 1": (PORTRAIT, content("portrait.png", png(2**31 - 1, 1))),
    "picture of 0 x 0": (PORTRAIT, content("portrait.png", png(0, 0))),
    "picture without pixels": (PORTRAIT, content("portrait.png", png(60, 10)[:50])),
    "SVG as PNG": (PORTRAIT, content("portrait.png", SVG)),
    "GIF as PNG": (
        PORTRAIT,
        lambda folder: Image.new("L", (9, 9)).save(folder / "portrait.png", "GIF"),
    ),
    "empty picture": (PORTRAIT, content("portrait.png", b"")),
    "large file as picture": (
        PORTRAIT,
        lambda folder: os.truncate(folder / "portrait.png", 65 * 2**20),
    ),
    "no picture": (PORTRAIT, lambda folder: (folder / "portrait.png").unlink()),
}


SHOWN = {  # the report shows these as they are; the other page also computes with them
    *("texts for numbers", "lists for numbers", "no trajectory", "runs: no rows"),
    *("steps: no rows", "steps: one row", "steps: texts"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_pages_refuse_a_result_of_another_shape(name: str, results: Path) -> None:
    study, change = SHAPES[name]
    folder = results / study.folder
    change(folder)
    (folder / FILES).unlink()
    write_json(folder / FILES, contents(folder))  # as if it was made so
    output = results.parent / "docs" / "results.md"
    pages = {
        "results-page": ["--results", results, "--output", output],
        "report": ["--results", results, "--output", results.parent / "report"],
    }
    ended = {page: command(page, options, within=results.parent) for page, options in pages.items()}
    for page in ["results-page"] if name in SHOWN else pages:
        assert ended[page].outcome == REFUSED, (page, ended[page].said)
        assert str(folder) in ended[page].said
        assert study.command in ended[page].said


def test_a_table_that_claims_too_many_entries_is_not_read(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studies.storage.tables.MOST_ENTRIES", 2)
    path, again = results / MANIFOLD.folder / "runs.parquet", MANIFOLD.command
    refused_as(path, lambda: page_of(results, results / "times.json"), again)


# ---- claims, times


CLAIMS: dict[str, Any] = {
    "a number": 1,
    "a text": "claims",
    "null": None,
    "a dictionary": {"claim": CLAIM},
    "a list of numbers": [1, 2],
    "a list of lists": [[CLAIM]],
    "an empty claim": [{}],
    "without verdict": [{name: CLAIM[name] for name in ("claim", "required", "measured")}],
    "verdict as text": [CLAIM | {"passed": "no"}],
    "verdict as number": [CLAIM | {"passed": float("nan")}],
    "claim as number": [CLAIM | {"claim": 1e999}],
    "claim as list": [CLAIM | {"claim": ["a"]}],
    "unknown field": [CLAIM | {"__class__": "x"}],
    "half a character": [CLAIM | {"claim": "\ud800"}],
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_of_another_shape_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    path.write_text(json.dumps(CLAIMS[name]))
    refused_as(path, lambda: kept_claims(tmp_path), "python scripts/reproduce.py --only report")


RAW = {"half": b"[{", "nested": b"[" * 10**5, "Latin-1": b'["\xe9"]', "empty": b"", "nul": b"\0"}


@pytest.mark.parametrize("name", [*RAW, "pipe", "folder"])
@pytest.mark.parametrize("file", ["claims.json", "times.json"])
def test_files_that_are_not_json_are_refused(file: str, name: str, results: Path) -> None:
    path = results / file
    path.touch()
    if name in RAW:
        path.write_bytes(RAW[name])
    else:
        (to_pipe if name == "pipe" else to_folder)(path)
    again = "scripts/reproduce.py" if file == "claims.json" else "python benchmarks/whole.py"
    refused_as(path, lambda: page_of(results, results / "times.json"), again)


@pytest.mark.parametrize(
    "times", [[], 3, {}, {"machine": 1}, {"machine": {}, "reproduce": [], "killed": None}]
)
def test_times_of_another_shape_are_refused(times: Any, results: Path) -> None:
    path = results / "times.json"
    write_json(path, times)
    refused_as(path, lambda: page_of(results, path), "python benchmarks/whole.py")


def refused_as(path: Path, read: Callable[[], object], again: str) -> None:
    ended = call(read, within=path.parent)
    assert ended.outcome == REFUSED, ended.said
    assert str(path) in ended.said
    assert again in ended.said
