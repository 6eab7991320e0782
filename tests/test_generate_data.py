"""The command writes a dataset that the Hugging Face tools open; results are whole or not there."""

import hashlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset, load_from_disk
from transformers import AutoTokenizer

from data_gen import build_dataset
from studies import reproduce
from studies.making import make
from studies.practice import dataset
from studies.storage.results import is_current, result_folder

SCRIPT = Path(__file__).parent.parent / "scripts" / "generate_data.py"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The restaurant dataset in all three formats."""
    folder = tmp_path_factory.mktemp("written")
    paths = {}
    for name in ("parquet", "jsonl", "arrow"):
        paths[name] = folder / name
        config = dataset.Options(output=paths[name], spec="restaurant", format=name)
        make(dataset.STUDY, config)
    return paths


@pytest.mark.parametrize("name", ["parquet", "jsonl", "arrow"])
def test_the_folder_opens_with_the_same_rows_and_types(
    name: str, written: dict[str, Path], tmp_path: Path
) -> None:
    folder = str(written[name])
    opened: Any = (
        load_from_disk(folder) if name == "arrow" else load_dataset(folder, cache_dir=str(tmp_path))
    )
    built = build_dataset("restaurant")
    assert set(opened) == set(built)
    for split, rows in built.items():
        assert opened[split].features == rows.features
        assert opened[split][:] == rows[:]


def test_single_parquet_files_open_too(written: dict[str, Path], tmp_path: Path) -> None:
    files = {"train": str(written["parquet"] / "data" / "train-00000-of-00001.parquet")}
    opened: Any = load_dataset("parquet", data_files=files, cache_dir=str(tmp_path))
    assert opened["train"].features["label"].names == ["negative", "positive"]
    folder = str(written["parquet"])
    found: Any = load_dataset("parquet", data_dir=folder, cache_dir=str(tmp_path))
    assert set(found) == set(build_dataset("restaurant"))


def test_the_manifest_is_the_same_whatever_the_format(written: dict[str, Path]) -> None:
    manifests = [json.loads((path / "manifest.json").read_text()) for path in written.values()]
    assert manifests[0] == manifests[1] == manifests[2]
    for name, split in manifests[0]["splits"].items():
        lines = (written["jsonl"] / "data" / f"{name}-00000-of-00001.jsonl").read_bytes()
        assert split["sha256"] == hashlib.sha256(lines).hexdigest()
        assert split["rows"] == split["distinct"] == lines.count(b"\n")
        assert set(split["balance"].values()) == {split["rows"] // 2}


def test_the_spec_in_the_folder_makes_the_folder_again(
    written: dict[str, Path], tmp_path: Path
) -> None:
    spec = str(written["parquet"] / "spec.toml")
    make(dataset.STUDY, dataset.Options(output=tmp_path / "again", spec=spec))
    first = json.loads((written["parquet"] / "manifest.json").read_text())
    assert json.loads((tmp_path / "again" / "manifest.json").read_text()) == first


def test_the_tokenizer_is_there(written: dict[str, Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(written["arrow"] / "tokenizer", local_files_only=True)
    assert tokenizer.tokenize("The waiter was Zorg") == ["The", "waiter", "was", "[UNK]"]


def test_the_card_names_every_split_and_what_it_isolates(written: dict[str, Path]) -> None:
    card = (written["parquet"] / "README.md").read_text()
    assert card.startswith("---\n")
    for split in build_dataset("restaurant"):
        assert f"path: data/{split}-00000-of-00001.parquet" in card
        assert f"\n| {split} | " in card


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(SCRIPT), *arguments]


def test_as_a_program_it_prints_the_manifest_and_where_the_result_is(tmp_path: Path) -> None:
    output = tmp_path / "released"
    run = subprocess.run(
        command("--output", str(output), "--spec", "sentiment-as-released"),
        capture_output=True,
        text=True,
        check=True,
    )
    title, header, *_, last = run.stdout.splitlines()
    assert title == dataset.STUDY.title
    assert header.split()[:3] == ["sentences", "negative", "positive"]
    assert re.search(r"^test +4608 +2304 +2304 +2304 ", run.stdout, re.MULTILINE)
    assert last == f"written to {output}"


def test_an_existing_folder_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    config = dataset.Options(output=tmp_path / "x", spec="restaurant")
    make(dataset.STUDY, config)
    (tmp_path / "x" / "mine").touch()
    with pytest.raises(FileExistsError, match="--overwrite"):
        make(dataset.STUDY, dataset.Options(output=tmp_path / "x"))
    assert (tmp_path / "x" / "mine").exists()
    again = dataset.Options(output=tmp_path / "x", spec="restaurant", overwrite=True)
    make(dataset.STUDY, again)
    assert not (tmp_path / "x" / "mine").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_is_not_ours_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    (tmp_path / "settings.json").write_text('{"model_type": "bert"}')
    config = dataset.Options(output=tmp_path, spec="restaurant", overwrite=True)
    with pytest.raises(FileExistsError, match="not a result of slr-probing"):
        make(dataset.STUDY, config)
    assert (tmp_path / "thesis.tex").exists()


def test_an_unwritable_place_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PermissionError, match="not a writable folder"):
        make(dataset.STUDY, dataset.Options(output=tmp_path / "file" / "x"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "x", "--format", "csv"], "invalid choice 'csv'"),
        ([], "--output"),
        (["--output", "x", "--overwite"], "--overwite"),
        (["--output", "x", "--spec", "sentiment-as-released", "--extended"], "no extended"),
    ],
)
def test_a_wrong_argument_is_one_clear_line(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    run = subprocess.run(command(*arguments), capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 2
    (line,) = run.stderr.splitlines()
    assert message in line
    assert line.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_leaves_the_earlier_result(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with result_folder(path, {"run": 1}):
        pass
    with pytest.raises(RuntimeError), result_folder(path, {"run": 2}, overwrite=True) as folder:
        (folder / "half").touch()
        raise RuntimeError
    assert json.loads((path / "settings.json").read_text())["run"] == 1
    assert list(tmp_path.iterdir()) == [path]


INTERRUPTED = """
import sys, time
from pathlib import Path
from studies.storage.results import result_folder
with result_folder(Path(sys.argv[1]), {}) as folder:
    (folder / "half").touch()
    print("writing", flush=True)
    time.sleep(60)
"""


def stopped_while_writing(folder: Path, stop: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(folder / "x")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # A job that a shell runs in the background, as tests may be, has SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert len(list(folder.iterdir())) == 1, "the control: it was writing"
        process.send_signal(stop)
        assert process.wait() != 0


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_nothing(stop: signal.Signals, tmp_path: Path) -> None:
    stopped_while_writing(tmp_path, stop)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    stopped_while_writing(tmp_path, signal.SIGKILL)
    assert not (tmp_path / "x").exists()
    with result_folder(tmp_path / "x", {}):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_result_is_current_only_with_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert not is_current(path, {"run": 1})
    with result_folder(path, {"run": 1}) as folder:
        (folder / "numbers").write_text("1 2 3")
    assert is_current(path, {"run": 1})
    assert not is_current(path, {"run": 2})


def test_reproduce_makes_the_dataset_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = reproduce.Options(results=tmp_path / "results", only=("dataset",))
    reproduce.main(config)
    assert "written to" in capsys.readouterr().out
    reproduce.main(config)
    assert "unchanged" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no stage"):
        reproduce.main(reproduce.Options(only=("figures",)))
