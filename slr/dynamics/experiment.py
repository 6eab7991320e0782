"""An experiment as one flat value, and the paper's experiments (Section 5, appendix) by name."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from slr.checks import HUGE, check_size, check_whole, quoted
from slr.dynamics import reduced
from slr.dynamics.steps import MIN_D_SGD
from slr.dynamics.trajectory import LONGEST, Trajectory
from slr.overlaps import Overlaps, start_on_manifold, start_on_sphere
from slr.risks import RiskGate, gate_module
from slr.task import Task


@dataclass(frozen=True)
class Experiment:
    """Everything that training runs depend on; the defaults are the paper's pgd-small-lambda.

    A sweep seeds its random numbers with the names and values of all fields but ``gate``, so that
    both gates begin at the same starts; another new or renamed field changes every table.

    >>> Experiment(d=80, optimiser="sgd", runs=3).task
    Task(d=80, L=10, gamma=0.7071067811865476, noise_std=0.0)
    """

    d: int = 400
    L: int = 10
    gamma: float = math.sqrt(1 / 2)
    noise_std: float = 0.0
    start: Literal["sphere", "manifold"] = "sphere"
    optimiser: Literal["pgd", "sgd"] = "pgd"
    batch_size: int = 5  # for SGD only
    lam: float = 0.1
    lam_decay: float = 0.0
    step_size: float = 4e-3
    n_steps: int = 20_000
    log_every: int = 100
    runs: int = 10
    seed: int = 0
    gate: RiskGate = "erf"

    def __post_init__(self) -> None:
        _ = self.task, gate_module(self.gate)
        check_size(lam_decay=self.lam_decay, step_size=self.step_size)
        check_size(most=HUGE, lam=self.lam)
        check_whole(0, most=LONGEST, n_steps=self.n_steps)
        check_whole(0, seed=self.seed)
        check_whole(1, batch_size=self.batch_size, log_every=self.log_every, runs=self.runs)
        if self.start not in ("sphere", "manifold"):
            raise ValueError(f"start must be sphere or manifold, not {quoted(self.start)}")
        if self.optimiser not in ("pgd", "sgd"):
            raise ValueError(f"optimiser must be pgd or sgd, not {quoted(self.optimiser)}")
        if self.optimiser == "sgd" and self.d < MIN_D_SGD:
            raise ValueError(f"sgd needs d of at least {MIN_D_SGD}, not {self.d}")

    @property
    def task(self) -> Task:
        """The task that is trained on."""
        return Task(self.d, self.L, self.gamma, self.noise_std)


SMALL_LAMBDA = Experiment(log_every=200, runs=30)
SCHEDULE = replace(SMALL_LAMBDA, lam=1.0, lam_decay=1e-4, n_steps=120_000, log_every=300)

EXPERIMENTS = {
    "pgd-schedule": SCHEDULE,
    "pgd-manifold": replace(SMALL_LAMBDA, start="manifold"),
    "sgd-schedule": replace(
        SCHEDULE,
        d=80,
        noise_std=0.1,
        optimiser="sgd",
        lam=2.0,
        step_size=1e-3,
        n_steps=200_000,
        log_every=500,
    ),
    "pgd-large-lambda": replace(SCHEDULE, lam=0.9, lam_decay=0.0, step_size=1e-3),
    "pgd-small-lambda": SMALL_LAMBDA,
}
PUBLISHED_STARTS = Path(__file__).with_name("published_starts.json")  # which names its origin


def published_start(name: str) -> Overlaps:
    """The overlaps at which the 30 runs of the paper's experiment start, arrays of shape (30,).

    >>> published_start("pgd-schedule").kappa.shape
    (30,)
    """
    if not isinstance(name, str) or name not in EXPERIMENTS:
        raise ValueError(f"no experiment {quoted(name)}; there are {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    law = f"{experiment.start}-d{experiment.d}" + "-sgd" * (experiment.optimiser == "sgd")
    rows = json.loads(PUBLISHED_STARTS.read_text(encoding="utf-8"))[law]
    return Overlaps(*np.array(rows).T)


def run_experiment(
    experiment: Experiment,
    *,
    start: Overlaps | None = None,
    rng: np.random.Generator | None = None,
    learn_lam: bool = False,
    progress: reduced.Progress | None = None,
) -> Trajectory:
    """Train all runs of an experiment, each with its own random numbers.

    ``start`` holds the overlaps at which the runs start; by default they are drawn.
    ``rng`` is a generator with the experiment's seed by default. With ``learn_lam`` the length of k
    is free (see slr/dynamics/reduced.py).

    >>> run_experiment(EXPERIMENTS["pgd-manifold"]).outcomes()["aligned"].all()
    np.True_
    """
    rng = np.random.default_rng(experiment.seed) if rng is None else rng
    start_rng, noise_rng = rng.spawn(2)
    if start is None:
        laws = {"sphere": start_on_sphere, "manifold": start_on_manifold}
        start = laws[experiment.start](experiment.task, experiment.runs, start_rng)
    names = ("lam", "lam_decay", "step_size", "n_steps", "log_every", "gate")
    options: dict[str, Any] = {name: getattr(experiment, name) for name in names}
    options |= {"learn_lam": learn_lam, "progress": progress}
    if experiment.optimiser == "pgd":
        return reduced.pgd(experiment.task, start, **options)
    options |= {"batch_size": experiment.batch_size, "rng": noise_rng}
    return reduced.sgd(experiment.task, start, **options)
