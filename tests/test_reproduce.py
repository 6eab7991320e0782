"""Stages are made when they must be and not otherwise; claims are read from the results."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import whole
from compare_results import differences, tables_of

from slr import Task, pgd, start_on_manifold
from slr.overlaps import Overlaps
from studies import reproduce
from studies.pages.claims import as_table, as_text, keep_claims, kept_claims, read_claims
from studies.storage.results import result_folder
from studies.study import Claim, Study
from studies.theory import layer, paper
from studies.workers import in_parallel

ROOT = Path(__file__).parent.parent


def keep(results: Path, study: Study, **tables: Any) -> None:
    """The result of a study with these tables."""
    with result_folder(results / study.folder, {}) as folder:
        for name, table in tables.items():
            pd.DataFrame(table).to_parquet(folder / f"{name}.parquet")


MANIFOLD, SCHEDULE, _, LARGE, SMALL = paper.STUDIES


def runs(*aligned: bool, start: str = "published") -> pd.DataFrame:
    """Runs of which those that do not align are swapped."""
    table = pd.DataFrame({"aligned": aligned}).assign(start=start)
    return table.assign(swapped=~table["aligned"])


def test_claims_are_read_from_results_and_can_fail(tmp_path: Path) -> None:
    keep(tmp_path, MANIFOLD, runs=runs(True, True))
    keep(tmp_path, SCHEDULE, runs=runs(True, False, True))
    claims = {claim.claim.split(",")[0]: claim for claim in read_claims(tmp_path)}
    assert set(claims) == {"pgd-manifold", "pgd-schedule"}, "of the studies that are there"
    assert claims["pgd-manifold"].passed
    assert claims["pgd-manifold"].measured == "2 of 2"
    assert not claims["pgd-schedule"].passed
    assert claims["pgd-schedule"].measured == "2 of 3"
    assert claims["pgd-schedule"].command == "python scripts/run_slr.py pgd-schedule"
    text = as_text(list(claims.values()))
    assert "MISS  pgd-schedule" in text
    assert text.endswith("1 of 2 claims pass")
    keep_claims(tmp_path, list(claims.values()))
    assert kept_claims(tmp_path) == list(claims.values())


@pytest.mark.parametrize(
    ("aligned", "swapped", "passed"), [(582, 18, True), (540, 60, False), (582, 17, False)]
)
def test_fresh_starts_must_make_30_of_30_likely_and_the_others_swapped(
    tmp_path: Path, aligned: int, swapped: int, passed: bool
) -> None:
    table = pd.DataFrame({"aligned": np.arange(600) < aligned, "start": "random"})
    table["swapped"] = np.arange(600) >= 600 - swapped
    keep(tmp_path, SCHEDULE, runs=pd.concat([runs(*[True] * 30), table]))
    published, fresh = read_claims(tmp_path)
    assert (published.passed, published.measured) == (True, "30 of 30")
    assert fresh.passed == passed
    share = aligned / 600
    low, high = map(float, re.findall(r"[\d.]+", fresh.interval)[:2])
    # Clopper and Pearson: at the ends of the interval the count is just not significant.
    assert scipy.stats.binom.sf(aligned - 1, 600, low) == pytest.approx(0.025, rel=0.2)
    assert scipy.stats.binom.cdf(aligned, 600, high) == pytest.approx(0.025, rel=0.2)
    assert low < share < high


def test_large_lambda_may_align_no_run_and_small_lambda_some(tmp_path: Path) -> None:
    keep(tmp_path, LARGE, runs=runs(False, True))
    keep(tmp_path, SMALL, runs=runs(True, True))
    large, small = read_claims(tmp_path)
    assert not large.passed
    assert not small.passed
    keep(tmp_path / "b", LARGE, runs=runs(False, False))
    keep(tmp_path / "b", SMALL, runs=runs(True, False))
    assert all(claim.passed for claim in read_claims(tmp_path / "b"))


def test_claims_and_pages_count_runs_as_the_trajectory_does() -> None:
    """A run at (1, -1) is a maximum, not found; a diverged one neither."""
    task = Task(d=400, L=10, gamma=0.7)
    start = start_on_manifold(task, 3, np.random.default_rng(0))
    start = Overlaps(*(values.copy() for values in start))
    start.kappa[:], start.nu[:] = [1.0, 1.0, -1.0], [1.0, -1.0, -1.0]
    trajectory = pgd(task, start, lam=0.1, step_size=1e-3, n_steps=1, log_every=1)
    ends = trajectory.outcomes()
    assert ends["aligned"].tolist() == trajectory.aligned().tolist() == [True, False, True]
    assert not ends["swapped"].any()


def test_layer_claims_take_the_worst_run(tmp_path: Path) -> None:
    table = {"run": [0, 1], "step": [9, 9], "excess_risk": [0.001, 0.006], "mass": [0.99, 0.99]}
    reduced = table | {"excess_risk": [0.001, 0.002], "mass": [0.99, 0.97]}
    keep(tmp_path, layer.STUDY, layer=table, reduced=reduced, yardsticks={"oracle": [0.2]})
    risk, mass, reduced_risk, reduced_mass = read_claims(tmp_path)
    assert reduced_risk.passed
    assert not reduced_mass.passed
    assert not risk.passed
    assert mass.passed
    assert risk.interval == "(0.0010 to 0.0060 over 2 runs)"


def test_a_value_with_an_interval_is_judged_on_its_end() -> None:
    least, most, rest = Claim.at_least, Claim.at_most, {"origin": "the paper"}
    wide = least("accuracy", 1.0, 0.9, low=0.54, high=1.0, **rest)
    assert not wide.passed, "six of six words may be luck"
    assert wide.required == "at least 0.9 (judged on the interval's end)"
    assert wide.interval == "[0.540, 1.000]"
    assert least("accuracy", 1.0, 0.9, low=0.91, high=1.0, **rest).passed
    assert least("accuracy", [0.95, 1.0], 0.9, **rest).passed, (
        "without an interval: the worst value"
    )
    assert not most("error", 0.0, 0.1, low=0.0, high=0.46, **rest).passed
    assert most("error", 0.0, 0.1, low=0.0, high=0.09, **rest).passed
    with pytest.raises(ValueError, match="both ends"):
        most("error", 0.0, 0.1, high=0.09, **rest)


def test_claims_show_where_their_requirements_come_from(tmp_path: Path) -> None:
    keep(tmp_path, MANIFOLD, runs=runs(True))
    claims = read_claims(tmp_path)
    assert "required: all runs (the paper); paper: all runs" in as_text(claims)
    assert as_table(claims)["origin"].tolist() == ["the paper"]


def test_claims_kept_by_older_code_can_be_read(tmp_path: Path) -> None:
    keep(tmp_path, MANIFOLD, runs=runs(True))
    keep_claims(tmp_path, read_claims(tmp_path))
    path = tmp_path / "claims.json"
    (older,) = json.loads(path.read_text())
    del older["origin"]
    path.write_text(json.dumps([older]))
    assert [claim.origin for claim in kept_claims(tmp_path)] == [""]


def test_claims_of_a_stage_are_its_own(tmp_path: Path) -> None:
    keep(tmp_path, MANIFOLD, runs=runs(True))
    assert len(read_claims(tmp_path, reproduce.STAGES["paper"].studies)) == 1
    others = reproduce.STAGES["figure1"].studies + reproduce.STAGES["bridge"].studies
    assert read_claims(tmp_path, others) == []


def test_the_time_that_is_left_is_that_of_the_stages_to_come(tmp_path: Path) -> None:
    options = reproduce.Options()
    stages = json.loads(reproduce.TIMES.read_text())["reproduce"]["stages"]
    minutes = round(sum(stages.values()) / 60)
    assert f"about {minutes} minutes" in reproduce.time_left(list(reproduce.STAGES), options)
    assert reproduce.time_left(["report"], options) == "", "less than a minute"
    assert reproduce.time_left(list(reproduce.STAGES), replace(options, smoke=True)) == ""


def fail_on_two(number: int) -> int:
    if number == 2:
        raise ValueError("no twos")
    return 10 * number


def test_workers_give_results_in_order_and_pass_errors_on() -> None:
    assert in_parallel(fail_on_two, [1, 3, 5]) == [10, 30, 50]
    with pytest.raises(ValueError, match="no twos"):
        in_parallel(fail_on_two, [1, 2, 3])


@pytest.mark.slow
def test_killed_in_each_stage_it_ends_with_the_same_numbers(tmp_path: Path) -> None:
    script = str(ROOT / "scripts" / "reproduce.py")
    command = [sys.executable, script, "--smoke", "--results"]
    undisturbed = whole.watch([*command, "one"], tmp_path)
    assert list(undisturbed.stages) == list(reproduce.STAGES)
    whole.kill_in_each_stage([*command, "other"], tmp_path, undisturbed.stages)
    assert len(list(tables_of(tmp_path / "one"))) > 30
    assert differences(tmp_path / "one", tmp_path / "other") == {}
    left = [path.name for path in (tmp_path / "other").rglob(".*")]
    assert left == [], "nothing of the killed runs is left"
    again = whole.watch([*command, "other"], tmp_path)
    assert sum(again.stages.values()) < sum(undisturbed.stages.values()) / 3
