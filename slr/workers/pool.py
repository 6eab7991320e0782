"""The workers that share a job: processes of this machine, or those of a Dask cluster.

Sweeps, probes and studies run here, so that all take the same ``jobs`` and ``cluster``. A worker of
a cluster that dies costs what it was at; a process of this machine that dies ends the job, of which
sweeps keep what is finished.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
from joblib.externals.loky.process_executor import BrokenProcessPool  # type: ignore[import-untyped]

from slr.checks import check_whole
from slr.workers.address import check_address
from slr.workers.lifetime import end_with

RunAll = Callable[[Callable[[Any], Any], Iterable[Any]], Any]  # an iterator that can be closed
RESUME = "start the same command again"


@contextmanager
def workers(
    jobs: int | None = None, cluster: str | None = None, *, ahead: int = 2, resume: str = RESUME
) -> Iterator[tuple[RunAll, int]]:
    """A map of a function over items (lazy, results in any order), and the number of cores.

    ``jobs`` is the number of processes (default: one per core). ``cluster`` is the address of a
    Dask scheduler whose workers compute instead; ``jobs`` is then the number of cores to keep busy,
    if more will join. At most ``ahead`` items per core are made before they are needed. ``resume``
    says what to do when a worker took the job down with it.
    """
    if jobs is not None:
        check_whole(1, jobs=jobs)
    if cluster is not None:  # "" is an address that somebody forgot to fill in, not this machine
        check_address(cluster)
        from slr.workers.cluster import connected, run_on_cluster

        with connected(cluster) as client:
            n = max(jobs or 1, sum(client.nthreads().values()))  # type: ignore[no-untyped-call]
            yield functools.partial(run_on_cluster, client, ahead=ahead * n, resume=resume), n
        return
    jobs = jobs or joblib.cpu_count()
    parallel = joblib.Parallel(
        jobs,
        "loky",
        batch_size=1,
        return_as="generator_unordered",
        pre_dispatch=ahead * jobs,
        initializer=end_with,  # not at its first call, for which a worker may wait for ever
        initargs=(os.getpid(),),
    )

    def run_all(run: Callable[[Any], Any], items: Iterable[Any]) -> Any:
        return parallel(joblib.delayed(run)(item) for item in items)

    try:
        yield run_all, jobs
    except BrokenProcessPool as error:
        raise OSError(f"a worker process died (killed, or out of memory); {resume}") from error


def source_digest(package: Path) -> str:
    """A hash of the source of a package: workers of a cluster must have the same."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]
