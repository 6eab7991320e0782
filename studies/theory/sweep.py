"""Any grid of settings of the idealised model, trained cell by cell on any number of cores.

The grid is a TOML file (--grid), settings on the command line (--vary lam=0.1,0.2 d=100:1000:10),
or the default, lam x step size for PGD from the sphere and on the manifold. A sweep that was
stopped resumes.
"""

import logging
import stat
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from studies.bounds import Jobs, check_workers
from studies.settings import ROOT, code_sha256
from studies.study import Result, Said, SlrOptions, Tables, slr_study

if TYPE_CHECKING:
    from slr.sweep.engine import Swept
    from slr.sweep.grid import Grid

LARGEST_FILE, LONGEST_KEY = 10**6, 1000  # bytes, characters
DEFAULT = {
    "lam": "0.01:0.5:16:log",
    "step_size": "1e-3:0.5:12:log",
    "start": ["sphere", "manifold"],
    "n_steps": 5_000,
    "runs": 20,
}
SMOKE = {"lam": "0.02:0.5:3:log", "step_size": "1e-3:0.1:2:log", "n_steps": 200, "runs": 2}


@dataclass(frozen=True, kw_only=True)
class SweepOptions(SlrOptions):
    """Options of a study that is a sweep: how its cells are computed."""

    jobs: Jobs | None = None
    """Number of processes; None: one per core."""
    cluster: str | None = None
    """Run the cells on the workers of the Dask scheduler at this address, as tcp://host:8786."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_workers(self.jobs, self.cluster)


@dataclass(frozen=True, kw_only=True)
class Options(SweepOptions):
    grid: Path | None = None
    """TOML file with the grid: lists of values, which are crossed."""
    vary: tuple[str, ...] = ()
    """Settings of the grid, as name=value,value,... or name=first:last:count[:log]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grid is not None:
            check_file(self.grid)


def run(options: Options) -> Result:
    from studies.theory.figures.sweep import in_words, plot_sweep

    grid = grid_of(options)
    swept = compute(grid, options, "sweep")
    table = swept.table
    best = table.loc[table["share_aligned"].idxmax()]
    cell = ", ".join(f"{name} = {in_words(best[name], 3)}" for name in grid.varied)
    remark = (
        f"{len(table)} cells, {swept.computed} computed now: "
        f"{1e3 * swept.seconds / max(swept.computed, 1):.1f} ms of computing per cell\n"
        f"best share of aligned runs {best['share_aligned']:.2f}" + (f" at {cell}" if cell else "")
    )
    figures = {"sweep": plot_sweep(table, grid)}
    return Result({"cells": table}, figures, remark, scratch=rows_folder(options, "sweep"))


def grid_of(options: Options) -> "Grid":
    """The grid of the file's settings and --vary, or the default one, with --seed for all cells."""
    from slr.checks import quoted
    from slr.sweep.cells import cell_grid

    axes = _read_axes(options.grid) if options.grid else {}
    varied = [_parse_axis(text) for text in options.vary]
    if twice := [name for name, count in Counter(name for name, _ in varied).items() if count > 1]:
        raise ValueError(f"--vary names {quoted(twice[0])} twice; list all its values at once")
    axes |= dict(varied)
    if axes and options.smoke:
        raise ValueError("--smoke has its own grid; leave out --grid and --vary")
    if not axes:
        axes = dict(SMOKE if options.smoke else DEFAULT)
    if options.seed and "seed" in axes:
        raise ValueError("seed is given twice: in the grid and by --seed")
    return cell_grid({"seed": options.seed} | axes)


def check_file(path: Path) -> None:
    """Refuse what is not a file, which reading might wait for without end, and a huge one."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a file; --grid takes a TOML file")
    if status.st_size > LARGEST_FILE:
        raise ValueError(f"{path} is too large for a grid; at most {LARGEST_FILE // 10**6} MB")


def _read_axes(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if any(
            len(line.partition("=")[0]) > LONGEST_KEY for line in text.splitlines() if "=" in line
        ):
            raise ValueError("a name is too long")  # tomllib takes minutes for a.a.a.a...
        axes = tomllib.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from error
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply: a grid has lists of values only") from None
    if not axes:
        raise ValueError(f"{path} is an empty grid: name at least one setting and its values")
    return axes


def _parse_axis(text: str) -> tuple[str, list[str]]:
    from slr.checks import quoted

    name, equals, values = text.partition("=")
    if not equals:
        raise ValueError(f"--vary takes name=value,value,... and not {quoted(text)}")
    return name.strip(), [value.strip() for value in values.split(",") if value.strip()]


def compute(grid: "Grid", options: SweepOptions, name: str) -> "Swept":
    """The table of a grid of experiments; rows computed by an interrupted run are kept."""
    from slr.sweep.cells import train_cell
    from slr.sweep.engine import sweep

    version = code_sha256(ROOT / "slr" / "sweep" / "cells.py")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # a failure is one line
    keys = ("jobs", "cluster", "overwrite")
    engine: dict[str, Any] = {key: getattr(options, key) for key in keys}
    with tqdm(total=len(grid), desc=name, unit="cell", disable=None) as bar:
        engine |= {"version": version, "progress": bar.update}
        return sweep(train_cell, grid, rows_folder(options, name), **engine)


def rows_folder(options: SweepOptions, name: str) -> Path:
    """The folder of rows until the result is complete, from which a stopped sweep resumes."""
    return options.output / f"{name}-parts"


def says(tables: Tables) -> Said:
    table = tables["cells"]
    counts = table.assign(all=table["share_aligned"] == 1).groupby("start")["all"]
    text = "; ".join(f"{start}: {part.sum()} of {len(part)}" for start, part in counts)
    return [f"Settings at which every run aligns, by start: {text}."]


STUDY = slr_study(
    __name__,
    "A sweep over lambda and step size",
    "The share of PGD runs that align, over lambda and step size.",
)
