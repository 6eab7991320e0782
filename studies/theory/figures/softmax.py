"""The figure of the study `softmax`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from studies.study import Figure

if TYPE_CHECKING:
    from slr.task import Task

FLOW_LAM = 0.1  # of the flow that is drawn
FLOOR = 1e-6  # of the risk axis
SMALLEST = 1e-6  # of the axis of slopes


def plot_softmax(tables: Mapping[str, pd.DataFrame], task: "Task") -> Figure:
    """Yardsticks, ends of runs, the swapped point, the flow, and a lam that is learned."""
    from slr.dynamics.portrait import fixed_points
    from slr.figures import draw_flow, journal_style, panels, task_in_words

    with journal_style():
        figure, (best, ends, slopes, flow, risk, lam) = panels(2, 3, (11.0, 6.8))
        _draw_best(best, tables["yardsticks"].query("gamma == 1"))
        _draw_ends(ends, tables["shares"])
        _draw_slopes(slopes, tables["slopes"])
        stream = draw_flow(flow, task, FLOW_LAM, fixed_points(task, FLOW_LAM, "softmax"), "softmax")
        figure.colorbar(stream, ax=flow, label="speed of the flow", shrink=0.85)
        flow.set_title(rf"softmax, $\lambda={FLOW_LAM:g}$", fontsize=9)
        _draw_learned(risk, lam, tables["learned"], task)
        figure.suptitle(f"(b-f) {task_in_words(task)}; (a) $d=40$, $\\gamma=1$", fontsize=9)
        return figure


def _styles() -> dict[str, tuple[str, str, Any]]:
    from slr.figures import BLACK, BLUE, GREEN, GREY, ORANGE, RED

    return {
        "bayes": ("Bayes", BLACK, "o"),
        "softmax": (r"softmax, best $\lambda$", BLUE, "-"),
        "erf": (r"erf, best $\lambda$", RED, "--"),
        "affine attention": ("linear attention, affine", GREEN, "-."),
        "linear attention": ("linear attention", ORANGE, ":"),
        "linear": ("best linear predictor", GREY, ":"),
    }


def _draw_best(ax: Any, table: pd.DataFrame) -> None:
    for name, (label, colour, style) in _styles().items():
        if name == "bayes":
            error = 2 * table["bayes_stderr"]
            ax.errorbar(table["L"], table[name], error, fmt=style, color=colour, ms=4, label=label)
        else:
            ax.plot(table["L"], table[name], style, color=colour, label=label)
    ax.set(xscale="log", yscale="log", xlabel="tokens $L$", ylabel="best excess risk")
    ax.legend(fontsize=6.5)


def _gate_colours() -> dict[str, str]:
    from slr.figures import BLUE, RED

    return {"softmax": BLUE, "erf": RED}


def _draw_ends(ax: Any, shares: pd.DataFrame) -> None:
    for gate, colour in _gate_colours().items():
        rows = shares[shares["gate"] == gate]
        for kind, style in (("aligned", "o-"), ("swapped", "s:")):
            ends = abs(rows[[f"{kind}_low", f"{kind}_high"]].sub(rows[kind], axis=0)).T
            filled = {"mfc": colour if kind == "aligned" else "white"}
            ax.errorbar(
                rows["lam"], rows[kind], ends, fmt=style, color=colour, ms=4, capsize=2,
                label=f"{gate}: {kind}", **filled,
            )  # fmt: skip
    ax.set(xscale="log", xlabel=r"$\lambda$, constant", ylabel="share of runs", ylim=(-0.03, 1.03))
    ax.legend(fontsize=6.5, loc="upper left", bbox_to_anchor=(0.0, 0.96))


def _draw_slopes(ax: Any, slopes: pd.DataFrame) -> None:
    for gate, colour in _gate_colours().items():
        rows = slopes[slopes["gate"] == gate]
        label = gate if rows["slope"].min() > SMALLEST else f"{gate}: 0, drawn at the lower edge"
        slope = np.maximum(rows["slope"], SMALLEST)
        ax.plot(rows["lam"], slope, "o-", color=colour, ms=4, label=label, clip_on=False)
    ax.set(xscale="log", yscale="log", xlabel=r"$\lambda$", ylim=(SMALLEST, None))
    ax.set_ylabel(r"smallest slope of the risk at $k=v^\star$")
    ax.legend(loc="center right")


def _draw_learned(risk: Any, lam: Any, learned: pd.DataFrame, task: "Task") -> None:
    from slr.figures import draw_bands

    for gate, colour in _gate_colours().items():
        rows = learned[learned["gate"] == gate]
        for ax, column in ((risk, "excess_risk"), (lam, "lam")):
            wide = rows.pivot_table(index="run", columns="step", values=column)
            steps, values = wide.columns.to_numpy(), wide.to_numpy()
            values = np.maximum(values, FLOOR) if column == "excess_risk" else values
            draw_bands(ax, steps, values, colour, gate)
    risk.set(yscale="log", xlabel="step", ylabel=r"excess risk, $\lambda$ learned")
    risk.axhline(task.gamma**2, color="#777777", ls=":", label="zero predictor")
    risk.legend(fontsize=7)
    lam.set(yscale="log", xlabel="step", ylabel=r"$\lambda$, learned (length of $k$)")
    lam.yaxis.set_minor_formatter(NullFormatter())
    lam.set_yticks([0.05, 0.1, 0.2, 0.5], ["0.05", "0.1", "0.2", "0.5"])
    lam.legend(fontsize=7)
