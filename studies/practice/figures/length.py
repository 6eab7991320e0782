"""Figure of accuracy against length: models beside the theory."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from slr.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, journal_style

WIDTH = 17 / 2.54  # inches: the width of a journal's page
# Probes and the attentions that are like them have the same colour.
STYLES = {  # probe: label, colour, marker
    "reader": ("locate and read", BLACK, "o"),
    "max": ("maximum", GREEN, "^"),
    "head": ("one head", ORANGE, "D"),
    "heads": ("four heads", PURPLE, "v"),
    "summary": ("[CLS] or last token", SKY, "s"),
    "mean": ("mean of tokens", BLUE, "o"),
}
CURVES: dict[str, tuple[str, str, Any]] = {  # attention: label, colour, line
    "softmax": ("softmax, sharp", BLACK, "-"),
    "softmax, moderate": (r"softmax, $\lambda=0.2$", ORANGE, "-"),
    "erf": ("erf", GREY, "-"),
    "erf, best at L": (r"erf, best at each $L$", GREY, (0, (3, 2))),
    "uniform": ("uniform", BLUE, "-"),
}
NAMES = {"minilm": "MiniLM", "smollm2": "SmolLM2"}
LENGTHS = (10, 30, 100, 300)  # labelled


def plot_length(lengths: pd.DataFrame, theory: pd.DataFrame) -> Figure:
    """One panel per model with a line per probe, and one of the theory: the study's tables."""
    both = lengths[lengths["side"] == "both"]
    models = list(both["model"].unique())
    with journal_style():
        figure = Figure(figsize=(WIDTH, 2.75), layout="constrained")
        axes: Any = figure.subplots(1, len(models) + 1, sharey=True)
        for letter, ax, model in zip("abc", axes, models, strict=False):
            _draw_model(ax, both[both["model"] == model])
            ax.set_title(f"({letter}) {NAMES.get(model, model)}", loc="left")
        _draw_theory(axes[-1], theory)
        axes[-1].set_title(f"({'abcd'[len(models)]}) theory", loc="left")
        axes[0].set_ylabel("accuracy")
        axes[0].set_ylim(0.45, 1.02)
        for ax in axes:
            ax.axhline(0.5, color=BLACK, lw=0.7, ls=":", zorder=1)
            ax.xaxis.set_minor_locator(NullLocator())
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=6, columnspacing=1.2,
            handlelength=1.8,
        )  # fmt: skip
    return figure


def _draw_model(ax: Axes, table: pd.DataFrame) -> None:
    for probe, (label, colour, marker) in STYLES.items():
        rows = table[table["probe"] == probe].sort_values("tokens")
        if rows.empty:
            continue
        ax.fill_between(rows["tokens"], rows["low"], rows["high"], color=colour, alpha=0.13, lw=0)
        ax.plot(
            rows["tokens"], rows["accuracy"], color=colour, marker=marker, ms=3.5, mec="white",
            mew=0.4, label=label,
        )  # fmt: skip
    ax.set(xscale="log", xlabel="tokens")
    ax.set_xticks(LENGTHS, list(map(str, LENGTHS)))


def _draw_theory(ax: Axes, theory: pd.DataFrame) -> None:
    for attention, (label, colour, style) in CURVES.items():
        rows = theory[theory["attention"] == attention]
        width = 1.4 if style == "-" else 1.0
        ax.plot(rows["L"], rows["agreement"], color=colour, ls=style, lw=width, label=label)
    ax.axvline(10, color=GREY, lw=0.7, ls=":")
    ax.set(xscale="log", xlabel="length $L$ of sequences")
    ax.set_xticks([10, 100, 1000, 10_000], ["10", "100", "1000", "10$^4$"])
    ax.legend(loc="upper right", bbox_to_anchor=(1.02, 0.93), fontsize=7, handlelength=1.8)
