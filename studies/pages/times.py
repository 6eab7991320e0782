"""How long everything takes, as benchmarks/whole.py measured it in a fresh clone."""

from pathlib import Path

import pandas as pd

from studies.rendering import markdown_table
from studies.results import read_json

PARTS = ("setup", "reproduce", "killed", "test", "commands")


def times_part(path: Path) -> list[str]:
    """The section of the page of results, from docs/times.json."""
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
