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
from scipy.optimize import minimize

from slr.dynamics import reduced
from slr.overlaps import Overlaps
from slr.risks import RiskGate, gate_module, risk_gradient
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


def slope_on_spheres(task: Task, overlaps: Overlaps, lam: Any, gate: RiskGate = "erf") -> Any:
    """Length of the gradient of the risk along both spheres, of the shape of the overlaps.

    It is 0 at stationary points of training, and only there.
    """
    kappa, nu, theta, eta, rho = overlaps
    r = risk_gradient(task, overlaps, lam, gate)
    # squares of R_kappa k* + R_eta v* + R_rho v and of R_nu v* + R_theta k* + R_rho k
    square_k = r.kappa**2 + r.eta**2 + r.rho**2 + 2 * r.rho * (r.kappa * theta + r.eta * nu)
    square_v = r.nu**2 + r.theta**2 + r.rho**2 + 2 * r.rho * (r.nu * eta + r.theta * kappa)
    along_k = r.kappa * kappa + r.eta * eta + r.rho * rho
    along_v = r.nu * nu + r.theta * theta + r.rho * rho
    return np.sqrt(np.maximum(square_k - along_k**2 + square_v - along_v**2, 0))


def smallest_slope_at_v_star(
    task: Task, lam: float, gate: RiskGate = "erf"
) -> tuple[float, Overlaps]:
    """The smallest slope_on_spheres with k = v*, over all v, and where it is.

    It is 0 if the swapped point exists, k = v* with v along k*, at which erf runs may end. There
    v = theta k* + nu v* + (the rest), so that rho = nu.
    """

    def slope(x: FloatArray) -> float:
        return float(slope_on_spheres(task, at(*x), lam, gate))

    def at(radius: Any, angle: Any) -> Overlaps:
        theta, nu = radius * np.cos(angle), radius * np.sin(angle)
        return Overlaps(0 * theta, nu, theta, 0 * theta + 1.0, nu)

    grid = np.meshgrid(np.linspace(0, 1, 101), np.linspace(-np.pi, np.pi, 121), indexing="ij")
    slopes = slope_on_spheres(task, at(*grid), lam, gate)
    first = [x.ravel()[np.argmin(slopes)] for x in grid]
    bounds = ((0.0, 1.0), (-4.0, 4.0))
    options = {"xatol": 1e-12, "fatol": 1e-15, "maxiter": 2000}
    best = minimize(slope, first, method="Nelder-Mead", bounds=bounds, options=options)
    return float(best.fun), at(*best.x)


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
