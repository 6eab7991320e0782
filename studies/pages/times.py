"""How long everything takes, as benchmarks/whole.py measured it in a fresh clone."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from studies.pages.tables import markdown_table
from studies.results import read_json

STAGES = {  # commands that are a stage of `make reproduce`, with what they need: not timed again
    "python scripts/figure1.py": "figure1",
    "python scripts/bridge.py": "bridge",
    "python scripts/run_slr.py portrait": "slr",
    "python scripts/run_slr.py layer": "slr",
}
PARTS = ("setup", "reproduce", "killed", "test", "commands")


def times_part(path: Path) -> list[str]:
    """The section of the page of results, from docs/times.json."""
    import pandas as pd

    if not path.is_file():
        return []
    times = read_json(path)
    if missing := [part for part in PARTS if part not in times]:
        raise ValueError(f"{path} lacks {missing[0]}; python benchmarks/whole.py measures it")
    machine, whole, killed = times["machine"], times["reproduce"], times["killed"]
    stages = ", ".join(f"{name} {seconds} s" for name, seconds in whole["stages"].items())
    rows = {
        "`make setup`": f"{times['setup']['seconds']} s",
        "`make reproduce`": f"{whole['seconds']} s ({stages})",
        "`make reproduce`, a second time": f"{whole['again_seconds']} s",
        "`make test`": f"{times['test']['seconds']} s",
    }
    rows |= {f"`{command}`": f"{seconds} s" for command, seconds in times["commands"].items()}
    return [
        "## Times",
        f"In a fresh clone, on {machine['Processor']} with {machine['Memory']} of memory, without "
        f"a GPU. `make reproduce` took {whole['peak_gib']:.1f} GiB of memory at most. The scripts "
        "ran in this order and found what those above them had made.",
        markdown_table(pd.DataFrame({"time": rows}).rename_axis("command")),
        f"Killed with SIGKILL a third of the way through each of its {len(killed['killed_in'])} "
        f"stages and started again, `make reproduce` ended with {killed['tables_compared']} "
        f"tables and weights, of which {len(killed['different'])} differ from those of an "
        "undisturbed run, compared to the last bit.",
        "Made by `python benchmarks/whole.py`.",
    ]


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
