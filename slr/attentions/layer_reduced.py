"""Gradients of a one-head layer on fresh sequences, exact in law, without drawing the tokens.

The layer sees a sequence through the scores X_l.u, the context c = sum_l a_l X_l and, in the
gradient of its key u, sum_l r_l X_l, with r_l the derivative of the loss in score l. Given what was
drawn before, each is Gaussian: 2 d + 3 L normals per sequence have the law of L d of them.
docs/theory.md, section 8, has the derivation; it holds for every gate, any d and any number of
informative tokens.

notation: f_1 = v*, f_2 = u off v*, normalised         the frame: all that scores and Y see
          X_l = x_1l f_1 + x_2l f_2 + i_l h k' + s_l xi_l   with k' = k* off the frame
          i_l = 1, s_l = gamma for informative tokens (the first ones: the layer is blind to order)
          i_l = 0, s_l = 1 for the others; xi_l ~ N(0, I) off the frame, independent of the scores
          b = a s / |a s|                              so c = ... + |a s| eta, eta = sum_l b_l xi_l
          g = derivative of the loss in c              g' = g off the frame, normalised
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slr.attentions.layer import Architecture
from slr.attentions.layer_gradients import Array, Arrays, pullback, set_reader_gradients
from slr.attentions.layer_sampling import Stars
from slr.compiled import compiled
from slr.predictor import activate
from slr.task import Task

REORDER = {"reassoc", "contract", "nsz"}  # lets the compiler add several terms at once


class Law(NamedTuple):
    """The law of the sequences of a run."""

    v_star: Array  # (d,)
    mean: Array  # (d,): h k*
    spread: Array  # (L,): s_l
    informative: Array  # (L,): i_l
    share: Array  # (L,): of each token's value in Y
    noise: Array  # (): of the label


class Draws(NamedTuple):
    """All normals of a batch of n sequences."""

    x: Array  # (2, n, L): for the coordinates along f_1, f_2
    xi: Array  # (n, L): for those along g'
    eta: Array  # (n, d)
    rest: Array  # (n, d): for what is left of sum_l r_l X_l
    y: Array  # (n,): for the label's noise


def law_of(task: Task, n_informative: int, stars: Stars) -> Law:
    k, v = stars.k.numpy(), stars.v.numpy()
    informative = (np.arange(task.L) < n_informative).astype(k.dtype)
    spread = np.where(informative, task.gamma, 1).astype(k.dtype)
    return Law(v, task.signal * k, spread, informative, informative / n_informative, task.noise_std)


def draws_in(normals: Tensor, task: Task, n: int) -> Draws:
    """The parts of a tensor of n_draws normals."""
    shapes = _shapes(task, n)
    parts = torch.split(normals, [math.prod(shape) for shape in shapes])
    return Draws(*(part.view(shape).numpy() for part, shape in zip(parts, shapes, strict=True)))


def n_draws(task: Task, n: int) -> int:
    return sum(math.prod(shape) for shape in _shapes(task, n))


def _shapes(task: Task, n: int) -> list[tuple[int, ...]]:
    return [(2, n, task.L), (n, task.L), (n, task.d), (n, task.d), (n,)]


def set_gradients_in_law(
    law: Law, architecture: Architecture, values: Arrays, gradients: Arrays, draws: Draws
) -> None:
    """Set the gradients of the mean squared error over fresh sequences; uses the draws up."""
    gate, K, Q = architecture.gate, values["K"], values["Q"]
    query = Q.sum(axis=1) / math.sqrt(len(K))  # x_cls is the vector of ones
    directions, scores = _score(law, query @ K, draws)
    a = activate(scores, gate)
    b, context = _mix(law, directions, a, draws)
    g = set_reader_gradients(architecture, values, gradients, context, draws.y)
    if gate == "uniform":
        return  # no key to learn
    products = _multiply(law, directions, b, g, draws)
    r = pullback(gate, scores, a, products)
    du = _sum(law, directions, b, g, r, draws)
    np.multiply.outer(query, du, out=gradients["K"])
    gradients["Q"][:] = (K @ du / math.sqrt(len(K)))[:, None]


@compiled(fastmath=REORDER)
def _score(law: Law, key: Array, draws: Draws) -> tuple[Array, Array]:
    """f_1, f_2 and h k' as rows, and the scores (n, L); x and y become what they stand for."""
    directions = np.empty((3, len(key)), key.dtype)
    f1, f2, beyond = directions[0], directions[1], directions[2]
    f1[:], f2[:], beyond[:] = law.v_star, key, law.mean
    add(f2, -dot(key, f1), f1)
    normalise(f2)  # it stays 0 for a key along v*, which needs no second axis
    mean1, mean2, key1, key2 = dot(f1, law.mean), dot(f2, law.mean), dot(f1, key), dot(f2, key)
    add(beyond, -mean1, f1)
    add(beyond, -mean2, f2)
    x, y, scores = draws.x, draws.y, np.empty_like(draws.xi)
    for i in range(len(scores)):
        for token in range(len(law.spread)):
            x[0, i, token] = law.spread[token] * x[0, i, token] + law.informative[token] * mean1
            x[1, i, token] = law.spread[token] * x[1, i, token] + law.informative[token] * mean2
            scores[i, token] = key1 * x[0, i, token] + key2 * x[1, i, token]
        y[i] = law.noise * y[i] + dot(law.share, x[0, i])
    return directions, scores


@compiled(fastmath=REORDER)
def _mix(law: Law, directions: Array, a: Array, draws: Draws) -> tuple[Array, Array]:
    """b (n, L) and the context (n, d); eta loses its parts along the frame."""
    f1, f2, beyond = directions[0], directions[1], directions[2]
    x, eta = draws.x, draws.eta
    b, context = a * law.spread, np.empty_like(eta)
    for i in range(len(a)):
        length = normalise(b[i])
        sum1, sum2 = dot(a[i], x[0, i]), dot(a[i], x[1, i])
        mass, part1, part2 = dot(a[i], law.informative), dot(f1, eta[i]), dot(f2, eta[i])
        for j in range(len(f1)):
            off = eta[i, j] - part1 * f1[j] - part2 * f2[j]
            eta[i, j] = off
            context[i, j] = sum1 * f1[j] + sum2 * f2[j] + mass * beyond[j] + length * off
    return b, context


@compiled(fastmath=REORDER)
def _multiply(law: Law, directions: Array, b: Array, g: Array, draws: Draws) -> Array:
    """The g.X_l (n, L); g becomes g', and xi the g'.xi_l given eta."""
    f1, f2, beyond = directions[0], directions[1], directions[2]
    x, xi, eta, products = draws.x, draws.xi, draws.eta, np.empty_like(draws.xi)
    for i in range(len(g)):
        part1, part2, part3 = dot(f1, g[i]), dot(f2, g[i]), dot(beyond, g[i])
        for j in range(len(f1)):
            g[i, j] -= part1 * f1[j] + part2 * f2[j]
        length = normalise(g[i])
        missing = dot(g[i], eta[i]) - dot(b[i], xi[i])
        for token in range(len(law.spread)):
            xi[i, token] += missing * b[i, token]  # so that sum_l b_l xi_l is eta along g'
            products[i, token] = length * law.spread[token] * xi[i, token]
            products[i, token] += part1 * x[0, i, token] + part2 * x[1, i, token]
            products[i, token] += part3 * law.informative[token]
    return products


@compiled(fastmath=REORDER)
def _sum(law: Law, directions: Array, b: Array, g: Array, r: Array, draws: Draws) -> Array:
    """sum_l r_l X_l, summed over the sequences, shape (d,)."""
    f1, f2, beyond = directions[0], directions[1], directions[2]
    x, xi, eta, rest = draws.x, draws.xi, draws.eta, draws.rest
    off = np.zeros_like(f1)
    sum1 = sum2 = mass = off[0]
    rs = r * law.spread
    for i in range(len(g)):
        sum1 += dot(r[i], x[0, i])
        sum2 += dot(r[i], x[1, i])
        mass += dot(r[i], law.informative)
        # sum_l r_l s_l xi_l is known eta + unknown rest, except along g', where xi decides.
        along_g, known = dot(rs[i], xi[i]), dot(rs[i], b[i])
        add(rs[i], -known, b[i])
        unknown = normalise(rs[i])
        along_g -= known * dot(g[i], eta[i]) + unknown * dot(g[i], rest[i])
        for j in range(len(f1)):
            off[j] += known * eta[i, j] + unknown * rest[i, j] + along_g * g[i, j]
    sum1 -= dot(f1, off)  # only rest has parts along the frame
    sum2 -= dot(f2, off)
    for j in range(len(f1)):
        off[j] += sum1 * f1[j] + sum2 * f2[j] + mass * beyond[j]
    return off


@compiled(fastmath=REORDER)
def dot(x: Array, y: Array) -> Array:
    """x.y; for short vectors faster than a call of BLAS."""
    total = x[0] * 0
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@compiled(fastmath=REORDER)
def add(x: Array, factor: Array, y: Array) -> None:
    """x += factor y."""
    for j in range(len(x)):
        x[j] += factor * y[j]


@compiled(fastmath=REORDER)
def normalise(x: Array) -> Array:
    """Divide x by its length, which is returned; 0 stays 0."""
    length = np.sqrt(dot(x, x))
    if length > 0:
        for j in range(len(x)):
            x[j] /= length
    return length
