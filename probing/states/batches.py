"""The batches of an extraction: which sentences run together, and how many batches at a time.

The plan depends on the sentences, the largest batch, the model and the kind of device, not on the
number of threads or processes, nor on what is finished already: sums in floating point depend on
who shares a batch, so only then are the states of a shared or resumed extraction those of an
undisturbed one, bit for bit.
"""

from typing import Any

import numpy as np
import torch

from probing.arrays import IntArray
from probing.states.anatomy import anatomy_of
from probing.states.attention import NAME
from probing.states.parts import foreign_hooks

BATCH_FLOATS = 2**24  # 64 MiB: the largest states of one batch, and the largest attention


def planned(model: Any, lengths: IntArray, max_tokens: int, *, attention: bool) -> list[slice]:
    """Batches of sentences sorted by ``lengths``, longest first, as slices of their order.

    Longest first: a batch that is too large for the memory fails at once.
    """
    anatomy = anatomy_of(model)
    states = (anatomy.n_layers + 1) * anatomy.d_model
    heads = anatomy.n_heads if attention else 0  # one layer at a time
    if is_on_cpu(model):  # enough batches for all threads, so that none waits long
        max_tokens = min(max_tokens, max(256, int(lengths.sum()) // 16))
    batches, first = [], 0
    while first < len(lengths):
        length = int(lengths[first])
        limit = min(max_tokens, BATCH_FLOATS // max(states, heads * length))
        n = min(max(1, limit // length), len(lengths) - first)
        # Sentences of one length need no mask, without which attention takes half of its time.
        same = int((lengths[first : first + n] == length).sum())
        n = same if 2 * same >= n else n
        batches.append(slice(first, first + n))
        first += n
    return batches


def at_once(model: Any, lengths: IntArray, *, attention: bool) -> int:
    """How many batches run at a time: one per thread, where none can change another."""
    tapped = model.config._attn_implementation == NAME  # taps know the layer by counting calls
    short = np.max(lengths) <= 512  # longer sentences change some models' rotary frequencies
    if attention or tapped or not short or not is_on_cpu(model) or any(foreign_hooks(model)):
        return 1
    if torch.is_autocast_enabled("cpu"):  # which holds for one thread
        return 1
    return torch.get_num_threads()


def is_on_cpu(model: Any) -> bool:
    return all(weights.device.type == "cpu" for weights in model.parameters())
