"""How training scales with d."""

import math

import numpy as np
import pytest

from slr import EXPERIMENTS, run_experiment
from slr.dynamics.scaling import flow_time_to_align, scaled_experiment
from slr.overlaps import Overlaps


def test_at_its_own_d_a_scaled_experiment_is_the_papers_but_for_a_stable_step_size() -> None:
    for name, base in EXPERIMENTS.items():
        scaled = scaled_experiment(name, base.d)
        assert (scaled.task, scaled.lam) == (base.task, base.lam)
        assert scaled.step_size <= base.step_size
        total = base.step_size * base.n_steps
        assert scaled.step_size * scaled.n_steps == pytest.approx(total, rel=1e-3)
        assert scaled.lam_decay == base.lam_decay, "the schedule is not stretched"


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
