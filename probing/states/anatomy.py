"""The anatomy of a model: its sizes, and which token summarises a sentence."""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from probing.states.attention import without_taps
from probing.states.parts import ActivationError, without_hooks
from probing.states.recording import recorded
from probing.states.tokens import Tokens


@dataclass(frozen=True)
class Anatomy:
    """Sizes of a model and whether it is causal, which depend on its architecture only."""

    n_layers: int
    d_model: int
    n_heads: int
    causal: bool  # a token sees only the tokens before it, so the last one is the summary


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
        states, after = (record(input_ids=x, attention_mask=mask).states for x in (ids, changed))
        if not all(bool(state.isfinite().all()) for state in states):
            raise ActivationError("the model gave infinite or undefined numbers")
        causal = n_tokens > 1 and all(map(_unchanged, states, after))
    anatomy = Anatomy(
        n_layers=len(states) - 1,
        d_model=states[0].shape[-1],
        n_heads=config.num_attention_heads,
        causal=causal,
    )
    return _ANATOMIES.setdefault(model, anatomy)


def _unchanged(a: Tensor, b: Tensor) -> bool:
    """Whether all tokens but the last have the same states."""
    return bool((a[0, :-1] - b[0, :-1]).abs().max() <= 1e-6 * a.abs().max())


def read_by(model: Any, tokens: Tokens) -> Tokens:
    """The tokens with their summary: the first token for an encoder, the last for a decoder."""
    return tokens.summarised("last" if anatomy_of(model).causal else "first")
