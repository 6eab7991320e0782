"""Reading and editing what a model computes, and restoring the model afterwards.

A hook, a mode or an attention implementation that is left behind changes every later result, so
``recorded`` and ``edited`` restore all of them.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from probing.states.anatomy import ActivationError, blocks_of


@dataclass(frozen=True)
class Recording:
    """The tensors of one pass over a padded batch, on the model's device.

    ``Padded.ragged`` turns these tensors into rows of ``States``.
    """

    states: tuple[Tensor, ...]  # n_layers + 1 of (sentences, n_tokens, d_model); 0 = embeddings
    attention: tuple[Tensor, ...]  # n_layers of (sentences, n_heads, queries, keys), on request
    logits: Tensor | None  # of a classifier, on request


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Run the block with the model in evaluation mode, then restore the mode of each module."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def recorded(
    model: Any, *, attention: bool = False, classify: bool = False
) -> Iterator[Callable[..., Recording]]:
    """A function that runs the model on a batch (``record(**inputs)``) and returns its Recording.

    ``classify`` also runs the classifier's head. In the block the model is in evaluation and
    inference mode and, with ``attention``, eager (no other implementation returns attention).
    Afterwards modes, implementation and hooks are as before.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        name = type(model).__name__
        raise ActivationError(f"{name} is an encoder and a decoder; pass model.get_encoder()")
    # When the library first returns hidden states, it adds hooks and this mark.
    mark = "_output_capturing_hooks_installed"
    before = [(part, set(part._forward_hooks), mark in vars(part)) for part in model.modules()]
    implementation = model.config._attn_implementation
    try:
        if attention and implementation != "eager":
            model.set_attn_implementation("eager")
        runner = model if classify else model.base_model
        with evaluating(model), torch.inference_mode():
            yield lambda **inputs: _run(runner, inputs, attention)
    finally:
        if model.config._attn_implementation != implementation:
            model.set_attn_implementation(implementation)
        for module, hooks, was_marked in before:
            for added in set(module._forward_hooks) - hooks:
                del module._forward_hooks[added]
                module._forward_hooks_with_kwargs.pop(added, None)
                module._forward_hooks_always_called.pop(added, None)
            if not was_marked:
                vars(module).pop(mark, None)


@contextmanager
def edited(
    model: Any, layer: int, edit: Callable[[Tensor], Tensor], mask: Tensor | None = None
) -> Iterator[None]:
    """Run the block with the states at ``layer`` edited at the tokens of ``mask`` (n, tokens).

    Layer 0 is the input of the first block, layer l the output of block l. ``edit`` maps states
    (m, d) to states (m, d); without a mask every token is edited. Required: a model with a list of
    blocks.

    >>> with edited(model, 1, Erase(direction, at=0.0), tokens.site("informative")):
    ...     states = read(model, tokens)
    """
    blocks = blocks_of(model)
    if not 0 <= layer <= len(blocks):
        raise ValueError(f"layer must lie between 0 and {len(blocks)}, not {layer}")

    def changed(states: Tensor) -> Tensor:
        where = torch.ones(states.shape[:2], dtype=torch.bool) if mask is None else mask
        where, result = where.to(states.device), states.clone()
        result[where] = edit(states[where]).to(states.dtype)
        return result

    def before(module: Any, args: Any) -> Any:
        return (changed(args[0]), *args[1:])

    def after(module: Any, args: Any, output: Any) -> Any:
        if isinstance(output, Tensor):
            return changed(output)
        return (changed(output[0]), *output[1:])

    # First in line: the library's own capture must see the edited states (docs/gotchas.md).
    if layer:
        handle = blocks[layer - 1].register_forward_hook(after, prepend=True)
    else:
        handle = blocks[0].register_forward_pre_hook(before, prepend=True)
    with handle:  # removes the hook
        yield


def _run(runner: Any, inputs: dict[str, Tensor], attention: bool) -> Recording:
    name, known = type(runner).__name__, inspect.signature(runner.forward).parameters
    if "attention_mask" not in known:
        raise ActivationError(f"{name} takes no attention_mask, so padding would change its states")
    # A tokenizer may return more inputs than the model takes.
    inputs = {key: value.to(runner.device) for key, value in inputs.items() if key in known}
    options = {"use_cache": False} if "use_cache" in known else {}
    output = runner(
        **inputs,
        **options,
        output_hidden_states=True,
        output_attentions=attention,
        return_dict=True,
    )
    n_layers = runner.config.get_text_config().num_hidden_layers
    states = tuple(output.hidden_states or ())
    if len(states) != n_layers + 1:
        raise ActivationError(
            f"{name} of {n_layers} layers gave {len(states)} hidden states, not {n_layers + 1}"
        )
    weights = tuple(output.attentions or ()) if attention else ()
    if attention:
        _check_attention(name, weights, n_layers, inputs["attention_mask"])
    return Recording(states, weights, getattr(output, "logits", None))


def _check_attention(name: str, weights: tuple[Any, ...], n_layers: int, mask: Tensor) -> None:
    """Refuse attention that does not sum to 1 over the tokens that are not padding."""
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
