"""Label noise and length: PGD and SGD from the sphere over noise, L and gamma."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.bounds import Count
from studies.rendering import pivoted
from studies.study import Figure, Result, Said, SlrOptions, Tables, progress_bar, slr_study

if TYPE_CHECKING:
    from slr.dynamics.experiment import Experiment


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    runs: Count | None = None
    """Number of runs per setting; None: 30, as in the paper."""
    steps: Count | None = None
    """Number of steps; None: a quarter of the paper's, as a step is four times as large."""


def run(options: Options) -> Result:
    from slr.dynamics.experiment import EXPERIMENTS
    from slr.dynamics.trajectory import ALIGNMENT

    # The paper's SGD with steps four times as large, and so a schedule four times as fast.
    base = EXPERIMENTS["sgd-schedule"]
    base = replace(base, step_size=4 * base.step_size, lam_decay=4 * base.lam_decay)
    n_steps = options.steps or (200 if options.smoke else base.n_steps // 4)
    runs = options.runs or (2 if options.smoke else base.runs)
    log_every = max(1, n_steps // 100)
    base = replace(base, runs=runs, seed=options.seed, n_steps=n_steps, log_every=log_every)
    gammas = [0.5, 1.0] if options.smoke else [0.5, float(np.sqrt(0.5)), 1.0]
    lengths = [5] if options.smoke else [5, 10, 20, 40]
    noises: list[float | None] = [None, 0.0] if options.smoke else [None, 0.0, 0.3, 1.0, 3.0]
    cells = [(gamma, L, noise) for gamma in gammas for L in lengths for noise in noises]
    tokens = sum(L for _, L, noise in cells if noise is not None) * runs * n_steps
    rows = []
    with progress_bar("noise-length", tokens) as progress:
        for gamma, L, noise in cells:
            cell = replace(base, gamma=gamma, L=L, noise_std=noise or 0.0)
            if noise is None:  # PGD uses the risk itself, to which noise adds a constant
                cell = replace(cell, optimiser="pgd")
            name = "PGD" if noise is None else f"{noise:g}"
            rows.append({"gamma": gamma, "L": L, "noise": name} | _ends(cell, progress))
    table = pd.DataFrame(rows)
    caption = (
        rf"$d={base.d}$, batch {base.batch_size}, step size {base.step_size:g}, "
        rf"{n_steps} steps, {runs} runs: median and 95% interval"
        "\n"
        rf"aligned: $|\kappa|, |\nu| > {ALIGNMENT}$; dotted: zero predictor; "
        r"dash: oracle at the last $\lambda$"
    )
    return Result({"noise_length": table}, {"noise-length": plot_noise_length(table, caption)})


def _ends(cell: "Experiment", progress: Callable[[int], Any]) -> dict[str, Any]:
    """How the runs of one setting end: the share that aligns, final risk, and steps to align.

    The share has a 95% interval, the others are medians (of the steps, over the runs that align)
    with 95% percentile intervals over runs.
    """
    from scipy.stats import binomtest

    from slr.dynamics.experiment import run_experiment
    from slr.yardsticks import oracle_excess_risk

    count = None if cell.optimiser == "pgd" else lambda steps: progress(steps * cell.L)
    trajectory = run_experiment(cell, progress=count)
    ends = trajectory.outcomes()
    reached = ends["steps_to_align"][ends["aligned"]]
    share = binomtest(len(reached), len(ends)).proportion_ci()
    row = {
        "runs": len(ends),
        "share_low": share.low,
        "share": len(reached) / len(ends),
        "share_high": share.high,
        "oracle": float(oracle_excess_risk(trajectory.task, trajectory.lam[0, -1])),
    }
    for name, values in (("excess_risk", ends["excess_risk"]), ("steps", reached)):
        low, middle, high = np.percentile(values, [2.5, 50, 97.5]) if len(values) else [np.nan] * 3
        row |= {f"{name}_low": low, name: middle, f"{name}_high": high}
    return row


SHOWN = {  # a row of panels each: label and scale
    "excess_risk": ("excess risk at the end", "log"),
    "steps": ("steps to align", "log"),
    "share": ("share of runs that align", "linear"),
}


def plot_noise_length(table: Any, caption: str) -> Figure:
    """Final excess risk, steps to align and the share of runs that do, against noise.

    ``table`` has gamma, L, noise (a label, "PGD" without sampling), oracle (at the last lam), and
    the columns named in SHOWN with their _low and _high.
    """
    from slr.figures import COLOURS, GREY, journal_style, panels

    gammas, lengths = sorted(table["gamma"].unique()), sorted(table["L"].unique())
    noises = list(dict.fromkeys(table["noise"]))
    with journal_style():
        figure, axes = panels(3, len(gammas), (3.2 * len(gammas) + 0.4, 7.4))
        by_row: Any = np.reshape(axes, (3, len(gammas)))  # type: ignore[arg-type]
        for (first, *others), (label, scale) in zip(by_row, SHOWN.values(), strict=True):
            for ax in others:
                ax.sharey(first)
            first.set(ylabel=label, yscale=scale)  # now: sharing alone would not pass it on
        for column, gamma in enumerate(gammas):
            rows = table[table["gamma"] == gamma]
            for ax, name in zip(by_row[:, column], SHOWN, strict=True):
                _draw(ax, rows, name, noises)
            top, _, bottom = by_row[:, column]
            oracles = rows.groupby("L")["oracle"].first()
            for place, L in enumerate(lengths):
                x = 0.12 * (place - 1.5)
                top.plot([x], [oracles[L]], "_", color=COLOURS[place], ms=14, mew=1.5)
            top.axhline(gamma**2, color=GREY, ls=":", lw=1.0)
            top.set_title(rf"$\gamma={gamma:.2g}$")
            bottom.set(xlabel=r"PGD, or SGD with noise $\varepsilon$", ylim=(-0.05, 1.05))
        legend = axes[0].get_legend_handles_labels()
        figure.legend(*legend, loc="outside lower center", ncols=len(lengths))
        figure.suptitle(caption, fontsize=8)
        return figure


def _draw(ax: Any, rows: Any, name: str, noises: list[str]) -> None:
    """One column of the table against noise, lengths side by side."""
    from slr.figures import COLOURS, MARKERS

    for place, (L, of_length) in enumerate(rows.groupby("L")):
        x = np.array([noises.index(noise) for noise in of_length["noise"]]) + 0.12 * (place - 1.5)
        low, middle, high = of_length[[f"{name}_low", name, f"{name}_high"]].to_numpy(float).T
        ax.errorbar(
            x, middle, [middle - low, high - middle], fmt=MARKERS[place], color=COLOURS[place],
            ms=4, lw=1.0, label=f"$L={L}$",
        )  # fmt: skip
    ax.set_xticks(range(len(noises)), noises)
    ax.set_xlim(-0.6, len(noises) - 0.4)


def says(tables: Tables) -> Said:
    table = tables["noise_length"]
    order = list(dict.fromkeys(table["noise"]))
    names = {name: name if name == "PGD" else f"SGD, noise {name}" for name in order}

    def beside_shares(column: str, digits: int, unit: str = "") -> Any:
        texts = [
            f"{value:,.{digits}f} ({share:.0%})" if value == value else "(0%)"
            for value, share in table[[column, "share"]].to_numpy()
        ]
        named = table.assign(gamma=table["gamma"].map("{:.2f}".format))
        wide = pivoted(named, texts, ["gamma", "L"], "noise")[order]
        return wide.rename(columns=lambda name: names[name] + unit)

    return [
        "Excess risk at the end, median over runs, and the share of runs that align:",
        beside_shares("excess_risk", 3),
        "Steps until runs align, median over the runs that do (medians of a small share, or near "
        "the number of steps, are too low), and this share:",
        beside_shares("steps", 0, ": steps"),
    ]


STUDY = slr_study(
    __name__,
    "Label noise and length",
    "Final excess risk, steps to align (of the runs that do) and the share of runs that align, "
    "against label noise, for several L and gamma.",
)
