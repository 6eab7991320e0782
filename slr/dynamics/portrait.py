"""The gradient flow on the invariant manifold: its vector field and its fixed points.

notation: d kappa/dt = -(1 - kappa^2) R_kappa,  d nu/dt = -(1 - nu^2) R_nu   (Theorem 5)
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from slr.checks import HUGE, check_between, check_whole
from slr.risks import RiskGate, gate_module
from slr.task import FloatArray, Task

Kind = Literal["minimum", "saddle", "maximum"]
KINDS: dict[int, Kind] = {-2: "minimum", 0: "saddle", 2: "maximum"}  # sum of two signs
NEWTON_STEPS = 100


@dataclass(frozen=True)
class FixedPoint:
    """A point of the manifold where the flow stands still.

    >>> fixed_points(task, lam=0.1)[-1]
    FixedPoint(kappa=1.0, nu=1.0, kind='minimum')
    """

    kappa: float
    nu: float
    kind: Kind  # as a stationary point of the risk on the manifold


def flow(
    task: Task, kappa: Any, nu: Any, lam: float, gate: RiskGate = "erf"
) -> tuple[FloatArray, FloatArray]:
    """The velocity (d kappa/dt, d nu/dt) on M, for kappa and nu of the same shape.

    >>> [round(float(x), 3) for x in flow(task, kappa=0.5, nu=0.5, lam=0.1)]
    [-0.125, 0.5]
    """
    check_between(0, HUGE, lam=lam)
    r = gate_module(gate).on_manifold(task, kappa, nu, lam)
    return -(1 - kappa**2) * r.kappa, -(1 - nu**2) * r.nu


def flow_jacobian(
    task: Task, kappa: float, nu: float, lam: float, gate: RiskGate = "erf"
) -> FloatArray:
    """The derivative of the velocity in (kappa, nu), shape (2, 2)."""
    r = gate_module(gate).on_manifold(task, kappa, nu, lam)
    inside_kappa, inside_nu = 1 - kappa**2, 1 - nu**2
    return np.array(
        [
            [2 * kappa * r.kappa - inside_kappa * r.kappa_kappa, -inside_kappa * r.kappa_nu],
            [-inside_nu * r.kappa_nu, 2 * nu * r.nu],
        ]
    )


def fixed_points(
    task: Task, lam: float, gate: RiskGate = "erf", *, grid: int = 15
) -> list[FixedPoint]:
    """Fixed points of the flow in the square, by Newton's method from ``grid`` x ``grid`` starts.

    The length of the Newton step decides convergence, not the velocity: for large lam the velocity
    is nearly 0 on whole plateaus that have no fixed point.

    >>> [point.kind for point in fixed_points(task, lam=0.1)]
    ['minimum', 'maximum', 'saddle', 'maximum', 'minimum']
    """
    check_whole(2, most=1000, grid=grid)  # Newton's method starts at each of its points
    check_between(0, HUGE, lam=lam)
    starts = np.linspace(-1, 1, grid)
    roots: list[FloatArray] = []
    for start in [np.array([x, y]) for x in starts for y in starts]:
        point = _newton(task, start, lam, gate)
        if point is not None and not any(np.abs(point - other).max() < 1e-6 for other in roots):
            roots.append(point)
    points = []
    for kappa, nu in sorted(map(tuple, roots)):
        eigenvalues = np.linalg.eigvals(flow_jacobian(task, kappa, nu, lam, gate)).real
        if (eigenvalues != 0).all():
            kind = KINDS[int(np.sign(eigenvalues).sum())]
            points.append(FixedPoint(float(kappa), float(nu), kind))
    return points


def _newton(task: Task, point: FloatArray, lam: float, gate: RiskGate) -> FloatArray | None:
    for _ in range(NEWTON_STEPS):
        jacobian = flow_jacobian(task, point[0], point[1], lam, gate)
        if not np.isfinite(jacobian).all() or np.linalg.det(jacobian) == 0:
            return None
        step = np.linalg.solve(jacobian, np.array(flow(task, point[0], point[1], lam, gate)))
        point = point - step
        if np.abs(point).max() > 1 + 1e-9:
            return None
        if np.abs(step).max() < 1e-12:
            return np.asarray(np.round(np.clip(point, -1, 1), 9) + 0.0)
    return None
