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
    "summary": ("[CLS] or last token", SKY, "s", "-"),
    "mean": ("mean of tokens", BLUE, "o", "-"),
}
# Attention: name, colour, line, and where the name stands (x, y, side); dashes have none.
CURVES: dict[str, tuple[str, str, Any, tuple[float, float, str]]] = {
    "softmax": ("softmax, sharp", BLACK, "-", (10_000, 0.965, "right")),
    "softmax, moderate": ("softmax,\nmoderate", ORANGE, "-", (10_000, 0.86, "right")),
    "erf": ("erf", RED, "-", (20, 0.76, "left")),
    "erf, best at L": ("", RED, (0, (3, 2)), (1, 1, "left")),
    "uniform": ("uniform", BLUE, "-", (150, 0.55, "left")),
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
        figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
        axes: Any = figure.subplots(len(fits), len(models) + 1, squeeze=False)
        for fit, row in zip(fits, axes, strict=True):
            for ax, model in zip(row, models, strict=False):
                _draw_probes(ax, both[(both["model"] == model) & (both["fitted"] == fit)], fit)
                ax.set_title(NAMES.get(model, model))
            row[0].set_ylabel(f"{FITTED[fit]}\naccuracy")
        _draw_theory(axes[0, -1], theory)
        _draw_located(axes[1, -1], both[both["probe"] == "reader"])
        for ax in [*axes[:, :-1].flat, axes[0, -1]]:
            ax.axhline(0.5, color=BLACK, lw=0.7, ls=":", zorder=1)
            ax.set(ylim=(0.45, 1.02), yticks=[0.5, 0.6, 0.7, 0.8, 0.9, 1])
            ax.tick_params(labelleft=ax in axes[:, 0])
        for letter, ax in zip("abcdef", axes.flat, strict=False):
            ax.set_title(f"({letter})", loc="left", fontweight="bold")
            ax.xaxis.set_minor_locator(NullLocator())
        handles = {label: handle for ax in axes[:, 0] for handle, label in _entries(ax)}
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=4,
            columnspacing=1.6, handlelength=2.2,
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
    trained = table.loc[table["fillers"] == TRAINED[fit], "tokens"].mean()
    ax.axvline(trained, color=GREY, lw=0.8, ls=":", zorder=1)
    _lay_lengths(ax)


def _lay_lengths(ax: Axes) -> None:
    ax.set(xscale="log", xlabel="tokens")
    ax.set_xticks(LENGTHS, list(map(str, LENGTHS)))


def _draw_theory(ax: Axes, theory: pd.DataFrame) -> None:
    for attention, (label, colour, style, (x, y, side)) in CURVES.items():
        rows = theory[theory["attention"] == attention]
        width = 1.4 if style == "-" else 1.0
        ax.plot(rows["L"], rows["agreement"], color=colour, ls=style, lw=width, label=attention)
        ax.text(x, y, label, color=colour, fontsize=7, ha=side, va="center", linespacing=1.0)
    ax.axvline(10, color=GREY, lw=0.8, ls=":", zorder=1)
    ax.set(xscale="log", xlabel="length $L$ of sequences", title="theory")
    ax.set_xticks([10, 100, 1000, 10_000], ["10", "100", "1000", "$10^4$"])


def _draw_located(ax: Axes, readers: pd.DataFrame) -> None:
    """The share of texts in which the reader finds the word, by model and fit."""
    for (model, fit), rows in readers.groupby(["model", "fitted"], sort=False):
        rows = rows.sort_values("tokens")
        short = str(fit) == "short"
        ax.plot(
            rows["tokens"], rows["located"], color=READERS.get(str(model), BLACK), marker="o",
            ms=3.5, mec="white", mew=0.4, ls=(0, (3, 2)) if short else "-",
            label=f"{NAMES.get(str(model), model)}, {'short' if short else '2 fillers'}",
        )  # fmt: skip
    _lay_lengths(ax)
    ax.set(title="word located", ylim=(-0.03, 1.03), yticks=[0, 0.25, 0.5, 0.75, 1])
    ax.legend(
        loc="center right", bbox_to_anchor=(1.05, 0.57), fontsize=6.5, handlelength=1.9,
        labelspacing=0.25, handletextpad=0.5,
    )  # fmt: skip
