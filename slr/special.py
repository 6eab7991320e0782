"""The special functions of the erf gate, for numpy arrays and inside compiled loops alike.

notation: erf' (x) = 2/sqrt(pi) exp(-x^2)
          zeta(t, g) = E[erf(t + g Z)^2], Z ~ N(0, 1)
"""

import math
from typing import Any

import numpy as np
import scipy.special
from numba.extending import overload, register_jitable

TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)

# Gauss-Legendre nodes and weights on [-1, 1]. Twelve give zeta to 1e-15 whatever its arguments
# (tests/test_risk.py): the integrand's poles are far from the interval.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


@overload(scipy.special.erf)
def _erf_when_compiled(x: Any) -> Any:
    """Teach numba scipy's erf, so that one formula serves arrays and compiled loops."""

    def erf(x: Any) -> Any:
        return math.erf(x)

    return erf


@register_jitable
def erf_prime(x: Any) -> Any:
    """The derivative of erf."""
    return TWO_OVER_SQRT_PI * np.exp(-x * x)


@register_jitable
def erf_variance(a: Any, scale: Any) -> Any:
    """Var[erf(t + scale Z)] for t = a sqrt(1 + 2 scale^2), that is zeta - erf(a)^2.

    zeta = 1 - 8 T(a sqrt 2, 1/sqrt(q)), q = 1 + 4 scale^2, with Owen's T; erf(a)^2 has 1 for the
    second argument. Their difference is an integral from 1/sqrt(q) to 1 of positive terms, which
    is accurate where 1 - 8 T cancels.
    """
    root_q = np.sqrt(1 + 4 * scale * scale)
    half = 2 * scale * scale / (root_q * (root_q + 1))  # half the interval's length
    total = 0.0 * half * a
    for i in range(len(NODES)):
        x = 1 - half + half * NODES[i]
        total = total + WEIGHTS[i] * np.exp(-a * a * (1 + x * x)) / (1 + x * x)
    return 4 / math.pi * half * total


def zeta(mean: Any, *, scale: Any) -> Any:
    """E[erf(mean + scale Z)^2], Z ~ N(0, 1)."""
    a = mean / np.sqrt(1 + 2 * scale * scale)
    return scipy.special.erf(a) ** 2 + erf_variance(a, scale)
