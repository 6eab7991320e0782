"""The softmax gate of real attention: its exact risk at any dimension and any length.

notation: a = softmax_l(lam X_l.k), token 1 the informative one; mu = lam h kappa, h = sqrt(d/2)

Given the scores X.k the values X.v are Gaussian, so the risk is a polynomial in nu, theta, eta and
rho. Its seven coefficients are moments of attention weights, which are functions of mu, lam, gamma
and L alone (slr/gates/softmax_moments.py) and come from a table (slr/gates/softmax_table.py).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from slr.compiled import compiled
from slr.gates.interface import OnManifold, SecondDerivatives, of_run, point_of, register
from slr.gates.softmax_moments import Nodes, coefficients, grid_step, reach
from slr.gates.softmax_table import COUNT, WIDTH, Table, look_up, make_pieces, table
from slr.overlaps import Overlaps, as_arrays
from slr.special import FUSED, exp_minus, inlined
from slr.task import FloatArray, Task


class Moments(NamedTuple):
    """The coefficients of the risk, each of one shape (softmax_moments.coefficients)."""

    m1: Any  # E[a_1], the attention mass on the informative token
    p: Any
    m2: Any  # E[a_1^2]
    loss: Any  # the risk at v = v* on the manifold
    s: Any
    w: Any
    u: Any


def moments(task: Task, kappa: Any, lam: Any, *, by_lam: bool = False) -> list[Moments]:
    """The moments, their derivatives in mu and, if asked for, those in lam at fixed mu."""
    kappa, lam = np.broadcast_arrays(kappa, lam)
    if not kappa.size:
        return [Moments(*np.zeros((COUNT, *kappa.shape)))] * (2 + by_lam)
    low, high = float(lam.min()), float(lam.max())
    # A table for a range of lam has derivatives in lam, and one for a single lam has not.
    chosen = table(task, low, np.nextafter(high, math.inf) if by_lam else high)
    found = np.empty(((2 + by_lam) * WIDTH, kappa.size))
    look_up(chosen, (task.signal * lam * kappa).ravel(), lam.ravel(), found)
    parts = found.reshape(-1, WIDTH, *kappa.shape)[:, :COUNT]
    return [Moments(*part) for part in parts]


def excess_risk(task: Task, overlaps: Overlaps, lam: Any) -> Any:
    """Excess risk, of the shape of the overlaps (and lam)."""
    overlaps, lam = as_arrays(overlaps, lam)
    values, *_ = moments(task, overlaps.kappa, lam)
    return polynomial_risk(values, overlaps, task.signal, task.gamma, lam)


def polynomial_risk(c: Moments, overlaps: Overlaps, h: Any, gamma: Any, lam: Any) -> Any:
    """The risk from the moments; on the manifold its first line."""
    _, nu, theta, eta, rho = overlaps
    g2, read = gamma**2, h * theta
    return (
        c.loss
        + 2 * g2 * (1 - nu) * c.m1
        + read**2 * c.m2
        + 2 * lam * read * (rho * c.s - g2 * eta * c.p)
        + lam**2 * rho * (rho * c.u - 2 * eta * c.w)
    )


def risk_gradient(task: Task, overlaps: Overlaps, lam: Any) -> Overlaps:
    """Partial derivatives of the risk in the overlaps, each of its shape."""
    overlaps, lam = as_arrays(overlaps, lam)
    values, slopes = moments(task, overlaps.kappa, lam)
    return partial_derivatives(values, slopes, overlaps, task.signal, task.gamma, lam)


@inlined
def partial_derivatives(
    c: Moments, slope: Moments, overlaps: Overlaps, h: Any, gamma: Any, lam: Any
) -> Overlaps:
    """Partial derivatives of polynomial_risk, with the moments' derivatives in mu."""
    _, nu, theta, eta, rho = overlaps
    g2, read = gamma * gamma, h * theta
    by_mu = (
        slope.loss
        + 2 * g2 * (1 - nu) * slope.m1
        + read * read * slope.m2
        + 2 * lam * read * (rho * slope.s - g2 * eta * slope.p)
        + lam * lam * rho * (rho * slope.u - 2 * eta * slope.w)
    )
    return Overlaps(
        lam * h * by_mu,
        -2 * g2 * c.m1,
        2 * h * (read * c.m2 + lam * (rho * c.s - g2 * eta * c.p)),
        -2 * lam * (read * g2 * c.p + lam * rho * c.w),
        2 * lam * (read * c.s + lam * (rho * c.u - eta * c.w)),
    )


def lam_gradient(task: Task, overlaps: Overlaps, lam: Any) -> Any:
    """The partial derivative of the risk in lam, of its shape."""
    overlaps, lam = as_arrays(overlaps, lam)
    parts = moments(task, overlaps.kappa, lam, by_lam=True)
    return lam_derivative(*parts, overlaps, task.signal, task.gamma, lam)


@inlined
def lam_derivative(
    c: Moments, slope: Moments, by_lam: Moments, overlaps: Overlaps, h: Any, gamma: Any, lam: Any
) -> Any:
    """Partial derivative of polynomial_risk in lam, through mu = lam h kappa and otherwise."""
    kappa, nu, theta, eta, rho = overlaps
    g2, read, m = gamma * gamma, h * theta, h * kappa
    return (
        m * slope.loss
        + by_lam.loss
        + 2 * g2 * (1 - nu) * (m * slope.m1 + by_lam.m1)
        + read * read * (m * slope.m2 + by_lam.m2)
        + 2 * read * rho * (c.s + lam * (m * slope.s + by_lam.s))
        - 2 * read * g2 * eta * (c.p + lam * (m * slope.p + by_lam.p))
        + lam * rho * rho * (2 * c.u + lam * (m * slope.u + by_lam.u))
        - 2 * lam * rho * eta * (2 * c.w + lam * (m * slope.w + by_lam.w))
    )


def at_point(task: Task, kappa: float, lam: float) -> tuple[Moments, Moments]:
    """The moments at one kappa and their derivatives in mu, without a table."""
    step, (low, high) = grid_step(task, lam), reach(task, lam)
    nodes = Nodes(min(max(lam * task.signal * kappa, low), high), step, 1, np.array([-1.0]))
    values, slopes = coefficients(task, lam, nodes, step)[:, :, 0, 0]
    return Moments(*values.tolist()), Moments(*slopes.tolist())


def risk_at(task: Task, point: Overlaps, lam: float) -> float:
    """Excess risk at one point, without a table."""
    values, _ = at_point(task, float(point.kappa), float(lam))
    return float(polynomial_risk(values, point, task.signal, task.gamma, lam))


def at_the_aligned_point(task: Task, lam: float) -> SecondDerivatives:
    """The curvature of the risk at (k*, v*)."""
    h, g2 = task.signal, task.gamma**2
    c, slope = at_point(task, 1.0, lam)
    return SecondDerivatives(
        kappa=lam * h * slope.loss,
        nu=-2 * g2 * c.m1,
        eta_theta=-2 * lam * h * g2 * c.p,
        eta_rho=-2 * lam**2 * c.w,
        theta_theta=2 * h**2 * c.m2,
        theta_rho=2 * lam * h * c.s,
        rho_rho=2 * lam**2 * c.u,
    )


def on_manifold(task: Task, kappa: Any, nu: Any, lam: float) -> OnManifold:
    """Derivatives on M, where the risk is loss + 2 gamma^2 (1 - nu) M1."""
    steep, g2 = lam * task.signal, task.gamma**2
    c, slope = moments(task, np.asarray(kappa, float), np.asarray(lam, float))
    loss_twice = slope.s - (1 + 2 * g2) * slope.p  # D^2 loss, by the definitions of S and P
    return OnManifold(
        kappa=steep * (slope.loss + 2 * g2 * (1 - nu) * slope.m1),
        nu=-2 * g2 * c.m1,
        kappa_kappa=steep**2 * (loss_twice + 2 * g2 * (1 - nu) * slope.p),
        kappa_nu=-2 * g2 * steep * slope.m1,
    )


# ---- compiled


class Softmax(NamedTuple):
    """The model of this gate in compiled code, for lam in the range of the table."""

    h: float
    gamma: float
    table: Table


def model(
    task: Task, low: float, high: float, working: Callable[[], object] | None = None
) -> Softmax:
    """The model for lam from low to high; ``working`` is called while its table is made."""
    if working:
        make_pieces(task, low, high, working)
    return Softmax(task.signal, float(task.gamma), table(task, low, high))


@compiled()
def gradients(model: Softmax, overlaps: Any, lam: Any, slopes: Any) -> None:
    found = _look_up(model, overlaps, lam, slopes.shape[1], 2)
    for run in range(slopes.shape[1]):
        point = point_of(overlaps, run)
        r = partial_derivatives(
            _moments(found, 0, run),
            _moments(found, WIDTH, run),
            point,
            model.h,
            model.gamma,
            of_run(lam, run),
        )
        for i in range(5):
            slopes[i, run] = r[i]


@compiled()
def lam_gradients(model: Softmax, overlaps: Any, lam: Any, slopes: Any) -> None:
    found = _look_up(model, overlaps, lam, len(slopes), 3)
    for run in range(len(slopes)):
        point = point_of(overlaps, run)
        slopes[run] = lam_derivative(
            _moments(found, 0, run),
            _moments(found, WIDTH, run),
            _moments(found, 2 * WIDTH, run),
            point,
            model.h,
            model.gamma,
            of_run(lam, run),
        )


@inlined
def _look_up(model: Any, overlaps: Any, lam: Any, runs: int, parts: int) -> Any:
    mu, lams, found = np.empty(runs), np.empty(runs), np.empty((parts * WIDTH, runs))
    for run in range(runs):
        lams[run] = of_run(lam, run)
        mu[run] = lams[run] * model.h * overlaps[0, run]
    look_up(model.table, mu, lams, found)
    return found


@inlined
def _moments(found: Any, first: int, run: int) -> Moments:
    return Moments(
        found[first, run],
        found[first + 1, run],
        found[first + 2, run],
        found[first + 3, run],
        found[first + 4, run],
        found[first + 5, run],
        found[first + 6, run],
    )


@compiled(**FUSED)
def weigh(model: Softmax, noise: Any, informative: Any, n: int, v: Any, lam: float) -> None:
    """The prediction sum_l a_l X_l.v has the derivatives a_l X_l and lam a_l (X_l.v - T) X_l."""
    for i in range(noise.shape[1] // n if n else informative.shape[1]):
        tokens = noise[:, i * n : (i + 1) * n]
        x1, x2, weight_k, weight_v = tokens[0], tokens[1], tokens[2], tokens[3]
        highest = lam * informative[0, i]
        for j in range(n):
            highest = max(highest, lam * x1[j])
        own = exp_minus(highest - lam * informative[0, i])
        own_value = v[0] * informative[0, i] + v[1] * informative[1, i]
        total, prediction = own, own * own_value
        for j in range(n):
            weight = exp_minus(highest - lam * x1[j])
            weight_v[j] = weight
            weight_k[j] = v[0] * x1[j] + v[1] * x2[j]
            total += weight
            prediction += weight * weight_k[j]
        prediction /= total
        informative[3, i] = own / total
        informative[2, i] = lam * informative[3, i] * (own_value - prediction)
        for j in range(n):
            weight_v[j] /= total
            weight_k[j] = lam * weight_v[j] * (weight_k[j] - prediction)


register(Softmax, gradients=gradients, lam_gradients=lam_gradients, weigh=weigh)


def attention_mass(task: Task, kappa: Any, lam: Any) -> FloatArray:
    """E[a_1], the mean weight of the informative token, of the shape of kappa and lam."""
    values, *_ = moments(task, np.asarray(kappa, float), np.asarray(lam, float))
    return np.asarray(values.m1)
