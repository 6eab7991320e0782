"""Reading what a model computes, and restoring the model afterwards.

A hook, a mode or an attention implementation that is left behind changes every later result, so
``recorded`` restores all of them.
"""

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from probing.states.attention import Call, attending
from probing.states.parts import ActivationError, blocks_of, n_layers_of


@dataclass(frozen=True)
class Recording:
    """The tensors of one pass over a padded batch, on the model's device.

    ``Padded.ragged`` turns these tensors into rows of ``States``.
    """

    states: tuple[Tensor, ...]  # of (sentences, n_tokens, d_model), from layer 0 (embeddings) on
    attention: tuple[Tensor, ...]  # n_layers of (sentences, n_tokens, n_heads): by the summary
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
    model: Any, *, classify: bool = False, deepest: int | None = None
) -> Iterator[Callable[..., Recording]]:
    """A function that runs the model on a batch (``record(**inputs)``) and returns its Recording.

    ``record(summary, **inputs)`` also records attention: that of the token at place ``summary``
    (sentences,) of each sentence. ``classify`` also runs the classifier's head. With ``deepest``
    the model stops behind this layer, and there is no attention. In the block the model is in
    evaluation and inference mode. Afterwards modes and hooks are as before.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        name = type(model).__name__
        raise ActivationError(f"{name} is an encoder and a decoder; pass model.get_encoder()")
    # When the library first returns hidden states, it adds hooks and this mark.
    mark = "_output_capturing_hooks_installed"
    before = [(part, set(part._forward_hooks), mark in vars(part)) for part in model.modules()]
    runner = model if classify else model.base_model

    def record(summary: Tensor | None = None, **inputs: Tensor) -> Recording:
        if summary is None:
            return _run(runner, inputs, ())
        rows: list[Tensor] = []
        sentences = torch.arange(len(summary))

        def keep(call: Call) -> None:
            if call.weights is None:  # cannot be: the tap asks for them
                raise ActivationError("the attention has no weights")
            device = call.weights.device
            rows.append(call.weights[sentences.to(device), :, summary.to(device)].mT)

        with attending(model, keep, weights=True):
            return _run(runner, inputs, rows)

    try:
        with evaluating(model), torch.inference_mode():
            if deepest is None or deepest >= n_layers_of(model):
                yield record
            else:
                with _stopping(runner, deepest) as stopping:
                    yield stopping
    finally:
        for module, hooks, was_marked in before:
            for added in set(module._forward_hooks) - hooks:
                del module._forward_hooks[added]
                module._forward_hooks_with_kwargs.pop(added, None)
                module._forward_hooks_always_called.pop(added, None)
            if not was_marked:
                vars(module).pop(mark, None)


def inputs_for(runner: Any, inputs: dict[str, Tensor]) -> dict[str, Any]:
    """The inputs that a model takes, on its device, without a cache of keys and values."""
    known = inspect.signature(runner.forward).parameters
    if "attention_mask" not in known:
        name = type(runner).__name__
        raise ActivationError(f"{name} takes no attention_mask, so padding would change its states")
    # A tokenizer may return more inputs than the model takes.
    taken = {key: value.to(runner.device) for key, value in inputs.items() if key in known}
    return taken | ({"use_cache": False} if "use_cache" in known else {})


def _run(runner: Any, inputs: dict[str, Tensor], rows: Any) -> Recording:
    output = runner(**inputs_for(runner, inputs), output_hidden_states=True, return_dict=True)
    n_layers, states = n_layers_of(runner), tuple(output.hidden_states or ())
    if len(states) != n_layers + 1:
        raise ActivationError(
            f"{type(runner).__name__} of {n_layers} layers gave {len(states)} hidden states, "
            f"not {n_layers + 1}"
        )
    return Recording(states, tuple(rows), getattr(output, "logits", None))


class _Stop(Exception):  # noqa: N818 - not an error
    """Raised by a hook to end a run of the model."""


@contextmanager
def _stopping(runner: Any, deepest: int) -> Iterator[Callable[..., Recording]]:
    """A function that runs a batch and stops behind a layer: what lies above is not computed."""
    running = threading.local()  # batches of other threads pass through the same hooks

    def keep(state: Tensor) -> None:
        states = getattr(running, "states", None)
        if states is None:
            return
        states.append(state)
        if len(states) > deepest:
            raise _Stop

    def before(module: Any, args: Any, kwargs: Any) -> None:
        keep(args[0] if args else kwargs["hidden_states"])

    def after(module: Any, args: Any, output: Any) -> None:
        keep(output if isinstance(output, Tensor) else output[0])

    def record(**inputs: Tensor) -> Recording:
        running.states = []
        try:
            runner(**inputs_for(runner, inputs), return_dict=True)
        except _Stop:
            return Recording(tuple(running.states), (), None)
        finally:
            del running.states
        raise ActivationError(f"{type(runner).__name__} does not run through its list of layers")

    blocks = blocks_of(runner)
    with ExitStack() as hooks:
        hooks.enter_context(blocks[0].register_forward_pre_hook(before, with_kwargs=True))
        for block in blocks[:deepest]:
            hooks.enter_context(block.register_forward_hook(after))
        yield record
