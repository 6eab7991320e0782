"""The whole project in a fresh clone: `make reproduce`, `make test`, and the commands of README.

1. `make setup`, then `make reproduce` (time, peak memory of all its processes together), twice.
2. `make reproduce`, killed with SIGKILL a third of the way through each stage and started again:
   are the final numbers those of the undisturbed run?
3. `make test`.
4. The commands of README, except those that are a stage of 1.

It takes about an hour; `python benchmarks/whole.py reproduce killed` runs only these parts. Figures
are printed and written to docs/times.json, from which docs/results.md has its section Times.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compare_results import differences, tables_of

from studies.pages.environment import machine
from studies.pages.results import TIMED

COMMANDS = (  # of README's table, in its order; those that are a stage of 1 are not timed again
    "python scripts/generate_data.py --output my-data --extended",
    "python scripts/train_transformer.py",
    "python scripts/probe.py --model minilm",
    "python scripts/extract.py --layers 5",
    'python scripts/apply.py --probe results/probes/saved/reader --text "our owl is lovely"',
    "python scripts/causal.py --model minilm",
    "python scripts/sparsity.py",
    "python scripts/controls.py --model results/transformer --output results/transformer-controls",
    "python scripts/doctor.py",
    "python scripts/run_slr.py paper",
    "python scripts/run_slr.py portrait",
    "python scripts/run_slr.py sweep",
)
ROOT = Path(__file__).parent.parent
TIMES = ROOT / "docs" / "times.json"
REPRODUCE = (".venv/bin/python", "scripts/reproduce.py")
STAGE_BEGINS = re.compile(r"== \d+/\d+ (\S+)")
STAGE_ENDS = re.compile(r"== (\S+) took (\d+) s")


def main(parts: Sequence[str]) -> None:
    if unknown := [part for part in parts if part not in TIMED]:
        raise SystemExit(f"no part {unknown[0]}; there are {', '.join(TIMED)}\n\n{__doc__}")
    with tempfile.TemporaryDirectory(prefix="slr-probing-") as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        if "setup" not in parts:
            (clone / ".venv").symlink_to(ROOT / ".venv")
            (ROOT / ".venv" / ".ready").touch()  # newer than the clone, or make sets it up again
        for part in parts:
            times = {part: globals()[f"measure_{part}"](clone)}
            print(json.dumps(times, indent=1), flush=True)
            keep(times)


def keep(new: dict[str, Any]) -> None:
    times = json.loads(TIMES.read_text()) if TIMES.is_file() else {}
    times |= {"machine": machine()} | new
    TIMES.write_text(json.dumps(times, indent=1) + "\n")


def measure_setup(clone: Path) -> dict[str, Any]:
    return {"seconds": watch(["make", "setup"], clone).seconds}


def measure_reproduce(clone: Path) -> dict[str, Any]:
    cold = watch(["make", "reproduce"], clone)
    again = watch(["make", "reproduce"], clone)
    return {
        "seconds": cold.seconds,
        "stages": cold.stages,
        "peak_gib": cold.peak_gib,
        "again_seconds": again.seconds,
    }


def measure_killed(clone: Path) -> dict[str, Any]:
    results = clone / "results"
    if results.exists():
        undisturbed = json.loads(TIMES.read_text())["reproduce"]["stages"]
    else:
        undisturbed = watch(["make", "reproduce"], clone).stages
    command = [*REPRODUCE, "--results", "disturbed"]
    kills = kill_in_each_stage(command, clone, undisturbed)
    return {
        "killed_in": kills,
        "tables_compared": len(list(tables_of(results))),
        "different": list(differences(results, clone / "disturbed")),
    }


def measure_test(clone: Path) -> dict[str, Any]:
    run = watch(["make", "test"], clone)
    return {"seconds": run.seconds, "says": run.lines[-1]}


def measure_commands(clone: Path) -> dict[str, Any]:
    """The commands of README, without earlier results."""
    if (clone / "results").exists():
        (clone / "results").rename(clone / "results-before")
    seconds = {}
    for command in COMMANDS:
        words = shlex.split(command)
        words[0] = str(clone / ".venv" / "bin" / "python")
        seconds[command] = watch(words, clone).seconds
        print(f"{seconds[command]:5.0f} s  {command}", flush=True)
    return seconds


@dataclass
class Run:
    seconds: int = 0
    peak_gib: float = 0.0  # of all processes together; shared memory counts once
    stages: dict[str, int] = field(default_factory=dict)  # seconds of each stage that ended
    lines: list[str] = field(default_factory=list)


def begin(command: Sequence[str], cwd: Path) -> subprocess.Popen[str]:
    # A linked .venv would import the packages of the tree that it was made for.
    environment = os.environ | {"PYTHONPATH": str(cwd)} if (cwd / "probing").is_dir() else None
    return subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True)


def watch(command: Sequence[str], cwd: Path) -> Run:
    """Run a command and show its output; a failure ends the measurement."""
    run, start = Run(), time.perf_counter()
    with begin(command, cwd) as process:
        threading.Thread(target=_watch_memory, args=(process.pid, run), daemon=True).start()
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            run.lines.append(line.strip())
            if ended := STAGE_ENDS.match(line):
                run.stages[ended[1]] = int(ended[2])
    run.seconds = round(time.perf_counter() - start)
    if process.returncode:
        raise SystemExit(f"{shlex.join(command)} failed with {process.returncode}")
    return run


def _watch_memory(pid: int, run: Run) -> None:
    import psutil  # type: ignore[import-untyped]

    try:
        first = psutil.Process(pid)
        while first.is_running():
            total = 0
            for process in [first, *first.children(recursive=True)]:
                try:
                    total += process.memory_full_info().pss
                except (psutil.Error, OSError):
                    continue  # it has just ended
            run.peak_gib = max(run.peak_gib, round(total / 2**30, 2))
            time.sleep(1)
    except psutil.Error:
        pass


def kill_in_each_stage(
    command: Sequence[str], cwd: Path, seconds: dict[str, int]
) -> dict[str, float]:
    """Kill a third of the way through each stage, one after the other, then run to the end.

    Only the program itself is killed, as the kernel does when memory is short: its child processes
    must end by themselves. Returns the seconds after which each stage was killed.
    """
    kills = {}
    for stage, took in seconds.items():
        with begin(command, cwd) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if (begun := STAGE_BEGINS.match(line)) and begun[1] == stage:
                    break
            else:
                raise SystemExit(f"it ended before {stage} began")
            kills[stage] = took / 3
            threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe blocks
            time.sleep(kills[stage])
            if process.poll() is not None:
                raise SystemExit(f"{stage} ended before it was killed")
            os.kill(process.pid, signal.SIGKILL)
        print(f"killed in {stage}, {kills[stage]:g} s after it began", flush=True)
    watch(command, cwd)
    return kills


if __name__ == "__main__":
    main(sys.argv[1:] or TIMED)
