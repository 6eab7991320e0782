"""The figure of training at any dimension: steps, shares and stability."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slr.dynamics.trajectory import ALIGNMENT
from slr.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, journal_style, panels

CURVES = {  # name in the table: label, colour, marker, and a shift to the right that shows both
    "manifold": ("PGD on $\\mathcal{M}$, step size fixed", GREEN, "s", 1.0),
    "sphere": ("PGD from the sphere, step size $\\sim 1/d$", BLUE, "o", 1.0),
    "flow": ("the same, from the gradient flow", BLUE, "-", 1.3),
    "sgd, schedule": ("SGD, step size $\\sim 1/d$, paper's schedule", PURPLE, "^", 0.8),
    "sgd, constant": ("SGD, step size $\\sim 1/d$, $\\lambda$ constant", ORANGE, "v", 1.0),
}


def plot_scaling(tables: Mapping[str, Any]) -> Figure:
    """Steps to align and the share of aligned runs against d; stability against d and in time.

    ``steps_to_align`` is tidy: curve, d, and median and share with their intervals;
    ``stability_limits`` has d, measured and predicted; ``along_schedule`` has step, limit,
    step_size and smallest (the smallest eigenvalue).
    """
    with journal_style():
        figure, (steps, share, against_d, in_time) = panels(2, 2, (7.6, 6.2))
        _draw_steps(steps, share, tables["steps_to_align"])
        limits = tables["stability_limits"]
        against_d.plot(
            limits["d"], limits["predicted"], color=ORANGE, label="2 / (largest eigenvalue)"
        )
        against_d.plot(
            limits["d"], limits["measured"], "o", color=BLACK, ms=4, label="measured (bisection)"
        )
        against_d.set(xscale="log", yscale="log", xlabel="$d$", ylabel="largest stable step size")
        against_d.legend()
        _draw_schedule(in_time, tables["along_schedule"])
        figure.suptitle(
            rf"$\lambda \sim 1/\sqrt{{d}}$ (a to c); aligned: $|\kappa|, |\nu| > {ALIGNMENT}$; "
            "steps: median and 95% percentile interval over runs that align",
            fontsize=8,
        )
        return figure


def _draw_steps(steps: Axes, share: Axes, table: Any) -> None:
    for name, (label, colour, style, shift) in CURVES.items():
        rows = table[table["curve"] == name].sort_values("d")
        columns = ["d", "median", "low", "high", "share", "share_low", "share_high"]
        d, middle, low, high, p, p_low, p_high = rows[columns].to_numpy(float).T
        look: dict[str, Any] = {"color": colour, "ms": 4, "capsize": 2, "lw": 0.8}
        if style == "-":
            steps.plot(d, middle, style, color=colour, lw=1.0, label=label)
            style, look = "o", look | {"mfc": "white"}
        else:
            bars = [middle - low, high - middle]
            steps.errorbar(d, middle, bars, fmt=style, label=label, **look)
        share.errorbar(d * shift, p, [p - p_low, p_high - p], fmt=style, **look)
    steps.set(xscale="log", yscale="log", xlabel="$d$", ylabel="steps to align", ylim=(1e3, 1e21))
    handles = dict(zip(*reversed(steps.get_legend_handles_labels()), strict=True))
    order = [label for label, *_ in CURVES.values()]
    steps.legend([handles[label] for label in order], order, fontsize=6.5, loc="upper left")
    share.set(xscale="log", xlabel="$d$", ylabel="share of runs that align", ylim=(0, 1.05))


def _draw_schedule(ax: Axes, path: Any) -> None:
    """The stability limit against the training step, with what is beyond it shaded."""
    limit, size = path["limit"].to_numpy(), path["step_size"].to_numpy()
    step = path["step"].to_numpy() / 1000
    ax.plot(step, limit, color=ORANGE, label="2 / (largest eigenvalue)")
    ax.plot(step, size, "--", color=BLACK, lw=1.0, label="the paper's step size")
    beyond = limit < size
    ax.fill_between(
        step, 0, 1, where=beyond, transform=ax.get_xaxis_transform(), color=GREY, alpha=0.25, lw=0,
        label="unstable",
    )  # fmt: skip
    ax.fill_between(
        step, 0, 1, where=path["smallest"].to_numpy() < 0, transform=ax.get_xaxis_transform(),
        color=RED, alpha=0.4, lw=0, label="not a minimum",
    )  # fmt: skip
    ax.set(xlabel="training step of pgd-schedule, in thousands", ylabel="largest stable step size")
    ax.set(xlim=(step[0], step[-1]), ylim=(0, 1.15 * limit.max()))
    ax.legend(fontsize=6.5, loc="lower right")
