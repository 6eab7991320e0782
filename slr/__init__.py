"""The idealised model: single-location regression, its exact risk and training dynamics.

>>> import numpy as np
>>> from slr import *
>>> task, rng = Task(d=400, L=10, gamma=0.7), np.random.default_rng(0)
>>> start = start_on_manifold(task, runs=30, rng=rng)
>>> trajectory = pgd(task, start, lam=0.1, step_size=4e-3, n_steps=20_000, log_every=200)
>>> trajectory.outcomes()[["aligned", "swapped"]].sum().tolist()
[30, 0]

The examples of the functions and classes below use these names.
"""

from typing import Any

from slr.dynamics.experiment import EXPERIMENTS, Experiment, published_start, run_experiment
from slr.dynamics.portrait import FixedPoint, fixed_points, flow
from slr.dynamics.reduced import pgd, sgd
from slr.dynamics.trajectory import ALIGNMENT, Trajectory
from slr.overlaps import ALIGNED, Overlaps, distance_to_manifold, start_on_manifold, start_on_sphere
from slr.predictor import attention, empirical_risk, predict
from slr.risks import excess_risk, lam_gradient, risk, risk_gradient
from slr.task import Task, Truth, sample_batch, sample_truth
from slr.yardsticks import (
    Estimate,
    bayes_excess_risk,
    best_oracle_lam,
    linear_attention_excess_risk,
    linear_excess_risk,
    oracle_excess_risk,
    zero_excess_risk,
)

__all__ = [
    "ALIGNED", "ALIGNMENT", "EXPERIMENTS", "Estimate", "Experiment", "FixedPoint", "Overlaps",
    "SingleLocationRegressor", "Task", "Trajectory", "Truth", "attention", "bayes_excess_risk",
    "best_oracle_lam", "distance_to_manifold", "empirical_risk", "excess_risk", "fixed_points",
    "flow", "lam_gradient", "linear_attention_excess_risk", "linear_excess_risk",
    "oracle_excess_risk", "pgd", "predict", "published_start", "risk", "risk_gradient",
    "run_experiment", "sample_batch", "sample_truth", "sgd", "start_on_manifold",
    "start_on_sphere", "zero_excess_risk",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "SingleLocationRegressor":  # imports scikit-learn, so only on demand
        from slr.estimator import SingleLocationRegressor

        return SingleLocationRegressor
    raise AttributeError(f"module 'slr' has no attribute {name!r}")
