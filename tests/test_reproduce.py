"""Stages are made when they must be and not otherwise; claims are read from the results."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import claims
import pandas as pd
import pytest
import reproduce
import whole
from run_directory import ensure, run_directory
from side_by_side import side_by_side

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Config:
    output: Path
    seed: int = 0
    overwrite: bool = False


def script(made: list[int]) -> Any:
    def main(config: Config) -> None:
        made.append(config.seed)
        settings = {"seed": config.seed}
        with run_directory(config.output, settings, overwrite=config.overwrite) as folder:
            (folder / "numbers").write_text(str(config.seed))

    return SimpleNamespace(main=main, settings_of=lambda config: {"seed": config.seed})


def test_a_stage_is_made_once_and_again_for_other_settings_or_after_damage(tmp_path: Path) -> None:
    made: list[int] = []
    stage, output = script(made), tmp_path / "stage"
    for seed in (0, 0, 1, 1):
        ensure(stage, Config(output, seed))
    assert made == [0, 1]
    (output / "numbers").unlink()
    ensure(stage, Config(output, 1))
    assert made == [0, 1, 1]
    assert (output / "numbers").read_text() == "1"


def trajectory(folder: Path, kappa: list[float]) -> None:
    folder.mkdir(parents=True)
    rows = [
        {"run": run, "step": step, "kappa": value * step / 10, "nu": step / 10}
        for run, value in enumerate(kappa)
        for step in (0, 10)
    ]
    pd.DataFrame(rows).to_parquet(folder / "trajectory.parquet")
    (folder / "files.json").write_text("{}")


def test_claims_are_read_from_results_and_can_fail(tmp_path: Path) -> None:
    trajectory(tmp_path / "slr" / "pgd-manifold", [1.0, -1.0])
    trajectory(tmp_path / "slr" / "pgd-schedule", [1.0, 0.0, 1.0])
    found = {one.claim.split(":")[0]: one for one in claims.read_claims(tmp_path)}
    assert set(found) == {"pgd-manifold", "pgd-schedule"}, "of the stages that are there"
    assert found["pgd-manifold"].passed
    assert found["pgd-manifold"].measured == "2 of 2"
    assert not found["pgd-schedule"].passed
    assert found["pgd-schedule"].measured == "2 of 3"
    text = claims.as_text(list(found.values()))
    assert "MISS  pgd-schedule" in text
    assert text.endswith("1 of 2 claims pass")
    assert json.loads(json.dumps(claims.as_rows(list(found.values()))))[0]["passed"] in (
        True,
        False,
    )


def test_layer_claims_take_the_worst_run(tmp_path: Path) -> None:
    folder = tmp_path / "slr" / "layer"
    folder.mkdir(parents=True)
    table = {"run": [0, 1], "step": [9, 9], "excess_risk": [0.001, 0.006], "mass": [0.99, 0.99]}
    pd.DataFrame(table).to_parquet(folder / "layer.parquet")
    pd.DataFrame({"oracle": [0.2]}).to_parquet(folder / "yardsticks.parquet")
    (folder / "files.json").write_text("{}")
    risk, mass = claims.read_claims(tmp_path)
    assert not risk.passed
    assert mass.passed
    assert risk.interval == "[0.0010, 0.0060] over 2 runs"


def test_claims_of_a_stage_are_its_own(tmp_path: Path) -> None:
    trajectory(tmp_path / "slr" / "pgd-manifold", [1.0])
    assert len(claims.read_claims(tmp_path, ("slr",))) == 1
    assert claims.read_claims(tmp_path, ("figure1", "bridge")) == []


@pytest.mark.parametrize(
    ("value", "passed"), [("excess_risk", True), ("far", False)], ids=["equal", "far"]
)
def test_softmax_must_be_within_errors_of_bayes(tmp_path: Path, value: str, passed: bool) -> None:
    folder = tmp_path / "slr" / "activations"
    folder.mkdir(parents=True)
    risks = {"bayes": 0.1, "softmax": 0.102 if value == "excess_risk" else 0.2, "linear": 0.5}
    rows = [
        {"axis": "d", "d": 10, "attention": name, "excess_risk": risk, "stderr": 0.001}
        for name, risk in risks.items()
    ]
    pd.DataFrame(rows).to_parquet(folder / "activations.parquet")
    (folder / "files.json").write_text("{}")
    softmax, linear = claims.read_claims(tmp_path)
    assert softmax.passed == passed
    assert linear.passed


def fail_on_two(number: int) -> int:
    if number == 2:
        raise ValueError("no twos")
    return 10 * number


def test_side_by_side_gives_results_in_order_and_passes_errors_on() -> None:
    assert side_by_side(fail_on_two, [1, 3, 5]) == [10, 30, 50]
    with pytest.raises(ValueError, match="no twos"):
        side_by_side(fail_on_two, [1, 2, 3])


def test_differences_between_results_are_found(tmp_path: Path) -> None:
    for name, value, seconds in (("a", 1.0, 3.0), ("b", 1.0, 4.0), ("c", 1.0 + 1e-15, 3.0)):
        (tmp_path / name / "slr").mkdir(parents=True)
        table = pd.DataFrame({"x": [value, float("nan")], "seconds": seconds})
        table.to_parquet(tmp_path / name / "slr" / "table.parquet")
    assert whole.differences(tmp_path / "a", tmp_path / "b") == []
    assert whole.differences(tmp_path / "a", tmp_path / "c") == ["slr/table.parquet"]
    (tmp_path / "b" / "claims.json").write_text("[]")
    assert whole.differences(tmp_path / "a", tmp_path / "b") == ["claims.json: only in one"]


@pytest.mark.slow
def test_killed_in_each_stage_it_ends_with_the_same_numbers(tmp_path: Path) -> None:
    script = str(ROOT / "scripts" / "reproduce.py")
    command = [sys.executable, script, "--smoke", "--results"]
    undisturbed = whole.watch([*command, "one"], tmp_path)
    assert list(undisturbed.stages) == list(reproduce.STAGES)
    whole.kill_in_each_stage([*command, "other"], tmp_path, undisturbed.stages)
    assert len(list(whole.tables_of(tmp_path / "one"))) > 30
    assert whole.differences(tmp_path / "one", tmp_path / "other") == []
    left = [path.name for path in (tmp_path / "other").rglob(".*")]
    assert left == [], "nothing of the killed runs is left"
    again = whole.watch([*command, "other"], tmp_path)
    assert sum(again.stages.values()) < sum(undisturbed.stages.values()) / 3
