"""The whole as a stranger meets it: a fresh clone, `make reproduce`, `make test`, README's table.

1. `make setup`, then `make reproduce` (time, peak memory of all its processes together), and again.
2. The same, killed with SIGKILL in each stage, a third of the way through, and started again:
   are the final numbers those of the undisturbed run?
3. `make test`.
4. The commands of README's table, as they stand there, but for those that are a stage of 1.

Takes about an hour; `python benchmarks/whole.py reproduce killed` does some parts only.
Figures are printed, and kept in docs/times.json, which README and docs/results.md are held against.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compare_results import differences, tables_of

from studies.pages.environment import machine
from studies.pages.results import TIMED

STAGES = {  # commands that are a stage of `make reproduce`, with what they need: not timed again
    "python scripts/figure1.py": "figure1",
    "python scripts/bridge.py": "bridge",
    "python scripts/run_slr.py portrait": "slr",
    "python scripts/run_slr.py layer": "slr",
}
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
            (ROOT / ".venv" / ".ready").touch()  # younger than the clone, or make sets it up again
        for part in parts:
            found = {part: globals()[f"measure_{part}"](clone)}
            print(json.dumps(found, indent=1), flush=True)
            keep(found)


def keep(found: dict[str, Any]) -> None:
    known = json.loads(TIMES.read_text()) if TIMES.is_file() else {}
    known |= {"machine": machine()} | found
    TIMES.write_text(json.dumps(known, indent=1) + "\n")


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
        "different": differences(results, clone / "disturbed"),
    }


def measure_test(clone: Path) -> dict[str, Any]:
    run = watch(["make", "test"], clone)
    return {"seconds": run.seconds, "says": run.lines[-1]}


def measure_commands(clone: Path) -> dict[str, Any]:
    """README's commands in the order of its table, without results from before."""
    if (clone / "results").exists():
        (clone / "results").rename(clone / "results-before")
    found = {}
    rows = readme_rows((clone / "README.md").read_text())
    for command in [one for commands, _ in rows if commands[0] not in STAGES for one in commands]:
        words = shlex.split(command)
        words[0] = str(clone / ".venv" / "bin" / "python")
        found[command] = watch(words, clone).seconds
        print(f"{found[command]:5.0f} s  {command}", flush=True)
    return found


@dataclass
class Run:
    seconds: int = 0
    peak_gib: float = 0.0  # of all processes together, what they share counted once
    stages: dict[str, int] = field(default_factory=dict)  # seconds of each stage that ended
    lines: list[str] = field(default_factory=list)


def begin(command: Sequence[str], cwd: Path) -> subprocess.Popen[str]:
    # A borrowed .venv would import the packages of the tree that it was made for.
    environment = os.environ | {"PYTHONPATH": str(cwd)} if (cwd / "probing").is_dir() else None
    return subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True)


def watch(command: Sequence[str], cwd: Path) -> Run:
    """Run to the end; output is shown as it comes, and a failure ends the measurement."""
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
            for one in [first, *first.children(recursive=True)]:
                try:
                    total += one.memory_full_info().pss
                except (psutil.Error, OSError):
                    continue  # it has just ended
            run.peak_gib = max(run.peak_gib, round(total / 2**30, 2))
            time.sleep(1)
    except psutil.Error:
        pass


def kill_in_each_stage(
    command: Sequence[str], cwd: Path, seconds: dict[str, int]
) -> dict[str, float]:
    """SIGKILL a third of the way through each stage, one after the other, then run to the end.

    Only the program itself is killed, as by the kernel when memory is short: what it began must
    end by itself. Gives how long after its beginning each stage was killed.
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
            threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe waits
            time.sleep(kills[stage])
            if process.poll() is not None:
                raise SystemExit(f"{stage} ended before it was killed")
            os.kill(process.pid, signal.SIGKILL)
        print(f"killed in {stage}, {kills[stage]:g} s after it began", flush=True)
    watch(command, cwd)
    return kills


def readme_rows(readme: str) -> Iterator[tuple[list[str], str]]:
    """The commands and the time of each row of README's table.

    `python x.py portrait` (`yardsticks`, `scaling`) stands for three commands.
    """
    for line in readme.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[1].startswith("`python "):
            first, *others = re.findall(r"`([^`]+)`", cells[1])
            yield [first, *(f"{first.rsplit(' ', 1)[0]} {name}" for name in others)], cells[2]


def rounded(seconds: float) -> str:
    """As README says it."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def readme_time(commands: list[str], times: dict[str, Any]) -> str:
    """What README should say of a row."""
    if stage := STAGES.get(commands[0]):
        taken = rounded(times["reproduce"]["stages"][stage])
        return f"{taken}, all of `{stage}` in `make reproduce`"
    (command,) = commands
    return rounded(times["commands"][command])


if __name__ == "__main__":
    main(sys.argv[1:] or TIMED)
