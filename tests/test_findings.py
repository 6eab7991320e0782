"""What a finding says, how its verdict comes about, and that there are few of them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from slr import EXPERIMENTS, Task, pgd, start_on_manifold
from slr.overlaps import Overlaps
from studies.findings import Finding, median, share
from studies.pages.findings import grouped, read_findings, summary
from studies.storage.results import result_folder
from studies.theory import paper


def runs(*aligned: bool, start: str = "published") -> pd.DataFrame:
    """Runs of which those that do not align are swapped."""
    table = pd.DataFrame({"aligned": aligned}).assign(start=start)
    return table.assign(swapped=~table["aligned"])


def kept(results: Path, study: str, table: pd.DataFrame) -> None:
    with result_folder(results / "slr" / study, {}) as folder:
        table.to_parquet(folder / "runs.parquet")
        steps = pd.DataFrame({"step": [0, EXPERIMENTS[study].n_steps]})
        steps.to_parquet(folder / "trajectory.parquet")


def test_each_group_says_what_its_number_is_compared_with() -> None:
    published = Finding(text="All of {}.", value=0.5, published="all", holds=False, why="it is low")
    assert (published.group, published.verdict) == ("replication", "different")
    assert str(published) == "All of 0.50. Published: all; different: it is low."
    other = Finding(text="{} here.", value=1, form=".0f", published="2", why="another model")
    assert str(other) == "1 here. Published: 2; not comparable: another model."
    held = Finding(text="A share of {}.", value=0.9, low=0.8, high=1, required="most", holds=True)
    assert str(held) == "A share of 0.90 [0.80, 1.00]. Predicted: most; held."
    assert Finding(text="{} {x}", value=2).sentence == "2.00 {x}", "text is not a format"
    titles = list(grouped([held, other, published]))
    assert titles == ["Published values, and ours", "Predictions written down before their runs"]
    assert (
        "Of 1 predictions that were written down before their runs 1 held"
        in (summary([held, published])[0])
    )


def test_findings_are_read_from_the_results_that_are_there_and_can_miss(tmp_path: Path) -> None:
    kept(tmp_path, "pgd-manifold", runs(*[True] * 30))
    fresh = runs(*[True] * 582, *[False] * 18, start="random")
    kept(tmp_path, "pgd-schedule", pd.concat([runs(False, *[True] * 29), fresh]))
    kept(tmp_path, "sgd-schedule", runs(*[True] * 29))
    manifold, schedule, random, sgd = read_findings(tmp_path)
    assert (manifold.verdict, schedule.verdict) == ("same", "different")
    assert sgd.outcome == "not comparable: the paper has more runs or steps"
    assert "0.970 [0.953, 0.982]" in random.sentence
    assert "18 end at the swapped point" in random.sentence
    assert f"a probability of {0.97**30:.2f}." in random.sentence


def test_the_interval_of_a_share_is_that_of_clopper_and_pearson() -> None:
    found = share(582, 600)
    # At the ends of the interval the count is just not significant.
    assert binom.sf(581, 600, found["low"]) == pytest.approx(0.025, rel=1e-6)
    assert binom.cdf(582, 600, found["high"]) == pytest.approx(0.025, rel=1e-6)
    assert median(np.arange(1.0, 21)) == {"value": 10.5, "low": 6, "high": 15}


def test_runs_are_counted_as_the_trajectory_counts_them() -> None:
    """A run at (1, -1) is a maximum, not found; a diverged one neither."""
    task = Task(d=400, L=10, gamma=0.7)
    start = start_on_manifold(task, 3, np.random.default_rng(0))
    start = Overlaps(*(values.copy() for values in start))
    start.kappa[:], start.nu[:] = [1.0, 1.0, -1.0], [1.0, -1.0, -1.0]
    trajectory = pgd(task, start, lam=0.1, step_size=1e-3, n_steps=1, log_every=1)
    ends = trajectory.outcomes()
    assert ends["aligned"].tolist() == trajectory.aligned().tolist() == [True, False, True]
    assert not ends["swapped"].any()
    assert set(paper.FIGURES) == {study.name for study in paper.STUDIES}
