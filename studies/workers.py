"""Work in several processes, one per core, none of which outlives the program that began them."""

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

Input = TypeVar("Input")
Output = TypeVar("Output")
WATCH = "ends-with-parent"  # name of a thread in each worker


def in_parallel(
    function: Callable[[Input], Output], inputs: Sequence[Input], label: str = ""
) -> list[Output]:
    """What the function gives for each input, as many at a time as there are cores."""
    from joblib import Parallel, delayed  # type: ignore[import-untyped]
    from tqdm import tqdm

    calls = (delayed(_call)(os.getpid(), function, i, each) for i, each in enumerate(inputs))
    finished = Parallel(n_jobs=-1, return_as="generator_unordered")(calls)
    outputs = dict(tqdm(finished, desc=label, total=len(inputs), disable=None))
    return [outputs[i] for i in range(len(inputs))]


def _call(
    parent: int, function: Callable[[Input], Output], i: int, given: Input
) -> tuple[int, Output]:
    at_work = {thread.name for thread in threading.enumerate()}
    if os.getpid() != parent and WATCH not in at_work:  # a worker's first call
        threading.Thread(target=_end_with, args=(parent,), name=WATCH, daemon=True).start()
        sys.stderr = _NoTerminal(os.fdopen(2, "wb", buffering=0, closefd=False), write_through=True)
    return i, function(given)


def _end_with(parent: int) -> None:
    """A killed program must not leave behind a worker that writes where the next run writes."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


class _NoTerminal(io.TextIOWrapper):
    """Progress bars of several workers would overwrite one another: here they see no terminal."""

    def isatty(self) -> bool:
        return False
