"""Training at any dimension: steps to align for d up to 10^12, and the largest stable step size."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from studies.rendering import pivoted
from studies.study import Claim, Figure, Result, Said, SlrOptions, Tables, progress_bar, slr_study


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    runs: int | None = None
    """Number of repetitions of PGD and of the gradient flow; None: 30."""
    full: bool = False
    """Train from the sphere up to d = 10^5 instead of 10^4 (takes minutes)."""


def run(options: Options) -> Result:
    powers = [10**p for p in range(2, 5 if options.smoke else 13)]
    runs = options.runs or (4 if options.smoke else 30)
    rows = [*_training(options, powers, runs), *_flow(options, powers, runs)]
    steps, limits = pd.DataFrame(rows), _stability(powers)
    tables = {"steps_to_align": steps, "stability_limits": limits}
    return Result(tables, {"scaling": plot_scaling(steps, limits)})


def _training(options: Options, powers: list[int], runs: int) -> Iterator[dict[str, Any]]:
    from slr.dynamics.experiment import run_experiment
    from slr.dynamics.scaling import scaled_experiment

    longest = 10**5 if options.full else 10**4  # steps from the sphere grow with d
    for curve, name, dimensions, n_runs in (
        ("manifold", "pgd-manifold", powers, runs),
        ("sphere", "pgd-small-lambda", [d for d in powers if d <= longest], runs),
        ("sgd", "sgd-schedule", [80] if options.smoke else [80, 160, 320, 640], 4),
    ):
        for d in dimensions:
            experiment = replace(scaled_experiment(name, d), runs=n_runs, seed=options.seed)
            if options.smoke:
                experiment = replace(experiment, n_steps=20 * experiment.log_every)
            with progress_bar(f"{curve}, d = {d:.0e}", n_runs * experiment.n_steps) as progress:
                ends = run_experiment(experiment, progress=progress).outcomes()
            steps = ends["steps_to_align"].where(ends["aligned"], math.inf)
            yield {"curve": curve, "d": d} | _summary(steps)


def _flow(options: Options, powers: list[int], runs: int) -> Iterator[dict[str, Any]]:
    from slr.dynamics.scaling import flow_times_to_align, scaled_experiment

    with progress_bar("gradient flow", len(powers) * runs) as progress:
        rngs = np.random.default_rng(options.seed).spawn(len(powers))
        for d, rng in zip(powers, rngs, strict=True):
            experiment = scaled_experiment("pgd-small-lambda", d)
            times = flow_times_to_align(experiment.task, runs, rng, experiment.lam)
            yield {"curve": "flow", "d": d} | _summary(times / experiment.step_size)
            progress(runs)


def _stability(powers: list[int]) -> pd.DataFrame:
    from slr.dynamics.experiment import EXPERIMENTS
    from slr.dynamics.scaling import predicted_stability_limit, stability_limit

    base, rows = EXPERIMENTS["pgd-small-lambda"], []
    for d in powers:
        task, lam = replace(base.task, d=d), base.lam * math.sqrt(base.d / d)
        measured, predicted = stability_limit(task, lam), predicted_stability_limit(task, lam)
        rows.append({"d": d, "lam": lam, "measured": measured, "predicted": predicted})
    return pd.DataFrame(rows)


def _summary(steps: Any) -> dict[str, float]:
    """The share of runs that align, and the median and 95% interval of their steps."""
    finite = steps[np.isfinite(steps)]
    low, median, high = np.percentile(finite, [2.5, 50, 97.5]) if len(finite) else [math.nan] * 3
    share = len(finite) / len(steps)
    return {"runs": len(steps), "share": share, "median": median, "low": low, "high": high}


def plot_scaling(table: Any, limits: Mapping[str, Any]) -> Figure:
    """Steps to align and the share of aligned runs (95% intervals) against d; stability limit.

    ``table`` is tidy: curve, d, runs, share, median, low, high (steps); ``limits`` has d,
    measured and predicted.
    """
    from slr.dynamics.trajectory import ALIGNMENT
    from slr.figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, journal_style, panels

    curves = {  # name in the table: label, colour, marker
        "manifold": ("PGD on $\\mathcal{M}$, step size fixed", GREEN, "s"),
        "sphere": ("PGD from the sphere, step size $\\sim 1/d$", BLUE, "o"),
        "flow": ("the same, from the gradient flow", BLUE, "-"),
        "sgd": ("SGD from the sphere, step size $\\sim 1/d$", PURPLE, "^"),
    }
    with journal_style():
        figure, (steps, share, stability) = panels(1, 3, (10.0, 3.3))
        for name, (label, colour, style) in curves.items():
            rows = table[table["curve"] == name].sort_values("d")
            columns = ["d", "median", "low", "high", "share", "runs"]
            d, middle, low, high, p, runs = rows[columns].to_numpy(float).T
            if style == "-":
                steps.plot(d, middle, style, color=colour, lw=1.0, label=label)
            else:
                steps.errorbar(
                    d, middle, [middle - low, high - middle], fmt=style, color=colour, ms=4,
                    capsize=2, label=label,
                )  # fmt: skip
            if name != "sgd":
                error = 1.96 * np.sqrt(p * (1 - p) / runs)
                shift, marker, face = (1.3, "o", "white") if style == "-" else (1, style, colour)
                look: dict[str, Any] = {
                    "color": colour,
                    "mfc": face,
                    "ms": 4,
                    "capsize": 2,
                    "lw": 0.8,
                }
                share.errorbar(d * shift, p, error, fmt=marker, **look)
        steps.set(xscale="log", yscale="log", xlabel="$d$", ylabel="steps to align")
        steps.set_ylim(1e3, 1e19)
        handles = dict(zip(*reversed(steps.get_legend_handles_labels()), strict=True))
        order = [label for label, _, _ in curves.values()]
        steps.legend([handles[label] for label in order], order, fontsize=7, loc="upper left")
        share.set(xscale="log", xlabel="$d$", ylabel="share of runs that align", ylim=(0, 1.05))
        d = np.asarray(limits["d"], dtype=float)
        stability.plot(d, limits["predicted"], color=ORANGE, label="2 / curvature along $k^\\star$")
        stability.plot(d, limits["measured"], "o", color=BLACK, ms=4, label="measured (bisection)")
        stability.set(xscale="log", yscale="log", xlabel="$d$", ylabel="largest stable step size")
        stability.legend()
        figure.suptitle(
            rf"$\lambda \sim 1/\sqrt{{d}}$; aligned: $|\kappa|, |\nu| > {ALIGNMENT}$; "
            "median and 95% percentile interval over runs that align",
            fontsize=9,
        )
        return figure


def claims(tables: Tables) -> Iterator[Claim]:
    rows = tables["steps_to_align"].query("curve == 'manifold'").sort_values("d")
    first, last = rows.iloc[0], rows.iloc[-1]
    yield Claim(
        claim=f"share of runs on the manifold that align, least over {len(rows)} dimensions from "
        f"{first['d']:.0e} to {last['d']:.0e}",
        required="all runs",
        measured=f"{rows['share'].min():.0%}",
        interval=f"(median steps {first['median']:,.0f} to {last['median']:,.0f})",
        passed=bool(rows["share"].min() == 1),
    )
    limits = tables["stability_limits"].query("d >= 1000")
    error = (limits["measured"] / limits["predicted"] - 1).abs().max()
    yield Claim(
        claim="largest stable step size, measured relative to predicted, d >= 1000",
        required="within 1%",
        measured=f"within {error:.2%}",
        passed=bool(error < 0.01),
    )


def says(tables: Tables) -> Said:
    table = tables["steps_to_align"]
    texts = [f"{value:,.0f}" for value in table["median"]]
    wide = pivoted(table, texts, "d", "curve").sort_index().sort_index(axis=1)
    return [
        "Median steps until runs align (for the gradient flow: time divided by step size):",
        wide.rename(index="{:g}".format).fillna(""),
    ]


STUDY = slr_study(
    __name__,
    "Training at any dimension",
    "Steps to align, the share of runs that do (95% intervals), and the largest stable step "
    "size, measured and predicted, against d.",
)
