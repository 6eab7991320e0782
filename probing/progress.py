"""Long work: progress reports, and several processes that share the work."""

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

Progress = Callable[[int, int], object]  # (done, total)
Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")


def in_processes(
    work: Callable[..., Result],
    arguments: Callable[[Item], Iterable[object]],
    items: Sequence[Item],
    *,
    jobs: int = 1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> dict[Item, Result]:
    """Results of ``work(*arguments(item))`` by item, in the order of the items.

    They are computed in ``jobs`` processes or, if ``cluster`` is the address of a Dask scheduler,
    on its workers. Arguments are made one item at a time: those of all items might not fit into
    memory. ``progress(done, total)`` counts items.
    """
    from slr.workers.pool import workers  # imports numba

    results: dict[Item, Result] = {}
    calls = ((item, tuple(arguments(item))) for item in items)
    jobs_there = None if cluster else jobs
    with workers(jobs_there, cluster, ahead=1) as (run_all, _):
        for item, result in run_all(functools.partial(_call, work, _source()), calls):
            results[item] = result
            if progress:
                progress(len(results), len(items))
    return {item: results[item] for item in items}


def _call(work: Callable[..., Result], source: str, call: tuple[Item, Any]) -> tuple[Item, Result]:
    if source != _source():
        raise ValueError("a worker has another version of probing; install the same")
    item, arguments = call
    return item, work(*arguments)


@functools.cache
def _source() -> str:
    from slr.workers.pool import source_digest

    return source_digest(Path(__file__).parent)
