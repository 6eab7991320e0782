"""The numbers of the report's phase portrait: risk and flow on the manifold, for erf and softmax.

On the manifold the risk of either gate is linear in nu. So its values and its slopes in kappa at
nu = -1 and nu = 1, on a grid of kappa, give risk and flow in the whole square, and the page
(html/portrait/) needs no formula of a gate.
"""

from base64 import b64encode
from typing import Any, get_args

import numpy as np

from slr import Overlaps, excess_risk, fixed_points, risk_gradient
from slr.dynamics.experiment import EXPERIMENTS
from slr.risks import RiskGate

TASK = EXPERIMENTS["pgd-manifold"].task
LAMS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
KAPPA = np.linspace(-1, 1, 201)


def portrait_values() -> dict[str, Any]:
    """The values of lam, and per gate one setting for each of them."""
    gates = {gate: [setting(gate, lam) for lam in LAMS] for gate in get_args(RiskGate)}
    return {"lams": LAMS, "gates": gates, "zero": TASK.gamma**2}


def setting(gate: RiskGate, lam: float) -> dict[str, Any]:
    """The columns of one setting in base64, and its fixed points as [kappa, nu, kind]."""
    points = fixed_points(TASK, lam, gate)
    return {
        "columns": b64encode(columns(gate, lam).astype("<f4").tobytes()).decode(),
        "points": [[point.kappa, point.nu, point.kind] for point in points],
    }


def columns(gate: RiskGate, lam: float) -> Any:
    """Risk at nu = -1 and 1, and its slope in kappa there, shape (4, kappa)."""
    zero = np.zeros_like(KAPPA)
    edges = [Overlaps(KAPPA, zero + nu, zero, zero, zero) for nu in (-1, 1)]
    risks = [excess_risk(TASK, edge, lam, gate) for edge in edges]
    return np.array(risks + [risk_gradient(TASK, edge, lam, gate).kappa for edge in edges])
