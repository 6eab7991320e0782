"""The study `run_slr.py sweep`: a grid of settings, trained cell by cell on any number of cores.

The grid is a TOML file (--grid), settings on the command line (--vary lam=0.1,0.2 d=100:1000:10),
or the default: where PGD succeeds over lam and step size, from the sphere and on the manifold.
"""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from code_version import ROOT, code_sha256

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from slr.sweep.grid import Grid

DEFAULT = {
    "lam": "0.01:0.5:16:log",
    "step_size": "1e-3:0.5:12:log",
    "start": ["sphere", "manifold"],
    "n_steps": 5_000,
    "runs": 20,
}
SMOKE = {"lam": "0.02:0.5:3:log", "step_size": "1e-3:0.1:2:log", "n_steps": 200, "runs": 2}


class SweepConfig(Protocol):
    """The options of run_slr.py that a sweep looks at."""

    @property
    def output(self) -> Path: ...
    @property
    def runs(self) -> int | None: ...
    @property
    def seed(self) -> int: ...
    @property
    def d(self) -> int | None: ...
    @property
    def steps(self) -> int | None: ...
    @property
    def smoke(self) -> bool: ...
    @property
    def overwrite(self) -> bool: ...
    @property
    def grid(self) -> Path | None: ...
    @property
    def vary(self) -> tuple[str, ...]: ...
    @property
    def jobs(self) -> int | None: ...
    @property
    def cluster(self) -> str | None: ...


def grid_of(config: SweepConfig) -> "Grid":
    """The file's settings, then --vary, then the options of the other studies."""
    from slr.sweep.cells import cell_grid

    axes = read_axes(config.grid) if config.grid else {}
    axes |= dict(parse_axis(text) for text in config.vary)
    if not axes:
        axes = dict(SMOKE if config.smoke else DEFAULT)
    options = {"runs": config.runs, "d": config.d, "n_steps": config.steps}
    for name, value in (options | {"seed": config.seed or None}).items():
        if value is not None:
            if name in axes and (config.grid or config.vary):
                raise ValueError(f"{name} is given twice: in the grid and by an option")
            axes[name] = value
    return cell_grid(axes)


def read_axes(path: Path) -> dict[str, Any]:
    try:
        axes = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from error
    if not axes:
        raise ValueError(f"{path} is an empty grid: name at least one setting and its values")
    return axes


def parse_axis(text: str) -> tuple[str, list[str]]:
    name, equals, values = text.partition("=")
    if not equals:
        raise ValueError(f"--vary takes name=value,value,... and not {text!r}")
    return name.strip(), [value.strip() for value in values.split(",") if value.strip()]


def settings_of(config: SweepConfig) -> dict[str, Any]:
    """What decides the table; neither the number of jobs nor the cluster does."""
    return {"grid": {name: list(values) for name, values in grid_of(config).axes.items()}}


def parts_folder(config: SweepConfig) -> Path:
    """Where rows are kept until the result is whole: a sweep that was stopped goes on from it."""
    return config.output / "sweep-parts"


def run_sweep(
    config: SweepConfig,
) -> "tuple[dict[str, pd.DataFrame], dict[str, Figure], list[str]]":
    """Tables, figures and what to say about them."""
    import logging
    import time

    from tqdm import tqdm

    from slr.sweep.cells import train_cell
    from slr.sweep.engine import sweep
    from slr.sweep_figures import plot_sweep

    grid, folder = grid_of(config), parts_folder(config)
    version = code_sha256(ROOT / "slr" / "sweep" / "cells.py")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what fails is said in one line
    start = time.perf_counter()
    with tqdm(total=len(grid), desc="sweep", unit="cell", disable=None) as bar:
        swept = sweep(
            train_cell,
            grid,
            folder,
            jobs=config.jobs,
            cluster=config.cluster,
            version=version,
            overwrite=config.overwrite,
            progress=bar.update,
        )
    wall = time.perf_counter() - start
    table = swept.table
    best = table.loc[table["share_aligned"].idxmax()]
    at = ", ".join(f"{name} = {_text(best[name])}" for name in grid.varied)
    lines = [
        f"{len(table)} cells, {swept.computed} computed now in {wall:.1f} s: "
        f"{1e3 * swept.seconds / max(swept.computed, 1):.1f} ms of computing a cell",
        f"best share of aligned runs {best['share_aligned']:.2f}" + (f" at {at}" if at else ""),
    ]
    return {"cells": table}, {"sweep": plot_sweep(table, grid)}, lines


def _text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"
