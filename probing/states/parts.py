"""The parts of a model that are found the same way in every architecture: blocks and hooks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

# The library records hidden states by hooks; ours only count or record the layers of a run.
HARMLESS_HOOKS = (
    "transformers.utils.output_capturing",
    "probing.states.attention",
    "probing.states.recording",
)


class ActivationError(ValueError):
    """States or attention that a model cannot give, or that are not what their name says."""


def n_layers_of(model: Any) -> int:
    return int(model.base_model.config.get_text_config().num_hidden_layers)


def blocks_of(model: Any) -> list[torch.nn.Module]:
    """The blocks of the model: its first list of modules as long as its number of layers."""
    backbone, n_layers = model.base_model, n_layers_of(model)
    for module in backbone.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == n_layers:
            return list(module)
    raise ActivationError(f"{type(backbone).__name__} has no list of its {n_layers} layers")


def foreign_hooks(model: Any) -> Iterator[str]:
    """The names of modules with hooks that can change states, one name per hook."""
    for name, module in model.named_modules():
        for hooks in (*_hooks_of(module), module._backward_hooks):
            yield from (name or "the model" for hook in hooks.values() if _is_foreign(hook))


def _is_foreign(hook: Any) -> bool:
    return getattr(hook, "__module__", "") not in HARMLESS_HOOKS


@contextmanager
def without_hooks(model: Any) -> Iterator[None]:
    """Run the block without the hooks that can change states, then restore them."""
    found = [hooks for part in model.modules() for hooks in _hooks_of(part) if hooks]
    before = [(hooks, dict(hooks)) for hooks in found]
    for hooks, whole in before:
        for key, hook in whole.items():
            if _is_foreign(hook):
                del hooks[key]
    try:
        yield
    finally:
        for hooks, whole in before:
            hooks.clear()
            hooks.update(whole)


def _hooks_of(module: Any) -> tuple[dict[int, Any], ...]:
    return module._forward_hooks, module._forward_pre_hooks
