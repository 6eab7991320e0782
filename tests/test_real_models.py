"""The two real models of the project: the doctor's checks and the causal tests run on them."""

from pathlib import Path

import pandas as pd
import pytest

from studies.command_line import run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("model", ["minilm", "smollm2"])
def test_the_doctor_finds_them_healthy(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("doctor", ["--model", model], prog="doctor.py")
    assert "13 of 13 checks passed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("minilm", []),
        ("smollm2", []),
        ("smollm2", [*"--readout words --words lovely horrible --suffix".split(), "It is"]),
    ],
)
def test_all_causal_tests_run_on_them(model: str, options: list[str], tmp_path: Path) -> None:
    few = "--sentences 24 --random 1 --layers 0 4".split()
    run("causal", ["--model", model, *options, *few, "--output", str(tmp_path / "out")])
    table = pd.read_parquet(tmp_path / "out" / "causal.parquet")
    assert table["test"].nunique() == 7, "six kinds of tests, and none"
    # The edit that changes most is that of the word along its value, not a random one.
    shifts = table[(table["test"] == "reflect") & (table["layer"] == 0)].set_index("edit")["shift"]
    assert shifts["v_hat"].max() > 5 * abs(shifts["random"])
