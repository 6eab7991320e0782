"""Moments of softmax attention, as one-dimensional integrals whatever d and L.

notation: a = softmax_l(lam X_l.k), token 1 the informative one; Q = sum_{l>1} a_l^2; n = L - 1
          mu = lam h kappa, the mean of the informative token's score; D = d/dmu
          b_i(y) = exp(i y - e^y);  A_i(x) = E[b_i(x + lam gamma Z)],  psi_j(s) = E[b_j(s + lam Z)]

With S the sum of all exp(scores), 1/S^i = int t^(i-1) e^(-tS) dt / (i-1)!, and inside the integral
the tokens are independent: the informative one adds a factor A_i and each other one a factor psi_j.
In s = log t, any moment is an integral of A_i(s + mu) G(s), with G a product of powers of psi.
Stein's lemma has turned moments of scores into moments of weights, and D acts on A_i alone:
DA_i = i A_i - A_(i+1), or by parts on G. docs/theory.md, section 15, derives all this.

The trapezoidal rule converges geometrically, since b_i is analytic for |Im y| < pi/2.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtr, xlog1py, xlogy

from slr.task import FloatArray, Task

STEP = 0.25  # in s and y: an error of exp(-pi^2 / STEP)
REACH = 10.5  # standard deviations: 1e-25 of the mass lies beyond
DEEP = 58.0  # exp(-DEEP), 1e-25, counts as 0
LONGEST = 600.0  # largest log L: exp(-DEEP) / L is then near the least float
HIGH = 4.75  # e^(-e^HIGH) counts as 0
BY_TOKEN = 2.0  # standard deviation up to which the rule has its nodes in Z, and beyond it in y
LONGEST_STRIDE = 8  # steps of the rule between two points, for which it is quicker on one lattice
COEFFICIENTS = ("M1", "P", "M2", "loss", "S", "W", "U")  # of the risk, see ``coefficients``


class Smoothed(NamedTuple):
    """E[b_i(x + std Z)] and its derivatives in x, arrays of the shape of x."""

    b0: FloatArray
    b1: FloatArray
    b2: FloatArray
    d_b1: FloatArray
    d_b2: FloatArray
    dd_b1: FloatArray
    dd_b2: FloatArray
    one_minus_b0: FloatArray


class Lattice(NamedTuple):
    """The points first, first + step, ..."""

    first: float
    step: float
    length: int

    @property
    def points(self) -> FloatArray:
        return np.asarray(self.first + self.step * np.arange(self.length), dtype=np.float64)


def smoothed(x: Lattice, std: float, log_n: float, fineness: int = 1) -> Smoothed:
    """E[b_i(x + std Z)], Z ~ N(0, 1), also where it is as small as 1/n.

    ``fineness`` divides the steps of the rule.
    """
    if std <= BY_TOKEN:
        step = min(0.5, STEP / max(std, 1e-9)) / fineness
        z = np.arange(-math.ceil(REACH / step), math.ceil(REACH / step) + 1) * step
        mass = step / math.sqrt(2 * math.pi) * np.exp(-(z**2) / 2)
        power = np.exp(np.minimum(x.points[:, None] + std * z, 7.0))  # e^(-e^7) is 0
        means, b = [], np.exp(-power)
        for _ in range(5):
            means.append(b @ mass)
            b *= power
        b0, b1, b2, b3, b4 = means
        derivatives = b1 - b2, 2 * b2 - b3, b1 - 3 * b2 + b3, 4 * b2 - 5 * b3 + b4
        return Smoothed(b0, b1, b2, *derivatives, -np.expm1(-power) @ mass)
    # A wide Gaussian takes the derivatives. b_1 is a density, and b_0 its upper tail.
    step = STEP / fineness
    y = HIGH - step * np.arange(math.ceil((DEEP + log_n + HIGH) / step))
    b = step * np.exp(np.array([[1], [2]]) * y - np.exp(y)).T
    stride = round(x.step / step)
    if stride <= LONGEST_STRIDE:  # x - y lies on one lattice
        z = (x.first - HIGH + step * np.arange(stride * (x.length - 1) + len(y))) / std
        windows: Callable[[FloatArray], FloatArray] = functools.partial(_windows, len(y), stride)
    else:
        z = (x.points[:, None] - y) / std
        windows = np.asarray
    density = np.exp(-(z**2) / 2) / (std * math.sqrt(2 * math.pi))
    b1, b2 = (windows(density) @ b).T
    d_b1, d_b2 = (windows(-density * z / std) @ b).T
    dd_b1, dd_b2 = (windows(density * (z**2 - 1) / std**2) @ b).T
    b0, rest = (windows(ndtr(sign * z)) @ b[:, 0] for sign in (-1, 1))
    return Smoothed(b0, b1, b2, d_b1, d_b2, dd_b1, dd_b2, rest)


def _windows(length: int, stride: int, values: FloatArray) -> FloatArray:
    # A copy: matrix products of overlapping rows would not use BLAS.
    return np.ascontiguousarray(sliding_window_view(values, length)[::stride])


class NoiseFactors(NamedTuple):
    """What the n noise tokens make of G(s), arrays of the shape of s."""

    none: FloatArray  # psi_0^n
    one: FloatArray  # -D none = n psi_1 psi_0^(n-1)
    twice: FloatArray  # n psi_2 psi_0^(n-1)
    both: FloatArray  # of E[(1 - a_1)^2], the weight of all noise tokens
    difference: FloatArray  # one - twice, without cancellation for large lam
    scores: FloatArray  # with A_0, a part of V = (E[(sum_{l>1} a_l X_l.k)^2] - E[Q]) / lam^2
    own_scores: FloatArray  # with A_1, the other part: that of each noise token with itself


def noise_factors(s: Lattice, lam: float, n: int, fineness: int = 1) -> NoiseFactors:
    """The factors of n noise tokens, also for n of e^LONGEST."""
    psi = smoothed(s, lam, math.log(n), fineness)

    def power(m: float) -> FloatArray:
        below, above = xlog1py(m, -psi.one_minus_b0), xlogy(m, psi.b0)
        return np.exp(np.where(psi.b0 > 0.5, below, above))

    with np.errstate(divide="ignore", under="ignore"):
        others = float(n) * power(float(n - 1))
        # Two tokens share psi_0^(n-2): each has its root, as n^2 can be above all floats.
        each = float(n) * power(max(n - 2, 0) / 2)
        pairs = (n - 1) / n
        b1, d_b1, d_b2 = each * psi.b1, each * psi.d_b1, each * psi.d_b2
        return NoiseFactors(
            none=power(float(n)),
            one=others * psi.b1,
            twice=others * psi.b2,
            both=others * psi.b2 + pairs * b1**2,
            difference=others * psi.d_b1,
            scores=pairs * (d_b1**2 + b1 * d_b2),
            own_scores=others * psi.d_b2,
        )


class Nodes(NamedTuple):
    """Points mu = low + width (i + (1 + x)/2): nodes x in [-1, 1] of each interval."""

    low: float
    width: float
    intervals: int
    x: FloatArray


def grid_step(task: Task, lam: float) -> float:
    """The step in s, larger where lam smooths all factors."""
    return STEP * max(1, math.floor(min(lam / 14, lam * task.gamma)))


def log_of_noise(task: Task, lam: float) -> float:
    """An upper bound of log sum_{l>1} exp(scores), up to their fluctuations."""
    log_n = math.log(task.L)
    return log_n + min(lam**2 / 2, lam * math.sqrt(2 * log_n))


def reach(task: Task, lam: float) -> tuple[float, float]:
    """Ends of the range of mu beyond which all moments are constant, to exp(-DEEP)."""
    spread = REACH * lam * (1 + task.gamma)
    return -DEEP - spread, DEEP + spread + log_of_noise(task, lam)


def coefficients(
    task: Task, lam: float, nodes: Nodes, step: float, fineness: int = 1
) -> FloatArray:
    """The seven coefficients of the risk and their D, shape (2, 7, intervals, len(x)).

    M1 = E[a_1], M2 = E[a_1^2], P = D M1; loss = gamma^2 E[(1 - a_1)^2] + E[Q], the risk at v*; and
    S = D(gamma^2 M2 + M1 + Q), W = gamma^2 D(gamma^2 D M1 - M1 - Q),
    U = D^2(gamma^4 M2 + 2 gamma^2 (M1 + Q)) + V with V = (E[(sum_{l>1} a_l X_l.k)^2] - E[Q])/lam^2.
    ``step`` is that in s, of which ``width`` is a multiple (if there are several intervals).
    """
    g2, n = task.gamma**2, task.L - 1
    if math.log(task.L) > LONGEST:
        raise ValueError(f"softmax attention needs L of at most e^{LONGEST:g}")
    if n == 0:  # the only token has all weight
        found = np.zeros((2, 7, nodes.intervals, len(nodes.x)))
        found[0, [0, 2]] = 1.0
        return found
    integrals = _integrals(task, lam, nodes, step / fineness, fineness)

    def integral(signal: str, noise: str) -> FloatArray:
        return integrals[Smoothed._fields.index(signal), NoiseFactors._fields.index(noise)]

    m1, m2 = integral("b1", "none"), integral("b2", "none")
    loss = g2 * integral("b0", "both") + integral("b0", "twice")
    d_loss = -g2 * integral("b1", "both") - integral("b1", "twice")
    d_m1, dd_m1, ddd_m1 = (integral(b, "one") for b in ("b1", "d_b1", "dd_b1"))
    d_m2, dd_m2, ddd_m2 = (integral(b, "one") for b in ("b2", "d_b2", "dd_b2"))
    d_sum, dd_sum, ddd_sum = (integral(b, "difference") for b in ("b1", "d_b1", "dd_b1"))  # M1 + Q
    v = integral("b0", "scores") + integral("b1", "own_scores")
    d_v = integral("d_b1", "own_scores") - integral("b1", "scores")
    values = [
        m1,
        d_m1,
        m2,
        loss,
        g2 * d_m2 + d_sum,
        g2 * (g2 * dd_m1 - d_sum),
        g2 * (g2 * dd_m2 + 2 * dd_sum) + v,
    ]
    slopes = [
        d_m1,
        dd_m1,
        d_m2,
        d_loss,
        g2 * dd_m2 + dd_sum,
        g2 * (g2 * ddd_m1 - dd_sum),
        g2 * (g2 * ddd_m2 + 2 * ddd_sum) + d_v,
    ]
    return np.array([values, slopes])


def _integrals(task: Task, lam: float, nodes: Nodes, step: float, fineness: int) -> FloatArray:
    """int A(s + mu) G(s) ds for all A of Smoothed and G of NoiseFactors: two axes in front.

    The intervals are a multiple of the step wide: so A at one node of all intervals is one array,
    and the integrals are correlations of two arrays.
    """
    high = nodes.low + nodes.width * nodes.intervals
    first = -DEEP - REACH * lam * max(1.0, task.gamma) - max(high, log_of_noise(task, lam))
    s = Lattice(first, step, math.ceil((HIGH + REACH * lam - first) / step) + 1)
    noise = step * np.array(noise_factors(s, lam, task.L - 1, fineness)).T
    stride = max(1, round(nodes.width / step))
    found = np.empty((len(Smoothed._fields), noise.shape[1], nodes.intervals, len(nodes.x)))
    for k, node in enumerate(nodes.x):
        mu = nodes.low + nodes.width * (1 + node) / 2
        x = Lattice(first + mu, step, s.length + stride * (nodes.intervals - 1))
        for i, signal in enumerate(smoothed(x, lam * task.gamma, math.log(task.L), fineness)):
            found[i, :, :, k] = (_windows(s.length, stride, signal) @ noise).T
    return found
