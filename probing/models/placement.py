"""Where the weights of a model are (a device, or several) and in which precision."""

import itertools
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from probing.models.errors import ModelError

DTYPES: dict[str, Any] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "auto": "auto",  # that of the checkpoint
}
DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")  # accelerate's own


def devices() -> list[str]:
    """The names of the devices of this machine."""
    n_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ["cuda", *(f"cuda:{i}" for i in range(n_cuda))] if n_cuda else []
    return [*names, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def device_of(name: str) -> torch.device:
    """The device of this name; "auto" is the first of CUDA, MPS and the CPU that is there.

    Of several CUDA devices, each process of torchrun gets its own.
    """
    there = devices()
    if name not in ("auto", *there):
        raise ModelError(
            f"{name!r} is not a device here: torch {torch.__version__} sees {', '.join(there)}"
        )
    if name == "auto" and there[0] == "cuda" and "LOCAL_RANK" in os.environ:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    return torch.device(there[0] if name == "auto" else name)


def dtype_of(name: str) -> Any:
    if name not in DTYPES:
        raise ModelError(f"{name!r} is not a dtype; use one of {', '.join(DTYPES)}")
    return DTYPES[name]


def check_device_map(device_map: str | Mapping[str, Any], device: str) -> None:
    if isinstance(device_map, str) and device_map not in DEVICE_MAPS:
        raise ModelError(f"{device_map!r} is not a device map; use {', '.join(DEVICE_MAPS)}")
    if device not in ("auto", "cpu"):
        raise ModelError(f"a device map leaves no choice of a device: leave out {device!r}")


def placed_like(model: Any, other: Any) -> Any:
    """The model with the data types of the other model, on its device or devices.

    Tensors are cast one by one: a model in bfloat16 may have some in float32, such as the
    frequencies of rotary positions.
    """
    dtypes = {name: tensor.dtype for name, tensor in _tensors(other)}
    for name, tensor in _tensors(model):
        tensor.data = tensor.data.to(dtypes[name])
    device_map = getattr(other, "hf_device_map", None)
    if not device_map:
        return model.to(other.device)

    from accelerate import dispatch_model

    folder = tempfile.TemporaryDirectory(prefix="slr-probing-")  # for weights that stay on disk
    model = dispatch_model(model, dict(device_map), offload_dir=folder.name)
    model.hf_device_map = dict(device_map)
    weakref.finalize(model, folder.cleanup)
    return model


def _tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    return itertools.chain(model.named_parameters(), model.named_buffers())
