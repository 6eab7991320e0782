"""Beyond the paper: how training scales with d (docs/theory.md, section 5).

With lam ~ 1/sqrt(d) the gate sees the same signal at every d. The sharpest direction of the risk is
theta, the part of v along k*: its curvature is d E[gate^2], so from the sphere a step size must
shrink like 1/d, and the number of steps grows with d. On the manifold theta stays 0, the step size
need not shrink, and log d steps remain.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from slr.compiled import compiled
from slr.dynamics.experiment import EXPERIMENTS, Experiment
from slr.dynamics.stability import predicted_stability_limit
from slr.dynamics.steps import chained, embedding, overlaps_of
from slr.dynamics.trajectory import ALIGNMENT, alignment
from slr.gates.interface import gradients
from slr.overlaps import Overlaps, start_on_sphere
from slr.risks import RiskGate, gate_module
from slr.task import FloatArray, Task


def scaled_experiment(name: str, d: int) -> Experiment:
    """One of EXPERIMENTS at another d, with lam ~ 1/sqrt(d).

    From the sphere the step size shrinks as well: to at most half the stability limit for PGD, and
    like 1/d for SGD. The number of steps grows by the same factor. The schedule of lam does not
    change: stretched with d, it would set the number of steps until a run aligns.
    """
    base = EXPERIMENTS[name]
    scaled = replace(base, d=d, lam=base.lam * math.sqrt(base.d / d))
    if base.start == "manifold":
        return scaled
    if base.optimiser == "pgd":
        step_size = min(base.step_size, predicted_stability_limit(scaled.task, scaled.lam) / 2)
    else:
        step_size = base.step_size * base.d / d
    stretch = base.step_size / step_size
    return replace(
        scaled,
        step_size=step_size,
        n_steps=math.ceil(base.n_steps * stretch),
        log_every=max(1, math.floor(base.log_every * stretch / 10)),
    )


@compiled()
def flow_velocity(y: FloatArray, model: Any, lam: float) -> FloatArray:
    """Minus the gradients along the spheres, for (k, v) in the embedding as one array of eight."""
    k, v = (y[0], y[1], y[2], y[3]), (y[4], y[5], y[6], y[7])
    overlaps, slopes, velocity = np.empty((5, 1)), np.empty((5, 1)), np.empty(8)
    point = overlaps_of(k, v)
    for i in range(5):
        overlaps[i, 0] = point[i]
    gradients(model, overlaps, lam, slopes)
    both = chained(slopes, v, 0, 0, 3), chained(slopes, k, 0, 2, 1)
    for i in range(2):
        x, slope = y[4 * i : 4 * i + 4], np.array(both[i])
        velocity[4 * i : 4 * i + 4] = (slope * x).sum() / (x * x).sum() * x - slope
    return velocity


def flow_time_to_align(task: Task, start: Overlaps, lam: float, gate: RiskGate = "erf") -> float:
    """Time (step_size times steps, for small steps) until the gradient flow is aligned.

    The time is infinite if the flow ends elsewhere. A stiff solver needs a few thousand evaluations
    at any d, while PGD would need steps in proportion to d.
    """
    model = gate_module(gate).model(task, lam, lam)

    def velocity(_: float, y: FloatArray) -> FloatArray:
        return np.asarray(flow_velocity(y, model, lam))

    def aligned(_: float, y: FloatArray) -> float:
        return float(alignment(overlaps_of.py_func(y[:4], y[4:])) - ALIGNMENT)

    def swapped(_: float, y: FloatArray) -> float:  # k at v*: another stationary point
        return float(abs(overlaps_of.py_func(y[:4], y[4:]).eta) - ALIGNMENT)

    aligned.terminal = swapped.terminal = True  # type: ignore[attr-defined]
    options: dict[str, Any] = {"method": "LSODA", "rtol": 1e-7, "atol": 1e-10}
    y = embedding(start).ravel()
    solution = solve_ivp(velocity, (0, 1e4), y, events=(aligned, swapped), **options)
    return float(solution.t_events[0][0]) if len(solution.t_events[0]) else math.inf


def flow_times_to_align(
    task: Task, runs: int, rng: np.random.Generator, lam: float, gate: RiskGate = "erf"
) -> FloatArray:
    """Times to align of the gradient flow from random starts on the sphere, shape (runs,)."""
    starts = np.transpose(start_on_sphere(task, runs, rng)).tolist()
    return np.array([flow_time_to_align(task, Overlaps(*start), lam, gate) for start in starts])
