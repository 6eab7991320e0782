"""Make every result of this project, one stage after the other.

A stage that is already there, made with the same settings, is not made again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from command_line import run


@dataclass(frozen=True)
class Config:
    results: Path = Path("results")
    """Folder for all results, one sub-folder a stage."""
    only: tuple[str, ...] = ()
    """Make only these stages."""
    overwrite: bool = False
    """Make stages again that are already there."""


def dataset(folder: Path, overwrite: bool) -> None:
    import generate_data
    from run_directory import CONFIG, read_json

    config = generate_data.Config(output=folder, extended=True, overwrite=overwrite)
    if not overwrite and (folder / CONFIG).is_file():
        if read_json(folder / CONFIG) == generate_data.settings(config):
            print(f"unchanged, see {folder}")
            return
        raise FileExistsError(f"{folder} was made with other settings; add --overwrite")
    generate_data.main(config)


STAGES: dict[str, Callable[[Path, bool], None]] = {"dataset": dataset}


def main(config: Config) -> None:
    unknown = [name for name in config.only if name not in STAGES]
    if unknown:
        raise ValueError(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    names = config.only or tuple(STAGES)
    start = time.perf_counter()
    for number, name in enumerate(names, 1):
        print(f"== {number}/{len(names)} {name}", flush=True)
        STAGES[name](config.results / name, config.overwrite)
    print(f"== done in {time.perf_counter() - start:.0f} s; results are in {config.results}")


if __name__ == "__main__":
    run(main, Config, __doc__)
