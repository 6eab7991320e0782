"""The paper's five experiments: PGD and SGD, from the sphere and on the manifold."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from studies.study import Claim, Result, Said, SlrOptions, Study, Tables, progress_bar, slr_study


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    runs: int | None = None
    """Number of repetitions; None: the paper's 30."""
    d: int | None = None
    """Dimension; None: the paper's."""
    steps: int | None = None
    """Number of steps; None: the paper's."""


def run(name: str, options: Options) -> Result:
    from slr.dynamics.experiment import EXPERIMENTS, run_experiment
    from slr.figures import plot_experiment

    experiment = EXPERIMENTS[name]
    runs = options.runs or (4 if options.smoke else experiment.runs)
    n_steps = options.steps or (20 * experiment.log_every if options.smoke else experiment.n_steps)
    d = experiment.d if options.d is None else options.d
    experiment = replace(experiment, d=d, runs=runs, n_steps=n_steps, seed=options.seed)
    with progress_bar(name, runs * n_steps) as progress:
        trajectory = run_experiment(experiment, progress=progress)
    # Runs from the sphere with a small lam end at different points: bands would hide that.
    figure = plot_experiment(name, trajectory, bands=name != "pgd-small-lambda")
    tables = {"trajectory": trajectory.to_frame(), "runs": trajectory.outcomes()}
    return Result(tables, {name: figure})


def says(tables: Tables) -> Said:
    from slr import ALIGNMENT

    ends, steps = tables["runs"], tables["trajectory"]["step"].max()
    risk = ends["excess_risk"]
    return [
        f"{ends['aligned'].sum()} of {len(ends)} runs align (|kappa|, |nu| > {ALIGNMENT}) "
        f"within {steps:,} steps, {ends['swapped'].sum()} end at the swapped point k = ±v*, "
        f"{ends['diverged'].sum()} diverge. Excess risk at the end: median {risk.median():.4f} "
        f"({risk.min():.4f} to {risk.max():.4f}); largest distance to the manifold "
        f"{ends['distance_to_manifold'].max():.2g}."
    ]


def all_align(tables: Tables) -> Iterator[Claim]:
    yield _of_runs(tables, "all runs", "all runs", lambda aligned: aligned.all())


def some_align(tables: Tables) -> Iterator[Claim]:
    paper = "some runs end at other stationary points"
    yield _of_runs(tables, paper, "some, not all", lambda x: x.any() and not x.all())


def _of_runs(tables: Tables, paper: str, required: str, passes: Callable[[Any], Any]) -> Claim:
    aligned = tables["runs"]["aligned"]
    return Claim(
        claim=f"{tables.folder.name}: runs that find k* and v*",
        paper=paper,
        required=required,
        measured=f"{aligned.sum()} of {len(aligned)}",
        passed=bool(passes(aligned)),
    )


def _study(
    name: str,
    title: str,
    setting: str,
    claims: Callable[[Tables], Any] = lambda _: [],
    lines: str = ". Lines are medians over runs, bands hold 95% of them.",
) -> Study:
    description = f"The paper's {setting}{lines}"
    draws = (
        f"{description} Excess risk, alignment |kappa| and |nu|, two paths in the (kappa, nu) "
        "square, and distance to the invariant manifold, by step."
    )
    base = slr_study(__name__, title, draws, name)
    return replace(base, about=f"{title}.\n\n{description}", run=partial(run, name), claims=claims)


SPHERE = "PGD from the sphere, lambda"
STUDIES = (
    _study("pgd-schedule", "PGD, lambda decreasing", f"{SPHERE} decreasing", all_align),
    _study(
        "pgd-manifold",
        "PGD on the manifold",
        "PGD from the invariant manifold, lambda = 0.1",
        all_align,
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
