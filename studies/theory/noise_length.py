"""Label noise and length: PGD and SGD from the sphere over noise, L and gamma."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.study import Figure, Result, Said, SlrOptions, Tables, progress_bar, slr_study

if TYPE_CHECKING:
    from slr.dynamics.experiment import Experiment


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    runs: int | None = None
    """Number of runs per setting; None: 6, or 30 with --full."""
    steps: int | None = None
    """Number of steps; None: a quarter of the paper's, as a step is four times as large."""
    full: bool = False
    """Train 30 runs per setting (takes minutes)."""


def run(options: Options) -> Result:
    from slr.dynamics.experiment import EXPERIMENTS
    from slr.dynamics.trajectory import ALIGNMENT

    # The paper's SGD with steps four times as large, and so a schedule four times as fast.
    base = EXPERIMENTS["sgd-schedule"]
    base = replace(base, step_size=4 * base.step_size, lam_decay=4 * base.lam_decay)
    n_steps = options.steps or (200 if options.smoke else base.n_steps // 4)
    runs = options.runs or (2 if options.smoke else 30 if options.full else 6)
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
    few = "" if options.full else " (30 with --full)"
    caption = (
        rf"$d={base.d}$, batch {base.batch_size}, step size {base.step_size:g}, "
        rf"{n_steps} steps, {runs} runs{few}: median and 95% interval"
        "\n"
        rf"aligned: $|\kappa|, |\nu| > {ALIGNMENT}$; dotted: zero predictor; "
        r"dash: oracle at the last $\lambda$; x: no run aligns"
    )
    return Result({"noise_length": table}, {"noise-length": plot_noise_length(table, caption)})


def _ends(cell: "Experiment", progress: Callable[[int], Any]) -> dict[str, Any]:
    """Final risk and steps to align of the runs of one setting: medians and 95% intervals."""
    from slr.dynamics.experiment import run_experiment
    from slr.yardsticks import oracle_excess_risk

    count = None if cell.optimiser == "pgd" else lambda steps: progress(steps * cell.L)
    trajectory = run_experiment(cell, progress=count)
    ends = trajectory.outcomes()
    reached = ends["steps_to_align"][ends["aligned"]]
    row = {
        "runs": len(ends),
        "share": len(reached) / len(ends),
        "oracle": float(oracle_excess_risk(trajectory.task, trajectory.lam[0, -1])),
    }
    for name, values in (("excess_risk", ends["excess_risk"]), ("steps", reached)):
        low, middle, high = np.percentile(values, [2.5, 50, 97.5]) if len(values) else [np.nan] * 3
        row |= {f"{name}_low": low, name: middle, f"{name}_high": high}
    return row


def plot_noise_length(table: Any, caption: str) -> Figure:
    """Final excess risk (top) and steps to align (below) against noise, for each gamma and L.

    ``table`` has gamma, L, noise (a label, "PGD" without sampling), share (of runs that align),
    oracle (at the last lam), and excess_risk and steps with their _low and _high.
    """
    from slr.figures import COLOURS, GREY, MARKERS, journal_style, panels

    gammas, lengths = sorted(table["gamma"].unique()), sorted(table["L"].unique())
    noises = list(dict.fromkeys(table["noise"]))
    with journal_style():
        figure, axes = panels(2, len(gammas), (3.2 * len(gammas) + 0.4, 5.4))
        for column, gamma in enumerate(gammas):
            top, below = axes[column], axes[len(gammas) + column]
            for row, L in enumerate(lengths):
                rows = table[(table["gamma"] == gamma) & (table["L"] == L)]
                x = np.array([noises.index(name) for name in rows["noise"]]) + 0.12 * (row - 1.5)
                for ax, name in ((top, "excess_risk"), (below, "steps")):
                    columns = [f"{name}_low", name, f"{name}_high"]
                    low, middle, high = rows[columns].to_numpy(float).T
                    ax.errorbar(
                        x, middle, [middle - low, high - middle], fmt=MARKERS[row],
                        color=COLOURS[row], ms=4, lw=1.0, label=f"$L={L}$",
                    )  # fmt: skip
                top.plot(x[:1], rows["oracle"][:1], "_", color=COLOURS[row], ms=14, mew=1.5)
                for place in x[rows["share"] == 0]:
                    below.text(place, 0.02, "x", color=COLOURS[row], ha="center",
                               transform=below.get_xaxis_transform())  # fmt: skip
            top.axhline(gamma**2, color=GREY, ls=":", lw=1.0)
            top.set(yscale="log", title=rf"$\gamma={gamma:.2g}$")
            below.set(yscale="log", xlabel=r"PGD, or SGD with noise $\varepsilon$")
            for ax in (top, below):
                ax.set_xticks(range(len(noises)), noises)
                ax.set_xlim(-0.6, len(noises) - 0.4)
        axes[0].set_ylabel("excess risk at the end")
        axes[len(gammas)].set_ylabel("steps to align")
        for group in (axes[: len(gammas)], axes[len(gammas) :]):
            limits = np.array([ax.get_ylim() for ax in group])
            for ax in group:
                ax.set_ylim(limits.min(), limits.max())
        legend = axes[0].get_legend_handles_labels()
        figure.legend(*legend, loc="outside lower center", ncols=len(lengths))
        figure.suptitle(caption, fontsize=8)
        return figure


def says(tables: Tables) -> Said:
    table = tables["noise_length"]
    table["gamma"] = table["gamma"].map("{:.2f}".format)
    order = list(dict.fromkeys(table["noise"]))
    names = {name: name if name == "PGD" else f"SGD, noise {name}" for name in order}
    wide = table.pivot_table(index=["gamma", "L"], columns="noise", values="excess_risk")
    share = table.pivot_table(index=["gamma", "L"], columns="noise", values="share")
    shown = wide[order].map("{:.3f}".format) + " (" + share[order].map("{:.0%}".format) + ")"
    return [
        "Excess risk at the end, median over runs, and the share of runs that align:",
        shown.rename(columns=names),
    ]


STUDY = slr_study(
    __name__,
    "Label noise and length",
    "Final excess risk (top) and steps to align (bottom) against label noise, for several L "
    "and gamma.",
)
