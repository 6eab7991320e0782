"""An --output that is not ours, leads nowhere or has no room is refused, and stays as it was."""

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import ACCEPTED, REFUSED, call, command
from safetensors import SafetensorError

from probing.probes.linear import LinearProbe
from slr import Task
from studies.command_line import run
from studies.ending import ending
from studies.storage.results import write_whole

ROWS = "text,label,word\nMy cat is nice,good,nice\nMy cat is awful,bad,awful\n"
PORTRAIT = ["portrait", "--smoke", "--output"]
DATA = ["--format", "jsonl", "--output"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with things of the user in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("no/such/folder")
    (tmp_path / "own.csv").write_text(ROWS)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    (tmp_path / "results" / "another").mkdir(parents=True)
    made = {"made_by": "slr-probing", "study": "another"}
    (tmp_path / "results" / "another" / "settings.json").write_text(json.dumps(made))
    (tmp_path / "results" / "portrait").symlink_to("another")
    return tmp_path


OUTPUTS = {
    "loop": ("slr", [*PORTRAIT, "loop"], "link to nothing, or to itself"),
    "below a loop": ("generate-data", [*DATA, "loop/x"], "link to nothing, or to itself"),
    "a link to nothing": ("generate-data", [*DATA, "nowhere"], "link to nothing, or to itself"),
    "a folder": ("generate-data", [*DATA, "mine"], "is not a result of slr-probing"),
    "overwritten": ("generate-data", [*DATA, "mine", "--overwrite"], "is not a result of"),
    "a file": ("generate-data", [*DATA, "own.csv", "--overwrite"], "is not a result of"),
    "below a file": ("generate-data", [*DATA, "own.csv/x"], "own.csv is not a writable folder"),
    "another study": (
        "generate-data",
        [*DATA, "results/another", "--overwrite"],
        "is a result of another and is not overwritten by one of dataset",
    ),
    "page over a table": ("results-page", ["--output", "own.csv"], "not written by this command"),
    "page over settings": (
        "results-page",
        ["--output", "results/another/settings.json"],
        "not written by this command",
    ),
    "page over a folder": ("results-page", ["--output", "mine"], "not written by this command"),
    "page in a loop": ("results-page", ["--output", "loop"], "link to nothing, or to itself"),
    "page over a device": ("results-page", ["--output", "/dev/null"], "not written by this"),
    "states over output": (
        "probe",
        ["--states", "mine", "--output", "./mine"],
        "--states and --output are both",
    ),
    "states in a model": ("extract", ["--output", "mine"], "mine holds other files"),
    "states in a loop": ("extract", ["--output", "loop"], "link to nothing, or to itself"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_that_is_not_ours_is_refused(name: str, here: Path) -> None:
    script, arguments, said = OUTPUTS[name]
    ended = command(script, arguments, within=here)
    assert (ended.outcome, said in ended.said) == (REFUSED, True), ended.said


def test_a_path_through_a_folder_that_is_not_there_yet_is_made_as_mkdir_does(here: Path) -> None:
    ended = command("generate-data", [*DATA, "new/../data"], within=here, seconds=60)
    assert ended.outcome == ACCEPTED, ended.said
    assert (here / "data" / "manifest.json").is_file()


def test_a_page_replaces_a_page(here: Path) -> None:
    for _ in range(2):
        assert command("results-page", ["--output", "p.md"], within=here).outcome == ACCEPTED
    (here / "p.md").write_text("my own notes")
    assert command("results-page", ["--output", "p.md"], within=here).outcome == REFUSED


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "error: No space left on device\n"),
        (OSError(errno.EACCES, "Permission denied", "x"), "error: Permission denied: x\n"),
        (SafetensorError("I/O error: No space left"), "error: I/O error: No space left\n"),
    ],
)
def test_a_full_disk_is_one_line(error: Exception, line: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as stop, ending(last=False):
        raise error
    assert (stop.value.code, capsys.readouterr().err) == (2, line)


@pytest.mark.parametrize("value", ["", "0"])
def test_a_traceback_is_shown_only_when_asked_for(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLR_TRACEBACK", value)
    with pytest.raises(SystemExit), ending(last=False):
        raise ValueError
    monkeypatch.setenv("SLR_TRACEBACK", "1")
    with pytest.raises(ValueError), ending(last=False):  # noqa: PT011
        raise ValueError


@pytest.mark.parametrize(("rank", "size"), [("x", "2"), ("1", "1"), ("1", ""), ("-1", "2")])
def test_a_rank_that_torchrun_did_not_set_is_refused(
    rank: str, size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ended well, and had written nothing."""
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    ended = command("train", ["--output", tmp_path / "x"], within=tmp_path)
    assert (ended.outcome, "torchrun" in ended.said) == (REFUSED, True), ended.said


def test_help_without_an_output_ends_well() -> None:
    script = Path(__file__).parent.parent / "scripts" / "generate_data.py"
    closed = [*"sh -c".split(), f"exec {sys.executable} {script} --help >&-"]
    ended = subprocess.run(closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_help_in_a_narrow_terminal_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    with pytest.raises(SystemExit) as stop:
        run("generate-data", ["--help"], prog="x")
    assert not stop.value.code


X, Y = np.eye(8), np.arange(8) % 2
FITS: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "text": ({}, X.astype(str), Y, "states must be real numbers"),
    "complex": ({}, X + 1j, Y, "states must be real numbers"),
    "nan": ({}, X * np.nan, Y, "states must be finite"),
    "huge": ({}, X * 1e300, Y, "scale them"),
    "minute": ({}, X * 1e-300, Y, "scale them"),
    "labels nan": ({}, X, np.where(Y, np.nan, 0.0), "labels of one kind"),
    "labels of two kinds": ({}, X, np.array([1, "a"] * 4, dtype=object), "labels of one kind"),
    "labels missing": ({}, X, np.array([None, "a"] * 4, dtype=object), "labels of one kind"),
    "no iterations": ({"max_iter": 0}, X, Y, "max_iter must be"),
    "half an iteration": ({"max_iter": 0.5}, X, Y, "max_iter must be"),
    "tolerance below 0": ({"tol": -1}, X, Y, "tol must be"),
    "tolerance nan": ({"tol": np.nan}, X, Y, "tol must be"),
}


@pytest.mark.parametrize("name", FITS)
def test_a_probe_refuses_what_is_no_number(name: str, tmp_path: Path) -> None:
    options, states, labels, said = FITS[name]
    ended = call(lambda: LinearProbe(C=1.0, **options).fit(states, labels), within=tmp_path)
    assert (ended.outcome, said in ended.said) == (REFUSED, True), ended.said


def test_a_noise_that_is_an_array_is_refused() -> None:
    with pytest.raises(ValueError, match="noise_std must be"):
        Task(d=10, L=3, gamma=0.7, noise_std=np.ones(3))  # type: ignore[arg-type]
