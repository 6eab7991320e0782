"""The batches of a sweep on a Dask cluster."""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

try:
    from distributed import Client, as_completed
except ImportError:
    raise ValueError(
        "a cluster needs the packages dask and distributed: pip install 'slr-probing[cluster]'"
    ) from None

CONNECT_SECONDS = 10
WORKER_SECONDS = 60  # for the first worker to come up


class ClusterError(OSError):
    """The cluster gave up a batch: its workers died over it, or cannot run it."""


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of the cluster whose scheduler is at an address, once it has a worker."""
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
        yield client


def run_on_cluster(
    client: Client, function: Callable[[Any], Any], batches: Iterable[Any], workers: int
) -> Iterator[Any]:
    """The results of a function at every batch, as they come; two batches per core are under way.

    The scheduler sends the batches of a worker that dies to others, and gives up a batch that
    killed several.
    """
    waiting = iter(batches)
    submit = functools.partial(client.submit, function, pure=False)
    futures: Any = as_completed(
        [submit(batch) for batch in islice(waiting, 2 * workers)], loop=client.loop
    )  # type: ignore[no-untyped-call]
    for future in futures:
        try:
            result = future.result()
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())  # one line
            raise ClusterError(
                f"the cluster gave up a batch: {reason}; "
                "what was computed is kept: the same sweep again goes on from there"
            ) from error
        yield result
        for batch in islice(waiting, 1):
            futures.add(submit(batch))
