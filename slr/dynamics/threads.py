"""The threads that training runs share.

Compiled code releases the GIL, so plain threads suffice. numba's parallel loops are not used: even
asking numba for its number of threads sets that of all OpenMP code in the process, torch's too.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numba

_threads: ContextVar[int] = ContextVar("threads", default=numba.config.NUMBA_NUM_THREADS)  # cores


@contextmanager
def thread_limit(threads: int) -> Iterator[None]:
    """Train on this many threads instead of one per core.

    >>> with thread_limit(1):
    ...     trajectory = pgd(task, start, lam=0.1, step_size=4e-3, n_steps=100, log_every=50)
    """
    token = _threads.set(threads)
    try:
        yield
    finally:
        _threads.reset(token)


def in_threads(function: Callable[..., Any], *columns: Iterable[Any]) -> None:
    """Call a function with each row of the columns."""
    if _threads.get() == 1:
        list(map(function, *columns))
        return
    with ThreadPoolExecutor(_threads.get()) as pool:
        list(pool.map(function, *columns))
