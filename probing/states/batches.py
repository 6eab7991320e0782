"""The batches of an extraction: which sentences run together, and which batches side by side.

The plan depends on the sentences, the largest batch, the model and the kind of device, not on the
number of threads or processes, nor on what is finished already: sums in floating point depend on
who shares a batch, so only then are the states of a shared or resumed extraction those of an
undisturbed one, bit for bit.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch

from probing.arrays import IntArray
from probing.states.anatomy import anatomy_of
from probing.states.attention import NAME
from probing.states.parts import foreign_hooks

Batch = TypeVar("Batch")
Result = TypeVar("Result")
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


def side_by_side(
    run: Callable[[Batch], Result], batches: Iterable[Batch], at_once: int
) -> Generator[Result, None, None]:
    """The results of ``run`` in the order of the batches, of which ``at_once`` run at a time.

    torch's threads are shared out evenly. Batches run in inference mode. Required: a ``run`` that
    leaves nothing behind that another batch could see.

    Two batches on one thread each take less time than one after the other on two threads:
    operations between matrix products are too short to be divided. MiniLM gains a tenth, and on a
    machine with another busy process half of its time: threads of one operation wait for each
    other at its end.

    >>> list(side_by_side(lambda batch: model(batch)[0], batches, at_once=2))
    """
    threads = torch.get_num_threads()

    def begin() -> None:
        torch.set_num_threads(threads // at_once)
        torch.get_num_threads()  # only now does the number hold for this thread, and for good

    def run_inference(batch: Batch) -> Result:
        with torch.inference_mode():  # it holds for one thread
            return run(batch)

    if at_once == 1:
        yield from map(run_inference, batches)
        return
    waiting: deque[Future[Result]] = deque()
    try:
        with ThreadPoolExecutor(at_once, initializer=begin) as pool:
            try:
                for batch in batches:
                    waiting.append(pool.submit(run_inference, batch))
                    if len(waiting) > at_once:  # results that wait take memory
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()
    finally:
        torch.set_num_threads(threads)  # for threads that begin later
