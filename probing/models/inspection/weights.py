"""The tensors in the weight files of a folder, by name: shapes and types, without their numbers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from data_gen.quoting import quoted
from probing.models.errors import ModelError
from probing.models.inspection.files import (
    INDEX,
    is_plain_name,
    is_there,
    ordinary,
    read_object,
)

SINGLE = "model.safetensors"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
PER_DEVICE = "shard-*-model-*.safetensors"  # which the library would prefer to the whole model
FLOATS = {"F16", "BF16", "F32", "F64"}


@dataclass(frozen=True)
class Stored:
    """A tensor as it is stored: its type (F32, I64, ...) and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of its entries."""
        product = 1
        for length in self.shape:
            product *= length
        return product


def stored_tensors(folder: Path) -> dict[str, Stored]:
    """Every tensor that loading this folder would read.

    >>> stored_tensors(Path("results/transformer"))["classifier.bias"].shape
    """
    for path in folder.glob(PER_DEVICE):
        raise ModelError(f"{path} is a part of a model per device; save the whole model")
    index = folder / INDEX
    if is_there(folder / SINGLE):
        tensors = read_header(folder / SINGLE)
    elif is_there(index):
        tensors = {}
        for name, keys in shards(index).items():
            shard = read_header(folder / name)
            if absent := sorted(keys - shard.keys()):
                raise ModelError(f"{folder / name} lacks {quoted(absent[0])}, which {INDEX} names")
            tensors |= shard
    else:
        raise ModelError(f"{folder} holds no model: {_no_weights(folder)}")
    _check_names(folder, tensors)
    for name, tensor in tensors.items():
        # A bias of several dimensions is a mask, which old GPT-2 checkpoints hold as bits.
        is_weight = name.endswith("weight") or (name.endswith("bias") and len(tensor.shape) == 1)
        if is_weight and tensor.dtype not in FLOATS:
            raise ModelError(
                f"{folder}: {quoted(name)} is stored as {tensor.dtype}, as in a quantised format "
                "or by mistake; save the model in float32 or bfloat16"
            )
    return tensors


def _check_names(folder: Path, tensors: Mapping[str, Stored]) -> None:
    """Refuse two tensors for one weight: which of them the library takes is not said.

    It reads the older names gamma and beta of a normalisation, and names with or without the prefix
    of the architecture ("bert.").
    """
    for name, tensor in tensors.items():
        newer = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
        for other in {newer, name.partition(".")[2]} - {name}:
            if other in tensors and tensors[other].shape == tensor.shape:
                raise ModelError(
                    f"{folder} has two tensors for one weight, {quoted(other)} and {quoted(name)}; "
                    "delete one of them"
                )


def _no_weights(folder: Path) -> str:
    for pattern in PICKLES:
        for path in folder.glob(pattern):
            return f"{path.name} can run code and is not loaded; save the model as safetensors"
    return f"it has neither {SINGLE} nor {INDEX}"


def shards(index: Path) -> Mapping[str, set[str]]:
    """The names of the files of a sharded checkpoint, each with the tensors it should hold."""
    weight_map = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelError(f"{index}: weight_map is {quoted(weight_map)}, not tensors by file")
    files: dict[str, set[str]] = {}
    for key, name in weight_map.items():
        if not is_plain_name(name) or not name.endswith(".safetensors"):
            raise ModelError(
                f"{index} says that {quoted(key)} is in {quoted(name)}; it must be in a "
                ".safetensors file of the same folder"
            )
        files.setdefault(name, set()).add(key)
    return files


def read_header(path: Path) -> dict[str, Stored]:
    """The tensors of one file; the library checks that they fit the file and do not overlap."""
    ordinary(path)
    try:
        with safe_open(path, framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            tensors = {
                name: Stored(part.get_dtype(), tuple(part.get_shape()))
                for name, part in slices.items()
            }
    except SafetensorError as error:
        raise ModelError(
            f"{path} holds no model that can be loaded: it is truncated, damaged or not a "
            f"safetensors file ({error})"
        ) from error
    if not tensors:
        raise ModelError(f"{path} holds no model: it has 0 tensors")
    return tensors
