"""The anatomy of a model: its sizes, and which token summarises a sentence."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from probing.states.attention import without_taps
from probing.states.parts import ActivationError, blocks_of, without_hooks
from probing.states.recording import recorded
from probing.states.tokens import Tokens


@dataclass(frozen=True)
class Anatomy:
    """Sizes of a model and whether it is causal, which depend on its architecture only."""

    n_layers: int
    d_model: int
    n_heads: int
    causal: bool  # a token sees only the tokens before it, so the last one is the summary
    final_norm: str | None  # the module that maps the last block's output to the last state


_ANATOMIES: WeakKeyDictionary[Any, Anatomy] = WeakKeyDictionary()


def anatomy_of(model: Any) -> Anatomy:
    """The anatomy of a model, from two short runs; computed once per model.

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
    # An edit in force could not take this batch, and can make any model look causal.
    with without_hooks(model), without_taps(model), recorded(model) as record:
        with _last_modules(model) as last:
            states = record(input_ids=ids, attention_mask=mask).states
        after = record(input_ids=changed, attention_mask=mask).states
        for layer, state in enumerate(states):
            if not bool(state.isfinite().all()):
                raise ActivationError(
                    f"layer {layer} of the model has infinite or undefined numbers for its first "
                    f"{n_tokens} tokens already; if it runs in float16, try --dtype float32"
                )
        causal = n_tokens > 1 and all(map(_unchanged, states, after))
    anatomy = Anatomy(
        n_layers=len(states) - 1,
        d_model=states[0].shape[-1],
        n_heads=config.num_attention_heads,
        causal=causal,
        final_norm=last[-1] if last else None,
    )
    return _ANATOMIES.setdefault(model, anatomy)


@contextmanager
def _last_modules(model: Any) -> Iterator[list[str]]:
    """A list that fills with the names of modules that map the last block's output to a state."""
    backbone, outputs = model.base_model, []
    names: list[str] = []

    def keep(module: Any, args: Any, output: Any) -> None:
        outputs.append(output if isinstance(output, Tensor) else output[0])

    def look(name: str, module: Any, args: Any, output: Any) -> None:
        if outputs and args and args[0] is outputs[-1] and isinstance(output, Tensor):
            names.extend([name] if output.shape == args[0].shape else [])

    with ExitStack() as hooks:
        with suppress(ActivationError):  # without a list of blocks nothing can be edited anyway
            hooks.enter_context(blocks_of(model)[-1].register_forward_hook(keep))
        for name, module in backbone.named_modules():
            hooks.enter_context(module.register_forward_hook(partial(look, name)))
        yield names


def _unchanged(a: Tensor, b: Tensor) -> bool:
    """Whether all tokens but the last have the same states."""
    return bool((a[0, :-1] - b[0, :-1]).abs().max() <= 1e-6 * a.abs().max())


def read_by(model: Any, tokens: Tokens) -> Tokens:
    """The tokens with their summary: the first token for an encoder, the last for a decoder."""
    if tokens.summary is not None and not tokens.summary.any():
        raise ValueError("these tokens are without their special tokens, which the model reads too")
    return tokens.summarised("last" if anatomy_of(model).causal else "first")
