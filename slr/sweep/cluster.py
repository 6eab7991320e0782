"""joblib on a Dask cluster, such that nothing hangs and nothing is lost with a worker.

joblib's own backend waits for ever for a batch that the cluster gave up, runs everything in the
caller where the cluster has one core, and is told the number of cores only once. Here a batch
that failed says so, and the cluster is used whatever its size.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

try:
    from distributed import Client
    from joblib._dask import DaskDistributedBackend  # type: ignore[import-untyped]
except ImportError:
    raise ValueError(
        "a cluster needs the packages dask and distributed: pip install 'slr-probing[cluster]'"
    ) from None

CONNECT_SECONDS = 10
WORKER_SECONDS = 60  # for the first worker to come up


class ClusterError(OSError):
    """The cluster gave up a batch: its workers died over it, or cannot run it."""


class ClusterBackend(DaskDistributedBackend):  # type: ignore[misc]
    """joblib's Dask backend for a client, with its batches sent to ``workers`` cores."""

    def __init__(self, client: Client, workers: int) -> None:
        super().__init__(client=client)
        self.workers = workers

    def effective_n_jobs(self, n_jobs: int) -> int:
        return max(2, self.workers)  # at 1 joblib would not use the cluster

    async def _collect(self) -> None:
        while self._continue:
            async for future, result in self.waiting_futures:
                waiting, callback = self._results.pop(future), self._callbacks.pop(future)
                if future.status != "finished":  # joblib would not call back: nobody would know
                    reason = result[1] if isinstance(result, tuple) else result
                    result = ClusterError(
                        f"the cluster gave up a batch: {type(reason).__name__}: {reason}; "
                        "what was computed is kept: the same sweep again goes on from there"
                    )
                waiting.set_result(result)
                callback(result)  # raises what is an exception where the results are awaited
            await asyncio.sleep(0.01)


@contextmanager
def connected(address: str, workers: int | None) -> Iterator[ClusterBackend]:
    """The cluster whose scheduler is at an address.

    ``workers`` is the number of cores to keep busy (default: those that are there now), for
    clusters that are still growing.
    """
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address} (one is started with `dask scheduler`)"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError as error:
            raise ConnectionError(
                f"the Dask scheduler at {address} has no workers after {WORKER_SECONDS} s "
                f"(one is started with `dask worker {address} --nthreads 1`)"
            ) from error
        cores = sum(client.nthreads().values())  # type: ignore[no-untyped-call]
        yield ClusterBackend(client, max(workers or 1, cores))
