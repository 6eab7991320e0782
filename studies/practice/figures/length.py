"""Figure of accuracy against length: models beside the theory."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from slr.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, journal_style

WIDTH = 17 / 2.54  # inches: the width of a journal's page
# Probes and the attentions that are like them have the same colour.
STYLES: dict[str, tuple[str, str, str, Any]] = {  # probe: label, colour, marker, line
    "value": ("place given", GREY, "", (0, (3, 2))),
    "reader": ("locate and read", BLACK, "o", "-"),
    "max": ("maximum", GREEN, "^", "-"),
    "head": ("one head", ORANGE, "D", "-"),
    "heads": ("four heads", PURPLE, "v", "-"),
    "summary": ("[CLS] or last token", SKY, "s", "-"),
    "mean": ("mean of tokens", BLUE, "o", "-"),
}
CURVES: dict[str, tuple[str, str, Any]] = {  # attention: label, colour, line
    "softmax": ("softmax, sharp", BLACK, "-"),
    "softmax, moderate": ("softmax, moderate", ORANGE, "-"),
    "erf": ("erf", RED, "-"),
    "erf, best at L": (r"erf, best at each $L$", RED, (0, (3, 2))),
    "uniform": ("uniform", BLUE, "-"),
}
NAMES = {"minilm": "MiniLM", "smollm2": "SmolLM2"}
FITTED = {"short": "fitted to short sentences", "with fillers": "fitted with 2 fillers"}
TRAINED = {"short": 0, "with fillers": 2}  # fillers in training
READERS = {"minilm": PURPLE, "smollm2": GREEN}
LENGTHS = (10, 30, 100, 300)  # labelled


def plot_length(lengths: pd.DataFrame, theory: pd.DataFrame) -> Figure:
    """Accuracy of probes, one column per model and one row per fit; theory and location beside."""
    both = lengths[lengths["side"] == "both"]
    models, fits = list(both["model"].unique()), list(both["fitted"].unique())
    with journal_style():
        figure = Figure(figsize=(WIDTH, 4.5), layout="constrained")
        axes: Any = figure.subplots(len(fits), len(models) + 1, squeeze=False)
        for fit, row in zip(fits, axes, strict=True):
            for ax, model in zip(row, models, strict=False):
                _draw_probes(ax, both[(both["model"] == model) & (both["fitted"] == fit)], fit)
                ax.set_title(f"{NAMES.get(model, model)}, {FITTED[fit]}")
            row[0].set_ylabel("accuracy")
        _draw_theory(axes[0, -1], theory)
        _draw_located(axes[1, -1], both[both["probe"] == "reader"])
        for ax in [*axes[:, :-1].flat, axes[0, -1]]:
            ax.set_ylim(0.45, 1.02)
            ax.tick_params(labelleft=ax in axes[:, 0])
        for letter, ax in zip("abcdef", axes.flat, strict=False):
            ax.set_title(f"({letter})", loc="left", fontweight="bold", fontsize=8)
            ax.title.set_fontsize(8)
            ax.xaxis.set_minor_locator(NullLocator())
        handles = {label: handle for ax in axes[:, 0] for handle, label in _entries(ax)}
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=4,
            columnspacing=1.4, handlelength=2.2,
        )  # fmt: skip
    return figure


def _entries(ax: Axes) -> Any:
    return zip(*ax.get_legend_handles_labels(), strict=True)


def _draw_probes(ax: Axes, table: pd.DataFrame, fit: str) -> None:
    for probe, (label, colour, marker, style) in STYLES.items():
        rows = table[table["probe"] == probe].sort_values("tokens")
        if rows.empty:
            continue
        if marker:
            ax.fill_between(
                rows["tokens"], rows["low"], rows["high"], color=colour, alpha=0.12, lw=0
            )
        look: dict[str, Any] = {"marker": marker, "ms": 3.5, "mec": "white", "mew": 0.4}
        ax.plot(
            rows["tokens"], rows["accuracy"], color=colour, ls=style, lw=1.4 if marker else 1.0,
            label=label, **look,
        )  # fmt: skip
    ax.axhline(0.5, color=BLACK, lw=0.7, ls=":", zorder=1)
    _mark_training(ax, table, fit)


def _mark_training(ax: Axes, table: pd.DataFrame, fit: str) -> None:
    """The length of training, and the axis of lengths."""
    trained = table.loc[table["fillers"] == TRAINED[fit], "tokens"].mean()
    ax.axvline(trained, color=GREY, lw=0.8, ls=":", zorder=1)
    ax.set(xscale="log", xlabel="tokens")
    ax.set_xticks(LENGTHS, list(map(str, LENGTHS)))


def _draw_theory(ax: Axes, theory: pd.DataFrame) -> None:
    for attention, (label, colour, style) in CURVES.items():
        rows = theory[theory["attention"] == attention]
        width = 1.4 if style == "-" else 1.0
        ax.plot(rows["L"], rows["agreement"], color=colour, ls=style, lw=width, label=label)
    ax.axhline(0.5, color=BLACK, lw=0.7, ls=":", zorder=1)
    ax.axvline(10, color=GREY, lw=0.8, ls=":", zorder=1)
    ax.set(xscale="log", xlabel="length $L$ of sequences", title="theory")
    ax.set_xticks([10, 100, 1000, 10_000], ["10", "100", "1000", "$10^4$"])
    ax.legend(loc="lower left", bbox_to_anchor=(0.38, 0.52), fontsize=6.5, handlelength=1.6)


def _draw_located(ax: Axes, readers: pd.DataFrame) -> None:
    """The share of texts in which the reader finds the word, by model and fit."""
    for (model, fit), rows in readers.groupby(["model", "fitted"], sort=False):
        rows = rows.sort_values("tokens")
        colour, dashed = READERS.get(str(model), BLACK), str(fit) == "short"
        ax.plot(
            rows["tokens"], rows["located"], color=colour, marker="o", ms=3.5, mec="white",
            mew=0.4, ls=(0, (3, 2)) if dashed else "-",
            label=f"{NAMES.get(str(model), model)}, {'short' if dashed else '2 fillers'}",
        )  # fmt: skip
    ax.set(xscale="log", xlabel="tokens", title="word found by the reader")
    ax.set_xticks(LENGTHS, list(map(str, LENGTHS)))
    ax.legend(loc="best", fontsize=6.5, handlelength=2.2)
