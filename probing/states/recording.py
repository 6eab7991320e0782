"""Running a model without leaving a trace, and keeping what it gave: in memory or in a folder.

A hook, a mode or an attention implementation that stays behind changes every later result, so
``recorded`` puts all of them back. A cache that leaves something out of its key gives the results
of another model, so ``FolderStore`` refuses whatever it was not made for.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Shapes = Mapping[str, tuple[int, ...]]  # of the float32 arrays, by name


class ActivationError(ValueError):
    """Activations that cannot be had, or that would not be what they are called."""


@dataclass(frozen=True)
class Recording:
    states: tuple[Tensor, ...]  # n_layers + 1 of (sentences, n_tokens, d_model); 0 = embeddings
    attention: tuple[Tensor, ...]  # n_layers of (sentences, n_heads, queries, keys), if asked for


@contextmanager
def recorded(model: Any, *, attention: bool = False) -> Iterator[Callable[..., Recording]]:
    """A function that runs the model on a batch (``record(**inputs)``) and returns its Recording.

    The heads on top (of a classifier or a language model) are not run: they cost and add nothing.
    Inside, the model is in eval and inference mode, and eager if attention is asked for (no other
    implementation gives it). Afterwards modes, implementation and hooks are as they were found.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        name = type(model).__name__
        raise ActivationError(f"{name} is an encoder and a decoder; pass model.get_encoder()")
    backbone = model.base_model
    modes = [(module, module.training) for module in model.modules()]
    hooks = [(module, set(module._forward_hooks)) for module in model.modules()]
    # The library adds hooks of its own when it first returns hidden states, and this note of it.
    note = "_output_capturing_hooks_installed"
    notes = [(module, note in vars(module)) for module in model.modules()]
    implementation = model.config._attn_implementation
    try:
        if attention and implementation != "eager":
            model.set_attn_implementation("eager")
        model.eval()
        with torch.inference_mode():
            yield lambda **inputs: _run(backbone, inputs, attention)
    finally:
        if model.config._attn_implementation != implementation:
            model.set_attn_implementation(implementation)
        for module, found in hooks:
            for added in set(module._forward_hooks) - found:
                del module._forward_hooks[added]
                module._forward_hooks_with_kwargs.pop(added, None)
                module._forward_hooks_always_called.pop(added, None)
        for module, was_noted in notes:
            if not was_noted:
                vars(module).pop(note, None)
        for module, training in modes:
            module.training = training


def _run(backbone: Any, inputs: dict[str, Tensor], attention: bool) -> Recording:
    name, known = type(backbone).__name__, inspect.signature(backbone.forward).parameters
    if "attention_mask" not in known:
        raise ActivationError(f"{name} takes no attention_mask, so padding would change its states")
    # A tokenizer may give more than the model takes.
    given = {key: value.to(backbone.device) for key, value in inputs.items() if key in known}
    options = {"use_cache": False} if "use_cache" in known else {}
    output = backbone(
        **given, **options, output_hidden_states=True, output_attentions=attention, return_dict=True
    )
    n_layers = backbone.config.get_text_config().num_hidden_layers
    states = tuple(output.hidden_states or ())
    if len(states) != n_layers + 1:
        raise ActivationError(
            f"{name} of {n_layers} layers gave {len(states)} hidden states, not {n_layers + 1}"
        )
    weights = tuple(output.attentions or ()) if attention else ()
    if attention:
        _check_attention(name, weights, n_layers, given["attention_mask"])
    return Recording(states, weights)


def _check_attention(name: str, weights: tuple[Any, ...], n_layers: int, mask: Tensor) -> None:
    """Every token's attention to the tokens that are no padding sums to one, in every head."""
    if len(weights) != n_layers or any(layer is None for layer in weights):
        raise ActivationError(
            f"{name} gave the attention of {len(weights)} of {n_layers} layers; "
            "does it support the eager implementation?"
        )
    for number, layer in enumerate(weights):
        tolerance = max(1e-4, 4 * torch.finfo(layer.dtype).eps)
        sums = (layer.float() @ mask.float()[:, None, :, None]).squeeze(-1)  # sentences, heads, n
        error = (sums - 1).abs().amax(1)[mask.bool()].max().item()
        if not error <= tolerance:
            raise ActivationError(
                f"attention rows of {name}, layer {number}, do not sum to 1 (off by {error:.1e})"
            )


class MemoryStore:
    """The arrays in memory."""

    finished = 0

    def __init__(self, shapes: Shapes) -> None:
        self.arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}

    def put(self, name: str, rows: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        self.arrays[name][rows] = values

    def finish(self, finished: int) -> None:
        self.finished = finished

    def read(self) -> dict[str, NDArray[np.float32]]:
        return self.arrays


class FolderStore:
    """The arrays as .npy files of a folder, and a manifest that says what of and how far.

    Rows are written through plain files: pages of a memory map would count as memory in use.
    """

    def __init__(self, folder: Path, key: dict[str, Any], shapes: Shapes) -> None:
        self.folder, self.key, self.shapes = folder, key, shapes
        self.finished = self._finished_before()
        if not self.finished:
            folder.mkdir(parents=True, exist_ok=True)
            self.finish(0)
            for name, shape in shapes.items():
                np.lib.format.open_memmap(
                    self._path(name), mode="w+", dtype=np.float32, shape=shape
                )

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def _finished_before(self) -> int:
        """How many sentences the folder holds already; refuses a folder of something else."""
        manifest = self.folder / "manifest.json"
        if not manifest.exists():
            if self.folder.exists() and {path.name for path in self.folder.iterdir()} - {PARTIAL}:
                raise ActivationError(f"{self.folder} holds other files; give a folder of its own")
            return 0
        try:
            stored = json.loads(manifest.read_text())
            key, finished = stored["key"], int(stored["finished"])
            other = sorted(
                name for name in {*key, *self.key} if key.get(name) != self.key.get(name)
            )
        except (ValueError, KeyError, TypeError):
            raise ActivationError(f"{manifest} is damaged; delete {self.folder}") from None
        if other:
            raise ActivationError(
                f"{self.folder} holds activations of another {' and '.join(other)}; "
                "delete it or give another folder"
            )
        # A file that is gone or cut off takes what was finished with it.
        return finished if all(map(self._is_whole, self.shapes)) else 0

    def _is_whole(self, name: str) -> bool:
        try:
            found = np.load(self._path(name), mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError):
            return False
        return found.shape == self.shapes[name] and found.dtype == np.float32

    def put(self, name: str, rows: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        runs = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows) != 1) + 1)
        with self._path(name).open("r+b") as file:
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
            start, row_bytes = file.tell(), values[0].nbytes
            for run in runs:
                file.seek(start + int(rows[run[0]]) * row_bytes)
                file.write(np.ascontiguousarray(values[run[0] : run[-1] + 1]).data)
            file.flush()
            os.fsync(file.fileno())  # the manifest must not know of rows that the disk has not

    def finish(self, finished: int) -> None:
        self.finished = finished
        partial = self.folder / PARTIAL
        partial.write_text(json.dumps({"key": self.key, "finished": finished}, indent=1))
        partial.replace(self.folder / "manifest.json")

    def read(self) -> dict[str, NDArray[np.float32]]:
        return {
            name: np.load(self._path(name), mmap_mode="r", allow_pickle=False)
            for name in self.shapes
        }


PARTIAL = "manifest.json.partial"


def fingerprint(model: Any) -> str:
    """sha256 of everything the hidden states depend on: configuration and weights.

    Hooks change states too, but have no hash: a model with hooks is refused.
    """
    backbone = model.base_model
    for name, module in backbone.named_modules():
        for hook in [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]:
            if getattr(hook, "__module__", "") != "transformers.utils.output_capturing":
                raise ActivationError(
                    f"a hook on {name or 'the model'} may change its states, which no folder can "
                    "know; extract without a folder"
                )
    config = backbone.config.to_dict()
    for name in ("_name_or_path", "transformers_version", "architectures"):
        config.pop(name, None)  # where it came from, not what it computes
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    digest.update(type(backbone).__name__.encode())
    for name, tensor in backbone.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()
