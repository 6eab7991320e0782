"""Run by torchrun: states of a small model in a folder, with one process that may kill itself.

Arguments: the folder, and the number of batches after which process 1 is killed (0: never).
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from small_models import bert

from data_gen import build_dataset, build_tokenizer
from probing.processes import joined, rank_and_size
from probing.states import store
from probing.states.extraction import extract
from probing.states.tokens import States

N_SENTENCES = 300


def states_of(folder: Path | None, progress: Any = None) -> States:
    rows = build_dataset()["train"].select(range(N_SENTENCES))
    tokenizer = build_tokenizer(rows["text"][:])
    options: dict[str, Any] = {"positions": ("summary", "tokens"), "max_tokens_per_batch": 64}
    return extract(
        bert(len(tokenizer)), tokenizer, rows, folder=folder, progress=progress, **options
    )


def main(folder: Path, killed_after: int) -> None:
    store.SYNC_SECONDS = 0  # what is finished is on disk at once
    batches = 0

    def progress(done: int, total: int) -> None:
        nonlocal batches
        batches += 1
        if rank_and_size() == (1, 2) and batches == killed_after:
            os.kill(os.getpid(), signal.SIGKILL)

    with joined():
        states = states_of(folder, progress)
        rank, size = rank_and_size()
        print(f"process {rank} of {size}: {batches} batches, {len(states)} sentences", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
