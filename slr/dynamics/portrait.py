"""The gradient flow on the invariant manifold: its vector field and its fixed points.

notation: d kappa/dt = -(1 - kappa^2) R_kappa,  d nu/dt = -(1 - nu^2) R_nu   (Theorem 5)
On M the risk has R_kappa = h g^2 (g1 - 2 nu f1) and R_nu = -2 g^2 f (slr/erf_risk.py).
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import erfc

from slr.erf_risk import gate_moments
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


def flow(task: Task, kappa: Any, nu: Any, lam: float) -> tuple[FloatArray, FloatArray]:
    """The velocity (d kappa/dt, d nu/dt) on M, for kappa and nu of the same shape.

    >>> [round(float(x), 3) for x in flow(task, kappa=0.5, nu=0.5, lam=0.1)]
    [-0.125, 0.5]
    """
    r_kappa, r_nu = _gradient(task, kappa, nu, lam)
    return -(1 - kappa**2) * r_kappa, -(1 - nu**2) * r_nu


def flow_jacobian(task: Task, kappa: float, nu: float, lam: float) -> FloatArray:
    """The derivative of the velocity in (kappa, nu), shape (2, 2)."""
    h, g2 = task.signal, task.gamma**2
    gate = gate_moments(h * kappa, task.gamma, lam)
    r_kappa, r_nu = _gradient(task, kappa, nu, lam)
    r_kappa_kappa = h * h * g2 * (gate.g2 - 2 * nu * gate.f2)
    r_kappa_nu = -2 * h * g2 * gate.f1
    return np.array(
        [
            [2 * kappa * r_kappa - (1 - kappa**2) * r_kappa_kappa, -(1 - kappa**2) * r_kappa_nu],
            [-(1 - nu**2) * r_kappa_nu, 2 * nu * r_nu],
        ]
    )


def _gradient(task: Task, kappa: Any, nu: Any, lam: float) -> tuple[Any, Any]:
    """R_kappa and R_nu on M, without the cancellation of g1 - 2 nu f1 = 2 f1 (erf(b) - nu)."""
    h, g2 = task.signal, task.gamma**2
    gate = gate_moments(h * kappa, task.gamma, lam)
    scale2 = (lam * task.gamma) ** 2
    b = lam * h * kappa / np.sqrt((1 + 2 * scale2) * (1 + 4 * scale2))
    sign = np.where(b < 0, -1.0, 1.0)
    erf_b_minus_nu = sign * ((1 - sign * nu) - erfc(abs(b)))
    return 2 * h * g2 * gate.f1 * erf_b_minus_nu, -2 * g2 * gate.f


def fixed_points(task: Task, lam: float, *, grid: int = 15) -> list[FixedPoint]:
    """Fixed points of the flow in the square, by Newton's method from ``grid`` x ``grid`` starts.

    The length of the Newton step decides convergence, not the velocity: for large lam the velocity
    is nearly 0 on whole plateaus that have no fixed point.

    >>> [point.kind for point in fixed_points(task, lam=0.1)]
    ['minimum', 'maximum', 'saddle', 'maximum', 'minimum']
    """
    if grid < 2:
        raise ValueError(f"grid must be at least 2, not {grid}")
    starts = np.linspace(-1, 1, grid)
    roots: list[FloatArray] = []
    for start in [np.array([x, y]) for x in starts for y in starts]:
        point = _newton(task, start, lam)
        if point is not None and not any(np.abs(point - other).max() < 1e-6 for other in roots):
            roots.append(point)
    points = []
    for kappa, nu in sorted(map(tuple, roots)):
        eigenvalues = np.linalg.eigvals(flow_jacobian(task, kappa, nu, lam)).real
        if (eigenvalues != 0).all():
            kind = KINDS[int(np.sign(eigenvalues).sum())]
            points.append(FixedPoint(float(kappa), float(nu), kind))
    return points


def _newton(task: Task, point: FloatArray, lam: float) -> FloatArray | None:
    for _ in range(NEWTON_STEPS):
        jacobian = flow_jacobian(task, point[0], point[1], lam)
        if not np.isfinite(jacobian).all() or np.linalg.det(jacobian) == 0:
            return None
        step = np.linalg.solve(jacobian, np.array(flow(task, point[0], point[1], lam)))
        point = point - step
        if np.abs(point).max() > 1 + 1e-9:
            return None
        if np.abs(step).max() < 1e-12:
            return np.asarray(np.round(np.clip(point, -1, 1), 9) + 0.0)
    return None
