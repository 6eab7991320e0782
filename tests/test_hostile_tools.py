"""Hostile folders of probes, texts and files of word vectors are refused in one line."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import REFUSED, call, command
from hostile_subjects import own_rows
from safetensors.numpy import load_file, save_file

from data_gen import build_tokenizer, own_dataset
from probing.models.presets import build_model
from probing.models.word_vectors import of_mean_norm_one, read_vectors
from probing.probes.linear import LinearProbe
from probing.probes.saved.folder import ARRAYS, DESCRIPTION, load_probe, save_probe
from probing.probes.saved.probe import Origin, SavedProbe
from probing.states.extraction import extract

Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and a probe of its mean states."""
    folder = tmp_path_factory.mktemp("tools")
    dataset = own_dataset(own_rows())
    tokenizer = build_tokenizer([row["text"] for row in own_rows()])
    model = build_model(tokenizer, "tiny", ["bad", "good"], seed=0)
    for part in (model, tokenizer):
        part.save_pretrained(folder / "model")
    states = extract(model, tokenizer, dataset["train"], positions=("mean",))
    labels = np.array(["bad", "good"])[states.tokens.labels]
    probe = LinearProbe(C=1.0).fit(states.at(1, "mean"), labels, states.tokens.words)
    origin = Origin.of(str(folder / "model"), model)
    save_probe(folder / "probe", SavedProbe.of(probe, "mean", 1, ["bad", "good"], origin))
    return folder


def described(**changes: Any) -> Change:
    def change(folder: Path) -> None:
        description = json.loads((folder / DESCRIPTION).read_text())
        (folder / DESCRIPTION).write_text(json.dumps(description | changes))

    return change


def parameters(**changes: Any) -> Change:
    def change(folder: Path) -> None:
        description = json.loads((folder / DESCRIPTION).read_text())
        description["estimator"]["parameters"] |= changes
        (folder / DESCRIPTION).write_text(json.dumps(description))

    return change


def arrays(**changes: Any) -> Change:
    def change(folder: Path) -> None:
        whole = load_file(folder / ARRAYS) | changes
        save_file({name: x for name, x in whole.items() if x is not None}, folder / ARRAYS)

    return change


def instead(name: str, make: Callable[[Path], object]) -> Change:
    """Something else where a file should be."""

    def change(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return change


def sparse(size: int) -> Change:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    return make


def header(**declared: Any) -> Change:
    """A file of arrays that declares what it does not hold."""
    text = json.dumps(declared).encode()
    return lambda path: path.write_bytes(len(text).to_bytes(8, "little") + text)


HUGE = {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}
BRAIN = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
PROBES: dict[str, Change] = {
    "a pipe of JSON": instead(DESCRIPTION, os.mkfifo),
    "a pipe of arrays": instead(ARRAYS, os.mkfifo),
    "a folder of arrays": instead(ARRAYS, Path.mkdir),
    "a device of JSON": instead(DESCRIPTION, lambda path: path.symlink_to("/dev/zero")),
    "a device of arrays": instead(ARRAYS, lambda path: path.symlink_to("/dev/zero")),
    "a broken link": instead(ARRAYS, lambda path: path.symlink_to("nowhere")),
    "zeros": instead(ARRAYS, sparse(1000)),
    "huge declared": instead(ARRAYS, header(coef_=HUGE)),
    "bfloat16 declared": instead(ARRAYS, header(coef_=BRAIN)),
    "a long header": instead(ARRAYS, lambda path: path.write_bytes(b"\xff" * 100)),
    "null": lambda folder: (folder / DESCRIPTION).write_text("null"),
    "a list of probes": lambda folder: (folder / DESCRIPTION).write_text('[{"format": 1}]'),
    "a format of 10^5 digits": described(format="1" * 10**5),
    "a long probe": described(probe="x" * 10**5),
    "a probe that is a list": described(probe=["mean"]),
    "no estimator": described(estimator=None),
    "an estimator of lists": described(estimator=[1, 2]),
}


@pytest.mark.parametrize("name", PROBES)
def test_a_hostile_probe_is_refused(name: str, made: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(made / "probe", tmp_path / "p")
    assert load_probe(folder).probe == "mean", "the control"
    PROBES[name](folder)
    ended = call(lambda: load_probe(folder), within=tmp_path, seconds=5)
    assert ended.outcome == REFUSED, ended.said
    assert str(folder) in ended.said


# ---- apply


APPLIED: dict[str, tuple[list[str], str]] = {
    "an empty text": (["--text", ""], "text 1 is empty"),
    "spaces": (["--text", "fine", " \t\n"], "text 2 is empty"),
    "10^6 characters": (["--text", "nice " * 200_000], "takes 64 at most"),
    "half a character": (["--text", "nice \udc80"], "not valid Unicode"),
    "no text": ([], "give texts"),
    "texts and a file": (["--text", "a", "--data", "PIPE.txt"], "give texts"),
    "a pipe of texts": (["--data", "PIPE.txt"], "PIPE.txt"),
    "a folder of texts": (["--data", "."], "."),
    "a device": (["--data", "/dev/zero"], "/dev/zero"),
    "another model": (["--text", "a", "--model", "OTHER"], "not the model"),
    "a table that is there": (["--text", "a", "--output", "there.csv"], "exists"),
    "a probe that is a file": (["--text", "a", "--probe", "there.csv"], "not a folder"),
}


@pytest.mark.parametrize("name", APPLIED)
def test_apply_refuses(
    name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("PIPE.txt")
    Path("there.csv").write_text("")
    arguments, says = APPLIED[name]
    if "OTHER" in arguments:
        tokenizer = build_tokenizer(["another model"])
        for part in (build_model(tokenizer, "tiny", ["a", "b"], seed=1), tokenizer):
            part.save_pretrained("OTHER")
    ended = command("apply", ["--probe", made / "probe", *arguments], within=tmp_path, seconds=5)
    assert ended.outcome == REFUSED, ended.said
    assert says in ended.said


@pytest.mark.parametrize("text", ["nice", "\x1b[2J nice \x00", "好看", "!?", "\u2028nice"])
def test_apply_shows_no_character_that_controls_a_terminal(
    text: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from studies.command_line import run

    run("apply", ["--probe", str(made / "probe"), "--text", text], prog="apply.py")
    assert "\x1b" not in (shown := capsys.readouterr().out)
    assert "\x00" not in shown


# ---- word vectors


VECTORS: dict[str, bytes] = {
    "empty": b"",
    "only a header": b"2 3\n",
    "binary": bytes(range(256)) * 100,
    "words alone": b"nice\nmean\n",
    "tabs": b"nice\t1\t2\n",
    "UTF-16": "nice 1 2\n".encode("utf-16"),
    "a number too large": b"nice 1e400 1\n",
    "a number whose square is too large": b"nice 1e300 1\n",
    "not a number": b"nice nan 1\n",
    "infinite": b"nice inf 1\n",
    "hexadecimal": b"nice 0x10 1\n",
    "words as numbers": b"nice one two\n",
    "inconsistent widths": b"nice 1 2\nmean 1 2 3\n",
    "widths of the first words": b"the 1\nnice " + b"1 " * 40 + b"\n",
    "a word twice": b"nice 1 2\nmean 2 1\nnice 3 4\n",
    "a wide vector": b"nice" + b" 1" * 5000 + b"\n",
    "a line of 10^7 characters": b"nice " + b"1" * 10**7,
    "a line without an end": b"x" * 10**6,
}


@pytest.mark.parametrize("name", VECTORS)
def test_hostile_word_vectors_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(b"the 1 2\nnice 3 4\nmean 5 6\n")
    assert set(read_vectors(path, ["nice", "mean"], d_model=32)) == {"nice", "mean"}, "the control"
    path.write_bytes(VECTORS[name])
    ended = call(lambda: read_vectors(path, ["nice", "mean"], d_model=32), within=tmp_path)
    assert ended.outcome == REFUSED, ended.said
    assert str(path) in ended.said


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_word_vectors_that_are_not_a_file_are_refused(make: Any, tmp_path: Path) -> None:
    make(tmp_path / "v.txt")
    ended = call(lambda: read_vectors(tmp_path / "v.txt", ["nice"]), within=tmp_path, seconds=5)
    assert ended.outcome == REFUSED, ended.said
    trained = ["--embeddings", tmp_path / "v.txt", "--output", tmp_path / "out"]
    assert command("train", trained, within=tmp_path, seconds=5).outcome == REFUSED


def test_vectors_of_zeros_alone_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("the 0 0\nnice 0 0\n")
    vectors = np.stack(list(read_vectors(path, ["nice"]).values()))
    ended = call(lambda: of_mean_norm_one(vectors), within=tmp_path)
    assert ended.outcome == REFUSED
    assert "are 0" in ended.said
