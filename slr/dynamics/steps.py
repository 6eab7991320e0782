"""One step of training in a few dimensions, which slr/dynamics/reduced.py repeats.

PGD: the gradients lie in the span of (k*, v*, k, v), so a run never leaves the four dimensions
it starts in. SGD: the gradients are sums of Gaussian tokens with weights that see only X.k, X.v and
Y; given the weights, the rest of each sum is Gaussian and drawn at once. No cost depends on d.
docs/theory.md derives both.
"""

import math
from typing import Any

import numpy as np

from slr.dynamics.compiled import compiled
from slr.erf_risk import partial_derivatives
from slr.overlaps import Overlaps
from slr.special import FEW, FEW_UP_TO, INLINE, MANY, TWO_OVER_SQRT_PI, half_interval

LANES = 32  # runs of PGD that advance together: the paper's 30 fit
MIN_D_SGD = 6  # the part of the gradients off (k*, v*, k, v) has d - 4 >= 2 dimensions


@compiled(**INLINE)
def inverse_root(squared: float) -> float:
    """1/sqrt(squared), or NaN where the square overflowed: the run has diverged."""
    return 1 / math.sqrt(squared) if squared < math.inf else math.nan


@compiled()
def move(x: Any, gradient: Any, step_size: float) -> None:
    """x <- normalise(x - step_size (I - x x^T) gradient), in place."""
    along = 0.0
    for j in range(len(x)):
        along += x[j] * gradient[j]
    squared = 0.0
    for j in range(len(x)):
        x[j] -= step_size * (gradient[j] - along * x[j])
        squared += x[j] * x[j]
    scale = inverse_root(squared)
    for j in range(len(x)):
        x[j] *= scale


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
    r = partial_derivatives(overlaps_of(k, v), *constants, lam, rule)
    gradient_k = (r.rho * v[0] + r.kappa, r.rho * v[1] + r.eta, r.rho * v[2], r.rho * v[3])
    gradient_v = (r.rho * k[0] + r.theta, r.rho * k[1] + r.nu, r.rho * k[2], r.rho * k[3])
    return moved(k, gradient_k, step_size), moved(v, gradient_v, step_size)


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


@compiled()
def frame(overlaps: Overlaps) -> Any:
    """Coordinates of v, k* and v* in an orthonormal frame f that begins with k, as a (3, 4) array.

    f1 = k, f2 = v off k, f3 = k* off (k, v), f4 = v* off (k, v, k*), each normalised. If nothing is
    left of a vector, its direction is arbitrary and its coordinate 0.
    """
    kappa, nu, theta, eta, rho = overlaps
    coordinates = np.zeros((3, 4))
    v, k_star, v_star = coordinates
    v[0], v[1] = rho, math.sqrt(max(0.0, 1 - rho * rho))
    k_star[0], v_star[0] = kappa, eta
    if v[1] > 0:
        k_star[1] = (theta - rho * kappa) / v[1]
        v_star[1] = (nu - rho * eta) / v[1]
    k_star[2] = math.sqrt(max(0.0, 1 - k_star[0] ** 2 - k_star[1] ** 2))
    if k_star[2] > 0:  # k*.v* = 0
        v_star[2] = -(k_star[0] * v_star[0] + k_star[1] * v_star[1]) / k_star[2]
    v_star[3] = math.sqrt(max(0.0, 1 - v_star[0] ** 2 - v_star[1] ** 2 - v_star[2] ** 2))
    return coordinates


@compiled()
def sgd_step(
    overlaps: Overlaps, constants: Any, lam: float, step_size: float, rng: np.random.Generator
) -> Overlaps:
    """The overlaps after one step on a fresh batch, with the law that vectors in R^d would have.

    The constants are d, gamma, n = L - 1, noise_std and batch_size.
    """
    d, gamma, n, noise_std, batch_size = constants
    h = math.sqrt(d / 2)
    v, k_star, v_star = frame(overlaps)
    rho, off = v[0], v[1]
    slope = lam * TWO_OVER_SQRT_PI

    # Gradients in k and in v: along f1 .. f4, and in a plane beyond f4 that holds the rest of both.
    gradient = np.zeros((2, 6))
    # Sums of products of the tokens' weights (kk, kv, vv). `noise` is the covariance of what noise
    # tokens add along f3 and f4; noise + gamma^2 signal is the covariance beyond f4.
    noise = np.zeros(3)
    signal = np.zeros(3)
    x = np.zeros(4)
    for _ in range(batch_size):
        # Noise tokens: only X.f1 = X.k and X.f2 are drawn, X.v = rho X.f1 + off X.f2.
        k1 = k2 = v1 = v2 = kk = kv = vv = 0.0
        for _ in range(n):
            x1, x2 = rng.standard_normal(), rng.standard_normal()
            score = lam * x1
            weight_v = math.erf(score)
            weight_k = slope * math.exp(-score * score) * (rho * x1 + off * x2)
            k1 += weight_k * x1
            k2 += weight_k * x2
            v1 += weight_v * x1
            v2 += weight_v * x2
            kk += weight_k * weight_k
            kv += weight_k * weight_v
            vv += weight_v * weight_v
        # The informative token: all of X.f1 .. X.f4, since Y depends on them.
        label = noise_std * rng.standard_normal()
        for j in range(4):
            x[j] = h * k_star[j] + gamma * rng.standard_normal()
            label += v_star[j] * x[j]
        value = rho * x[0] + off * x[1]
        score = lam * x[0]
        weight_v = math.erf(score)
        weight_k = slope * math.exp(-score * score) * value
        prediction = rho * v1 + off * v2 + weight_v * value

        error = -2 * (label - prediction) / batch_size
        gradient[0, 0] += error * k1
        gradient[0, 1] += error * k2
        gradient[1, 0] += error * v1
        gradient[1, 1] += error * v2
        for j in range(4):
            gradient[0, j] += error * weight_k * x[j]
            gradient[1, j] += error * weight_v * x[j]
        squared = error * error
        noise[0] += squared * kk
        noise[1] += squared * kv
        noise[2] += squared * vv
        signal[0] += squared * weight_k * weight_k
        signal[1] += squared * weight_k * weight_v
        signal[2] += squared * weight_v * weight_v

    # Along f3 and f4 the noise tokens add N(0, noise) to (gradient_k, gradient_v).
    a, b, c = cholesky_2x2(noise)
    for j in range(2, 4):
        first, second = rng.standard_normal(), rng.standard_normal()
        gradient[0, j] += a * first
        gradient[1, j] += b * first + c * second
    # In the d - 4 dimensions beyond f4 the gradients' inner products are Wishart (Bartlett).
    a, b, c = cholesky_2x2(noise + gamma * gamma * signal)
    root_1, root_2 = math.sqrt(rng.chisquare(d - 4)), math.sqrt(rng.chisquare(d - 5))
    gradient[0, 4] = a * root_1
    gradient[1, 4] = b * root_1 + c * rng.standard_normal()
    gradient[1, 5] = c * root_2

    k_moved, v_moved = np.zeros(6), np.zeros(6)
    k_moved[0] = 1.0
    v_moved[:2] = v[:2]
    move(k_moved, gradient[0], step_size)
    move(v_moved, gradient[1], step_size)
    kappa = nu = theta = eta = 0.0
    for j in range(4):
        kappa += k_moved[j] * k_star[j]
        nu += v_moved[j] * v_star[j]
        theta += v_moved[j] * k_star[j]
        eta += k_moved[j] * v_star[j]
    rho = 0.0
    for j in range(6):
        rho += k_moved[j] * v_moved[j]
    return Overlaps(kappa, nu, theta, eta, rho)


@compiled()
def cholesky_2x2(matrix: Any) -> Any:
    """The Cholesky factor (a, b, c) of a positive semi-definite matrix (xx, xy, yy)."""
    a = math.sqrt(matrix[0])
    b = matrix[1] / a if a > 0 else 0.0
    return a, b, math.sqrt(max(0.0, matrix[2] - b * b))
