"""The task: one token of a sequence decides the label, and its location is latent.

notation: X_J0 ~ N(sqrt(d/2) k*, gamma^2 I), the other L - 1 tokens ~ N(0, I),
          Y = X_J0 . v* + noise_std N(0, 1), with k*, v* orthonormal
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def check_whole(least: int, **values: Any) -> None:
    """Raise ValueError for the first value that is not a whole number of at least ``least``."""
    for name, value in values.items():
        if value != int(value) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, not {value}")


def check_size(**values: Any) -> None:
    """Raise ValueError for the first number or array that is negative or not finite."""
    for name, value in values.items():
        if not (np.isfinite(value).all() and np.greater_equal(value, 0).all()):
            raise ValueError(f"{name} must be at least 0 and finite, not {value}")


@dataclass(frozen=True)
class Task:
    """Dimension d, length L, spread gamma of the informative token, noise_std of the label.

    >>> Task(d=400, L=10, gamma=0.7).signal
    14.142135623730951
    """

    d: int
    L: int
    gamma: float
    noise_std: float = 0.0

    def __post_init__(self) -> None:
        check_whole(2, d=self.d)  # k* and v* are orthogonal
        check_whole(1, L=self.L)
        if not 0 < self.gamma < math.inf:
            raise ValueError(f"gamma must be positive and finite, not {self.gamma}")
        check_size(noise_std=self.noise_std)
        object.__setattr__(self, "d", int(self.d))  # numpy does not take 1e6 for a size
        object.__setattr__(self, "L", int(self.L))

    @property
    def signal(self) -> float:
        """Length of the informative token's mean, h = sqrt(d/2)."""
        return math.sqrt(self.d / 2)


@dataclass(frozen=True)
class Truth:
    """The directions to be found: k_star marks the informative token, v_star reads it.

    Both must be unit vectors of R^d, orthogonal to each other.

    >>> Truth(k_star=np.array([1.0, 0.0]), v_star=np.array([0.0, 1.0])).v_star
    array([0., 1.])
    """

    k_star: FloatArray
    v_star: FloatArray

    def __post_init__(self) -> None:
        frame = np.array([self.k_star, self.v_star])
        if not np.allclose(frame @ frame.T, np.eye(2), atol=1e-8):
            raise ValueError("k_star and v_star must be unit vectors, orthogonal to each other")


def sample_truth(task: Task, rng: np.random.Generator) -> Truth:
    """Two orthonormal directions of R^d, uniformly at random.

    >>> sample_truth(task, rng).k_star.shape
    (400,)
    """
    frame, _ = np.linalg.qr(rng.standard_normal((task.d, 2)))
    return Truth(frame[:, 0].copy(), frame[:, 1].copy())


class Batch(NamedTuple):
    X: FloatArray  # (n, L, d)
    y: FloatArray  # (n,)
    location: npt.NDArray[np.int64]  # (n,)


def sample_batch(task: Task, truth: Truth, n: int, rng: np.random.Generator) -> Batch:
    """n sequences X, their labels y and the locations of their informative tokens.

    >>> X, y, location = sample_batch(task, sample_truth(task, rng), 5, rng)
    >>> X.shape, y.shape
    ((5, 10, 400), (5,))
    """
    X = rng.standard_normal((n, task.L, task.d))
    location = rng.integers(task.L, size=n)
    rows = np.arange(n)
    X[rows, location] = task.signal * truth.k_star + task.gamma * X[rows, location]
    y = X[rows, location] @ truth.v_star + task.noise_std * rng.standard_normal(n)
    return Batch(X, y, location)
