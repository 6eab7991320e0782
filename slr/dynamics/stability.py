"""How large a step PGD can make near the aligned point, from the Hessian of the risk there.

At (k*, v*) the overlaps theta, eta and rho are 0 and the gradient along the spheres vanishes. Turn
k by an angle alpha towards v*, and v by beta towards k*: then eta = alpha, theta = beta and
rho = alpha + beta, so the two turns mix. A turn of k or of v off (k*, v*) changes kappa or nu only.
Descent with steps of one size returns to the point if the size is below 2 / (largest eigenvalue),
and if no eigenvalue is negative.
"""

import math
from typing import Any

import numpy as np

from slr.dynamics import reduced
from slr.overlaps import Overlaps
from slr.risk import RiskGate, gate_module
from slr.task import FloatArray, Task


def hessian_eigenvalues(task: Task, lam: float, gate: RiskGate = "erf") -> FloatArray:
    """Eigenvalues of the Riemannian Hessian of the risk at the aligned point, ascending.

    Two belong to the turns of k towards v* and of v towards k*, and two to turns of k and of v off
    (k*, v*): these two stand for the d - 2 equal ones that each is.

    >>> hessian_eigenvalues(task, lam=0.1).round(1).tolist()
    [0.0, 0.2, 0.9, 424.0]
    """
    r = gate_module(gate).at_the_aligned_point(task, lam)
    mixed = r.eta_theta + r.eta_rho + r.theta_rho + r.rho_rho
    turns = np.array(
        [
            [2 * r.eta_rho + r.rho_rho - r.kappa, mixed],
            [mixed, r.theta_theta + 2 * r.theta_rho + r.rho_rho - r.nu],
        ]
    )
    off = [-r.kappa, -r.nu] if task.d > 2 else []
    return np.sort([*np.linalg.eigvalsh(turns), *off])


def predicted_stability_limit(task: Task, lam: float, gate: RiskGate = "erf") -> float:
    """The largest step size at which PGD returns to the aligned point: 2 / (largest eigenvalue).

    The sharpest direction is nearly the turn of v towards k*, with a curvature of d E[gate^2] and
    terms that do not grow with d.

    >>> round(predicted_stability_limit(task, lam=0.1), 4)
    0.0047
    """
    return float(2 / hessian_eigenvalues(task, lam, gate)[-1])


def stability_limit(task: Task, lam: float, gate: RiskGate = "erf") -> float:
    """The largest step size at which PGD returns to the aligned point, found by bisection."""
    theta = 1e-3 / task.signal  # v a little off v*, towards k*: the sharpest direction
    start = Overlaps(1.0, math.sqrt(1 - theta**2), theta, 0.0, theta)
    low, high = 1e-3 / task.d, 1e3
    for _ in range(40):
        step_size = math.sqrt(low * high)
        options: dict[str, Any] = {"step_size": step_size, "n_steps": 400, "log_every": 1}
        run = reduced.pgd(task, start, lam=lam, gate=gate, **options)
        returns = abs(run.overlaps.theta).max() <= theta * (1 + 1e-9)  # at every step
        low, high = (step_size, high) if returns else (low, step_size)
    return low
