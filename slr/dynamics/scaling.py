"""Beyond the paper: how training scales with d (docs/theory.md, section 5).

With lam ~ 1/sqrt(d) the gate sees the same signal at every d. The sharpest direction of the risk is
theta, the part of v along k*: its curvature is d E[gate^2], so from the sphere a step size must
shrink like 1/d, and d log d steps are needed. On the manifold theta stays 0, the step size need not
shrink, and log d steps remain.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from slr.dynamics import reduced
from slr.dynamics.experiment import EXPERIMENTS, Experiment
from slr.dynamics.steps import embedding, overlaps_of
from slr.dynamics.trajectory import ALIGNMENT, alignment
from slr.erf_risk import gate_moments, noise_gate, partial_derivatives
from slr.overlaps import Overlaps, start_on_sphere
from slr.task import FloatArray, Task


def scaled_experiment(name: str, d: int) -> Experiment:
    """One of EXPERIMENTS at another d, with lam ~ 1/sqrt(d).

    From the sphere the step size shrinks as well: to at most half the stability limit for PGD, and
    like 1/d for SGD. The number of steps and the schedule of lam are stretched by the same factor.
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
        lam_decay=base.lam_decay / stretch,
        step_size=step_size,
        n_steps=math.ceil(base.n_steps * stretch),
        log_every=max(1, math.floor(base.log_every * stretch / 10)),
    )


def flow_time_to_align(task: Task, start: Overlaps, lam: float) -> float:
    """Time (step_size times steps, for small steps) until the gradient flow is aligned.

    The time is infinite if the flow ends elsewhere. A stiff solver needs a few thousand evaluations
    at any d, while PGD would need d log d steps.
    """
    constants = (task.signal, task.gamma, task.L - 1, lam)

    def velocity(_: float, y: FloatArray) -> FloatArray:
        k, v = y[:4], y[4:]
        r = partial_derivatives(overlaps_of.py_func(k, v), *constants)
        gradient_k, gradient_v = r.rho * v, r.rho * k
        gradient_k[:2] += r.kappa, r.eta
        gradient_v[:2] += r.theta, r.nu
        tangent_k = gradient_k - (gradient_k @ k) / (k @ k) * k
        tangent_v = gradient_v - (gradient_v @ v) / (v @ v) * v
        return -np.concatenate([tangent_k, tangent_v])

    def aligned(_: float, y: FloatArray) -> float:
        return float(alignment(overlaps_of.py_func(y[:4], y[4:])) - ALIGNMENT)

    def swapped(_: float, y: FloatArray) -> float:  # k at v*: another stationary point
        return float(abs(overlaps_of.py_func(y[:4], y[4:]).eta) - ALIGNMENT)

    aligned.terminal = swapped.terminal = True  # type: ignore[attr-defined]
    options: dict[str, Any] = {"method": "LSODA", "rtol": 1e-7, "atol": 1e-10}
    y = embedding(start).ravel()
    solution = solve_ivp(velocity, (0, 1e4), y, events=(aligned, swapped), **options)
    return float(solution.t_events[0][0]) if len(solution.t_events[0]) else math.inf


def flow_times_to_align(task: Task, runs: int, rng: np.random.Generator, lam: float) -> FloatArray:
    """Times to align of the gradient flow from random starts on the sphere, shape (runs,)."""
    starts = np.transpose(start_on_sphere(task, runs, rng)).tolist()
    return np.array([flow_time_to_align(task, Overlaps(*start), lam) for start in starts])


def stability_limit(task: Task, lam: float) -> float:
    """The largest step size at which PGD returns to the aligned point, found by bisection."""
    theta = 1e-3 / task.signal  # v a little off v*, towards k*: the sharpest direction
    start = Overlaps(1.0, math.sqrt(1 - theta**2), theta, 0.0, theta)
    low, high = 1e-3 / task.d, 1e3
    for _ in range(40):
        step_size = math.sqrt(low * high)
        run = reduced.pgd(task, start, lam=lam, step_size=step_size, n_steps=400, log_every=1)
        returns = abs(run.overlaps.theta).max() <= theta * (1 + 1e-9)  # at every step
        low, high = (step_size, high) if returns else (low, step_size)
    return low


def predicted_stability_limit(task: Task, lam: float) -> float:
    """2 divided by the curvature of the risk at the aligned point, as v turns towards k*.

    In this direction theta = rho, and the term d E[gate^2] grows with d.
    """
    h, g2, n = task.signal, task.gamma**2, task.L - 1
    gate = gate_moments(h, task.gamma, lam)
    first, second = noise_gate(lam)
    theta_theta = task.d * gate.g + 2 * g2 * gate.f  # the last from nu = cos
    theta_rho = 2 * h * (g2 * gate.g1 + n * first * gate.f)
    rho_rho = 2 * g2 * (g2 * gate.g2 + 2 * n * first * gate.f1)
    rho_rho += 2 * n * (second + (n - 1) * first**2)
    return float(2 / (theta_theta + 2 * theta_rho + rho_rho))
