"""One step of PGD in four dimensions, of many runs at once.

The gradients lie in the span of (k*, v*, k, v), so a run never leaves the four dimensions that it
starts in, and no cost depends on d (docs/theory.md, section 3).
"""

import math
from typing import Any

import numpy as np

from slr.dynamics.compiled import compiled
from slr.erf_risk import partial_derivatives
from slr.overlaps import Overlaps
from slr.special import FEW, FEW_UP_TO, INLINE, MANY, half_interval

LANES = 32  # runs of PGD that advance together: the paper's 30 fit
MIN_D_SGD = 6  # the part of the gradients off (k*, v*, k, v) has d - 4 >= 2 dimensions


@compiled(**INLINE)
def inverse_root(squared: float) -> float:
    """1/sqrt(squared), or NaN where the square overflowed: the run has diverged."""
    return 1 / math.sqrt(squared) if squared < math.inf else math.nan


@compiled()
def embedding(overlaps: Overlaps) -> Any:
    """k and v in R^4 with these overlaps, as a (2, 4) array; there k* = e1 and v* = e2."""
    kappa, nu, theta, eta, rho = overlaps
    vectors = np.zeros((2, 4))
    k, v = vectors
    k[0], k[1] = kappa, eta
    k[2] = math.sqrt(max(0.0, 1 - kappa * kappa - eta * eta))
    v[0], v[1] = theta, nu
    if k[2] > 0:
        v[2] = (rho - kappa * theta - eta * nu) / k[2]
    rest = 1 - v[0] ** 2 - v[1] ** 2 - v[2] ** 2
    if rest > 0:
        v[3] = math.sqrt(rest)
    else:  # v in the span of (k*, v*, k): round-off, or an overlap at the edge of what is possible
        v /= math.sqrt(1 - rest)
    return vectors


@compiled(**INLINE)
def overlaps_of(k: Any, v: Any) -> Overlaps:
    """Overlaps of k and v in the coordinates of the embedding."""
    return Overlaps(k[0], v[1], v[0], k[1], k[0] * v[0] + k[1] * v[1] + k[2] * v[2] + k[3] * v[3])


@compiled(**INLINE)
def pgd_step(k: Any, v: Any, constants: Any, lam: float, step_size: float, rule: Any) -> Any:
    """One step of projected gradient descent on the risk; constants h = sqrt(d/2), gamma, L - 1.

    k and v are tuples of coordinates in the embedding: tuples stay in registers.
    """
    gradient_k, gradient_v = gradients(k, v, constants, lam, rule)
    return moved(k, gradient_k, step_size), moved(v, gradient_v, step_size)


@compiled(**INLINE)
def gradients(k: Any, v: Any, constants: Any, lam: float, rule: Any) -> Any:
    """The gradients of the risk in k and in v, by the chain rule through the overlaps."""
    r = partial_derivatives(overlaps_of(k, v), *constants, lam, rule)
    gradient_k = (r.rho * v[0] + r.kappa, r.rho * v[1] + r.eta, r.rho * v[2], r.rho * v[3])
    gradient_v = (r.rho * k[0] + r.theta, r.rho * k[1] + r.nu, r.rho * k[2], r.rho * k[3])
    return gradient_k, gradient_v


@compiled(**INLINE)
def moved(x: Any, gradient: Any, step_size: float) -> Any:
    """normalise(x - step_size (I - x x^T) gradient), for tuples of four."""
    keep = 1 + step_size * dot(x, gradient)
    y = (
        keep * x[0] - step_size * gradient[0],
        keep * x[1] - step_size * gradient[1],
        keep * x[2] - step_size * gradient[2],
        keep * x[3] - step_size * gradient[3],
    )
    scale = inverse_root(dot(y, y))
    return scale * y[0], scale * y[1], scale * y[2], scale * y[3]


@compiled(**INLINE)
def dot(x: Any, y: Any) -> Any:
    """The inner product of tuples of four."""
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3]


@compiled()
def pgd_lanes(vectors: Any, constants: Any, lam: float, step_size: float) -> None:
    """One step of LANES runs with equal settings, in place.

    ``vectors`` is flat: coordinate i of (k, v) of a run lies at i LANES + lane.
    """
    if half_interval(lam * constants[1]) < FEW_UP_TO:
        _lockstep(vectors, constants, lam, step_size, FEW)
    else:
        _lockstep(vectors, constants, lam, step_size, MANY)


@compiled()
def _lockstep(vectors: Any, constants: Any, lam: float, step_size: float, rule: Any) -> None:
    # The loop has no branch, no call and only distances in memory that the compiler knows: so it
    # becomes vector instructions, and what depends on lam alone is computed once.
    for lane in range(LANES):
        k, v = lane_of(vectors, lane)
        k, v = pgd_step(k, v, constants, lam, step_size, rule)
        for i in range(4):
            vectors[lane + i * LANES] = k[i]
            vectors[lane + (i + 4) * LANES] = v[i]


@compiled(**INLINE)
def lane_of(vectors: Any, lane: int) -> Any:
    """k and v of one of the runs, as tuples."""
    k = (lane, lane + LANES, lane + 2 * LANES, lane + 3 * LANES)
    v = (lane + 4 * LANES, lane + 5 * LANES, lane + 6 * LANES, lane + 7 * LANES)
    return (
        (vectors[k[0]], vectors[k[1]], vectors[k[2]], vectors[k[3]]),
        (vectors[v[0]], vectors[v[1]], vectors[v[2]], vectors[v[3]]),
    )
