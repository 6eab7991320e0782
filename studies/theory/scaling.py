"""Training at any dimension: steps to align for d up to 10^12, and the largest stable step size.

A run from the sphere may end elsewhere, so each number of steps stands beside the share of runs
that align. SGD is measured with the paper's schedule of lambda as it is, which sets the time, and
with a constant lambda, where d does.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.bounds import Count
from studies.findings import Finding
from studies.rendering import interval, pivoted
from studies.study import Result, Said, SlrOptions, Tables, progress_bar, slr_study

if TYPE_CHECKING:
    from slr.dynamics.experiment import Experiment

LONGEST = 10**5  # the largest d at which PGD runs from the sphere, whose steps grow with d
RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    runs: Count | None = None
    """Number of repetitions; None: 30 of PGD and of the gradient flow, 20 of SGD."""


def run(options: Options) -> Result:
    from studies.theory.figures.scaling import plot_scaling

    powers = [10**p for p in range(2, 5 if options.smoke else 13)]
    steps = {**_training(options, powers), **_flow(options, powers)}
    rows = [{"curve": curve, "d": d} | _summary(values) for (curve, d), values in steps.items()]
    tables = {
        "steps_to_align": pd.DataFrame(rows),
        "growth": growth(steps, np.random.default_rng(options.seed)),
        "stability_limits": _stability(powers),
        "along_schedule": _along_schedule(),
    }
    return Result(tables, {"scaling": plot_scaling(tables)})


# ---- steps until runs align


Steps = dict[tuple[str, int], Any]  # by curve and d: of all runs, infinite if a run does not align


def _training(options: Options, powers: list[int]) -> Steps:
    from slr.dynamics.experiment import run_experiment
    from slr.dynamics.scaling import scaled_experiment

    few = [80] if options.smoke else [80, 160, 320, 640]
    sphere = [d for d in powers if d <= LONGEST]
    curves: dict[str, tuple[list[int], int, Callable[[int], Experiment]]] = {
        "manifold": (powers, 30, lambda d: scaled_experiment("pgd-manifold", d)),
        "sphere": (sphere, 30, lambda d: scaled_experiment("pgd-small-lambda", d)),
        "sgd, schedule": (few, 20, _sgd_on_schedule),
        "sgd, constant": (few, 20, _sgd_at_constant_lam),
    }
    steps: Steps = {}
    for curve, (dimensions, runs, experiment_at) in curves.items():
        for d in dimensions:
            runs = options.runs or (4 if options.smoke else runs)
            experiment = replace(experiment_at(d), runs=runs, seed=options.seed)
            if options.smoke:
                experiment = replace(experiment, n_steps=20 * experiment.log_every)
            with progress_bar(f"{curve}, d = {d:.0e}", runs * experiment.n_steps) as progress:
                ends = run_experiment(experiment, progress=progress).outcomes()
            steps[curve, d] = ends["steps_to_align"].where(ends["aligned"], math.inf).to_numpy()
    return steps


def _sgd_on_schedule(d: int) -> "Experiment":
    """The paper's SGD with a step size ~ 1/d, and its schedule and number of steps as they are."""
    from slr.dynamics.experiment import EXPERIMENTS
    from slr.dynamics.scaling import scaled_experiment

    base = EXPERIMENTS["sgd-schedule"]
    scaled = scaled_experiment("sgd-schedule", d)
    return replace(scaled, n_steps=base.n_steps, log_every=base.log_every)


def _sgd_at_constant_lam(d: int) -> "Experiment":
    """The same with the lam at which the schedule ends, constant (and ~ 1/sqrt(d))."""
    from slr.dynamics.trajectory import lam_at

    scheduled = _sgd_on_schedule(d)
    lam = float(lam_at(scheduled.n_steps, scheduled.lam, scheduled.lam_decay))
    return replace(scheduled, lam=lam, lam_decay=0.0, n_steps=400 * d, log_every=d)


def _flow(options: Options, powers: list[int]) -> Steps:
    from slr.dynamics.scaling import flow_times_to_align, scaled_experiment

    runs = options.runs or (4 if options.smoke else 30)
    steps: Steps = {}
    with progress_bar("gradient flow", len(powers) * runs) as progress:
        rngs = np.random.default_rng(options.seed).spawn(len(powers))
        for d, rng in zip(powers, rngs, strict=True):
            experiment = scaled_experiment("pgd-small-lambda", d)
            times = flow_times_to_align(experiment.task, runs, rng, experiment.lam)
            steps["flow", d] = times / experiment.step_size
            progress(runs)
    return steps


def _summary(steps: Any) -> dict[str, float]:
    """The share of runs that align, and the median of their steps, with 95% intervals."""
    from scipy.stats import binomtest

    finite = steps[np.isfinite(steps)]
    low, median, high = np.percentile(finite, [2.5, 50, 97.5]) if len(finite) else [math.nan] * 3
    share = binomtest(len(finite), len(steps)).proportion_ci()
    row = {"runs": len(steps), "share": len(finite) / len(steps)}
    row |= {"share_low": share.low, "share_high": share.high}
    return row | {"median": median, "low": low, "high": high}


def growth(steps: Steps, rng: np.random.Generator) -> pd.DataFrame:
    """Exponents x of median steps ~ d^x, with 95% bootstrap intervals over runs.

    From d = 1000 on for PGD and the flow: at d = 100 the step size is the paper's, and not ~ 1/d.
    """
    rows: list[dict[str, Any]] = []
    for curve, least in {
        "sphere": 1000,
        "flow": 1000,
        "sgd, schedule": 0,
        "sgd, constant": 0,
    }.items():
        aligned = {d: x[np.isfinite(x)] for (name, d), x in steps.items() if name == curve}
        aligned = {d: x for d, x in aligned.items() if d >= least and len(x)}
        if len(aligned) < 2:
            continue
        samples = [np.median(rng.choice(x, (RESAMPLES, len(x))), axis=1) for x in aligned.values()]
        medians = [[float(np.median(x))] for x in aligned.values()]
        logs = np.log(np.hstack([medians, samples]))
        exponents = np.polyfit(np.log(list(aligned)), logs, 1)[0]
        low, high = np.percentile(exponents[1:], [2.5, 97.5])
        row = {"curve": curve, "first": min(aligned), "last": max(aligned)}
        rows.append(row | {"exponent": exponents[0], "low": low, "high": high})
    return pd.DataFrame(rows, columns=["curve", "first", "last", "exponent", "low", "high"])


# ---- the largest stable step size


def _stability(powers: list[int]) -> pd.DataFrame:
    from slr.dynamics.experiment import EXPERIMENTS
    from slr.dynamics.stability import predicted_stability_limit, stability_limit

    base, rows = EXPERIMENTS["pgd-small-lambda"], []
    for d in powers:
        task, lam = replace(base.task, d=d), base.lam * math.sqrt(base.d / d)
        measured, predicted = stability_limit(task, lam), predicted_stability_limit(task, lam)
        rows.append({"d": d, "lam": lam, "measured": measured, "predicted": predicted})
    return pd.DataFrame(rows)


def _along_schedule() -> pd.DataFrame:
    """The limit at the aligned point, and the smallest eigenvalue there, as lam decreases."""
    from slr.dynamics.experiment import EXPERIMENTS
    from slr.dynamics.stability import hessian_eigenvalues
    from slr.dynamics.trajectory import lam_at, logged_steps

    schedule = EXPERIMENTS["pgd-schedule"]
    steps = logged_steps(schedule.n_steps, schedule.log_every)
    lams = lam_at(steps, schedule.lam, schedule.lam_decay)
    eigenvalues = np.array([hessian_eigenvalues(schedule.task, lam) for lam in lams])
    columns = {"step": steps, "lam": lams, "step_size": schedule.step_size}
    return pd.DataFrame(columns | {"limit": 2 / eigenvalues[:, -1], "smallest": eigenvalues[:, 0]})


def findings(tables: Tables) -> Iterator[Finding]:
    rows = tables["steps_to_align"].query("curve == 'manifold'").sort_values("d")
    first, last = rows.iloc[0], rows.iloc[-1]
    yield Finding(
        text=f"From starts on the manifold PGD aligns in a share of {{}} of the runs at least, at "
        f"each of {len(rows)} dimensions from {first['d']:.0e} to {last['d']:.0e}, and its median "
        f"steps hardly grow ({first['median']:,.0f} to {last['median']:,.0f}).",
        value=rows["share"].min(),
        low=rows["share_low"].min(),
        high=1.0,
    )
    path = tables["along_schedule"]
    size, limits = path["step_size"].iloc[0], path["limit"]
    yield Finding(
        text=f"The paper's step size of {size:g} is beyond the stability limit of the aligned "
        "point in a share of {} of its schedule: the limit grows from "
        f"{limits.iloc[0]:.4f} to {limits.iloc[-1]:.4f} as lambda decreases.",
        value=(limits < size).mean(),
    )


def says(tables: Tables) -> Said:
    table, exponents, path = (
        tables[name] for name in ("steps_to_align", "growth", "along_schedule")
    )
    texts = [
        "none" if share == 0 else f"{median:,.0f} ({share:.0%})"
        for median, share in table[["median", "share"]].to_numpy()
    ]
    wide = pivoted(table, texts, "d", "curve").sort_index().sort_index(axis=1)
    growths = "; ".join(
        f"{row.curve}: {interval(row.exponent, row.low, row.high, 3)} for d from {row.first:g} to "
        f"{row.last:g}"
        for row in exponents.itertuples()
    )
    beyond = path[path["limit"] < path["step_size"]]
    saddle = path[path["smallest"] < 0]
    return [
        "Median steps until runs align (for the gradient flow: time divided by step size), and the "
        "share of runs that align. The median is over these runs only:",
        wide.rename(index="{:g}".format).fillna(""),
        f"Exponents x of median steps ~ d^x, with 95% bootstrap intervals over runs: {growths}.",
        f"Along the schedule of pgd-schedule the step size {path['step_size'].iloc[0]:g} is beyond "
        f"the stability limit of the aligned point until step {beyond['step'].max():,} "
        f"(lam = {beyond['lam'].min():.3f}), {len(beyond) / len(path):.0%} of the training; until "
        f"step {saddle['step'].max():,} (lam = {saddle['lam'].min():.2f}) this point is not even a "
        "minimum of the risk.",
    ]


STUDY = slr_study(
    __name__,
    "Training at any dimension",
    "Steps to align and the share of runs that do (95% intervals) against d; the largest stable "
    "step size at the aligned point against d, and along the paper's schedule.",
)
