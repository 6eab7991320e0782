"""Figures of whole attention layers: training by step, and what is left without a part."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slr.attentions.layer_training import LayerRuns
from slr.figures import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    draw_bands,
    journal_style,
    panels,
)

FLOOR = 2e-4  # of the risk axes: below it a risk on a few thousand sequences says nothing
YARDSTICKS = {
    "zero": ("zero", GREY, ":"),
    "linear": ("best linear", ORANGE, "-."),
    "oracle": ("best erf oracle", RED, "--"),
    "bayes": ("Bayes", BLACK, (0, (1, 1))),
}


def plot_layer(
    trained: LayerRuns,
    variants: Mapping[str, LayerRuns],
    yardsticks: Mapping[str, float],
    caption: str,
) -> Figure:
    """Excess risk, attention mass and alignment by step; final excess risk of the variants."""
    with journal_style():
        figure, (risk, mass, alignment, final) = panels(2, 2, (8.2, 6.0))
        draw_bands(risk, trained.step, trained.excess_risk, BLUE, "softmax layer")
        draw_yardsticks(risk, yardsticks)
        risk.set(xlabel="step", ylabel="excess risk", yscale="log", ylim=(FLOOR, 1))
        risk.legend(loc="upper right", bbox_to_anchor=(1.0, 0.76), fontsize=7)

        draw_bands(mass, trained.step, trained.mass, BLUE, "")
        uniform = 1 / trained.training.task.L
        mass.axhline(uniform, color=GREY, ls=":", label="uniform")
        mass.set(xlabel="step", ylabel="attention mass, informative token", ylim=(0, 1.03))
        mass.legend(loc="lower right", bbox_to_anchor=(1.0, 0.12))

        key, value = trained.key_cosine[:, 1:], trained.value_cosine[:, 1:]  # the key starts at 0
        draw_bands(alignment, trained.step[1:], value, ORANGE, r"value direction with $v^\star$")
        draw_bands(
            alignment, trained.step[1:], key, BLUE, r"key $K^\top Q x_{\rm cls}$ with $k^\star$"
        )
        alignment.set(xlabel="step", ylabel="cosine", ylim=(0, 1.03))
        alignment.legend(loc="lower right")

        _draw_variants(final, variants, yardsticks)
        figure.suptitle(caption, fontsize=8)
        return figure


def draw_yardsticks(ax: Axes, yardsticks: Mapping[str, float], *, vertical: bool = False) -> None:
    """Lines at the yardsticks, labelled with their values; below the floor only the label."""
    line = ax.axvline if vertical else ax.axhline
    for name, value in yardsticks.items():
        label, colour, style = YARDSTICKS[name]
        shown = f"{label} ({value:.2g})" if value > 1e-6 else f"{label} ($< 10^{{-6}}$)"
        if value > FLOOR:
            line(value, color=colour, ls=style, lw=1.1, label=shown)
        else:
            ax.plot([], [], color=colour, ls=style, lw=1.1, label=shown)


def _draw_variants(
    ax: Axes, variants: Mapping[str, LayerRuns], yardsticks: Mapping[str, float]
) -> None:
    draw_yardsticks(ax, yardsticks, vertical=True)
    for row, found in enumerate(variants.values()):
        values = np.maximum(found.excess_risk[:, -1], FLOOR)
        attends = found.mass[:, -1] > 0.5
        for chosen, colour in ((attends, BLUE), (~attends, PURPLE)):
            ax.plot(values[chosen], np.full(chosen.sum(), row), "o", color=colour, ms=4, alpha=0.8)
    ax.plot([], [], "o", color=BLUE, ms=4, label="attention mass > 0.5")
    ax.plot([], [], "o", color=PURPLE, ms=4, label="less, or no attention")
    ax.set_yticks(range(len(variants)), list(variants))
    ax.invert_yaxis()
    ax.set(xscale="log", xlim=(FLOOR, 1), xlabel="excess risk at the end")
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[-2:], labels[-2:], loc="lower left", fontsize=7)
