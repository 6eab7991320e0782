"""Several processes that share one job: those that torchrun started, or this one alone.

Each process has a number, its rank; the first has rank 0. Processes talk through torch.distributed
(gloo), and only to wait for each other and to hear what the first one knows.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed

from probing.arrays import BoolArray, from_bytes


def is_launched() -> bool:
    """Whether torchrun (or `accelerate launch`) started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def joined() -> Iterator[None]:
    """Join the processes that the launcher started for the time of the block.

    >>> with joined():
    ...     extract(model, tokenizer, dataset["train"], folder="states")
    """
    if not is_launched() or torch.distributed.is_initialized():
        yield
        return
    # Some may wait long for others; if one dies, the launcher ends all.
    torch.distributed.init_process_group("gloo", timeout=timedelta(days=7))
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def rank_and_size() -> tuple[int, int]:
    """The number of this process, from 0, and how many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def wait_for_all() -> None:
    """Wait until every process has come this far."""
    if rank_and_size()[1] > 1:
        torch.distributed.barrier()


def from_first(flags: BoolArray) -> BoolArray:
    """The first process's flags, in every process."""
    if rank_and_size()[1] == 1:
        return flags
    sent = torch.from_numpy(flags.astype("uint8"))
    torch.distributed.broadcast(sent, src=0)
    return from_bytes(sent).astype(bool)
