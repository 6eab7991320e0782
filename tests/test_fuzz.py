"""2 000 broken inputs, made from a seed: no traceback, no hang, none accepted silently."""

import json
import subprocess
import sys

import fuzz
import pytest

CASES = {"specs": 600, "sentences": 500, "configs": 400, "tokenizers": 300, "grids": 200}


@pytest.mark.slow
@pytest.mark.parametrize("target", CASES)
def test_broken_input_is_refused_or_sound(target: str) -> None:
    command = [sys.executable, fuzz.__file__, target, str(CASES[target])]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-4000:]}"
    counts = json.loads(run.stdout.splitlines()[-1])  # libraries may speak before it
    assert sum(counts.values()) == CASES[target]
    # Mutations that break nothing, or everything at once, would test nothing.
    assert min(counts["refused"], counts["accepted"]) > 0.02 * CASES[target]
