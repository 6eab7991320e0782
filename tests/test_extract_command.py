"""scripts/extract.py: states in a folder, by one process or two, and probes that read them."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from test_shared_extraction import torchrun

from data_gen import build_dataset, build_tokenizer
from probing.models import placement
from probing.models.presets import build_model
from studies.command_line import run

ROOT = Path(__file__).parent.parent
FEW = ["--data", "sentiment", "--max-rows", "60"]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = build_tokenizer(build_dataset()["train"]["text"][:])
    build_model(tokenizer, "pair", ["negative", "positive"], seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_two_processes_write_what_one_writes(
    model_folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--model", model_folder, *FEW, "--layers", "1", "2", "--storage", "bfloat16"]
    run("extract", [*asked, "--output", str(tmp_path / "one")])
    said = capsys.readouterr().out
    assert "layers 1 2" in said
    assert f"written to {tmp_path / 'one'}" in said
    command = [str(ROOT / "scripts" / "extract.py"), *asked, "--output", str(tmp_path / "two")]
    shared = torchrun(*command)
    assert shared.returncode == 0, shared.stderr
    assert shared.stdout.count("written to") == 1, "one process reports"
    assert "processes: 2" in shared.stdout
    files = sorted(path.relative_to(tmp_path / "one") for path in tmp_path.rglob("one/**/layer*"))
    assert len(files) == 2 * len(build_dataset()), "one file per layer and split"
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
        assert {str(tensor.dtype) for tensor in load_file(tmp_path / "one" / file).values()} == {
            "torch.bfloat16"
        }


def test_probes_read_stored_states_instead_of_running_the_model(
    model_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = ["--probes", "value", "location"]
    asked = ["--model", model_folder, *FEW, *probes]
    run("extract", [*asked, "--output", str(tmp_path / "states")])
    fit = [*asked, "--no-controls", "--jobs", "1", "--output"]
    run("probe", [*fit, str(tmp_path / "ran")])

    def refuse(*args: Any) -> Any:
        raise AssertionError("the model was run")

    from probing.states import extraction

    monkeypatch.setattr(extraction, "_run_batch", refuse)
    with pytest.raises(AssertionError, match="the model was run"):  # the control
        run("probe", [*fit, str(tmp_path / "again")])
    run("probe", [*fit, str(tmp_path / "read"), "--states", str(tmp_path / "states")])
    tables = [pd.read_parquet(tmp_path / name / "probes.parquet") for name in ("ran", "read")]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    settings = [
        json.loads((tmp_path / name / "settings.json").read_text()) for name in ("ran", "read")
    ]
    assert settings[0] == settings[1], "the same result, wherever the states were"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layers", "9"], "--layers must lie between 0 and 2"),
        (["--max-rows", "-1"], "--max-rows must be at least 0"),
        (["--storage", "float8"], "invalid choice 'float8'"),
        (["--seed", "1"], "Unrecognized options: --seed"),
        (["--max-rows", "30", "--output", "states"], "another list of texts"),
        (["--output", "thesis"], "holds other files"),
    ],
)
def test_bad_input_is_one_clear_line(
    arguments: list[str],
    message: str,
    model_folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for split in build_dataset():
        (tmp_path / "thesis" / split / "sample").mkdir(parents=True)
        (tmp_path / "thesis" / split / "sample" / "thesis.tex").write_text("precious")
    if "states" in arguments:
        run("extract", ["--model", model_folder, *FEW, "--output", "states"])
    capfd.readouterr()
    with pytest.raises(SystemExit, match="2"):
        run("extract", ["--model", model_folder, *FEW, *arguments])
    assert message in capfd.readouterr().err.splitlines()[-1]
    assert {path.read_text() for path in tmp_path.rglob("*.tex")} == {"precious"}


def test_each_process_of_torchrun_has_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert str(placement.device_of("auto")) == "cuda"
    for rank in range(4):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        assert str(placement.device_of("auto")) == f"cuda:{rank}"
        assert str(placement.device_of("cuda:1")) == "cuda:1", "who names a device gets it"
