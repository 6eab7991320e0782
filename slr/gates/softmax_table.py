"""The moments of softmax attention as a table: polynomials in mu and lam, piece by piece.

A piece is an interval of lam and an interval of mu = lam h kappa; on it each coefficient of the
risk (slr/gates/softmax_moments.py) is one polynomial in both, which takes some hundred operations.
The polynomial in mu is the integral of one through the derivative, so that derivatives are as
accurate as values, also where attention is saturated and they are tiny. A single lam needs no
second variable: its polynomials have degree 0 in lam.
"""

import bisect
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from slr.compiled import compiled
from slr.gates.softmax_moments import COEFFICIENTS, Nodes, coefficients, grid_step, reach
from slr.special import inlined
from slr.task import FloatArray, Task

TOLERANCE = 1e-9  # of values and derivatives, relative to the largest of a piece
DEGREES = ((11, 13), (12, 15), (13, 17), (13, 21))  # in mu and in lam: the first that suffice
STEPS_PER_PIECE = 4  # width of a piece in mu, in steps of the rule: 1 for lam up to 8
LATTICE = [0.0, 0.25, 0.5, *(2 ** (i / 2) for i in range(60))]  # ends of pieces in lam
NARROWEST = 1e-3  # piece in mu, for lam of nearly 0
COUNT = len(COEFFICIENTS)
WIDTH = 8  # numbers side by side in memory: the coefficients and a 0
NEGLIGIBLE = 1e-12  # part of the largest value below which errors are judged as if it had that size
CHECKED = 0.37  # where in each piece the error is measured: not a node


class Table(NamedTuple):
    """Pieces for all mu and for lam from low to high; compiled code reads the arrays."""

    cuts: FloatArray  # (pieces + 1,) ends of the pieces in lam
    first: Any  # (pieces + 1,) number of each piece's first interval in mu
    low: FloatArray  # (pieces,) lowest mu
    scale: FloatArray  # (pieces,) intervals per unit of mu
    # (intervals, degree in lam + 1, degree in mu + 1, WIDTH): Chebyshev's in lam, powers in mu
    polynomials: FloatArray
    error: float  # measured, relative


@functools.lru_cache(maxsize=64)
def table(task: Task, low: float, high: float) -> Table:
    """The table for one lam (low = high), or for all lam from low to high.

    >>> table(task, 0.1, 0.1).error < 1e-9
    True
    """
    cuts = _cuts(low, high)
    pieces = [_piece(task, *ends) for ends in itertools.pairwise(cuts)]
    shapes = np.array([piece.polynomials.shape for piece in pieces])
    polynomials = np.zeros((shapes[:, 0].sum(), *shapes[:, 1:].max(axis=0)))
    first = np.concatenate([[0], np.cumsum(shapes[:, 0])])
    for start, piece in zip(first, pieces, strict=False):  # with a 0 for each missing power
        count, in_lam, in_mu, _ = piece.polynomials.shape
        polynomials[start : start + count, :in_lam, :in_mu] = piece.polynomials
    lows, scales = np.array([(piece.low, piece.scale) for piece in pieces]).T.copy()
    error = max(piece.error for piece in pieces)
    return Table(np.array(cuts), first, lows, scales, polynomials, error)


def make_pieces(task: Task, low: float, high: float, working: Callable[[], object]) -> None:
    """Make what ``table`` puts together, with a call of ``working`` before each piece."""
    for ends in itertools.pairwise(_cuts(low, high)):
        working()
        _piece(task, *ends)


def _cuts(low: float, high: float) -> list[float]:
    """The ends of the pieces of a table."""
    if high > LATTICE[-1]:
        raise ValueError(f"softmax attention needs lam of at most {LATTICE[-1]:g}, not {high:g}")
    return [low, high] if low == high else _lattice_around(low, high)


def _lattice_around(low: float, high: float) -> list[float]:
    """The ends of pieces that cover lam from low to high: the same ones in every table."""
    first = bisect.bisect_right(LATTICE, low) - 1
    last = max(first + 1, bisect.bisect_left(LATTICE, high))
    return LATTICE[first : last + 1]


@functools.lru_cache(maxsize=256)
def _piece(task: Task, lam_low: float, lam_high: float) -> "_Piece":
    """The piece between two lam, of the lowest degrees that reach the tolerance."""
    error = math.inf
    for degrees in DEGREES:
        with threadpool_limits(1, user_api="blas"):  # small products: threads would only wait
            piece = _Piece.of(task, lam_low, lam_high, *degrees)
        if (error := piece.error) <= TOLERANCE:
            return piece
    raise ValueError(
        f"the softmax table of {task}, lam {lam_low:g} to {lam_high:g}, has an error of {error:.1e}"
        f" instead of {TOLERANCE:g}; choose a smaller lam"
    )


class _Piece(NamedTuple):
    """All intervals of mu, for lam between two ends."""

    low: float
    scale: float
    polynomials: FloatArray
    error: float

    @classmethod
    def of(cls, task: Task, lam_low: float, lam_high: float, in_mu: int, in_lam: int) -> "_Piece":
        step = grid_step(task, lam_low)
        ends = reach(task, lam_high)
        low, high = max(ends[0], -lam_high * task.signal), min(ends[1], lam_high * task.signal)
        width = min(STEPS_PER_PIECE * step, max(high - low, NARROWEST))
        count = max(1, math.ceil((high - low) / width))
        x = chebyshev.chebpts1(in_mu)
        constant = lam_high == lam_low or task.L == 1  # in lam
        tau = np.zeros(1) if constant else chebyshev.chebpts1(in_lam + 1)
        middle, half = (lam_low + lam_high) / 2, (lam_high - lam_low) / 2
        nodes = Nodes(low, width, count, x)
        values = [coefficients(task, middle + half * t, nodes, step) for t in tau]
        series = [_integrated(sample, x, width) for sample in values]  # (count, in_mu + 1, 7) each
        polynomials = np.zeros((count, len(tau), in_mu + 1, WIDTH))
        polynomials[..., :COUNT] = np.einsum("jt,tcpf->cjpf", _to_chebyshev(tau), series)
        # Against the rule with half the steps, between the nodes.
        aside = CHECKED if len(tau) > 1 else 0.0
        check = nodes._replace(x=np.array([CHECKED]))
        exact = coefficients(task, middle + half * aside, check, step, fineness=2)[..., 0]
        error = _error(polynomials, exact, values, aside, width, task.gamma)
        return cls(low, 1 / width, polynomials, error)


def _integrated(sample: FloatArray, x: FloatArray, width: float) -> FloatArray:
    """Polynomials in x on [-1, 1] from values and derivatives in mu at the nodes x."""
    values, slopes = sample
    series = np.einsum("kx,fcx->kcf", _to_chebyshev(x), slopes * width / 2)
    series = chebyshev.chebint(series)
    at_nodes = np.einsum("xk,kcf->fcx", chebyshev.chebvander(x, len(x)), series)
    series[0] += (values - at_nodes).mean(axis=2).T
    return np.einsum("pk,kcf->cpf", _powers_of_chebyshev(len(x) + 1), series)


def _to_chebyshev(nodes: FloatArray) -> FloatArray:
    """From values at Chebyshev points to the coefficients of the polynomial through them."""
    n = len(nodes)
    matrix: FloatArray = chebyshev.chebvander(nodes, n - 1).T * 2 / n
    matrix[0] /= 2
    return matrix


def _powers_of_chebyshev(n: int) -> FloatArray:
    """From coefficients of T_0 .. T_(n-1) to those of powers."""
    columns = [chebyshev.cheb2poly(row) for row in np.eye(n)]
    return np.array([np.pad(column, (0, n - len(column))) for column in columns]).T


def _error(
    polynomials: FloatArray,
    exact: FloatArray,
    samples: list[FloatArray],
    tau: float,
    width: float,
    gamma: float,
) -> float:
    """The largest error of values and derivatives at one point per interval, relative.

    The scale is the largest value in the interval or, for W and U, that of g^2 P: these two are
    differences of such terms, which nearly cancel in long sequences at gamma = 1.
    """
    powers = CHECKED ** np.arange(polynomials.shape[2])
    slope_powers = np.arange(len(powers)) * CHECKED ** np.maximum(np.arange(len(powers)) - 1, 0)
    in_lam = chebyshev.chebvander(np.array([tau]), polynomials.shape[1] - 1)[0]
    at_tau = np.einsum("cjpf,j->pfc", polynomials, in_lam)
    at_tau = at_tau[:, :COUNT]
    found = np.array(
        [np.tensordot(powers, at_tau, 1), np.tensordot(slope_powers, at_tau, 1) * 2 / width]
    )
    scale = np.max([abs(sample).max(axis=3) for sample in samples], axis=0)
    parts = gamma**2 * scale[:, COEFFICIENTS.index("P")]
    for name in ("W", "U"):
        scale[:, COEFFICIENTS.index(name)] = np.maximum(scale[:, COEFFICIENTS.index(name)], parts)
    scale += NEGLIGIBLE * scale.max(axis=2, keepdims=True)
    return float(np.max(abs(found - exact) / (scale + 1e-300)))


@compiled()
def look_up(table: Table, mu: Any, lam: Any, found: Any) -> None:
    """Fill in values and derivatives in mu, and in lam at fixed mu if there are rows for them.

    ``found`` has 2 or 3 times WIDTH rows, and one column per point.
    """
    cuts, first, low, scale, polynomials, _ = table
    by_lam = len(found) > 2 * WIDTH
    in_lam, in_mu = polynomials.shape[1], polynomials.shape[2]
    inner, inner_slope = np.zeros((in_mu, WIDTH)), np.zeros((in_mu, WIDTH))
    last, last_lam = -1, -1.0
    for point in range(len(mu)):
        piece = 0
        while piece < len(low) - 1 and lam[point] > cuts[piece + 1]:
            piece += 1
        place = (mu[point] - low[piece]) * scale[piece]
        count = float(first[piece + 1] - first[piece])
        place = count if place > count else (place if place > 0.0 else place * 0.0)  # NaN stays
        interval = first[piece] + int(min(place, count - 1)) if place == place else first[piece]
        x = 2 * (place - (interval - first[piece])) - 1
        half = (cuts[piece + 1] - cuts[piece]) / 2
        if in_lam == 1:
            row = polynomials[interval, 0]
        else:
            row = inner
            if interval != last or lam[point] != last_lam:  # neighbours often share both
                last, last_lam = interval, lam[point]
                tau = (lam[point] - cuts[piece]) / half - 1
                _in_lam(polynomials[interval], tau, inner, inner_slope, by_lam)
        value, slope = _in_mu(row, x)
        for f in range(COUNT):
            found[f, point] = value[f]
            found[WIDTH + f, point] = slope[f] * 2 * scale[piece]
        if by_lam:
            value, _ = _in_mu(inner_slope, x)
            for f in range(COUNT):
                found[2 * WIDTH + f, point] = value[f] / half if half > 0 else math.nan


@compiled()
def _in_lam(series: Any, tau: float, value: Any, slope: Any, by_lam: bool) -> None:
    """Polynomials in mu at one lam, and their derivatives in tau: Clenshaw's rule, side by side."""
    flat, value, slope = series.reshape(len(series), -1), value.ravel(), slope.ravel()
    before, slope_before = np.zeros(len(value)), np.zeros(len(value))
    value[:], slope[:] = 0.0, 0.0
    for j in range(len(flat) - 1, -1, -1):
        double = 2 * tau if j else tau
        if by_lam:
            for i in range(len(value)):
                old = slope[i]
                slope[i] = double * old - slope_before[i] + (2 if j else 1) * value[i]
                slope_before[i] = old
        for i in range(len(value)):
            old = value[i]
            value[i] = double * old - before[i] + flat[j, i]
            before[i] = old


@inlined
def _in_mu(row: Any, x: Any) -> Any:
    """Values and derivatives of the seven polynomials, as tuples, which stay in registers."""
    zero = x * 0.0
    value = slope = (zero, zero, zero, zero, zero, zero, zero)
    for i in range(len(row) - 1, -1, -1):
        slope = _plus(slope, x, value)
        value = _plus(value, x, row[i])
    return value, slope


@inlined
def _plus(a: Any, x: Any, b: Any) -> Any:
    return (
        a[0] * x + b[0],
        a[1] * x + b[1],
        a[2] * x + b[2],
        a[3] * x + b[3],
        a[4] * x + b[4],
        a[5] * x + b[5],
        a[6] * x + b[6],
    )
