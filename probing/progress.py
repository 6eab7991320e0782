"""Long work: progress reports, and several processes that share the work."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from joblib import Parallel, delayed  # type: ignore[import-untyped]

Progress = Callable[[int, int], object]  # (done, total)
Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")


def in_processes(
    work: Callable[..., Result],
    arguments: Callable[[Item], Iterable[object]],
    items: Sequence[Item],
    *,
    jobs: int = 1,
    progress: Progress | None = None,
) -> dict[Item, Result]:
    """Results of ``work(*arguments(item))`` by item, computed in ``jobs`` processes.

    Arguments are made one item at a time: those of all items might not fit into memory.
    ``progress(done, total)`` counts items.
    """
    calls = (delayed(work)(*arguments(item)) for item in items)
    results = {}
    done = Parallel(n_jobs=jobs, return_as="generator", pre_dispatch=jobs)(calls)
    for item, result in zip(items, done, strict=True):
        results[item] = result
        if progress:
            progress(len(results), len(items))
    return results
