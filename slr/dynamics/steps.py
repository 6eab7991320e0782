"""One step of PGD in four dimensions, of many runs at once, on the risk of any gate.

The gradients lie in the span of (k*, v*, k, v), so a run never leaves the four dimensions that it
starts in, and no cost depends on d (docs/theory.md, section 3).
"""

import math
from typing import Any

import numpy as np

from slr.compiled import compiled
from slr.gates.interface import gradients, lam_gradients
from slr.overlaps import Overlaps
from slr.special import INLINE

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


@compiled(**INLINE)
def lengthened(k: Any, gradient: Any, lam: float, lam_slope: float, step_size: float) -> Any:
    """lam k - step_size (gradient of the risk in lam k): k of free length, whose length is lam.

    Along k that gradient is the derivative in lam, and across k the one in k over lam.
    """
    along = dot(k, gradient)
    keep = lam - step_size * lam_slope + step_size / lam * along
    across = step_size / lam
    return (
        keep * k[0] - across * gradient[0],
        keep * k[1] - across * gradient[1],
        keep * k[2] - across * gradient[2],
        keep * k[3] - across * gradient[3],
    )


@compiled(**INLINE)
def chained(slopes: Any, x: Any, lane: int, first: int, second: int) -> Any:
    """The gradient of the risk in k or v, by the chain rule through the overlaps.

    ``first`` and ``second`` are the overlaps with k* and v*, and x is the other one of k and v.
    """
    rho = slopes[4, lane]
    along_k, along_v = rho * x[0] + slopes[first, lane], rho * x[1] + slopes[second, lane]
    return along_k, along_v, rho * x[2], rho * x[3]


@compiled()
def pgd_lanes(
    vectors: Any, model: Any, lam: float, step_size: float, overlaps: Any, slopes: Any
) -> None:
    """One step of projected gradient descent of LANES runs with equal settings, in place.

    ``vectors`` is flat: coordinate i of (k, v) of a run lies at i LANES + lane. The model is that
    of a gate (slr/gates/interface.py). ``overlaps`` and ``slopes``, (5, LANES), are filled anew.
    """
    fill_overlaps(vectors, overlaps)
    gradients(model, overlaps, lam, slopes)
    for lane in range(LANES):
        k, v = lane_of(vectors, lane)
        k_slope, v_slope = chained(slopes, v, lane, 0, 3), chained(slopes, k, lane, 2, 1)
        put(vectors, lane, moved(k, k_slope, step_size), moved(v, v_slope, step_size))


@compiled()
def free_lanes(
    vectors: Any, model: Any, lam: Any, step_size: float, overlaps: Any, slopes: Any
) -> None:
    """One step of runs that also learn their lam, of shape (LANES,): descent in lam k and v."""
    fill_overlaps(vectors, overlaps)
    lam_slopes = np.empty(LANES)
    gradients(model, overlaps, lam, slopes)
    lam_gradients(model, overlaps, lam, lam_slopes)
    for lane in range(LANES):
        k, v = lane_of(vectors, lane)
        k_slope, v_slope = chained(slopes, v, lane, 0, 3), chained(slopes, k, lane, 2, 1)
        long = lengthened(k, k_slope, lam[lane], lam_slopes[lane], step_size)
        scale = inverse_root(dot(long, long))
        lam[lane] = 1 / scale
        k = (scale * long[0], scale * long[1], scale * long[2], scale * long[3])
        put(vectors, lane, k, moved(v, v_slope, step_size))


@compiled(**INLINE)
def fill_overlaps(vectors: Any, overlaps: Any) -> None:
    """The overlaps of all lanes, shape (5, LANES)."""
    for lane in range(LANES):
        k, v = lane_of(vectors, lane)
        point = overlaps_of(k, v)
        for i in range(5):
            overlaps[i, lane] = point[i]


@compiled(**INLINE)
def put(vectors: Any, lane: int, k: Any, v: Any) -> None:
    """Store k and v of one of the runs."""
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
