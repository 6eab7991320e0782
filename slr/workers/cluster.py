"""Work on a Dask cluster, which outlives any of its workers."""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from slr.checks import shortened
from slr.workers.address import check_reachable, no_scheduler

try:
    from distributed import Client, as_completed
except ImportError:
    raise ValueError(
        "a cluster needs the packages dask and distributed: pip install 'slr-probing[cluster]'"
    ) from None

CONNECT_SECONDS = 5  # of the connection, and of the scheduler's answer
WORKER_SECONDS = 60  # until the first worker must be there


class ClusterError(OSError):
    """The cluster gave up a batch, which killed several workers or cannot be run."""


class _Client(Client):
    """A client that is closed by its ``with`` block alone."""

    def __del__(self) -> None:
        """Say nothing: a client that did not connect has nothing to close, and would complain."""


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of the Dask scheduler at this address, once the scheduler has a worker."""
    check_reachable(address, seconds=CONNECT_SECONDS)  # Dask itself would try for longer
    try:
        client = _Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except Exception as error:  # what is not a scheduler may answer with anything
        raise no_scheduler(address) from error
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
    client: Client,
    function: Callable[[Any], Any],
    batches: Iterable[Any],
    *,
    ahead: int,
    resume: str,
) -> Iterator[Any]:
    """Yield the result of a function for every batch, in the order in which they finish.

    ``ahead`` batches are submitted at a time, each with its data: data that lay on a worker would
    be lost with it. The scheduler sends the batches of a worker that
    dies to other workers, and gives up a batch that killed several.
    """
    remaining = iter(batches)
    submit = functools.partial(client.submit, function, pure=False)
    futures: Any = as_completed(
        [submit(batch) for batch in islice(remaining, ahead)], loop=client.loop
    )  # type: ignore[no-untyped-call]
    for future in futures:
        try:
            result = future.result()
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())  # one line
            raise ClusterError(
                f"the cluster gave up a batch: {shortened(reason, 120)}; {resume}"
            ) from error
        yield result
        for batch in islice(remaining, 1):
            futures.add(submit(batch))
