"""Gradient descent as in Definition 1 of the paper, on vectors k and v of R^d.

This slow, obvious code is the reference for slr/dynamics/reduced.py, which needs five numbers only.
"""

from typing import Any

import numpy as np

from slr.dynamics.trajectory import Trajectory, lam_at, logged_steps
from slr.overlaps import Overlaps
from slr.predictor import activate, gate_pullback
from slr.risks import RiskGate, lam_gradient, risk_gradient
from slr.task import FloatArray, Task, Truth, sample_batch


def descend(
    task: Task,
    truth: Truth,
    k: FloatArray,
    v: FloatArray,
    *,
    lam: float,
    lam_decay: float = 0.0,
    step_size: float,
    n_steps: int,
    log_every: int,
    batch_size: int | None = None,
    rng: np.random.Generator | None = None,
    gate: RiskGate = "erf",
    learn_lam: bool = False,
) -> Trajectory:
    """Projected gradient descent on the risk, from unit vectors k and v of shape (runs, d).

    With ``batch_size`` and ``rng`` each run descends on the squared error of a fresh batch instead
    of the risk. With ``learn_lam`` it descends in lam k, a vector of any length, instead of k.
    """
    if (batch_size is None) != (rng is None):
        raise ValueError("descent on batches needs both a batch_size and an rng")
    steps = logged_steps(n_steps, log_every)
    log, lams = [Overlaps.of(k, v, truth)], [np.full(len(k), float(lam))]
    lam_t = lams[0]
    for t in range(n_steps):
        if not learn_lam:
            lam_t = np.full(len(k), lam_at(t, lam, lam_decay))
        if batch_size is None or rng is None:
            gradient_k, gradient_v = risk_gradients(task, truth, k, v, lam_t, gate)
            along_k = lam_gradient(task, Overlaps.of(k, v, truth), lam_t, gate) if learn_lam else 0
        else:
            X, y, _ = sample_batch(task, truth, len(k) * batch_size, rng)
            X, y = X.reshape(len(k), batch_size, task.L, task.d), y.reshape(len(k), batch_size)
            gradient_k, gradient_v = batch_gradients(X, y, k, v, lam_t, gate)
            along_k = np.sum(k * gradient_k, axis=1) / lam_t if learn_lam else 0
        if learn_lam:
            across = (gradient_k - np.sum(k * gradient_k, axis=1)[:, None] * k) / lam_t[:, None]
            long = lam_t[:, None] * k - step_size * (across + np.asarray(along_k)[:, None] * k)
            lam_t = np.linalg.norm(long, axis=1)
            k = long / lam_t[:, None]
        else:
            k = projected_step(k, gradient_k, step_size)
        v = projected_step(v, gradient_v, step_size)
        if t + 1 in steps:
            log.append(Overlaps.of(k, v, truth))
            lams.append(lam_t)
    logged = Overlaps(*(np.array(values).T for values in zip(*log, strict=True)))
    schedule = np.broadcast_to(lam_at(steps, lam, lam_decay), logged.kappa.shape)
    lams_logged = np.array(lams).T if learn_lam else schedule
    return Trajectory(task, steps, lams_logged, logged, ~np.isfinite(logged.rho[:, -1]), gate)


def projected_step(x: FloatArray, gradient: FloatArray, step_size: float) -> FloatArray:
    """x <- normalise(x - step_size (I - x x^T) gradient), for vectors along the last axis."""
    tangent = gradient - np.sum(x * gradient, axis=-1, keepdims=True) * x
    moved = x - step_size * tangent
    return np.asarray(moved / np.linalg.norm(moved, axis=-1, keepdims=True))


def risk_gradients(
    task: Task, truth: Truth, k: FloatArray, v: FloatArray, lam: Any, gate: RiskGate = "erf"
) -> tuple[FloatArray, FloatArray]:
    """The gradients of the risk in k and in v, by the chain rule through the overlaps."""
    partials = risk_gradient(task, Overlaps.of(k, v, truth), lam, gate)
    r = Overlaps(*(partial[..., None] for partial in partials))
    gradient_k = r.kappa * truth.k_star + r.eta * truth.v_star + r.rho * v
    gradient_v = r.nu * truth.v_star + r.theta * truth.k_star + r.rho * k
    return gradient_k, gradient_v


def batch_gradients(
    X: FloatArray, y: FloatArray, k: FloatArray, v: FloatArray, lam: FloatArray, gate: RiskGate
) -> tuple[FloatArray, FloatArray]:
    """The gradients of each run's mean of (y - T(X))^2, for X of shape (runs, n, L, d)."""
    lam = lam[:, None, None]
    scores, values = lam * np.einsum("rnld,rd->rnl", X, k), np.einsum("rnld,rd->rnl", X, v)
    weights = activate(scores, gate)
    slopes = lam * gate_pullback(scores, values, gate)
    error = -2 * (y - np.sum(weights * values, axis=-1)) / y.shape[1]
    gradient_k = np.einsum("rn,rnl,rnld->rd", error, slopes, X)
    gradient_v = np.einsum("rn,rnl,rnld->rd", error, weights, X)
    return gradient_k, gradient_v
