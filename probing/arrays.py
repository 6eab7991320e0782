"""Array types of this package, the length and angle of directions, and tensors as arrays.

Tensors of any device and precision become numpy arrays here and nowhere else (a test looks).
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

FloatArray = npt.NDArray[Any]  # float32 states stay float32
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[Any]  # offsets, rows and token ids
Known = Any  # an array, or None if it is unknown


def as_array(tensor: "Tensor") -> FloatArray:
    """The tensor as a float32 array: numpy has no bfloat16, and no memory but the CPU's."""
    return np.asarray(tensor.detach().float().cpu().numpy())


def as_bytes(tensor: "Tensor") -> memoryview:
    """The memory of the tensor in its own precision, for a hash."""
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data


def from_bytes(tensor: "Tensor") -> npt.NDArray[np.uint8]:
    """The tensor of bytes as an array."""
    return np.asarray(tensor.cpu().numpy())


def rounded_to(dtype: str, values: FloatArray) -> memoryview:
    """The bytes of float32 values as a file holds them: in float32, or rounded to bfloat16."""
    import torch

    return as_bytes(torch.from_numpy(np.ascontiguousarray(values)).to(getattr(torch, dtype)))


def unit(x: FloatArray) -> FloatArray:
    """The vector scaled to length 1; the zero vector stays zero."""
    norm = np.linalg.norm(x)
    return np.asarray(x / norm) if norm > 0 else np.zeros_like(x)


def cosine(a: FloatArray, b: FloatArray) -> float:
    """The cosine of the angle between two vectors; 0 if one of them is zero."""
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if norms > 0 else 0.0
