"""Stores for the states of many sentences: in memory, or in a folder that a run can resume.

A cache whose key is incomplete returns the results of another model, so ``FolderStore`` refuses a
folder that was made from other inputs.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from probing.arrays import FloatArray, IntArray, as_bytes
from probing.states.parts import ActivationError, foreign_hooks

Shapes = Mapping[str, tuple[int, ...]]  # of the float32 arrays, by name
PARTIAL = "manifest.json.partial"
FORMAT = 1  # of the folder; raised when the same inputs would give other arrays


class MemoryStore:
    """The arrays in memory."""

    finished = 0

    def __init__(self, shapes: Shapes) -> None:
        self.arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}

    def put(self, name: str, rows: IntArray, values: FloatArray) -> None:
        self.arrays[name][rows] = values

    def finish(self, finished: int) -> None:
        self.finished = finished

    def read(self) -> dict[str, FloatArray]:
        return self.arrays


class FolderStore:
    """The arrays as .npy files of a folder, with a manifest of the inputs and the progress.

    Rows are written through plain files: pages of a memory map would count as memory in use.
    """

    def __init__(self, folder: Path, key: dict[str, Any], shapes: Shapes) -> None:
        self.folder, self.key, self.shapes = folder, key, shapes
        self.finished = self._finished_before()
        if not self.finished:
            folder.mkdir(parents=True, exist_ok=True)
            self.finish(0)
            for name, shape in shapes.items():
                np.lib.format.open_memmap(self._path(name), "w+", np.float32, shape)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def _array(self, name: str) -> FloatArray:
        return np.load(self._path(name), mmap_mode="r", allow_pickle=False)

    def _finished_before(self) -> int:
        """The number of finished sentences in the folder; a folder of other inputs is refused."""
        manifest = self.folder / "manifest.json"
        if not manifest.exists():
            if self.folder.exists() and {path.name for path in self.folder.iterdir()} - {PARTIAL}:
                raise ActivationError(f"{self.folder} holds other files; give a folder of its own")
            return 0
        try:
            stored = json.loads(manifest.read_text())
            key, finished = dict(stored["key"]), int(stored["finished"])
        except (ValueError, KeyError, TypeError):
            raise ActivationError(f"{manifest} is damaged; delete {self.folder}") from None
        names = sorted(key | self.key)
        differs = " and ".join(name for name in names if key.get(name) != self.key.get(name))
        if differs:
            raise ActivationError(
                f"{self.folder} holds activations of another {differs}; "
                "delete it or give another folder"
            )
        # If a file is missing or truncated, all sentences are computed again.
        return finished if all(map(self._is_whole, self.shapes)) else 0

    def _is_whole(self, name: str) -> bool:
        try:
            array = self._array(name)
        except (OSError, ValueError):
            return False
        return array.shape == self.shapes[name] and array.dtype == np.float32

    def put(self, name: str, rows: IntArray, values: FloatArray) -> None:
        runs = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows) != 1) + 1)
        with self._path(name).open("r+b") as file:
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
            start, row_bytes = file.tell(), values[0].nbytes
            for run in runs:
                file.seek(start + int(rows[run[0]]) * row_bytes)
                file.write(np.ascontiguousarray(values[run[0] : run[-1] + 1]).data)
            file.flush()
            os.fsync(file.fileno())  # rows must be on disk before the manifest counts them

    def finish(self, finished: int) -> None:
        self.finished = finished
        partial = self.folder / PARTIAL
        partial.write_text(json.dumps({"key": self.key, "finished": finished}, indent=1))
        partial.replace(self.folder / "manifest.json")

    def read(self) -> dict[str, FloatArray]:
        return {name: self._array(name) for name in self.shapes}


def key_of(model: Any, tokenizer: Any, asked: list[Any], arrays: Sequence[str]) -> dict[str, Any]:
    """Everything that the arrays depend on; error messages use these names."""
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    for changing in ("padding", "truncation"):  # leftovers of the tokenizer's last call
        settings.pop(changing, None)

    def sha256(value: Any) -> str:
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

    return {
        "format": FORMAT,
        "version of torch": str(torch.__version__),
        "version of transformers": transformers.__version__,
        "list of texts and spans": sha256(asked),
        "choice of arrays": sorted(arrays),
        "model": fingerprint(model if "logits" in arrays else model.base_model),
        "tokenizer": sha256(settings),
    }


def fingerprint(model: Any) -> str:
    """SHA-256 of all that a model's results depend on: its class, configuration and weights.

    Hooks change states too, but have no hash: a model with hooks is refused.
    """
    for name in foreign_hooks(model):
        raise ActivationError(
            f"a hook on {name} may change its states, which a folder cannot record; "
            "extract without a folder"
        )
    config = model.config.to_dict()
    for name in ("_name_or_path", "transformers_version", "architectures"):
        config.pop(name, None)  # where it came from, not what it computes
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    digest.update(type(model).__name__.encode())
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(as_bytes(tensor))
    return digest.hexdigest()
