"""Work in several processes, one per core; no process outlives the program that started it."""

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
    """The output of the function for each input, computed on all cores."""
    from joblib import Parallel, delayed  # type: ignore[import-untyped]
    from tqdm import tqdm

    calls = (delayed(_call)(os.getpid(), function, i, value) for i, value in enumerate(inputs))
    finished = Parallel(n_jobs=-1, return_as="generator_unordered")(calls)
    outputs = dict(tqdm(finished, desc=label, total=len(inputs), disable=None))
    return [outputs[i] for i in range(len(inputs))]


def _call(
    parent: int, function: Callable[[Input], Output], i: int, value: Input
) -> tuple[int, Output]:
    threads = {thread.name for thread in threading.enumerate()}
    if os.getpid() != parent and WATCH not in threads:  # a worker's first call
        threading.Thread(target=_end_with, args=(parent,), name=WATCH, daemon=True).start()
        sys.stderr = _NoTerminal(os.fdopen(2, "wb", buffering=0, closefd=False), write_through=True)
    return i, function(value)


def _end_with(parent: int) -> None:
    """End this worker with its parent: the next run must not meet a worker that still writes."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


class _NoTerminal(io.TextIOWrapper):
    """A stream that is not a terminal: progress bars of workers would overwrite one another."""

    def isatty(self) -> bool:
        return False
