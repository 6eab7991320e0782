"""One step of SGD on a fresh batch, with the law that it would have on vectors in R^d.

The gradients are sums of Gaussian tokens X with weights that see X only through X.k, X.v and Y.
Given the weights, the rest of each sum is Gaussian and is drawn at once, so no cost depends on d.
docs/theory.md, section 4, derives this.

notation: f1 .. f4 is an orthonormal frame of (k, v, k*, v*) that begins with k
          X1 .. X4 are the coordinates of a token in this frame; X.k = X1
"""

import math
from typing import Any, NamedTuple

import numpy as np

from slr.compiled import compiled
from slr.dynamics.steps import inverse_root
from slr.gates.interface import weigh
from slr.overlaps import Overlaps
from slr.special import FUSED, INLINE

VECTOR = 8  # numbers in the widest vector: arrays of tokens are filled up to a multiple of it


class Batch(NamedTuple):
    """Arrays that every step fills anew. Tokens have rows X1, X2 and their weights."""

    noise: Any  # (4, tokens), one sequence after the other: X1, X2, weight_k, weight_v
    informative: Any  # (6, sequences): and X3, X4
    label: Any  # (batch_size,)
    gradient: Any  # (2, 6) in k and v: along f1 .. f4, and in a plane beyond f4 that holds the rest
    moved: Any  # (2, 6) k and v after the step


@compiled(**INLINE)
def empty_batch(batch_size: int, n: int) -> Batch:
    """Arrays for ``batch_size`` sequences of one informative and n noise tokens."""
    noise, informative = -(-batch_size * n // VECTOR), -(-batch_size // VECTOR)
    return Batch(
        np.zeros((4, noise * VECTOR)),
        np.zeros((6, informative * VECTOR)),
        np.zeros(batch_size),
        np.zeros((2, 6)),
        np.zeros((2, 6)),
    )


@compiled(**INLINE)
def sgd_step(
    overlaps: Overlaps,
    model: Any,
    constants: Any,
    lam: float,
    step_size: float,
    learn_lam: bool,
    rng: np.random.Generator,
    batch: Batch,
) -> Any:
    """The overlaps and lam after one step; constants d, gamma, n = L - 1, noise_std, batch_size.

    The model is that of a gate (slr/gates/interface.py).
    """
    d, gamma = constants[:2]
    v, k_star, v_star = frame(overlaps)
    sample_tokens(batch, constants, k_star, v_star, rng)
    weigh(model, batch.noise, batch.informative, constants[2], v, lam)
    noise, signal = add_tokens(batch, constants[2], v)
    add_the_rest(batch.gradient, noise, signal, d, gamma, rng)

    k_moved, v_moved = batch.moved[0], batch.moved[1]
    k_moved[:], v_moved[:] = 0.0, 0.0
    k_moved[0], v_moved[0], v_moved[1] = 1.0, v[0], v[1]
    if learn_lam:
        lam = move_free(k_moved, batch.gradient[0], lam, step_size)
    else:
        move(k_moved, batch.gradient[0], step_size)
    move(v_moved, batch.gradient[1], step_size)
    moved = Overlaps(
        inner(k_moved, k_star),
        inner(v_moved, v_star),
        inner(v_moved, k_star),
        inner(k_moved, v_star),
        inner(k_moved, v_moved),
    )
    return moved, lam


@compiled(**INLINE)
def frame(overlaps: Overlaps) -> Any:
    """Coordinates of v, k* and v* in the frame, as tuples.

    f1 = k, f2 = v off k, f3 = k* off (k, v), f4 = v* off (k, v, k*), each normalised. If nothing is
    left of a vector, its direction is arbitrary and its coordinate 0.
    """
    kappa, nu, theta, eta, rho = overlaps
    off = math.sqrt(max(0.0, 1 - rho * rho))
    k_2 = (theta - rho * kappa) / off if off > 0 else 0.0
    v_2 = (nu - rho * eta) / off if off > 0 else 0.0
    k_3 = math.sqrt(max(0.0, 1 - kappa * kappa - k_2 * k_2))
    v_3 = -(kappa * eta + k_2 * v_2) / k_3 if k_3 > 0 else 0.0  # k*.v* = 0
    v_4 = math.sqrt(max(0.0, 1 - eta * eta - v_2 * v_2 - v_3 * v_3))
    return (rho, off, 0.0, 0.0), (kappa, k_2, k_3, 0.0), (eta, v_2, v_3, v_4)


@compiled(**INLINE)
def sample_tokens(
    batch: Batch, constants: Any, k_star: Any, v_star: Any, rng: np.random.Generator
) -> None:
    """Draw what the weights depend on: X1 and X2, and for informative tokens X3, X4 and Y."""
    d, gamma, n, noise_std, batch_size = constants
    h = math.sqrt(d / 2)
    for i in range(batch_size * n):
        batch.noise[0, i] = rng.standard_normal()
        batch.noise[1, i] = rng.standard_normal()
    rows = (0, 1, 4, 5)  # of X1 .. X4
    for i in range(batch_size):
        batch.label[i] = noise_std * rng.standard_normal()
        for j in range(4):
            x = h * k_star[j] + gamma * rng.standard_normal()
            batch.informative[rows[j], i] = x
            batch.label[i] += v_star[j] * x


@compiled(**INLINE)
def add_tokens(batch: Batch, n: int, v: Any) -> Any:
    """Set the gradients to what the drawn coordinates of all tokens add to them.

    Return sums of products of weights (kk, kv, vv), of noise and of informative tokens: the
    covariances of what the coordinates that were not drawn will add (``add_the_rest``).
    """
    gradient = batch.gradient
    gradient[:] = 0.0
    noise_kk = noise_kv = noise_vv = signal_kk = signal_kv = signal_vv = 0.0
    for i in range(len(batch.label)):
        k1, k2, v1, v2, kk, kv, vv = weighted_sums(batch.noise, i * n, (i + 1) * n)
        x1, x2 = batch.informative[0, i], batch.informative[1, i]
        weight_k, weight_v = batch.informative[2, i], batch.informative[3, i]
        x3, x4 = batch.informative[4, i], batch.informative[5, i]
        prediction = v[0] * v1 + v[1] * v2 + weight_v * (v[0] * x1 + v[1] * x2)
        error = -2 * (batch.label[i] - prediction) / len(batch.label)

        gradient[0, 0] += error * (k1 + weight_k * x1)
        gradient[0, 1] += error * (k2 + weight_k * x2)
        gradient[0, 2] += error * weight_k * x3
        gradient[0, 3] += error * weight_k * x4
        gradient[1, 0] += error * (v1 + weight_v * x1)
        gradient[1, 1] += error * (v2 + weight_v * x2)
        gradient[1, 2] += error * weight_v * x3
        gradient[1, 3] += error * weight_v * x4

        squared = error * error
        noise_kk += squared * kk
        noise_kv += squared * kv
        noise_vv += squared * vv
        signal_kk += squared * weight_k * weight_k
        signal_kv += squared * weight_k * weight_v
        signal_vv += squared * weight_v * weight_v
    return (noise_kk, noise_kv, noise_vv), (signal_kk, signal_kv, signal_vv)


@compiled(**FUSED)
def weighted_sums(tokens: Any, first: int, last: int) -> Any:
    """Sums over tokens of weight_k X, weight_v X (along f1 and f2) and of products of weights."""
    k1 = k2 = v1 = v2 = kk = kv = vv = 0.0
    for i in range(first, last):
        x1, x2, weight_k, weight_v = tokens[0, i], tokens[1, i], tokens[2, i], tokens[3, i]
        k1 += weight_k * x1
        k2 += weight_k * x2
        v1 += weight_v * x1
        v2 += weight_v * x2
        kk += weight_k * weight_k
        kv += weight_k * weight_v
        vv += weight_v * weight_v
    return k1, k2, v1, v2, kk, kv, vv


@compiled(**INLINE)
def add_the_rest(
    gradient: Any, noise: Any, signal: Any, d: float, gamma: float, rng: np.random.Generator
) -> None:
    """Add what the coordinates that were not drawn add to the gradients, given the weights."""
    # Along f3 and f4 the noise tokens add N(0, noise) to (gradient_k, gradient_v).
    a, b, c = cholesky_2x2(*noise)
    for j in range(2, 4):
        first, second = rng.standard_normal(), rng.standard_normal()
        gradient[0, j] += a * first
        gradient[1, j] += b * first + c * second
    # In the d - 4 dimensions beyond f4 the gradients' inner products are Wishart (Bartlett).
    g2 = gamma * gamma
    a, b, c = cholesky_2x2(
        noise[0] + g2 * signal[0], noise[1] + g2 * signal[1], noise[2] + g2 * signal[2]
    )
    root_1, root_2 = math.sqrt(rng.chisquare(d - 4)), math.sqrt(rng.chisquare(d - 5))
    gradient[0, 4] = a * root_1
    gradient[1, 4] = b * root_1 + c * rng.standard_normal()
    gradient[1, 5] = c * root_2


@compiled(**INLINE)
def cholesky_2x2(xx: float, xy: float, yy: float) -> Any:
    """The Cholesky factor (a, b, c) of the positive semi-definite matrix (xx, xy, yy)."""
    a = math.sqrt(xx)
    b = xy / a if a > 0 else 0.0
    return a, b, math.sqrt(max(0.0, yy - b * b))


@compiled(**INLINE)
def move(x: Any, gradient: Any, step_size: float) -> None:
    """x <- normalise(x - step_size (I - x x^T) gradient), in place."""
    along = inner(x, gradient)
    for j in range(len(x)):
        x[j] -= step_size * (gradient[j] - along * x[j])
    scale = inverse_root(inner(x, x))
    for j in range(len(x)):
        x[j] *= scale


@compiled(**INLINE)
def move_free(x: Any, gradient: Any, lam: float, step_size: float) -> float:
    """lam x <- lam x - step_size (gradient in lam x); x stays a unit vector. Return the new lam.

    A prediction depends on lam and k through lam k alone: that gradient is the one in k over lam.
    """
    for j in range(len(x)):
        x[j] = lam * x[j] - step_size / lam * gradient[j]
    scale = inverse_root(inner(x, x))
    for j in range(len(x)):
        x[j] *= scale
    return 1 / scale


@compiled(**INLINE)
def inner(x: Any, y: Any) -> float:
    """The inner product, over the coordinates that y has."""
    total = 0.0
    for j in range(len(y)):
        total += x[j] * y[j]
    return total
