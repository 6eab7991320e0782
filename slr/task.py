"""The task: one token of a sequence decides the label, and its location is latent.

notation: X_J0 ~ N(sqrt(d/2) k*, gamma^2 I), the other L - 1 tokens ~ N(0, I),
          Y = X_J0 . v* + noise_std N(0, 1), with k*, v* orthonormal
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slr.checks import HUGE, as_floats, check_between, check_whole

FloatArray = npt.NDArray[np.float64]
LARGEST_D = 10**18  # an integer in every table
LARGEST_L = 10**300  # a float: sequences may be as long as e^600
GAMMAS = (1e-75, 1e75)  # gamma^4 and its inverse are floats


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
        check_whole(2, most=LARGEST_D, d=self.d)  # k* and v* are orthogonal
        check_whole(1, most=LARGEST_L, L=self.L)
        check_between(*GAMMAS, gamma=self.gamma)
        check_between(0, HUGE, noise_std=self.noise_std)
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
        frame = as_floats("k_star and v_star", [self.k_star, self.v_star])
        if frame.ndim != 2 or not np.allclose(frame @ frame.T, np.eye(2), atol=1e-8):
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
    check_whole(0, n=n)
    X = rng.standard_normal((int(n), task.L, task.d))
    location = rng.integers(task.L, size=n)
    rows = np.arange(n)
    X[rows, location] = task.signal * truth.k_star + task.gamma * X[rows, location]
    y = X[rows, location] @ truth.v_star + task.noise_std * rng.standard_normal(n)
    return Batch(X, y, location)
