"""Compilation with a disk cache that notices every change.

numba's own cache checks only the file of the function. After a change in slr/gates/erf.py it would
silently keep the compiled loops of slr/dynamics/reduced.py, and with them the old risk. Here the
cache lies in a folder named after a hash of the whole package's source.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

from slr.workers.pool import source_digest


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator like numba.njit(cache=True, nogil=True), with the options of njit.

    A loop that takes minutes must let other threads run: one of them may watch whether the program
    that started this process is still there (slr/workers/lifetime.py).
    """

    def decorate(function: Callable[..., Any]) -> Any:
        previous = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(CACHE or "")
        try:
            dispatcher = numba.njit(error_model="numpy", nogil=True, **options)(function)
            if CACHE is not None:
                dispatcher._cache = ForgivingCache(function)
            return dispatcher
        finally:
            numba.config.CACHE_DIR = previous

    return decorate


class ForgivingCache(FunctionCache):  # type: ignore[misc]
    """A cache that begins anew if its index names a type that this process cannot import.

    Such a type is the model of a gate that another script registered (slr/gates/interface.py).
    """

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)
        except (ImportError, AttributeError):
            self.flush()
            return None


def _cache_folder() -> Path | None:
    name = f"slr-numba-{SOURCE}"
    for parent in (PACKAGE / "__pycache__", Path.home() / ".cache"):
        try:
            (parent / name).mkdir(parents=True, exist_ok=True)
        except OSError:  # not writable: try the next folder, or do without a cache
            continue
        for old in parent.glob("slr-numba-*"):
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)
        return parent / name
    return None


PACKAGE = Path(__file__).parent
SOURCE = source_digest(PACKAGE)  # of the whole package
CACHE = _cache_folder()
