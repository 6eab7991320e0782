"""Cells that only wait, and write down that they were computed: light to import by workers."""

import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slr.sweep.grid import Grid


def wait(settings: Mapping[str, Any]) -> dict[str, Any]:
    time.sleep(settings["seconds"])
    with Path(settings["log"]).open("a") as log:
        log.write(f"{settings['x']}\n")
    return {"square": settings["x"] ** 2, "process": os.getpid()}


def waiting_grid(folder: Path, n: int, seconds: float = 0.02) -> Grid:
    log = folder / "computed.log"
    log.touch()
    return Grid({"x": tuple(range(n)), "seconds": (seconds,), "log": (str(log),)})


def computed(folder: Path) -> Counter[int]:
    """How often each cell was computed."""
    return Counter(map(int, (folder / "computed.log").read_text().split()))
