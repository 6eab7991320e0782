"""Batches side by side, each on threads of its own.

Two batches on one thread each take less time than one after the other on two threads: operations
between matrix products are too short to be divided. MiniLM gains a tenth, and on a machine with
another busy process half of its time: threads of one operation wait for each other at its end.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def side_by_side(
    run: Callable[[Batch], Result], batches: Iterable[Batch], at_once: int
) -> Generator[Result, None, None]:
    """The results of ``run`` in the order of the batches, of which ``at_once`` run at a time.

    torch's threads are shared out evenly. Batches run in inference mode. Required: a ``run`` that
    leaves nothing behind that another batch could see.

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
