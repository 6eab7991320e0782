"""Several processes that share one job: those that torchrun started and that have joined.

Each process has a number, its rank; the first has rank 0. Processes talk through a group of
torch.distributed (gloo), and only to wait for each other and to hear what the first one knows.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed

from probing.arrays import BoolArray, from_bytes

_groups: list[Any] = []  # that this process has joined; a group that others opened does not count


def is_launched() -> bool:
    """Whether torchrun (or `accelerate launch`) started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def joined() -> Iterator[None]:
    """Join the processes that the launcher started for the time of the block.

    >>> with joined():
    ...     extract(model, tokenizer, dataset["train"], folder="states")
    """
    if not is_launched() or _groups:
        yield
        return
    # Some may wait long for others; if one dies, the launcher ends all.
    patience, is_own = timedelta(days=7), not torch.distributed.is_initialized()
    if is_own:
        torch.distributed.init_process_group("gloo", timeout=patience)
    _groups.append(torch.distributed.new_group(backend="gloo", timeout=patience))
    try:
        yield
    finally:
        _groups.pop()
        if is_own:
            torch.distributed.destroy_process_group()


def rank_and_size() -> tuple[int, int]:
    """The number of this process, from 0, and how many there are."""
    if not _groups:
        return 0, 1
    return torch.distributed.get_rank(_groups[-1]), torch.distributed.get_world_size(_groups[-1])


def wait_for_all() -> None:
    """Wait until every process has come this far."""
    if _groups:
        torch.distributed.barrier(_groups[-1])


def from_first(flags: BoolArray) -> BoolArray:
    """The first process's flags, in every process."""
    if not _groups:
        return flags
    sent = torch.from_numpy(flags.astype("uint8"))
    torch.distributed.broadcast(sent, src=0, group=_groups[-1])
    return from_bytes(sent).astype(bool)
