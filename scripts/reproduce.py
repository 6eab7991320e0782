"""Make every result of this project, one stage after the other.

A stage that is there whole, made by the same code with the same settings, is not made again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from command_line import run


@dataclass(frozen=True)
class Config:
    results: Path = Path("results")
    """Folder for all results, one sub-folder a stage."""
    only: tuple[str, ...] = ()
    """Make only these stages."""
    overwrite: bool = False
    """Make stages again that are already there."""


def dataset(folder: Path, again: bool) -> None:
    import generate_data

    make(generate_data, generate_data.Config(output=folder / "dataset", extended=True), again)


def slr(folder: Path, again: bool) -> None:
    import run_slr
    from run_directory import is_current

    for name in run_slr.STUDIES:
        config = run_slr.Config(name=name, output=folder / "slr", overwrite=True)
        if not again and is_current(config.output / name, run_slr.settings_of(config, name)):
            print(f"unchanged: {config.output / name}")
        else:
            run_slr.main(config)


def figure1(folder: Path, again: bool) -> None:
    import figure1

    config = figure1.Config(
        output=folder / "figure1", models=folder / "models", probes=folder / "probes"
    )
    make(figure1, config, again)


def make(script: Any, config: Any, again: bool) -> None:
    from run_directory import ensure

    if again:
        script.main(replace(config, overwrite=True))
    else:
        ensure(script, config)


STAGES: dict[str, Callable[[Path, bool], None]] = {
    "dataset": dataset,
    "slr": slr,
    "figure1": figure1,
}


def main(config: Config) -> None:
    unknown = [name for name in config.only if name not in STAGES]
    if unknown:
        raise ValueError(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    names = config.only or tuple(STAGES)
    start = time.perf_counter()
    for number, name in enumerate(names, 1):
        print(f"== {number}/{len(names)} {name}", flush=True)
        STAGES[name](config.results, config.overwrite)
    print(f"== done in {time.perf_counter() - start:.0f} s; results are in {config.results}")


if __name__ == "__main__":
    run(main, Config, __doc__)
