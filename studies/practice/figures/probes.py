"""Figure of the accuracy of each probe by layer."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from slr.figures import COLOURS, GREY, MARKERS, journal_style, panels

TITLES = {
    "summary": "summary token",
    "mean": "mean of the tokens",
    "value": "informative token, place given",
    "location": "location (ranks first)",
    "reader": "locate, then read",
    "head": "single-location head",
}
DODGE = 0.08  # horizontal distance between splits, in layers


def plot_probes(table: pd.DataFrame, chosen: int | None = None) -> Figure:
    """Accuracy by layer with its interval: one panel per probe, one line per split.

    ``table`` has the columns model, control, probe, layer, split, accuracy, low and high. Dotted
    lines are those of the untrained model; ``chosen`` is the layer chosen for the reader.
    """
    table = table[table["control"] == "none"]
    probes = list(dict.fromkeys(table["probe"]))
    splits = [name for name in dict.fromkeys(table["split"]) if name != "train"] or ["train"]
    splits = splits[: len(COLOURS)]
    columns = min(3, len(probes))
    rows = math.ceil(len(probes) / columns)
    with journal_style():
        figure, axes = panels(rows, columns, (3.0 * columns + 0.4, 2.4 * rows + 0.5))
        for ax in axes[len(probes) :]:
            ax.remove()
        for probe, ax in zip(probes, axes, strict=False):
            draw_probe(ax, table[table["probe"] == probe], splits)
            ax.set_title(TITLES[probe])
            if ax.get_subplotspec().is_first_col():  # type: ignore[union-attr]
                ax.set_ylabel("accuracy")
            if probe == "reader" and chosen is not None:
                ax.axvline(chosen, color=GREY, linewidth=0.8, linestyle="--")
        lines = [
            Line2D([], [], color=colour, marker=marker, markersize=4, label=name)
            for name, colour, marker in zip(splits, COLOURS, MARKERS, strict=False)
        ]
        if "untrained" in set(table["model"]):
            lines.append(Line2D([], [], color=GREY, linestyle=":", label="untrained model"))
        figure.legend(handles=lines, loc="outside lower center", ncols=len(lines))
    return figure


def draw_probe(ax: Axes, table: pd.DataFrame, splits: list[str]) -> None:
    """Draw lines with intervals, shifted within a layer so that no interval hides another."""
    for i, (split, colour, marker) in enumerate(zip(splits, COLOURS, MARKERS, strict=False)):
        dodge = DODGE * (i - (len(splits) - 1) / 2)
        for model, rows in table[table["split"] == split].groupby("model"):
            layer, accuracy, low, high = (
                rows.sort_values("layer")[name].to_numpy()
                for name in ("layer", "accuracy", "low", "high")
            )
            if model == "untrained":
                ax.plot(layer + dodge, accuracy, color=colour, linestyle=":", linewidth=1)
                continue
            ends = [accuracy - low, high - accuracy]
            style: dict[str, Any] = {
                "color": colour,
                "marker": marker,
                "markersize": 4,
                "elinewidth": 0.9,
            }
            ax.errorbar(layer + dodge, accuracy, ends, label=split, **style)
    ax.set(xlabel="layer (0: embeddings)", ylim=(-0.02, 1.04))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
