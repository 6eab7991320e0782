"""The erf gate of the paper: its excess risk in closed form, with all partial derivatives.

The risk depends on (k, v) only through five inner products.
notation: kappa=<k,k*>  nu=<v,v*>  theta=<v,k*>  eta=<k,v*>  rho=<k,v>
          h = sqrt(d/2), g = gamma; T_l = erf(lam X_l.k) X_l.v is the contribution of token l

Stein's lemma turns E[phi(u) w^i y^j], with Gaussian u = X.k, w = X.v, y = X.v*, into E[phi],
E[phi'], E[phi''] times covariances. So the risk needs only the mean and the mean square of the gate
phi = erf(lam .) under u ~ N(h kappa, g^2), and their derivatives in h kappa. The functions are
plain numpy, and numba compiles the same source for training.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf, erfc

from slr.checks import check_whole
from slr.compiled import compiled
from slr.gates.interface import OnManifold, SecondDerivatives, of_run, point_of, register
from slr.overlaps import Overlaps, as_arrays
from slr.special import (
    FEW,
    FEW_UP_TO,
    FUSED,
    MANY,
    erf_prime,
    erf_variance,
    half_interval,
    inlined,
)
from slr.task import Task

SMALLEST = 1e-150  # instead of a lam of 0, where a derivative is a limit


class GateMoments(NamedTuple):
    """f = E[erf(lam u)] and g = E[erf(lam u)^2], u ~ N(m, gamma^2), and derivatives in m."""

    f: Any
    f1: Any
    f2: Any
    f3: Any
    f4: Any
    g: Any
    g1: Any
    g2: Any
    g3: Any
    g4: Any


class TokenMoments(NamedTuple):
    """E[T], E[T^2] and (for the informative token) E[T X.v*] of one token's contribution T."""

    mean: Any
    second: Any
    with_label: Any


@inlined
def gate_moments(m: Any, gamma: Any, lam: Any, rule: Any = MANY) -> GateMoments:
    scale = lam * gamma
    slope = lam / np.sqrt(1 + 2 * scale * scale)
    narrow = 1 / np.sqrt(1 + 4 * scale * scale)
    a = slope * m
    b = narrow * a
    erf_a, erf1_a = erf(a), erf_prime(a)
    erf_b, erf1_b = erf(b), narrow * erf_prime(b)  # as functions of a
    erf2_b = -2 * narrow * b * erf1_b
    erf3_b = narrow * narrow * (4 * b * b - 2) * erf1_b
    # the second, third and fourth derivatives of erf, over the first
    curve, third, fourth = -2 * a, 4 * a * a - 2, 4 * a * (3 - 2 * a * a)
    f1 = slope * erf1_a
    g1 = 2 * f1
    return GateMoments(
        f=erf_a,
        f1=f1,
        f2=slope * f1 * curve,
        f3=slope * slope * f1 * third,
        f4=slope * slope * slope * f1 * fourth,
        g=erf_a * erf_a + erf_variance(a, scale, rule),
        g1=g1 * erf_b,
        g2=slope * g1 * (erf1_b + curve * erf_b),
        g3=slope * slope * g1 * (erf2_b + 2 * curve * erf1_b + third * erf_b),
        g4=slope
        * slope
        * slope
        * g1
        * (erf3_b + 3 * curve * erf2_b + 3 * third * erf1_b + fourth * erf_b),
    )


@inlined
def informative_token_moments(
    gate: GateMoments, overlaps: Overlaps, h: Any, gamma: Any
) -> TokenMoments:
    _, nu, theta, eta, rho = overlaps
    g2 = gamma * gamma
    mean_w = h * theta  # E[X.v]; Cov(X.v, X.k) = g2 rho, Cov(X.v*, X.k) = g2 eta
    return TokenMoments(
        mean=mean_w * gate.f + g2 * rho * gate.f1,
        second=(mean_w * mean_w + g2) * gate.g
        + 2 * mean_w * g2 * rho * gate.g1
        + (g2 * rho) ** 2 * gate.g2,
        with_label=g2 * nu * gate.f + g2 * eta * (mean_w * gate.f1 + g2 * rho * gate.f2),
    )


@inlined
def noise_gate(lam: Any) -> Any:
    """E[phi'] and E[(phi^2)''] of the gate at a token ~ N(0, I), where E[phi] = 0."""
    lam2 = lam * lam
    first = 2 * lam / np.sqrt(math.pi * (1 + 2 * lam2))
    second = 8 / math.pi * lam2 / ((1 + 2 * lam2) * np.sqrt(1 + 4 * lam2))
    return first, second


def noise_token_moments(overlaps: Overlaps, lam: Any) -> TokenMoments:
    first, second = noise_gate(lam)
    square = erf_variance(0.0, lam) + overlaps.rho**2 * second
    return TokenMoments(overlaps.rho * first, square, with_label=0.0)


def risk_at(task: Task, point: Overlaps, lam: float) -> float:
    """Excess risk at one point."""
    return float(excess_risk(task, point, lam))


def excess_risk(task: Task, overlaps: Overlaps, lam: Any) -> Any:
    """Excess risk, of the shape of the overlaps (and lam)."""
    overlaps, lam = as_arrays(overlaps, lam)
    gate = gate_moments(task.signal * overlaps.kappa, task.gamma, lam)
    first = informative_token_moments(gate, overlaps, task.signal, task.gamma)
    other = noise_token_moments(overlaps, lam)
    n = task.L - 1
    return (
        task.gamma**2
        - 2 * first.with_label
        + first.second
        + 2 * n * first.mean * other.mean
        + n * other.second
        + n * (n - 1) * other.mean**2
    )


def risk_gradient(task: Task, overlaps: Overlaps, lam: Any) -> Overlaps:
    """Partial derivatives of the risk in the overlaps, each of its shape."""
    overlaps, lam = as_arrays(overlaps, lam)
    return partial_derivatives(overlaps, task.signal, task.gamma, task.L - 1, lam)


def lam_gradient(task: Task, overlaps: Overlaps, lam: Any) -> Any:
    """The partial derivative of the risk in lam, of its shape."""
    overlaps, lam = as_arrays(overlaps, lam)
    return lam_derivative(overlaps, task.signal, task.gamma, task.L - 1, lam)


def at_the_aligned_point(task: Task, lam: float) -> SecondDerivatives:
    """The curvature of the risk at (k*, v*)."""
    h, g2, n = task.signal, task.gamma**2, task.L - 1
    gate = gate_moments(h, task.gamma, lam)
    first, second = noise_gate(lam)
    return SecondDerivatives(
        kappa=h * g2 * (gate.g1 - 2 * gate.f1),
        nu=-2 * g2 * gate.f,
        eta_theta=-2 * g2 * h * gate.f1,
        eta_rho=-2 * g2 * g2 * gate.f2,
        theta_theta=task.d * gate.g,
        theta_rho=2 * h * (g2 * gate.g1 + n * first * gate.f),
        rho_rho=2 * g2 * (g2 * gate.g2 + 2 * n * first * gate.f1)
        + 2 * n * (second + (n - 1) * first**2),
    )


def on_manifold(task: Task, kappa: Any, nu: Any, lam: float) -> OnManifold:
    """Derivatives on M, where R_kappa = h g^2 (g1 - 2 nu f1) and R_nu = -2 g^2 f.

    R_kappa is computed without the cancellation of g1 - 2 nu f1 = 2 f1 (erf(b) - nu).
    """
    h, g2 = task.signal, task.gamma**2
    gate = gate_moments(h * kappa, task.gamma, lam)
    scale2 = (lam * task.gamma) ** 2
    b = lam * h * kappa / np.sqrt((1 + 2 * scale2) * (1 + 4 * scale2))
    sign = np.where(b < 0, -1.0, 1.0)
    erf_b_minus_nu = sign * ((1 - sign * nu) - erfc(abs(b)))
    return OnManifold(
        kappa=2 * h * g2 * gate.f1 * erf_b_minus_nu,
        nu=-2 * g2 * gate.f,
        kappa_kappa=h * h * g2 * (gate.g2 - 2 * nu * gate.f2),
        kappa_nu=-2 * h * g2 * gate.f1,
    )


@inlined
def partial_derivatives(
    overlaps: Overlaps, h: Any, gamma: Any, n: Any, lam: Any, rule: Any = MANY
) -> Overlaps:
    """Partial derivatives of excess_risk, line by line; h = sqrt(d/2), n = L - 1.

    ``rule`` is the quadrature of ``erf_variance``.
    """
    kappa, nu, theta, eta, rho = overlaps
    gate = gate_moments(h * kappa, gamma, lam, rule)
    first, second = noise_gate(lam)
    g2 = gamma * gamma
    mean_w, cov = h * theta, g2 * rho
    mean = mean_w * gate.f + cov * gate.f1

    label_kappa = h * g2 * (nu * gate.f1 + eta * (mean_w * gate.f2 + cov * gate.f3))
    label_theta = h * g2 * eta * gate.f1
    label_eta = g2 * (mean_w * gate.f1 + cov * gate.f2)
    label_rho = g2 * g2 * eta * gate.f2

    square_kappa = h * (
        (mean_w * mean_w + g2) * gate.g1 + 2 * mean_w * cov * gate.g2 + cov * cov * gate.g3
    )
    square_theta = 2 * h * (mean_w * gate.g + cov * gate.g1)
    square_rho = 2 * g2 * (mean_w * gate.g1 + cov * gate.g2)

    cross = 2 * n * first  # of 2 n E[T_1] E[T_2], with E[T_2] = rho first
    cross_kappa = cross * rho * h * (mean_w * gate.f1 + cov * gate.f2)
    cross_theta = cross * rho * h * gate.f
    cross_rho = cross * (mean + cov * gate.f1)
    other_rho = 2 * n * (second + (n - 1) * first * first) * rho

    return Overlaps(
        -2 * label_kappa + square_kappa + cross_kappa,
        -2 * g2 * gate.f,
        -2 * label_theta + square_theta + cross_theta,
        -2 * label_eta,
        -2 * label_rho + square_rho + cross_rho + other_rho,
    )


@inlined
def lam_derivative(overlaps: Overlaps, h: Any, gamma: Any, n: Any, lam: Any) -> Any:
    """Partial derivative of excess_risk in lam, line by line; h = sqrt(d/2), n = L - 1.

    lam d/dlam E[phi(lam u)] = E[u d/du phi(lam u)], by Stein's lemma m f1 + g^2 f2; of the
    derivatives of f in m, this is differentiated in m.
    """
    kappa, nu, theta, eta, rho = overlaps
    lam = np.maximum(lam, SMALLEST)
    m, g2, lam2 = h * kappa, gamma * gamma, lam * lam
    gate = gate_moments(m, gamma, lam)
    first, second = noise_gate(lam)
    # from here on, derivatives in log lam
    f = m * gate.f1 + g2 * gate.f2
    f1 = m * gate.f2 + gate.f1 + g2 * gate.f3
    f2 = m * gate.f3 + 2 * gate.f2 + g2 * gate.f4
    square = m * gate.g1 + g2 * gate.g2
    square1 = m * gate.g2 + gate.g1 + g2 * gate.g3
    square2 = m * gate.g3 + 2 * gate.g2 + g2 * gate.g4
    first_log = first / (1 + 2 * lam2)
    second_log = second * (2 - 4 * lam2 / (1 + 2 * lam2) - 4 * lam2 / (1 + 4 * lam2))

    mean_w, cov = h * theta, g2 * rho
    label = g2 * (nu * f + eta * (mean_w * f1 + cov * f2))
    second_moment = (mean_w * mean_w + g2) * square + 2 * mean_w * cov * square1
    second_moment = second_moment + cov * cov * square2
    cross = (mean_w * f + cov * f1) * first + (mean_w * gate.f + cov * gate.f1) * first_log
    other = second + rho * rho * (second_log + 2 * (n - 1) * first * first_log)
    return (-2 * label + second_moment + 2 * n * rho * cross + n * other) / lam


# ---- compiled


class Erf(NamedTuple):
    """The model of this gate in compiled code."""

    h: float
    gamma: float
    n: int


def model(task: Task, low: float, high: float, working: Any = None) -> Erf:
    """The model, which is the same for all lam from low to high, and takes no time to make."""
    check_whole(1, L=task.L)  # an integer of compiled code
    return Erf(task.signal, float(task.gamma), task.L - 1)


@compiled()
def gradients(model: Erf, overlaps: Any, lam: Any, slopes: Any) -> None:
    highest = of_run(lam, 0)
    for run in range(slopes.shape[1]):
        highest = max(highest, of_run(lam, run))
    if half_interval(highest * model.gamma) < FEW_UP_TO:
        gradients_by(FEW, model, overlaps, lam, slopes)
    else:
        gradients_by(MANY, model, overlaps, lam, slopes)


@compiled()
def gradients_by(rule: Any, model: Erf, overlaps: Any, lam: Any, slopes: Any) -> None:
    # The loop has no branch and no call: so it becomes vector instructions, and what depends on a
    # lam that all runs share is computed once.
    for run in range(slopes.shape[1]):
        point = point_of(overlaps, run)
        r = partial_derivatives(point, model.h, model.gamma, model.n, of_run(lam, run), rule)
        for i in range(5):
            slopes[i, run] = r[i]


@compiled()
def lam_gradients(model: Erf, overlaps: Any, lam: Any, slopes: Any) -> None:
    for run in range(len(slopes)):
        point = point_of(overlaps, run)
        slopes[run] = lam_derivative(point, model.h, model.gamma, model.n, of_run(lam, run))


@compiled()
def weigh(model: Erf, noise: Any, informative: Any, n: int, v: Any, lam: float) -> None:
    """A token adds erf(lam X.k) X.v to the prediction, whatever the others are."""
    _weigh(noise, v, lam)
    _weigh(informative, v, lam)


@compiled(**FUSED)
def _weigh(tokens: Any, v: Any, lam: float) -> None:
    x1, x2, weight_k, weight_v = tokens[0], tokens[1], tokens[2], tokens[3]
    for i in range(len(x1)):
        score = lam * x1[i]
        weight_k[i] = lam * erf_prime(score) * (v[0] * x1[i] + v[1] * x2[i])
        weight_v[i] = erf(score)


register(Erf, gradients=gradients, lam_gradients=lam_gradients, weigh=weigh)
