"""Extraction by two processes over gloo, one of which is killed: nothing is lost or changed."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shared_extraction import N_SENTENCES, states_of

from probing.states.store import FINISHED

TESTS = Path(__file__).parent
LAUNCHER = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def torchrun(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *LAUNCHER, *command], capture_output=True, text=True, cwd=TESTS.parent
    )


def shared(folder: Path, killed_after: int) -> subprocess.CompletedProcess[str]:
    return torchrun(str(TESTS / "shared_extraction.py"), str(folder), str(killed_after))


def finished(folder: Path) -> int:
    return sum((folder / FINISHED).read_bytes())


@pytest.mark.usefixtures("one_thread")
def test_a_process_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    killed = shared(tmp_path, killed_after=3)
    assert killed.returncode != 0
    assert "SIGKILL" in killed.stderr
    done = finished(tmp_path)
    assert 0 < done < N_SENTENCES
    resumed = shared(tmp_path, killed_after=0)
    assert resumed.returncode == 0, resumed.stderr
    said = re.findall(r"process (\d) of 2: (\d+) batches, 300 sentences", resumed.stdout)
    assert {rank for rank, _ in said} == {"0", "1"}
    assert all(int(batches) > 0 for _, batches in said), "both had a share of the rest"
    assert finished(tmp_path) == N_SENTENCES
    alone, stored = states_of(None), states_of(tmp_path)
    for layer, position in alone.hidden:
        np.testing.assert_array_equal(stored.at(layer, position), alone.at(layer, position))


def test_several_processes_need_a_folder(tmp_path: Path) -> None:
    program = (
        "from shared_extraction import states_of; from probing.processes import joined\n"
        "with joined():\n    states_of(None)"
    )
    path = tmp_path / "program.py"
    path.write_text(f"import sys; sys.path.insert(0, {str(TESTS)!r})\n{program}\n")
    refused = torchrun(str(path))
    assert refused.returncode != 0
    assert "several processes need a folder to write to" in refused.stderr
