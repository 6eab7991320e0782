"""The blocks, norms and attention modules of a model, for any architecture."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

LIBRARY_HOOKS = "transformers.utils.output_capturing"


class ActivationError(ValueError):
    """States that a model cannot give, or that would not be what their name says."""


class CircuitError(ValueError):
    """A model whose attention weights cannot be found."""


@dataclass(frozen=True)
class Anatomy:
    """Sizes of a model and whether it is causal, which depend on its architecture only."""

    n_states: int  # one per block, and one for the embeddings
    d_model: int
    n_heads: int
    causal: bool  # a token sees only the tokens before it, so the last one is the summary


_ANATOMIES: WeakKeyDictionary[Any, Anatomy] = WeakKeyDictionary()


def anatomy_of(model: Any, record: Callable[..., Any]) -> Anatomy:
    """The anatomy of a model, from two short runs by ``record``; computed once per model.

    No flag says for every architecture whether it is causal. But only in a causal model does
    another last token leave the states of all other tokens unchanged.
    """
    if (known := _ANATOMIES.get(model)) is not None:
        return known
    config = model.config.get_text_config()
    n_tokens = min(4, getattr(config, "max_position_embeddings", None) or 4)
    ids = torch.arange(n_tokens)[None] % config.vocab_size
    changed = ids.clone()
    changed[0, -1] = (changed[0, -1] + 1) % config.vocab_size
    mask = torch.ones_like(ids)
    states, after = (record(input_ids=x, attention_mask=mask).states for x in (ids, changed))
    if not all(bool(state.isfinite().all()) for state in states):
        raise ActivationError("the model gave infinite or undefined numbers")

    def unchanged(a: Tensor, b: Tensor) -> bool:
        return bool((a[0, :-1] - b[0, :-1]).abs().max() <= 1e-6 * a.abs().max())

    anatomy = Anatomy(
        n_states=len(states),
        d_model=states[0].shape[-1],
        n_heads=config.num_attention_heads,
        causal=n_tokens > 1 and all(map(unchanged, states, after)),
    )
    if not any(foreign_hooks(model.base_model)):  # edits can make any model look causal
        _ANATOMIES[model] = anatomy
    return anatomy


def foreign_hooks(model: Any) -> Iterator[str]:
    """The names of modules with hooks that are not the library's own, one name per hook."""
    for name, module in model.named_modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks):
            for hook in hooks.values():
                if getattr(hook, "__module__", "") != LIBRARY_HOOKS:
                    yield name or "the model"


def blocks_of(model: Any) -> list[torch.nn.Module]:
    """The blocks of the model: its first list of modules as long as its number of layers."""
    backbone = model.base_model
    n_layers = backbone.config.get_text_config().num_hidden_layers
    for module in backbone.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == n_layers:
            return list(module)
    raise ActivationError(f"{type(backbone).__name__} has no list of its {n_layers} layers")


def final_norm(model: Any) -> Callable[[Tensor], Tensor]:
    """The norm that the library applies to the last state: GPT-2 has one, BERT does not."""
    norms = [part for part in model.base_model.children() if "norm" in type(part).__name__.lower()]
    return norms[-1] if norms else lambda state: state


def attention_layers(model: Any) -> list[Any]:
    """The attention modules of a BERT-like encoder, one per layer.

    Each has ``self`` (query, key, value) and ``output.dense``; other architectures have other names
    and are refused.
    """
    layers = list(getattr(getattr(model.base_model, "encoder", None), "layer", ()))
    if not layers or not hasattr(getattr(layers[0], "attention", None), "self"):
        name = f"{type(model).__name__} is not a BERT-like encoder"
        raise CircuitError(f"{name}: its attention weights are not found")
    return [layer.attention for layer in layers]
