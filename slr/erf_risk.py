"""Excess risk of the erf-attention predictor, in closed form, with its five partial derivatives.

The risk depends on (k, v) only through five inner products.
notation: kappa=<k,k*>  nu=<v,v*>  theta=<v,k*>  eta=<k,v*>  rho=<k,v>
          h = sqrt(d/2), g = gamma; T_l = erf(lam X_l.k) X_l.v is the contribution of token l

Stein's lemma turns E[phi(u) w^i y^j], with Gaussian u = X.k, w = X.v, y = X.v*, into E[phi],
E[phi'], E[phi''] times covariances. So the risk needs only the mean and the mean square of the gate
phi = erf(lam .) under u ~ N(h kappa, g^2), and their derivatives in h kappa. The functions are
plain numpy, and numba compiles the same source for slr/dynamics/reduced.py.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf

from slr.overlaps import Overlaps
from slr.special import MANY, erf_prime, erf_variance, inlined
from slr.task import Task


class GateMoments(NamedTuple):
    """f = E[erf(lam u)] and g = E[erf(lam u)^2], u ~ N(m, gamma^2), and derivatives in m."""

    f: Any
    f1: Any
    f2: Any
    f3: Any
    g: Any
    g1: Any
    g2: Any
    g3: Any


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
    curve, third = -2 * a, 4 * a * a - 2  # erf'' = curve erf', erf''' = third erf'
    f1 = slope * erf1_a
    g1 = 2 * f1
    return GateMoments(
        f=erf_a,
        f1=f1,
        f2=slope * f1 * curve,
        f3=slope * slope * f1 * third,
        g=erf_a * erf_a + erf_variance(a, scale, rule),
        g1=g1 * erf_b,
        g2=slope * g1 * (erf1_b + curve * erf_b),
        g3=slope * slope * g1 * (erf2_b + 2 * curve * erf1_b + third * erf_b),
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


def excess_risk(task: Task, overlaps: Overlaps, lam: Any) -> Any:
    """Excess risk E[(Y - T(X))^2] - noise_std^2, of the shape of the overlaps (and lam).

    >>> f"{excess_risk(task, ALIGNED, lam=0.1):.4f}"
    '0.1135'
    """
    overlaps, lam = _as_arrays(overlaps, lam)
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


def risk(task: Task, overlaps: Overlaps, lam: Any) -> Any:
    """Risk E[(Y - T(X))^2], of the shape of the overlaps (and lam).

    >>> f"{risk(Task(d=400, L=10, gamma=0.7, noise_std=1.0), ALIGNED, lam=0.1):.4f}"
    '1.1135'
    """
    return excess_risk(task, overlaps, lam) + task.noise_std**2


def risk_gradient(task: Task, overlaps: Overlaps, lam: Any) -> Overlaps:
    """Partial derivatives of excess_risk in kappa, nu, theta, eta and rho, each of its shape.

    >>> f"{risk_gradient(task, ALIGNED, lam=0.1).nu:.4f}"
    '-0.9344'
    """
    overlaps, lam = _as_arrays(overlaps, lam)
    return partial_derivatives(overlaps, task.signal, task.gamma, task.L - 1, lam)


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


def _as_arrays(overlaps: Overlaps, lam: Any) -> tuple[Overlaps, Any]:
    return Overlaps(*(np.asarray(x, dtype=float) for x in overlaps)), np.asarray(lam, dtype=float)
