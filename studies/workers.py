"""Work in several processes, one per core; no process outlives the program that started it."""

import functools
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

Input = TypeVar("Input")
Output = TypeVar("Output")


def in_parallel(
    function: Callable[[Input], Output], inputs: Sequence[Input], label: str = ""
) -> list[Output]:
    """The output of the function for each input, computed on all cores."""
    from tqdm import tqdm

    from slr.workers.pool import workers

    with workers() as (run_all, _):
        finished = run_all(functools.partial(_call, os.getpid(), function), enumerate(inputs))
        outputs = dict(tqdm(finished, desc=label, total=len(inputs), disable=None))
    return [outputs[i] for i in range(len(inputs))]


def _call(
    parent: int, function: Callable[[Input], Output], call: tuple[int, Input]
) -> tuple[int, Output]:
    if os.getpid() != parent and not isinstance(sys.stderr, _NoTerminal):  # a worker's first call
        sys.stderr = _NoTerminal(os.fdopen(2, "wb", buffering=0, closefd=False), write_through=True)
    i, value = call
    return i, function(value)


class _NoTerminal(io.TextIOWrapper):
    """A stream that is not a terminal: progress bars of workers would overwrite one another."""

    def isatty(self) -> bool:
        return False
