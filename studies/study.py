"""A study: one question, with how it is asked, computed, drawn, judged and told, in one value.

The terminal, the page of results, the report and `reproduce` all iterate over such values
(studies/catalogue.py), so that a study is one file and nothing else knows its name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tqdm import tqdm

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure
else:  # a type alone: what draws is imported where it draws, and --help answers at once
    Figure = Any


@dataclass(frozen=True, kw_only=True)
class Options:
    """What every command that writes a folder has."""

    output: Path
    """Folder for the results."""
    overwrite: bool = False
    """Replace results that are already there; without it, those made alike are kept."""


@dataclass(frozen=True, kw_only=True)
class SlrOptions(Options):
    """What every study of `run_slr.py` has."""

    output: Path = Path("results/slr")
    """Folder for the results; each study gets a sub-folder."""
    seed: int = 0
    """Every result is a function of the seed and the other options."""
    smoke: bool = False
    """A quick pass with few runs and steps, to see that it works."""

    def __post_init__(self) -> None:
        if self.smoke and getattr(self, "full", False):
            raise ValueError("--smoke and --full exclude each other; leave one out")


@dataclass(frozen=True)
class Result:
    """What a study hands back: it is written, shown and forgotten by studies/making.py."""

    tables: dict[str, pd.DataFrame]
    figures: dict[str, Figure] = field(default_factory=dict)
    remark: str = ""  # on this run, such as how long it took
    write: Callable[[Path], object] | None = None  # files of other kinds, into the folder
    scratch: Path | None = None  # a folder to remove once the result is in place


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the paper or we say, what is required of the results, and what they show."""

    claim: str
    paper: str = ""  # what the paper says; empty where the claim is ours
    required: str
    measured: str
    interval: str = ""
    passed: bool
    command: str = ""  # that makes the results: filled in from the study

    @classmethod
    def at_least(cls, claim: str, values: Any, least: float, **rest: str) -> Claim:
        """A claim on the lowest of some values (or one), of which the mean is shown."""
        shown = {"required": f"at least {least:g}", "measured": f"{np.mean(values):.3f}"}
        return cls(claim=claim, passed=bool(np.min(values) >= least), **shown | rest)

    @classmethod
    def at_most(cls, claim: str, values: Any, most: float, **rest: str) -> Claim:
        """A claim on the highest of some values (or one), of which the mean is shown."""
        shown = {"required": f"at most {most:g}", "measured": f"{np.mean(values):.3f}"}
        return cls(claim=claim, passed=bool(np.max(values) <= most), **shown | rest)


class Tables:
    """A result on disk, its tables read when they are asked for: ``tables["bars"]``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> pd.DataFrame:
        return pd.read_parquet(self.folder / f"{name}.parquet")

    def __contains__(self, name: str) -> bool:
        return (self.folder / f"{name}.parquet").is_file()


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
    folder: str  # in the folder of all results
    command: str
    says: Callable[[Tables], Said]  # in the terminal and on every page
    claims: Callable[[Tables], Iterator[Claim] | list[Claim]] = _nothing
    figures: Mapping[str, str] = field(default_factory=dict)  # by file stem: the caption
    needs: Callable[[Any], list[Need]] = _nothing  # of options: the results that it is made of
    inputs: Callable[[Any], Any] = _nothing  # of options: what else decides the result

    def output_of(self, options: Options) -> Path:
        """OUTPUT, or its sub-folder for a study of `run_slr.py`, which has many."""
        return options.output / self.name if isinstance(options, SlrOptions) else options.output

    def judged(self, results: Path) -> list[Claim]:
        """The claims that the results in a folder bear out, or do not."""
        claims = self.claims(Tables(results / self.folder))
        return [replace(claim, command=self.command) for claim in claims]


Need = tuple[Study, Any]  # a study and its options


def study(module: str, title: str, command: str, **figures: str) -> Study:
    """The study of a module: its docstring, Options, run, says, and claims, needs, inputs if any."""
    parts = vars(sys.modules[module])
    names = ("run", "says", "claims", "needs", "inputs")
    own = {part: parts[part] for part in names if part in parts}
    named = {"about": parts["__doc__"], "options": parts["Options"]} | own
    name = module.split(".")[-1]
    return Study(name=name, title=title, folder=name, command=command, figures=figures, **named)


def slr_study(module: str, title: str, draws: str, name: str = "") -> Study:
    """A study of the idealised model: folder, command and its one figure are named after it."""
    name = name or module.split(".")[-1].replace("_", "-")
    made = study(module, title, f"python scripts/run_slr.py {name}", **{name: draws})
    return replace(made, name=name, folder=f"slr/{name}")


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], Any]]:
    """A tqdm bar as the callback of slr, told how many steps were done; silent unless watched."""
    with tqdm(total=total, desc=label, unit_scale=True, unit="step", disable=None) as bar:
        yield bar.update


@contextmanager
def counter(label: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A tqdm bar as the callback of probing, told (done, of)."""
    with tqdm(desc=label, unit=unit, disable=None) as bar:

        def count(done: int, of: int) -> None:
            bar.total = of
            bar.update(done - bar.n)

        yield count
