"""The figure of the study `layer`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.study import Figure

if TYPE_CHECKING:
    from slr.attentions.layer_training import LayerRuns

FLOOR = 1e-4  # of the risk axes: a thousand sequences do not resolve less


def plot_layer(
    trained: "LayerRuns",
    reduced: pd.DataFrame,
    ends: pd.DataFrame,
    yardsticks: Mapping[str, float],
    caption: str,
) -> Figure:
    """Excess risk, attention mass and alignment by step; final excess risk of the variants.

    ``reduced`` has the same quantities of the reduced softmax, one row per run and step, drawn
    dashed. ``ends`` has architecture, ended and excess_risk, one row per run.
    """
    from slr.figures import BLUE, GREY, ORANGE, draw_bands, journal_style, panels

    with journal_style():
        figure, (risk, mass, alignment, final) = panels(2, 2, (8.2, 6.4))
        draw_bands(risk, trained.step, trained.excess_risk, BLUE, "softmax layer")
        _draw_reduced(risk, reduced, "excess_risk", BLUE, "reduced softmax")
        _draw_yardsticks(risk, yardsticks)
        risk.set(xlabel="step", ylabel="excess risk", yscale="log", ylim=(FLOOR, 1))
        risk.legend(loc="upper right", bbox_to_anchor=(1.0, 0.81), fontsize=7, labelspacing=0.25)

        draw_bands(mass, trained.step, trained.mass, BLUE, "")
        _draw_reduced(mass, reduced, "mass", BLUE, "")
        uniform = 1 / trained.training.task.L
        mass.axhline(uniform, color=GREY, ls=":", label="uniform")
        mass.set(xlabel="step", ylabel="attention mass, informative token", ylim=(0, 1.03))
        mass.legend(loc="lower right", bbox_to_anchor=(1.0, 0.12))

        key, value = trained.key_cosine[:, 1:], trained.value_cosine[:, 1:]  # the key starts at 0
        draw_bands(alignment, trained.step[1:], value, ORANGE, r"value direction with $v^\star$")
        draw_bands(
            alignment, trained.step[1:], key, BLUE, r"key $K^\top Q x_{\rm cls}$ with $k^\star$"
        )
        _draw_reduced(alignment, reduced, "value_cosine", ORANGE, r"reduced: $v$ with $v^\star$")
        _draw_reduced(alignment, reduced, "key_cosine", BLUE, r"reduced: $k$ with $k^\star$")
        alignment.set(xlabel="step", ylabel="cosine", ylim=(0, 1.03))
        alignment.legend(loc="lower right")

        _draw_ends(final, ends, yardsticks)
        figure.suptitle(caption, fontsize=8)
        return figure


def _draw_reduced(ax: Any, table: pd.DataFrame, column: str, colour: str, label: str) -> None:
    """The median over runs, dashed, and the 95% percentile interval."""
    groups = table.groupby("step")[column]
    low, high = groups.quantile(0.025), groups.quantile(0.975)
    ax.fill_between(low.index, low, high, color=colour, alpha=0.12, lw=0)
    ax.plot(low.index, groups.median(), "--", color=colour, label=label or None)


def _draw_yardsticks(ax: Any, yardsticks: Mapping[str, float], *, vertical: bool = False) -> None:
    """Draw lines at the yardsticks, labelled with their values; below FLOOR only the label."""
    from slr.figures import YARDSTICK_STYLES

    line = ax.axvline if vertical else ax.axhline
    for name, value in yardsticks.items():
        label, colour, style = YARDSTICK_STYLES[name]
        shown = f"{label} ({value:.2g})" if value > 1e-6 else f"{label} ($< 10^{{-6}}$)"
        if value > FLOOR:
            line(value, color=colour, ls=style, lw=1.1, label=shown)
        else:
            ax.plot([], [], color=colour, ls=style, lw=1.1, label=shown)


def _draw_ends(ax: Any, ends: pd.DataFrame, yardsticks: Mapping[str, float]) -> None:
    """One point per run, one row per layer; kinds of ends a little above each other."""
    from slr.figures import BLACK, BLUE, GREEN, PURPLE

    _draw_yardsticks(ax, yardsticks, vertical=True)
    lines = ax.get_lines().copy()
    names = list(ends["architecture"].unique())
    styles = {  # label, colour, marker, place
        "aligned": ("key near $k^\\star$ (aligned)", BLUE, "o", -0.2),
        "swapped": ("key near $v^\\star$ (swapped)", PURPLE, "s", 0.2),
        "neither": ("neither", GREEN, "^", 0.0),
        "no key": ("no key to learn", BLACK, "x", 0.0),
    }
    for kind, (label, colour, marker, place) in styles.items():
        rows = ends[ends["ended"] == kind]
        heights = [names.index(name) + place for name in rows["architecture"]]
        risks = np.maximum(rows["excess_risk"], FLOOR)
        ax.plot(risks, heights, marker, color=colour, ms=3.5, alpha=0.6, label=label)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set(xscale="log", xlim=(FLOOR, 1), xlabel="excess risk at the end")
    handles = [handle for handle in ax.get_lines() if handle not in lines]
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.0, 0.05), fontsize=7)
