"""One attention for all architectures, which can be read and changed while a model runs.

transformers lets each layer's attention be computed by a registered function (AttentionInterface).
Ours is handed the queries, keys and values of every layer (after rotary positions, before heads
that share keys are told apart), computes what the library computes, and shows the result to taps:
functions that record it or replace what heads write. No architecture needs a table of its modules.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from probing.states.parts import ActivationError, n_layers_of

NAME = "slr_probing"  # of the registered function


@dataclass
class Call:
    """The attention of one layer over a padded batch."""

    layer: int  # counted from 1
    query: Tensor  # (sentences, n_heads, n_tokens, size)
    key: Tensor  # (sentences, n_heads or fewer, n_tokens, size)
    value: Tensor
    output: Tensor  # (sentences, n_tokens, n_heads, size): what heads write; taps may replace it
    weights: Tensor | None  # (sentences, n_heads, queries, keys), for taps that want them

    def per_head(self, shared: Tensor) -> Tensor:
        """Keys or values with one copy for each of the heads that share them."""
        return shared.repeat_interleave(self.query.shape[1] // shared.shape[1], dim=1)


Tap = Callable[[Call], None]


@dataclass(eq=False)
class _Watch:
    """A model whose attention is ours at the moment, and the taps on it."""

    model: Any
    fast: bool  # sdpa gives what the model's own implementation gives
    parts: set[torch.nn.Module]
    taps: list[tuple[Tap, bool]] = field(default_factory=list)  # with their wish for weights
    calls: int = 0  # in the present run: the layer's number


_WATCHES: list[_Watch] = []


@contextmanager
def attending(model: Any, tap: Tap, *, weights: bool = False) -> Iterator[None]:
    """Run the block with ``tap`` called on the attention of every layer, in order.

    Taps see each other's changes; the first that was set comes first. Afterwards the model has its
    own attention again. A model that does not use AttentionInterface is refused when it runs.

    >>> with attending(model, lambda call: print(call.layer, call.query.shape)):
    ...     model(**inputs)
    """
    backbone = model.base_model
    watch = next((each for each in _WATCHES if each.model is backbone), None)
    if watch is not None:
        with _tapped(watch, tap, weights):
            yield
        return
    implementation = model.config._attn_implementation
    fast = implementation != "eager" and getattr(backbone, "_supports_sdpa", True)
    watch = _Watch(backbone, fast, set(backbone.modules()))
    model.set_attn_implementation(NAME)
    _WATCHES.append(watch)

    # Layers are numbered by the order of their calls: not all modules know their own number.
    def begin(module: Any, args: Any) -> None:
        watch.calls = 0

    def end(module: Any, args: Any, output: Any) -> None:
        if module is backbone and watch.calls != (n_layers := n_layers_of(module)):
            raise ActivationError(
                f"{type(module).__name__} runs {watch.calls} of its {n_layers} layers through "
                "transformers' AttentionInterface, so its attention cannot be read or changed"
            )

    begins = backbone.register_forward_pre_hook(begin)
    try:
        with begins, backbone.register_forward_hook(end), _tapped(watch, tap, weights):
            yield
    finally:
        _WATCHES.remove(watch)
        model.set_attn_implementation(implementation)


@contextmanager
def _tapped(watch: _Watch, tap: Tap, weights: bool) -> Iterator[None]:
    entry = (tap, weights)
    watch.taps.append(entry)
    try:
        yield
    finally:
        watch.taps.remove(entry)


@contextmanager
def without_taps(model: Any) -> Iterator[None]:
    """Run the block with the attention of the model as it is without taps."""
    watches = [each for each in _WATCHES if each.model is model.base_model]
    before = [(each, each.taps) for each in watches]
    for each in watches:
        each.taps = []
    try:
        yield
    finally:
        for each, taps in before:
            each.taps = taps


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
) -> tuple[Tensor, None]:
    """The registered function."""
    watch = next((each for each in _WATCHES if module in each.parts), None)
    taps = watch.taps if watch else []  # a copy of the model, made within the block, has no taps
    fast = watch.fast if watch else True
    library = sys.modules[type(module).__module__]  # the architecture's own file
    if not fast or options.get("softcap") or any(wish for _, wish in taps):
        mask = _additive(attention_mask, module, query, key, options.get("is_causal"))
        eager = library.eager_attention_forward
        output, weights = eager(module, query, key, value, mask, **options)
    else:
        sdpa = library.ALL_ATTENTION_FUNCTIONS["sdpa"]
        output, weights = sdpa(module, query, key, value, attention_mask, **options)
    if watch is None:
        return output, None
    watch.calls += 1
    call = Call(watch.calls, query, key, value, output, weights)
    for tap, _ in taps:
        tap(call)
    return call.output, None


def _additive(mask: Any, module: Any, query: Tensor, key: Tensor, causal: bool | None) -> Any:
    """The mask of sdpa (True where a query sees a key; None: all, or all before) as numbers."""
    causal = getattr(module, "is_causal", True) if causal is None else causal
    if mask is None and causal and query.shape[2] > 1:
        shape = (query.shape[2], key.shape[2])
        mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
    if mask is None or mask.dtype != torch.bool:
        return mask
    lowest = torch.finfo(query.dtype).min
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, lowest)


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
