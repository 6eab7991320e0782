"""The special functions of the erf gate, for numpy arrays and inside compiled loops alike.

notation: erf' (x) = 2/sqrt(pi) exp(-x^2)
          zeta(t, g) = E[erf(t + g Z)^2], Z ~ N(0, 1)

On arrays exp and erf are those of numpy and scipy. Compiled code has its own, without branches and
calls: then a loop over runs or tokens becomes vector instructions, and gives the same bits on every
processor. tests/test_special.py compares the two to 1e-15.
"""

import math
from typing import Any

import numpy as np
import scipy.special
from numba.extending import overload, register_jitable

TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
INLINE = {"forceinline": True}  # a call would stop the compiler from making vector instructions
inlined = register_jitable(**INLINE)
# The compiler makes vector instructions of loops over tokens, and may fuse a product with a sum.
FUSED = {"fastmath": {"contract"}}


def gauss_legendre(n: int) -> Any:
    """The quadrature rule on [-1, 1]: pairs of node and weight, in three parts of equal length.

    The compiler unrolls a loop over one part, and would not unroll one over all.
    """
    nodes, weights = (values.tolist() for values in np.polynomial.legendre.leggauss(n))
    pairs = tuple(zip(nodes, weights, strict=True))
    return tuple(pairs[first : first + n // 3] for first in range(0, n, n // 3))


FEW, MANY = gauss_legendre(3), gauss_legendre(12)
FEW_UP_TO = 0.005  # half-length of an interval up to which FEW errs by at most 1e-15


@inlined
def polynomial(coefficients: Any, x: Any) -> Any:
    """coefficients[0] + coefficients[1] x + ..., of an even number of coefficients.

    Horner's rule for the even and for the odd powers: a processor works on both at the same time.
    """
    square = x * x
    even, odd = coefficients[-2], coefficients[-1]
    for i in range(len(coefficients) - 4, -1, -2):
        even = even * square + coefficients[i]
        odd = odd * square + coefficients[i + 1]
    return even + x * odd


def exp_minus(x: Any) -> Any:
    """exp(-x) for x >= 0."""
    return np.exp(-x)


# exp(-x) = 2^n exp(r) with |r| <= log(2)/2, where 14 terms of the series are exact to 1e-17.
EXP = tuple(1 / math.factorial(n) for n in range(14))
LOG_2 = (float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33"))  # n first: exact
LOG2_E = 1 / math.log(2)
ROUND = 1.5 * 2**52  # added to a number it leaves the nearest integer in the last bits
EXP_RANGE = 708.0  # exp(-708) is the smallest power with full precision: 0 to us


@overload(exp_minus, jit_options=INLINE)
def _exp_minus_when_compiled(x: Any) -> Any:
    def exp_minus(x: Any) -> Any:
        x = -(EXP_RANGE if x > EXP_RANGE else x)
        shifted = x * LOG2_E + ROUND
        n = shifted - ROUND
        r = (x - n * LOG_2[0]) - n * LOG_2[1]
        exponent = np.float64(shifted).view(np.int64) + 1023
        return polynomial(EXP, r) * np.int64(exponent << 52).view(np.float64)

    return exp_minus


# erf(x) = x P(x^2) up to |x| = 1 and 1 - exp(-x^2) Q((x - 3)/(x + 3)) from 1 to 6, where it is 1:
# P and Q interpolate erf(x)/x and exp(x^2) erfc(x) at Chebyshev points, computed with 60 digits.
ERF_SMALL = (
    1.1283791670955126, -0.37612638903183543, 0.11283791670945006, -0.02686617064323777,
    0.0052239776071164225, -0.0008548325975389692, 0.00012055294904839707, -1.492473690741966e-05,
    1.6447424703317362e-06, -1.6208483801871705e-07, 1.3720064546777686e-08, -7.795898827002142e-10,
)  # fmt: skip
ERF_LARGE = (
    0.17900115118138907, -0.32623356004299003, 0.24560380171289325, -0.1501159365078385,
    0.07166583713850745, -0.02439249905225781, 0.004269138643318906, 0.0007077436205791401,
    -0.0005971019299440755, 4.523670628663236e-05, 6.436074396760298e-05, -1.2383892608514314e-05,
    -8.668536150153648e-06, 0.0,
)  # fmt: skip


@overload(scipy.special.erf, jit_options=INLINE)
def _erf_when_compiled(x: Any) -> Any:
    def erf(x: Any) -> Any:
        size = 6.0 if abs(x) > 6.0 else abs(x)
        small = x * polynomial(ERF_SMALL, x * x)
        large = 1 - exp_minus(x * x) * polynomial(ERF_LARGE, (size - 3) / (size + 3))
        return small if size < 1.0 else math.copysign(large, x)

    return erf


@inlined
def erf_prime(x: Any) -> Any:
    """The derivative of erf."""
    return TWO_OVER_SQRT_PI * exp_minus(x * x)


@inlined
def half_interval(scale: Any) -> Any:
    """Half the length of the interval that ``erf_variance`` integrates over."""
    root_q = np.sqrt(1 + 4 * scale * scale)
    return 2 * scale * scale / (root_q * (root_q + 1))


@inlined
def erf_variance(a: Any, scale: Any, rule: Any = MANY) -> Any:
    """Var[erf(t + scale Z)] for t = a sqrt(1 + 2 scale^2), that is zeta - erf(a)^2.

    zeta = 1 - 8 T(a sqrt 2, 1/sqrt(q)), q = 1 + 4 scale^2, with Owen's T; erf(a)^2 has 1 for the
    second argument. Their difference is an integral from 1/sqrt(q) to 1 of positive terms, which
    is accurate where 1 - 8 T cancels. The rule MANY gives 1e-15 whatever the arguments, since the
    integrand's poles are far from the interval, and FEW as much up to a half-length of FEW_UP_TO.
    """
    half = half_interval(scale)
    first, second, third = rule
    total = _sum(a, half, first) + _sum(a, half, second) + _sum(a, half, third)
    return 4 / math.pi * half * total


@inlined
def _sum(a: Any, half: Any, pairs: Any) -> Any:
    total = 0.0
    for node, weight in pairs:
        x = 1 - half + half * node
        total = total + weight / (1 + x * x) * exp_minus(a * a * (1 + x * x))
    return total


def zeta(mean: Any, *, scale: Any) -> Any:
    """E[erf(mean + scale Z)^2], Z ~ N(0, 1)."""
    a = mean / np.sqrt(1 + 2 * scale * scale)
    return scipy.special.erf(a) ** 2 + erf_variance(a, scale)
