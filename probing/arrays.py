"""Array types of this package, and the length and angle of directions."""

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[Any]  # float32 states stay float32
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[Any]  # offsets, rows and token ids
Known = Any  # an array, or None if it is unknown


def unit(x: FloatArray) -> FloatArray:
    """The vector scaled to length 1; the zero vector stays zero."""
    norm = np.linalg.norm(x)
    return np.asarray(x / norm) if norm > 0 else np.zeros_like(x)


def cosine(a: FloatArray, b: FloatArray) -> float:
    """The cosine of the angle between two vectors; 0 if one of them is zero."""
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if norms > 0 else 0.0
