"""Risk of the predictor T(X) = sum_l gate(lam X_l.k) X_l.v, as a function of the five overlaps.

Each gate has a module with its own formulas: "erf", the paper's, in closed form, and "softmax",
with one-dimensional integrals. The functions here choose the module.
"""

from types import ModuleType
from typing import Any, Literal

from slr.checks import HUGE, check_size, is_real, quoted
from slr.gates import erf, softmax
from slr.overlaps import Overlaps
from slr.task import Task

RiskGate = Literal["erf", "softmax"]
MODULES: dict[str, ModuleType] = {"erf": erf, "softmax": softmax}


def gate_module(gate: str) -> ModuleType:
    """The module of a gate."""
    if not isinstance(gate, str) or gate not in MODULES:
        raise ValueError(f"gate must be one of {', '.join(MODULES)}, not {quoted(gate)}")
    return MODULES[gate]


def check_point(overlaps: Overlaps, lam: Any) -> None:
    """Raise ValueError unless overlaps and lam are finite numbers, or arrays of them."""
    check_size(most=HUGE, lam=lam)
    if not all(map(is_real, overlaps)):
        raise ValueError("the overlaps must be finite numbers")


def excess_risk(task: Task, overlaps: Overlaps, lam: Any, gate: RiskGate = "erf") -> Any:
    """Excess risk E[(Y - T(X))^2] - noise_std^2, of the shape of the overlaps (and lam).

    >>> f"{excess_risk(task, ALIGNED, lam=0.1):.4f}"
    '0.1135'
    >>> f"{excess_risk(task, ALIGNED, lam=0.5, gate='softmax'):.4f}"
    '0.0001'
    """
    check_point(overlaps, lam)
    return gate_module(gate).excess_risk(task, overlaps, lam)


def risk(task: Task, overlaps: Overlaps, lam: Any, gate: RiskGate = "erf") -> Any:
    """Risk E[(Y - T(X))^2], of the shape of the overlaps (and lam).

    >>> f"{risk(Task(d=400, L=10, gamma=0.7, noise_std=1.0), ALIGNED, lam=0.1):.4f}"
    '1.1135'
    """
    return excess_risk(task, overlaps, lam, gate) + task.noise_std**2


def risk_gradient(task: Task, overlaps: Overlaps, lam: Any, gate: RiskGate = "erf") -> Overlaps:
    """Partial derivatives of excess_risk in kappa, nu, theta, eta and rho, each of its shape.

    >>> f"{risk_gradient(task, ALIGNED, lam=0.1).nu:.4f}"
    '-0.9344'
    """
    check_point(overlaps, lam)
    gradient: Overlaps = gate_module(gate).risk_gradient(task, overlaps, lam)
    return gradient


def lam_gradient(task: Task, overlaps: Overlaps, lam: Any, gate: RiskGate = "erf") -> Any:
    """The partial derivative of excess_risk in lam, of its shape.

    >>> f"{lam_gradient(task, ALIGNED, lam=0.1):.4f}"
    '2.1008'
    """
    check_point(overlaps, lam)
    return gate_module(gate).lam_gradient(task, overlaps, lam)
