"""The paper's experiments by name (THEORY section 6; Section 5 and appendix of the paper)."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from slr.dynamics import reduced
from slr.dynamics.trajectory import Trajectory
from slr.overlaps import start_on_manifold, start_on_sphere
from slr.task import Task


@dataclass(frozen=True)
class Experiment:
    """Everything that a run depends on. ``batch_size`` None is PGD, a number SGD."""

    task: Task
    start: Literal["sphere", "manifold"]
    lam: float
    step_size: float
    n_steps: int
    log_every: int
    lam_decay: float = 0.0
    batch_size: int | None = None
    runs: int = 30
    seed: int = 0

    def __post_init__(self) -> None:
        if self.runs != int(self.runs) or self.runs < 1:
            raise ValueError(f"runs must be an integer of at least 1, not {self.runs}")
        if self.seed < 0:
            raise ValueError(f"the seed must not be negative, but is {self.seed}")


SCHEDULE = Experiment(
    task=Task(d=400, L=10, gamma=math.sqrt(1 / 2)),
    start="sphere",
    lam=1.0,
    lam_decay=1e-4,
    step_size=4e-3,
    n_steps=120_000,
    log_every=300,
)
SMALL_LAMBDA = replace(SCHEDULE, lam=0.1, lam_decay=0.0, n_steps=20_000, log_every=200)

EXPERIMENTS = {
    "pgd-schedule": SCHEDULE,
    "pgd-manifold": replace(SMALL_LAMBDA, start="manifold"),
    "sgd-schedule": replace(
        SCHEDULE,
        task=replace(SCHEDULE.task, d=80, noise_std=0.1),
        lam=2.0,
        step_size=1e-3,
        n_steps=200_000,
        log_every=500,
        batch_size=5,
    ),
    "pgd-large-lambda": replace(SCHEDULE, lam=0.9, lam_decay=0.0, step_size=1e-3),
    "pgd-small-lambda": SMALL_LAMBDA,
}


def run_experiment(experiment: Experiment, progress: reduced.Progress | None = None) -> Trajectory:
    """All runs of an experiment. Run i has random numbers of its own, whatever the others do."""
    start_rng, noise_rng = np.random.default_rng(experiment.seed).spawn(2)
    starts = {"sphere": start_on_sphere, "manifold": start_on_manifold}
    start = starts[experiment.start](experiment.task, experiment.runs, start_rng)
    options: dict[str, Any] = {
        "lam": experiment.lam,
        "lam_decay": experiment.lam_decay,
        "step_size": experiment.step_size,
        "n_steps": experiment.n_steps,
        "log_every": experiment.log_every,
        "progress": progress,
    }
    if experiment.batch_size is None:
        return reduced.pgd(experiment.task, start, **options)
    return reduced.sgd(
        experiment.task, start, **options, batch_size=experiment.batch_size, rng=noise_rng
    )
