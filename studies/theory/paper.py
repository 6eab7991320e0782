"""The paper's five experiments: PGD and SGD, from the sphere and on the manifold.

The runs start where the paper's own runs start. PGD draws no random numbers, so its runs are the
published ones; fresh random starts beside them show how typical these are.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from studies.bounds import Count, Dimension
from studies.findings import Finding, share
from studies.study import Result, Said, SlrOptions, Study, Tables, progress_bar, slr_study

if TYPE_CHECKING:
    from slr import Experiment, Overlaps

FIGURES = {  # of arXiv; ICLR's are one higher, and the last two are inferred from that shift
    "pgd-schedule": "Figure 3a",
    "pgd-manifold": "Figure 3b",
    "sgd-schedule": "Figure 4",
    "pgd-large-lambda": "Figure 6a",
    "pgd-small-lambda": "Figure 6b",
}
FRESH = 600  # random starts of PGD, beside the published ones
HIGHLIGHTED = {  # the runs that the paper draws in the (kappa, nu) square
    "pgd-schedule": (0, 2),
    "pgd-manifold": (0, 1),
    "sgd-schedule": (0, 1),
    "pgd-large-lambda": (0, 2),
    "pgd-small-lambda": (5, 3, 12),
}


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    starts: Literal["published", "random"] = "published"
    """Where runs start: where the paper's runs start, or at fresh random places."""
    runs: Count | None = None
    """Number of repetitions; None: the paper's 30."""
    d: Dimension | None = None
    """Dimension; None: the paper's. Another one needs --starts random."""
    steps: Count | None = None
    """Number of steps; None: the paper's."""


def inputs(options: Options) -> dict[str, str]:
    """SHA-256 of the published starts, if runs start there."""
    from slr.dynamics.experiment import PUBLISHED_STARTS

    if options.starts == "random":
        return {}
    return {PUBLISHED_STARTS.name: hashlib.sha256(PUBLISHED_STARTS.read_bytes()).hexdigest()}


def run(name: str, options: Options) -> Result:
    from slr import EXPERIMENTS, run_experiment
    from slr.figures import plot_experiment

    paper = EXPERIMENTS[name]
    runs = options.runs or (4 if options.smoke else paper.runs)
    n_steps = options.steps or (20 * paper.log_every if options.smoke else paper.n_steps)
    d = paper.d if options.d is None else options.d
    experiment = replace(paper, d=d, runs=runs, n_steps=n_steps, seed=options.seed)
    start = published(name, experiment) if options.starts == "published" else None
    with progress_bar(name, runs * n_steps) as progress:
        trajectory = run_experiment(experiment, start=start, progress=progress)
    ends = [trajectory.outcomes().assign(start=options.starts)]
    if start is not None and paper.optimiser == "pgd":
        n_fresh = 8 if options.smoke else FRESH
        fresh = replace(experiment, runs=n_fresh, log_every=n_steps)
        with progress_bar(f"{name}, fresh starts", n_fresh * n_steps) as progress:
            outcomes = run_experiment(fresh, progress=progress).outcomes()
        ends.append(outcomes.drop(columns="steps_to_align").assign(start="random"))
    highlighted = [run for run in HIGHLIGHTED[name] if run < runs]
    # Runs from the sphere with a small lam end at different points: bands would hide that.
    figure = plot_experiment(name, trajectory, highlighted, bands=name != "pgd-small-lambda")
    tables = {"trajectory": trajectory.to_frame(), "runs": pd.concat(ends, ignore_index=True)}
    return Result(tables, {name: figure})


def published(name: str, experiment: "Experiment") -> "Overlaps":
    """The published starts of the first runs."""
    from slr import EXPERIMENTS, published_start

    paper = EXPERIMENTS[name]
    for option, given, allowed in (
        ("d", experiment.d, experiment.d == paper.d),
        ("runs", experiment.runs, experiment.runs <= paper.runs),
    ):
        if not allowed:
            raise ValueError(
                f"the paper has {paper.runs} starts at d = {paper.d}; --{option} {given} needs "
                "--starts random"
            )
    return published_start(name).at(slice(experiment.runs))


def says(tables: Tables) -> Said:
    from slr import ALIGNMENT

    ends, steps = tables["runs"], tables["trajectory"]["step"].max()
    shown = pd.DataFrame(
        {
            f"{start} starts": {
                "runs": len(part),
                f"aligned (|kappa|, |nu| > {ALIGNMENT})": f"{part['aligned'].sum()}",
                "swapped (k = ±v*)": f"{part['swapped'].sum()}",
                "diverged": f"{part['diverged'].sum()}",
                "excess risk at the end, median (range)": _range(part["excess_risk"]),
                "largest distance to the manifold": f"{part['distance_to_manifold'].max():.2g}",
            }
            for start, part in ends.groupby("start", sort=False)
        }
    ).T
    return [f"How the runs end, after {steps:,} steps:", shown.rename_axis("start")]


def _range(values: Any) -> str:
    return f"{values.median():.4f} ({values.min():.4f} to {values.max():.4f})"


def all_align(title: str, tables: Tables) -> Iterator[Finding]:
    published = _ends(tables, "published")
    if len(published):
        whole = _is_whole(tables, len(published))
        yield Finding(
            text=f"{title} ({FIGURES[tables.folder.name]} of the paper): from its own starts a "
            f"share of {{}} of {len(published)} runs find k* and v*.",
            **share(published["aligned"].sum(), len(published)),
            published="all runs",
            holds=bool(published["aligned"].all()) if whole else None,
            why="" if whole else "the paper has more runs or steps",
        )


def _is_whole(tables: Tables, runs: int) -> bool:
    """Whether there are as many runs and steps as in the paper."""
    from slr import EXPERIMENTS

    experiment = EXPERIMENTS[tables.folder.name]
    steps = tables["trajectory"]["step"].max()
    return bool(runs == experiment.runs and steps == experiment.n_steps)


def all_align_and_most_fresh_ones(title: str, tables: Tables) -> Iterator[Finding]:
    yield from all_align(title, tables)
    ends = _ends(tables, "random")
    if len(ends):
        aligned, swapped = ends["aligned"].sum(), ends["swapped"].sum()
        yield Finding(
            text=f"{title}: from {len(ends)} fresh starts a share of {{}} of the runs find k* and "
            f"v*, and {swapped} end at the swapped point; that 30 of 30 align, as published, then "
            f"has a probability of {(aligned / len(ends)) ** 30:.2f}.",
            **share(aligned, len(ends)),
            form=".3f",
        )


def some_align(title: str, tables: Tables) -> Iterator[Finding]:
    published = _ends(tables, "published")
    if len(published):
        swapped = published["swapped"].sum()
        yield Finding(
            text=f"{title} ({FIGURES[tables.folder.name]} of the paper): from its own starts a "
            f"share of {{}} of {len(published)} runs find k* and v*, and {swapped} end at the "
            "swapped point.",
            **share(published["aligned"].sum(), len(published)),
            published="some runs end at other stationary points",
            why="the paper shows the runs but gives no number",
        )


def _ends(tables: Tables, start: str) -> pd.DataFrame:
    ends = tables["runs"]
    return ends[ends["start"] == start]


def _study(
    name: str,
    title: str,
    setting: str,
    findings: Callable[[str, Tables], Any] | None = None,
    lines: str = ". Lines are means over the 30 runs, bands hold 95% of them.",
) -> Study:
    description = f"The paper's {setting}{lines}"
    draws = (
        f"{description} Excess risk, alignment |kappa| and |nu|, the paths in the (kappa, nu) "
        "square of the runs that the paper shows, and distance to the invariant manifold, by step."
    )
    base = slr_study(__name__, title, draws, name)
    base = replace(base, about=f"{title}.\n\n{description}", run=partial(run, name))
    return replace(base, findings=partial(findings, title)) if findings else base


SPHERE = "PGD from the sphere, lambda"
STUDIES = (
    _study(
        "pgd-manifold",
        "PGD on the manifold",
        "PGD from the invariant manifold, lambda = 0.1",
        all_align,
    ),
    _study(
        "pgd-schedule",
        "PGD, lambda decreasing",
        f"{SPHERE} decreasing",
        all_align_and_most_fresh_ones,
    ),
    _study(
        "sgd-schedule",
        "SGD, lambda decreasing",
        "SGD on fresh batches of 5, lambda decreasing",
        all_align,
    ),
    _study("pgd-large-lambda", "PGD, large lambda", f"{SPHERE} = 0.9 throughout"),
    _study(
        "pgd-small-lambda",
        "PGD, small lambda",
        f"{SPHERE} = 0.1 throughout",
        some_align,
        lines=": every run is a line.",
    ),
)
