"""The five overlaps, on which the risk of (k, v) depends, and random starts of runs.

notation: kappa=<k,k*>  nu=<v,v*>  theta=<v,k*>  eta=<k,v*>  rho=<k,v>
The invariant manifold M is theta = eta = rho = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from slr.checks import check_whole
from slr.task import FloatArray, Task, Truth

GRAM_TOLERANCE = 1e-9


class Overlaps(NamedTuple):
    """Five numbers, or five arrays of one shape, in the order of the paper.

    >>> truth = sample_truth(task, rng)
    >>> Overlaps.of(truth.k_star, truth.v_star, truth).kappa.round(6)
    np.float64(1.0)
    """

    kappa: Any
    nu: Any
    theta: Any
    eta: Any
    rho: Any

    @classmethod
    def of(cls, k: FloatArray, v: FloatArray, truth: Truth) -> Overlaps:
        """Overlaps of shape (...) of vectors k and v of shape (..., d)."""
        return cls(
            kappa=k @ truth.k_star,
            nu=v @ truth.v_star,
            theta=v @ truth.k_star,
            eta=k @ truth.v_star,
            rho=np.sum(k * v, axis=-1),
        )

    def at(self, index: Any) -> Overlaps:
        """Index each of the five arrays (``overlaps[0]`` would be kappa)."""
        return Overlaps(*(np.asarray(values)[index] for values in self))


def as_arrays(overlaps: Overlaps, lam: Any) -> tuple[Overlaps, Any]:
    """Overlaps and lam as arrays of floats."""
    return Overlaps(*(np.asarray(x, dtype=float) for x in overlaps)), np.asarray(lam, dtype=float)


ALIGNED = Overlaps(1.0, 1.0, 0.0, 0.0, 0.0)  # k = k*, v = v*: the oracle


def distance_to_manifold(overlaps: Overlaps) -> Any:
    """sqrt(theta^2 + eta^2 + rho^2), which is 0 on the invariant manifold.

    >>> float(distance_to_manifold(ALIGNED))
    0.0
    """
    return np.sqrt(overlaps.theta**2 + overlaps.eta**2 + overlaps.rho**2)


def gram_matrix(overlaps: Overlaps) -> FloatArray:
    """The inner products of (k*, v*, k, v), shape (..., 4, 4)."""
    kappa, nu, theta, eta, rho = np.broadcast_arrays(*map(np.asarray, overlaps))
    ones, zeros = np.ones(kappa.shape), np.zeros(kappa.shape)
    upper = [[ones, zeros, kappa, theta], [zeros, ones, eta, nu]]
    lower = [[kappa, eta, ones, rho], [theta, nu, rho, ones]]
    return np.moveaxis(np.array(upper + lower), (0, 1), (-2, -1))


def check_gram(task: Task, overlaps: Overlaps) -> None:
    """Raise ValueError unless unit vectors in R^d with these overlaps exist."""
    gram = gram_matrix(overlaps)
    if not np.isfinite(gram).all():
        raise ValueError("the overlaps must be finite numbers")
    eigenvalues = np.linalg.eigvalsh(gram).reshape(-1, 4)  # ascending
    bad = eigenvalues[:, 0] < -GRAM_TOLERANCE
    if task.d < 4:  # four vectors in R^d span at most d dimensions
        bad |= eigenvalues[:, 3 - task.d] > GRAM_TOLERANCE
    if bad.any():
        which = int(np.argmax(bad))
        arrays = zip(Overlaps._fields, np.broadcast_arrays(*overlaps), strict=True)
        listed = ", ".join(f"{name}={np.ravel(values)[which]:.6g}" for name, values in arrays)
        raise ValueError(f"no unit vectors in R^{task.d} have the overlaps {listed} (run {which})")


Rngs = np.random.Generator | Sequence[np.random.Generator]


def rng_per_run(rng: Rngs, runs: int) -> list[np.random.Generator]:
    """One generator per run (a single one spawns them), so run 7 alone equals run 7 of thirty."""
    check_whole(0, runs=runs)
    rngs = rng.spawn(int(runs)) if isinstance(rng, np.random.Generator) else list(rng)
    if len(rngs) != runs:
        raise ValueError(f"{len(rngs)} random generators for {runs} runs; give one, or one per run")
    return rngs


def start_on_sphere(task: Task, runs: int, rng: Rngs) -> Overlaps:
    """Overlaps of independent uniform unit vectors k and v, shape (runs,), without vectors in R^d.

    >>> start_on_sphere(Task(d=10**12, L=10, gamma=0.7), runs=3, rng=rng).kappa.shape
    (3,)
    """
    return _stack([_sphere_start(task.d, child) for child in rng_per_run(rng, runs)])


def start_on_manifold(task: Task, runs: int, rng: Rngs) -> Overlaps:
    """Overlaps of k uniform on the unit sphere orthogonal to v*, v on that orthogonal to k* and k.

    So theta = eta = rho = 0. In R^2 only k = +-k* and v = +-v* are left.

    >>> start_on_manifold(task, runs=2, rng=rng).theta
    array([0., 0.])
    """
    return _stack([_manifold_start(task.d, child) for child in rng_per_run(rng, runs)])


def _stack(starts: list[Overlaps]) -> Overlaps:
    return Overlaps(*np.array(starts, dtype=float).reshape(len(starts), 5).T)


def _sphere_start(d: int, rng: np.random.Generator) -> Overlaps:
    kappa, eta, rest_k = _coordinates(d, 2, rng)
    theta, nu, rest_v = _coordinates(d, 2, rng)
    cosine = _coordinates(d - 2, 1, rng)[0] if d > 2 else 0.0  # between the parts off k*, v*
    return Overlaps(kappa, nu, theta, eta, kappa * theta + eta * nu + rest_k * rest_v * cosine)


def _manifold_start(d: int, rng: np.random.Generator) -> Overlaps:
    # k is uniform on the sphere of the d - 1 dimensions orthogonal to v*. v is orthogonal to k*
    # and k: uniform on d - 2 dimensions, one of which is v* (d - 1 if k = +-k*, as in R^2).
    kappa = _coordinates(d - 1, 1, rng)[0]
    nu = _coordinates(max(d - 2, 1), 1, rng)[0]
    return Overlaps(kappa, nu, 0.0, 0.0, 0.0)


def _coordinates(d: int, n: int, rng: np.random.Generator) -> tuple[float, ...]:
    """First n coordinates of a uniform point on the sphere of R^d, and the norm of the others."""
    normals = rng.standard_normal(min(n, d))
    rest = rng.chisquare(d - n) if d > n else 0.0
    norm = np.sqrt(normals @ normals + rest)
    return (*(normals / norm), float(np.sqrt(rest) / norm))
