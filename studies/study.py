"""A study as one value: its options, its computation, its figures, its findings and its words.

The terminal, the page of results, the report and `reproduce` all iterate over such values
(studies/catalogue.py), so that a study is one file and nothing else knows its name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
from tqdm import tqdm

from studies.bounds import TheorySeed, check_bounds
from studies.findings import Finding as Finding
from studies.storage.tables import Tables as Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure
else:  # a type only: matplotlib is imported where it draws, so that --help answers at once
    Figure = Any


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every command that writes a folder."""

    output: Path
    """Folder for the results."""
    overwrite: bool = False
    """Replace an existing result; without this a current one is kept and any other is an error."""

    def __post_init__(self) -> None:
        check_bounds(self)

    def resolved(self) -> Self:
        """The same options, with the defaults that follow from other options filled in."""
        return self


@dataclass(frozen=True, kw_only=True)
class SlrOptions(Options):
    """Options of every study of `run_slr.py`."""

    output: Path = Path("results/slr")
    """Folder for the results; each study gets a sub-folder."""
    seed: TheorySeed = 0
    """Seed of all random numbers."""
    smoke: bool = False
    """Make few runs and steps, as a quick check."""


@dataclass(frozen=True)
class Result:
    """The result of a study, which studies/making.py writes and shows."""

    tables: dict[str, pd.DataFrame]
    figures: dict[str, Figure] = field(default_factory=dict)
    remark: str = ""  # on this run, such as how long it took
    write: Callable[[Path], object] | None = None  # files of other kinds, into the folder
    scratch: Path | None = None  # a folder to remove once the result is in place


Said = list[Any]  # paragraphs (str) and tables (DataFrame, its index as first columns)


def _nothing(_: Any) -> list[Any]:
    return []


@dataclass(frozen=True, kw_only=True)
class Study:
    name: str  # its command, folder and figure: "conditional-mean"
    title: str  # on every page
    about: str | None  # the docstring of its file: the help of its command
    options: type[Options]
    run: Callable[[Any], Result | None]  # None: another process has the result (torchrun)
    folder: str  # within the folder of all results
    command: str
    says: Callable[[Tables], Said]  # in the terminal and on every page
    findings: Callable[[Tables], Iterable[Finding]] = _nothing
    figures: Mapping[str, str] = field(default_factory=dict)  # captions by file stem
    needs: Callable[[Any], list[Need]] = _nothing  # from the options: other studies' results
    inputs: Callable[[Any], Any] = _nothing  # from the options: what else decides the result
    optional: bool = False  # pages leave it out where it is not made

    def output_of(self, options: Options) -> Path:
        """The folder of the result: OUTPUT or, for a study of `run_slr.py`, its sub-folder."""
        return options.output / self.name if isinstance(options, SlrOptions) else options.output


Need = tuple[Study, Any]  # a study and its options


def study(module: str, title: str, command: str, **figures: str) -> Study:
    """The study of a module: its docstring, Options, run, says; findings, needs, inputs if any."""
    members = vars(sys.modules[module])
    functions = ("run", "says", "findings", "needs", "inputs")
    parts = {name: members[name] for name in functions if name in members}
    parts |= {"about": members["__doc__"], "options": members["Options"]}
    name = module.split(".")[-1]
    return Study(name=name, title=title, folder=name, command=command, figures=figures, **parts)


def slr_study(module: str, title: str, draws: str, name: str = "") -> Study:
    """A study of the idealised model, which names its folder, its command and its one figure."""
    name = name or module.split(".")[-1].replace("_", "-")
    base = study(module, title, f"python scripts/run_slr.py {name}", **{name: draws})
    return replace(base, name=name, folder=f"slr/{name}")


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], Any]]:
    """A tqdm bar as a callback for slr, which gets the steps just done; silent in a log.

    The steps are 0 while a table is made, which may take as long as all steps: the bar says so.
    """
    with tqdm(total=total, desc=label, unit_scale=True, unit="step", disable=None) as bar:

        def update(steps: int) -> None:
            bar.set_postfix_str("" if steps else "making a table", refresh=not steps)
            bar.update(steps)

        yield update


@contextmanager
def counter(label: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A tqdm bar as a callback for probing, which gets (done, total)."""
    with tqdm(desc=label, unit=unit, disable=None) as bar:

        def count(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield count
