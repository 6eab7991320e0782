"""How training scales with d, and the script that shows it."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import run_slr

from slr import EXPERIMENTS, Task, run_experiment
from slr.dynamics.scaling import (
    flow_time_to_align,
    predicted_stability_limit,
    scaled_experiment,
    stability_limit,
)
from slr.overlaps import Overlaps


@pytest.mark.parametrize(("d", "tolerance"), [(400, 0.02), (10**6, 1e-3), (10**12, 1e-3)])
def test_the_stability_limit_is_two_over_the_curvature(d: int, tolerance: float) -> None:
    task, lam = Task(d=d, L=10, gamma=0.7), 2 / math.sqrt(d)
    predicted = predicted_stability_limit(task, lam)
    assert stability_limit(task, lam) == pytest.approx(predicted, rel=tolerance)


def test_at_its_own_d_a_scaled_experiment_is_the_papers_but_for_a_stable_step_size() -> None:
    for name, base in EXPERIMENTS.items():
        scaled = scaled_experiment(name, base.d)
        assert (scaled.task, scaled.lam) == (base.task, base.lam)
        assert scaled.step_size <= base.step_size
        total = base.step_size * base.n_steps
        assert scaled.step_size * scaled.n_steps == pytest.approx(total, rel=1e-3)


def test_on_the_manifold_steps_grow_like_log_d() -> None:
    dimensions = [10**4, 10**8, 10**12]
    experiments = [scaled_experiment("pgd-manifold", d) for d in dimensions]
    medians = [np.median(run_experiment(one).steps_to_align()) for one in experiments]
    first, second = np.diff(medians)
    assert 0 < first
    assert second == pytest.approx(first, rel=0.25)  # equal steps for equal factors of d


def test_the_flow_takes_as_long_as_pgd_with_small_steps() -> None:
    experiment = scaled_experiment("pgd-small-lambda", 1000)
    found = run_experiment(experiment)
    times = found.steps_to_align() * experiment.step_size
    start = found.overlaps.at((slice(None), 0))
    for run in range(6):
        one = Overlaps(*(float(x[run]) for x in start))
        flow = flow_time_to_align(experiment.task, one, experiment.lam)
        # The log of the run is coarse (0.1% of its length), and its steps are not small.
        assert times[run] == pytest.approx(flow, rel=0.02) or times[run] == flow == math.inf
    assert np.isfinite(times).any()


@pytest.mark.parametrize("name", run_slr.STUDIES)
def test_run_slr_writes_tables_settings_and_figures(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_slr.main(run_slr.Config(name=name, output=tmp_path, smoke=True))
    folder = tmp_path / name
    assert f"{name}: written to {folder}" in capsys.readouterr().out
    assert json.loads((folder / "config.json").read_text())["seed"] == 0
    assert (folder / f"{name}.png").stat().st_size > 5000
    assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    (table, *_) = folder.glob("*.parquet")
    assert len(pd.read_parquet(table)) > 0


def test_run_slr_keeps_what_was_made_alike_and_refuses_to_replace_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = run_slr.Config(name="portrait", output=tmp_path, smoke=True)
    run_slr.main(config)
    run_slr.main(config)
    assert "unchanged" in capsys.readouterr().out
    with pytest.raises(FileExistsError, match="other settings"):
        run_slr.main(run_slr.Config(name="portrait", output=tmp_path, smoke=True, seed=1))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (run_slr.Config(name="pgd"), "no experiment 'pgd'"),
        (run_slr.Config(name="pgd-manifold", runs=-1), "runs must be"),
        (run_slr.Config(name="pgd-manifold", d=1), "d must be"),
        (run_slr.Config(name="sgd-schedule", d=5), "sgd needs d of at least 6"),
        (run_slr.Config(name="pgd-manifold", steps=-5), "n_steps must be"),
        (run_slr.Config(name="pgd-manifold", seed=-1), "seed must be an integer of at least 0"),
    ],
)
def test_run_slr_refuses_what_cannot_be(
    config: run_slr.Config, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        run_slr.main(config)
    assert list(tmp_path.iterdir()) == []
