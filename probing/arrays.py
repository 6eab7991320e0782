"""Arrays and directions: what every module of this package counts in."""

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[Any]  # float32 states stay float32
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[Any]  # offsets, rows and token ids
Known = Any  # an array, or None where it is not known


def unit(x: FloatArray) -> FloatArray:
    """The vector at length 1; zero stays zero."""
    norm = np.linalg.norm(x)
    return np.asarray(x / norm) if norm > 0 else np.zeros_like(x)


def cosine(a: FloatArray, b: FloatArray) -> float:
    """The cosine of the angle between two vectors; 0 where one of them is 0."""
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if norms > 0 else 0.0
