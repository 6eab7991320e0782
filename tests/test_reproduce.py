"""Stages are made when they must be and not otherwise; claims are read from the results."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import claims
import pandas as pd
from run_directory import ensure, run_directory


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
    (folder / "files.json").write_text("{}")
    risk, mass = claims.read_claims(tmp_path)
    assert not risk.passed
    assert mass.passed
    assert risk.interval == "[0.0010, 0.0060] over 2 runs"
