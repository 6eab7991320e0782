"""No process outlives the program that started it, whenever that is killed."""

import threading
import time
from pathlib import Path

import pytest
from killing import started

from slr.compiled import compiled

# One call and three workers: two of them wait for their first call. Beside the workers there are
# the program and loky's two resource trackers.
WORKERS = """
import sys, time
from slr.workers.pool import workers
if __name__ == "__main__":
    with workers(3) as (run_all, _):
        list(run_all(time.sleep, [60]))
"""
# What probing/models/downloads.py does with pip, here with a module that never ends.
MODULE = """
import subprocess
from slr.workers.lifetime import module_command
subprocess.run(module_command("http.server", ["--bind", "127.0.0.1", "0"]))
"""


@pytest.mark.parametrize(
    ("program", "processes"),
    [(WORKERS, 4), (WORKERS, 6), (MODULE, 2)],
    ids=["starting", "waiting", "module"],
)
def test_all_processes_end_with_the_program(program: str, processes: int, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(program)
    with started([str(script)], tmp_path) as running:
        running.wait_for(processes)
        running.kill()
        assert running.left() == []


@compiled()
def loop(n):  # type: ignore[no-untyped-def]
    total = 0.0
    for _ in range(n):
        total += 1 / (1 + total)
    return total


def test_a_compiled_loop_lets_the_watching_thread_run() -> None:
    loop(1)  # compiled
    thread = threading.Thread(target=loop, args=(2 * 10**8,))
    thread.start()
    time.sleep(0.01)
    assert thread.is_alive(), "we were let in only after the loop"
    thread.join()
