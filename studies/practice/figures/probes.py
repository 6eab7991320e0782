"""Figures of probes: accuracy by layer, and accuracy against the number of training words."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from slr.figures import BLACK, COLOURS, GREY, MARKERS, journal_style, panels
from studies.practice.figures.figure1 import SPLIT_NAMES

TITLES = {
    "summary": "summary token",
    "mean": "mean of the tokens",
    "value": "informative token, place given",
    "location": "location (ranks first)",
    "reader": "locate, then read",
    "head": "single-location head",
    "max": "maximum over tokens",
    "heads": "four heads",
}
WORD_SPLITS = {
    "ood_tokens": "new words",
    "ood_structure_tokens": "new words in new structures",
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


def plot_paper(bars: pd.DataFrame, name: str) -> Figure:
    """The published bars beside ours by the paper's protocol, as points with intervals.

    Columns of ``bars``: model (BERT, trained, untrained), split, accuracy, low, high.
    """
    styles: dict[str, tuple[str, dict[str, Any]]] = {
        "BERT": ("BERT, published", {"fmt": "s", "color": BLACK, "mfc": "white"}),
        "trained": (f"{name}, the same protocol", {"fmt": "o", "color": COLOURS[0]}),
        "untrained": (f"untrained {name}", {"fmt": "x", "color": GREY}),
    }
    splits = list(dict.fromkeys(bars["split"]))
    shown = [model for model in styles if model in set(bars["model"])]
    with journal_style():
        figure, (ax,) = panels(1, 1, (5.6, 0.45 * len(splits) + 1.1))
        for i, model in enumerate(shown):
            rows = bars[bars["model"] == model]
            y = rows["split"].map(splits.index) + 0.22 * (i - (len(shown) - 1) / 2)
            ends = [rows["accuracy"] - rows["low"], rows["high"] - rows["accuracy"]]
            label, style = styles[model]
            ax.errorbar(rows["accuracy"], y, xerr=ends, label=label, ms=5, capsize=2, **style)
        ax.axvline(0.5, color=GREY, lw=0.8, ls=":")
        names = {"initial": "initial embeddings", **SPLIT_NAMES}
        ax.set_yticks(range(len(splits)), [names[split] for split in splits])
        ax.set(xlabel="accuracy", xlim=(-0.02, 1.02), ylim=(len(splits) - 0.5, -0.5))
        figure.legend(loc="outside lower center", ncols=len(shown))
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


def plot_words(curve: pd.DataFrame) -> Figure:
    """Accuracy on new words against training words: a panel per split, a line per probe.

    ``curve`` has the columns probe, training_words, draw, split and accuracy.
    """
    from probing.probes.word_curve import curve_means

    means = curve_means(curve)
    splits = [name for name in WORD_SPLITS if name in set(means["split"])]
    with journal_style():
        figure, axes = panels(1, len(splits), (3.2 * len(splits) + 0.3, 2.9))
        for split, ax in zip(splits, axes, strict=True):
            rows = means[means["split"] == split]
            for (probe, part), colour, marker in zip(
                rows.groupby("probe", sort=False), COLOURS, MARKERS, strict=False
            ):
                x, middle, low, high = (
                    part[name].to_numpy() for name in ("training_words", "mean", "min", "max")
                )
                ax.plot(x, middle, color=colour, marker=marker, ms=4, label=TITLES[str(probe)])
                ax.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
            ax.axhline(0.5, color=GREY, lw=0.8, ls=":")
            ax.set_xscale("log", base=2)
            ax.set_xticks(sorted(set(rows["training_words"])), sorted(set(rows["training_words"])))
            ax.set(title=WORD_SPLITS[split], xlabel="training words", ylim=(0.35, 1.02))
        axes[0].set_ylabel("accuracy")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure
