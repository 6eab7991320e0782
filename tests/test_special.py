"""Special functions: compiled against numpy and scipy, and the error of the quadrature rules."""

import math
from typing import Any

import numba
import numpy as np
import pytest
import scipy.special
from numpy.testing import assert_allclose

from slr.special import FEW, FEW_UP_TO, MANY, erf_prime, erf_variance, exp_minus, half_interval


@numba.njit
def compiled_erf(x: Any) -> Any:
    return [scipy.special.erf(value) for value in x]


@numba.njit
def compiled_exp_minus(x: Any) -> Any:
    return [exp_minus(value) for value in x]


@numba.njit
def compiled_erf_prime(x: Any) -> Any:
    return [erf_prime(value) for value in x]


EDGES = [0.0, 5e-324, 1e-300, 1e-8, math.nextafter(1, 0), 1.0, math.nextafter(1, 2), 3.0, 6.0, 6.5]


def test_compiled_erf_is_that_of_scipy_to_the_last_digits() -> None:
    rng = np.random.default_rng(0)
    size = np.concatenate([EDGES, rng.uniform(0, 7, 200_000), 10 ** rng.uniform(-12, 3, 50_000)])
    x = np.concatenate([size, -size])
    found = np.array(compiled_erf(x))
    assert_allclose(found, scipy.special.erf(x), rtol=1e-15, atol=0)
    assert (abs(found) <= 1).all()
    assert (found[: len(size)] == -found[len(size) :]).all()


def test_compiled_exp_is_that_of_numpy_to_the_last_digits() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([EDGES, rng.uniform(0, 708, 200_000), 10 ** rng.uniform(-12, 2, 50_000)])
    assert_allclose(compiled_exp_minus(x), np.exp(-x), rtol=1e-15, atol=0)
    # Beyond 708 exp(-x) is below 4e-308, which counts as 0.
    assert max(compiled_exp_minus(np.array([709.0, 1e5, 1e300, math.inf]))) < 4e-308
    y = rng.uniform(-5, 5, 50_000)
    assert_allclose(compiled_erf_prime(y), erf_prime(y), rtol=1e-15, atol=0)


def test_what_is_not_a_number_stays_so_when_compiled() -> None:
    """A run that diverges must be seen to diverge."""
    nan = np.array([math.nan])
    assert np.isnan([compiled_erf(nan), compiled_exp_minus(nan), compiled_erf_prime(nan)]).all()
    assert compiled_erf(np.array([math.inf, -math.inf])) == [1.0, -1.0]


def test_a_compiled_loop_over_erf_and_exp_is_made_of_vector_instructions() -> None:
    """Training is fast for this reason; a branch or a call would end it silently."""

    @numba.njit(error_model="numpy")
    def both(x: Any, out: Any) -> None:
        for i in range(len(x)):
            out[i] = scipy.special.erf(x[i]) + erf_prime(x[i])

    @numba.njit(error_model="numpy")
    def library(x: Any, out: Any) -> None:
        for i in range(len(x)):
            out[i] = math.erf(x[i])

    both(np.zeros(8), np.zeros(8))
    library(np.zeros(8), np.zeros(8))
    vectors = "fmul <"  # of several numbers, in the compiler's language for any processor
    assert vectors in next(iter(both.inspect_llvm().values()))
    assert vectors not in next(iter(library.inspect_llvm().values())), "the control"


def gauss_bound(n: int, half: float) -> float:
    """A bound on the error of n nodes, relative to the integral at a = 0.

    Gauss-Legendre on [-1, 1] errs by at most 64/15 M rho^(-2n) / (1 - rho^-2), with M the largest
    modulus on the ellipse with foci +-1 and axes rho +- 1/rho (Trefethen, Approximation Theory and
    Practice, theorem 19.3). Where Re(1 + x^2) >= 0, |exp(-a^2 (1 + x^2))| <= 1 for every a.
    """
    bounds = []
    for radius in np.linspace(0.5, 1.3, 50):  # of the ellipse, in x
        rho = radius / half + math.sqrt((radius / half) ** 2 - 1)
        angle = np.linspace(0, 2 * math.pi, 2001)
        z = (rho * np.exp(1j * angle) + np.exp(-1j * angle) / rho) / 2
        x = 1 - half + half * z
        if (1 + x * x).real.min() >= 0:
            most = (1 / abs(1 + x * x)).max()
            bounds.append(64 / 15 * most * rho ** (-2.0 * n) / (1 - rho**-2))
    integral = (math.atan(1) - math.atan(1 - 2 * half)) / half
    return min(bounds) / integral


@pytest.mark.parametrize(("rule", "half"), [(FEW, FEW_UP_TO), (MANY, 0.4)])
def test_a_rule_is_exact_to_1e_15_up_to_its_half_length(rule: Any, half: float) -> None:
    n = sum(map(len, rule))
    assert gauss_bound(n, half) < 1e-15
    a = np.concatenate([[0.0], np.geomspace(1e-4, 20, 500)])[:, None]
    halves = np.geomspace(1e-6, half, 40)
    narrow = 1 - 2 * halves  # = 1/sqrt(1 + 4 scale^2)
    scale = np.sqrt((1 / narrow**2 - 1) / 4)
    assert_allclose(half_interval(scale), halves, rtol=1e-9)
    finest = np.polynomial.legendre.leggauss(30)
    reference = erf_variance(a, scale, (tuple(zip(*finest, strict=True)), (), ()))
    error = abs(erf_variance(a, scale, rule) - reference) / reference[0]  # [0] is a = 0
    assert error.max() < 1e-15
    longer = np.sqrt((1 / (1 - 2 * 0.15) ** 2 - 1) / 4)
    if rule is FEW:
        wrong = erf_variance(a, longer, rule) - erf_variance(a, longer)
        assert abs(wrong).max() > 1e-12, "the control: beyond its half-length"
