"""Figures beyond the paper: steps to align against d, and where training succeeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from slr.dynamics.experiment import EXPERIMENTS
from slr.dynamics.trajectory import ALIGNMENT
from slr.figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, journal_style, panels

PAPER_SCHEDULE = (EXPERIMENTS["pgd-schedule"].lam, EXPERIMENTS["pgd-schedule"].lam_decay)
CURVES = {  # name in the table: label, colour, marker
    "manifold": ("PGD on $\\mathcal{M}$, step size fixed", GREEN, "s"),
    "sphere": ("PGD from the sphere, step size $\\sim 1/d$", BLUE, "o"),
    "flow": ("the same, from the gradient flow", BLUE, "-"),
    "sgd": ("SGD from the sphere, step size $\\sim 1/d$", PURPLE, "^"),
}


def plot_scaling(table: Any, limits: Mapping[str, Any]) -> Figure:
    """Steps to align and the share of aligned runs (95% intervals) against d; stability limit.

    ``table`` is tidy: curve, d, runs, share, median, low, high (steps); ``limits`` has d,
    measured and predicted.
    """
    with journal_style():
        figure, (steps, share, stability) = panels(1, 3, (10.0, 3.3))
        for name, (label, colour, style) in CURVES.items():
            rows = table[table["curve"] == name].sort_values("d")
            columns = (rows[key].to_numpy(float) for key in ("d", "median", "low", "high", "share"))
            d, middle, low, high, p = columns
            if style == "-":
                steps.plot(d, middle, style, color=colour, lw=1.0, label=label)
            else:
                steps.errorbar(
                    d, middle, [middle - low, high - middle], fmt=style, color=colour, ms=4,
                    capsize=2, label=label,
                )  # fmt: skip
            if name != "sgd":
                error = 1.96 * np.sqrt(p * (1 - p) / rows["runs"].to_numpy(float))
                face = "white" if style == "-" else colour
                marker = "o" if style == "-" else style
                share.errorbar(
                    d * (1.3 if style == "-" else 1), p, error, fmt=marker, color=colour, mfc=face,
                    ms=4, capsize=2, lw=0.8,
                )  # fmt: skip
        steps.set(
            xscale="log", yscale="log", xlabel="$d$", ylabel="steps to align", ylim=(1e3, None)
        )
        handles, labels = steps.get_legend_handles_labels()
        order = [labels.index(label) for label, _, _ in CURVES.values()]
        steps.legend(
            [handles[i] for i in order], [labels[i] for i in order], fontsize=7, loc="upper left",
            bbox_to_anchor=(0.0, 1.0),
        )  # fmt: skip
        steps.set_ylim(1e3, 1e19)
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


def plot_success_map(table: Any) -> Figure:
    """The share of runs that reach a global minimum, over lam and lam_decay."""
    with journal_style():
        figure, (ax,) = panels(1, 1, (5.4, 4.2))
        ax.grid(visible=False)
        wide = table.pivot(index="lam_decay", columns="lam", values=["share", "diverged"])
        share, diverged = wide["share"], wide["diverged"]
        image = ax.pcolormesh(
            share.columns,
            share.index,
            share,
            cmap="cividis",
            vmin=0,
            vmax=1,
            shading="nearest",
        )
        if 0 < (table["diverged"] > 0.5).sum() < len(table):
            ax.contour(
                share.columns, share.index, diverged, levels=[0.5], colors="white",
                linestyles="--", linewidths=1,
            )  # fmt: skip
        ax.plot(*PAPER_SCHEDULE, "*", color="white", mec="black", ms=11)
        ax.annotate(
            "paper's schedule\n(120 000 steps)", PAPER_SCHEDULE, xytext=(0, -16), fontsize=7,
            textcoords="offset points", color="white", va="center", ha="center",
        )  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel=r"$\lambda_0$", ylabel=r"decay of $\lambda$")
        figure.colorbar(image, label=rf"share of runs with $|\kappa|, |\nu| > {ALIGNMENT}$")
        first = table.iloc[0]
        cells = f"{len(table)} cells, {first['runs']} runs each"
        figure.suptitle(
            rf"PGD from the sphere: $d={first['d']}$, $L={first['L']}$, step size "
            rf"{first['step_size']:g}, {first['n_steps']} steps; {cells}" + "\n"
            "dashed: to the right of it most runs are still unstable at the end",
            fontsize=8,
        )
        return figure
