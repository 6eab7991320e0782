"""What compiled training code asks of a gate; the type of the gate's model chooses the answer.

A gate is one module with its risk and with these three functions, which it registers for its model:
a named tuple that holds the task, and tables if the gate has any. slr/dynamics moves k and v and
knows no gate. Arrays have one column per run.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from numba.extending import overload

from slr.overlaps import Overlaps
from slr.special import INLINE, inlined


class SecondDerivatives(NamedTuple):
    """Derivatives of the risk that do not vanish at the aligned point."""

    kappa: float
    nu: float
    eta_theta: float
    eta_rho: float
    theta_theta: float
    theta_rho: float
    rho_rho: float


class OnManifold(NamedTuple):
    """Derivatives of the risk in kappa and nu on the manifold (that in nu twice is 0)."""

    kappa: Any
    nu: Any
    kappa_kappa: Any
    kappa_nu: Any


_REGISTERED: dict[type, dict[str, Callable[..., Any]]] = {}


def register(model: type, **functions: Callable[..., Any]) -> None:
    """Register the compiled functions ``gradients``, ``lam_gradients`` and ``weigh`` of a model."""
    _REGISTERED[model] = functions


def gradients(model: Any, overlaps: Any, lam: Any, slopes: Any) -> None:
    """Fill in the partial derivatives of the risk, shape (5, runs); lam is a number or (runs,)."""
    _REGISTERED[type(model)]["gradients"](model, overlaps, lam, slopes)


def lam_gradients(model: Any, overlaps: Any, lam: Any, slopes: Any) -> None:
    """Fill in the derivative of the risk in lam at fixed overlaps, shape (runs,)."""
    _REGISTERED[type(model)]["lam_gradients"](model, overlaps, lam, slopes)


def weigh(model: Any, noise: Any, informative: Any, n: Any, v: Any, lam: Any) -> None:
    """Fill in the weights of a batch of tokens (slr/dynamics/batch_step.py).

    Rows of tokens are X1, X2, weight_k, weight_v, ...: a token adds its weights times X to the
    derivatives of the prediction in k and v, where X.k = X1 and X.v = v[0] X1 + v[1] X2. The n
    noise tokens of a sequence stand next to each other.
    """
    _REGISTERED[type(model)]["weigh"](model, noise, informative, n, v, lam)


@overload(gradients, strict=False)
def _gradients(model: Any, overlaps: Any, lam: Any, slopes: Any) -> Any:
    function = _REGISTERED[model.instance_class]["gradients"]
    return lambda model, overlaps, lam, slopes: function(model, overlaps, lam, slopes)


@overload(lam_gradients, strict=False)
def _lam_gradients(model: Any, overlaps: Any, lam: Any, slopes: Any) -> Any:
    function = _REGISTERED[model.instance_class]["lam_gradients"]
    return lambda model, overlaps, lam, slopes: function(model, overlaps, lam, slopes)


@overload(weigh, strict=False)
def _weigh(model: Any, noise: Any, informative: Any, n: Any, v: Any, lam: Any) -> Any:
    function = _REGISTERED[model.instance_class]["weigh"]
    return lambda model, noise, informative, n, v, lam: function(
        model, noise, informative, n, v, lam
    )


def of_run(values: Any, run: int) -> Any:
    """values[run], or the number that all runs share."""
    return values[run] if hasattr(values, "__len__") else values


@overload(of_run, jit_options=INLINE, strict=False)
def _of_run(values: Any, run: int) -> Any:
    if hasattr(values, "ndim"):
        return lambda values, run: values[run]
    return lambda values, run: values


@inlined
def point_of(overlaps: Any, run: int) -> Overlaps:
    """The overlaps of one run, from rows of shape (5, runs)."""
    return Overlaps(
        overlaps[0, run], overlaps[1, run], overlaps[2, run], overlaps[3, run], overlaps[4, run]
    )
