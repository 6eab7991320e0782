"""What the doctor examines, and the instruments: sentences run alone, layers, hooks, conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from probing.models.pretrained import untrained_like
from probing.sentences import draw
from probing.states.extraction import ActivationError, Activations, extract
from probing.states.recording import Recording, recorded

if TYPE_CHECKING:
    from datasets import DatasetDict

SENTENCES_PER_SPLIT = 4


@dataclass(frozen=True)
class Patient:
    """What is examined: a model and its data, and the functions that all results go through."""

    model: Any
    tokenizer: Any
    dataset: DatasetDict
    seed: int = 0
    extract: Callable[..., Activations] = extract
    untrained: Callable[[Any, int], Any] = untrained_like

    def sentences(self, per_split: int = SENTENCES_PER_SPLIT) -> list[dict[str, Any]]:
        """A few of every split, so that they differ in length."""
        return [
            {**split[int(i)], "split": name}
            for name, split in self.dataset.items()
            for i in draw(len(split), per_split)
        ]

    def run(self, model: Any = None, tokenizer: Any = None, **options: Any) -> Activations:
        rows = self.sentences()
        options = {"positions": ("tokens",)} | options
        texts, spans = [row["text"] for row in rows], [row["span"] for row in rows]
        return self.extract(
            model or self.model, tokenizer or self.tokenizer, texts, spans, **options
        )


def alone(patient: Patient, at_most: int | None = None) -> list[Recording]:
    """Each sentence run by itself, written as anyone would by hand."""
    found = []
    with recorded(patient.model) as record:
        for row in patient.sentences()[:at_most]:
            inputs = patient.tokenizer([row["text"]], return_tensors="pt", padding=False)
            found.append(record(**inputs))
    return found


def distance(one: Any, other: Any) -> float:
    """Largest difference, relative to the largest number."""
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape:
        return float("inf")
    return float(np.abs(one - other).max() / max(np.abs(one).max(), 1e-30))


def layers_of(model: Any) -> list[torch.nn.Module]:
    """The blocks of the model: its first list of as many modules as it says it has layers."""
    backbone = model.base_model
    n_layers = backbone.config.get_text_config().num_hidden_layers
    for module in backbone.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == n_layers:
            return list(module)
    raise ActivationError(f"{type(backbone).__name__} has no list of its {n_layers} layers")


def final_norm(model: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """What the library puts the last state through: GPT-2 has a norm there, BERT has none."""
    norms = [one for one in model.base_model.children() if "norm" in type(one).__name__.lower()]
    return norms[-1] if norms else lambda state: state


def tensor_of(output: Any) -> torch.Tensor:
    return output if isinstance(output, torch.Tensor) else output[0]


@contextmanager
def adding(layer: torch.nn.Module, shift: torch.Tensor) -> Iterator[None]:
    """Add to the output of a layer; in front of the library's own hooks, which capture it."""

    def add(module: Any, inputs: Any, output: Any) -> Any:
        edited = tensor_of(output) + shift.to(tensor_of(output))
        return edited if isinstance(output, torch.Tensor) else (edited, *output[1:])

    hook = layer.register_forward_hook(add, prepend=True)
    try:
        yield
    finally:
        hook.remove()


def condition(model: Any) -> dict[str, Any]:
    library = "transformers.utils.output_capturing"
    hooks = [
        hook
        for module in model.modules()
        for kind in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
        for hook in kind.values()
        if getattr(hook, "__module__", "") != library
    ]
    return {
        "hooks": len(hooks),
        "modes": [module.training for module in model.modules()],
        "attention implementation": model.config._attn_implementation,
        "weights": {name: float(w.double().sum()) for name, w in model.state_dict().items()},
    }
