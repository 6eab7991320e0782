"""Figures of the bridge: learning in practice beside theory, and the causal tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from probing.statistics import median_interval
from slr.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, journal_style
from studies.practice.beside import COMPARED, ERF, QUANTITIES, SOFTMAX_PGD, SOFTMAX_SGD

ALIGNMENTS = {"nu": ("$v$", ORANGE), "kappa": ("$k$", BLUE)}
TITLES = {  # of the theories
    ERF: "erf, PGD\n$\\lambda_t$ scheduled",
    SOFTMAX_PGD: "softmax, PGD\n$\\lambda$ learned",
    SOFTMAX_SGD: "softmax, SGD\n$\\lambda$ learned",
}
ERROR_STYLES = (  # of Transformers, then of the theories
    (BLACK, "o-"), (GREY, "o--"), (RED, "s-"), (BLUE, "D-"), (SKY, "D--"),
)  # fmt: skip
EDITS = {  # colour of each edit
    "mean difference": BLUE,
    "LEACE": GREEN,
    "probe direction": ORANGE,
    "standardised probe": PURPLE,
    "random": GREY,
}


def plot_learning(
    practice: pd.DataFrame, theory: pd.DataFrame, frozen: pd.DataFrame | None = None
) -> Figure:
    """Four quantities during training: a Transformer on the left, single-location on the right.

    Between them, if given, a Transformer with frozen word vectors. ``theory`` has one column of
    panels per name in its column theory. Lines are medians over seeds or runs, bands their
    intervals. Only runs of the theory that align are drawn; the title counts them.
    """
    sides = [(practice, f"Transformer\nfrom scratch\n{_seeds(practice)}")]
    if frozen is not None:
        sides.append((frozen, f"Transformer\nfrozen vectors\n{_seeds(frozen)}"))
    for name, table in theory.groupby("theory", sort=False):
        aligned = table[table["aligned"]]
        counts = f"{aligned['run'].nunique()} of {table['run'].nunique()} align"
        sides.append((aligned, f"{TITLES[str(name)]}\n{counts}"))
    with journal_style():
        figure = Figure(figsize=(0.6 + 1.4 * len(sides), 6.2), layout="constrained")
        axes: Any = figure.subplots(4, len(sides), sharey="row", sharex="col")
        for column, (table, title) in enumerate(sides):
            axes[0, column].set_title(title)
            for name, (label, colour) in ALIGNMENTS.items():
                _band(axes[0, column], table, name, colour, label)
            _band(axes[1, column], table, "attention_mass", GREEN, None)
            _band(axes[2, column], table, "relative_error", RED, None)
            _band(axes[3, column], table, "distance_to_manifold", BLACK, None)
            first = table[table["step"] == 0]["relative_error"].median()
            if first > 1.1:
                axes[2, column].annotate(
                    f"begins\nat {first:.{1 if first < 2 else 0}f}",
                    (0.97, 0.92), xycoords="axes fraction", ha="right", va="top", fontsize=8,
                )  # fmt: skip
            _set_steps(axes[3, column], float(table["step"].max()))
        labels = (
            "alignment with\n$\\hat k,\\ \\hat v$ ($k^*, v^*$)",
            "attention on the\ninformative token",
            "error relative to\nknowing nothing",
            "distance to the\ninvariant manifold",
        )
        for row, label in enumerate(labels):
            axes[row, 0].set_ylabel(label)
            axes[row, 0].set_ylim(-0.03, 1.09)
        axes[0, 0].legend(loc="lower right")
        figure.supxlabel("training step (square-root scale)", fontsize=9)
        return figure


def _set_steps(ax: Axes, last: float) -> None:
    """Draw steps by their square root: what is learned, is learned early."""
    ax.set_xscale("function", functions=(_signed_root, lambda x: x * np.abs(x)))
    ticks = [0.0, _round_below(last / 8), _round_below(last)]
    names = [f"{step / 1000:g}k" if step >= 1000 else f"{step:g}" for step in ticks]
    ax.set_xticks(ticks, names)
    ax.set_xlim(0, last)


def _signed_root(x: Any) -> Any:
    return np.sign(x) * np.sqrt(np.abs(x))


def _round_below(step: float) -> float:
    """The largest 1, 2 or 5 times a power of ten that is not above a step."""
    power = 10.0 ** np.floor(np.log10(step))
    return float(max(x * power for x in (1, 2, 5) if x * power <= step))


def plot_against_error(table: pd.DataFrame) -> Figure:
    """Alignment and attention at equal error, one line per model: medians.

    The band is the interval of the median of the first model, the Transformer.
    """
    with journal_style():
        figure = Figure(figsize=(7.6, 3.0), layout="constrained")
        axes: Any = figure.subplots(1, len(COMPARED), sharey=True)
        models = table["model"].unique()
        for ax, (column, letter) in zip(axes, zip(COMPARED, "abc", strict=True), strict=True):
            ax.set_title(f"({letter}) {QUANTITIES[column].split(',')[0]}", loc="left", fontsize=8)
            for model, (colour, line) in zip(models, ERROR_STYLES, strict=False):
                rows = table[(table["model"] == model) & (table["quantity"] == column)]
                if model == models[0]:
                    ends = rows["low"], rows["high"]
                    ax.fill_between(rows["error"], *ends, color=colour, alpha=0.12, lw=0)
                label = TITLES.get(model, model).replace("\n", ", ")
                ax.plot(rows["error"], rows["median"], line, color=colour, label=label, ms=3)
            ax.set(xlim=(0.93, 0.07), ylim=(-0.03, 1.05))
            ax.set_xlabel("error relative to knowing nothing")
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3)
        return figure


def _seeds(table: pd.DataFrame) -> str:
    n = table["seed"].nunique()
    return f"{n} {'seed' if n == 1 else 'seeds'}"


def _band(ax: Axes, table: pd.DataFrame, column: str, colour: str, label: str | None) -> None:
    """Draw the median over seeds or runs and its interval."""
    _line(ax, table[column].abs().groupby(table["step"]), colour, label, alpha=0.25)


def plot_causal(table: pd.DataFrame) -> Figure:
    """Erasure, steering and reflection in the 1-layer model on the test split; (d) has all models.

    ``table`` has the rows of causal_table for several seeds, with columns model, seed and split.
    """
    part = table[(table["model"] == "tiny") & (table["split"] == "test")]
    with journal_style():
        figure = Figure(figsize=(9.6, 5.8), layout="constrained")
        axes: Any = figure.subplots(2, 2)
        value, location = axes[0]
        places = {
            "informative\ntoken": ("erase value", "informative", 0, "accuracy"),
            "distractor": ("erase value", "distractor", 0, "accuracy"),
            "[CLS], after\nthe layer": ("erase value", "summary", 1, "accuracy"),
        }
        _grouped(value, part, places)
        value.set_title("(a) erase what tells the labels apart", loc="left")
        value.set_ylabel("accuracy")
        value.axhline(0.5, color=BLACK, lw=0.8, ls=":")
        value.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, fontsize=7)
        places = {
            "accuracy": ("erase location", "all words", 0, "accuracy"),
            "attention on the\ninformative token": (
                "erase location",
                "all words",
                0,
                "attention_mass",
            ),
        }
        _grouped(location, part, places)
        location.set_title("(b) erase what marks the informative token", loc="left")
        location.set_ylabel("accuracy, attention")
        _draw_doses(axes[1, 0], part)
        _draw_layers(axes[1, 1], table)
        return figure


def _grouped(ax: Axes, table: pd.DataFrame, places: Mapping[str, Any]) -> None:
    """Draw one bar per place and edit: the median over seeds, with its interval.

    ``places`` maps a name to the test, site, layer and column of the table.
    """
    width = 0.8 / len(EDITS)
    for place, (test, site, layer, column) in enumerate(places.values()):
        rows = table[(table["test"] == test) & (table["site"] == site) & (table["layer"] == layer)]
        for i, (edit, colour) in enumerate(EDITS.items()):
            values = rows[rows["edit"] == edit][column]
            x = place + (i - (len(EDITS) - 1) / 2) * width
            if not len(values):  # a missing bar would look like zero
                ax.text(x, 0.02, "not tried", rotation=90, ha="center", fontsize=6, color=GREY)
            else:
                label = edit if place == 0 else None
                median, low, high = median_interval(values)
                ax.bar(x, median, width * 0.9, color=colour, label=label)
                ends = [[median - low], [high - median]]
                ax.errorbar(x, median, ends, fmt="none", ecolor=BLACK, elinewidth=0.8)
    ax.set_xticks(range(len(places)), list(places))
    ax.set_ylim(0, 1.05)
    ax.grid(visible=False, axis="x")


def _line(
    ax: Axes, groups: Any, colour: str, label: str | None, *, style: str = "-", alpha: float
) -> None:
    """Draw the median of each group, and its interval."""
    places = [place for place, _ in groups]
    median, low, high = np.array([median_interval(values) for _, values in groups]).T
    ax.fill_between(places, low, high, color=colour, alpha=alpha, lw=0)
    ax.plot(places, median, style, color=colour, ms=4, label=label)


def _draw_doses(ax: Axes, part: pd.DataFrame) -> None:
    ax.set_title("(c) steer and reflect the informative token", loc="left")
    for edit, colour, name in (
        ("v_hat", ORANGE, "along $\\hat v$"),
        ("random", GREY, "along random directions"),
    ):
        rows = part[(part["edit"] == edit) & (part["layer"] == 0)]
        rows = rows[rows["site"] == "informative"]
        steered = rows[rows["test"] == "steer"].groupby("dose")["flips"]
        _line(ax, steered, colour, f"steer {name}", style="o-", alpha=0.25)
        flips = rows[rows["test"] == "reflect"]["flips"].median()
        ax.plot([2.3], [flips], "D", color=colour, ms=6, label=f"reflect {name}", clip_on=False)
    ax.set(
        xlabel="steered by (distances between the labels)", ylabel="changed predictions",
        ylim=(-0.03, 1.05), xlim=(-0.1, 2.45),
    )  # fmt: skip
    ax.legend(loc="center left", bbox_to_anchor=(0.4, 0.62), fontsize=7)


def _draw_layers(ax: Axes, table: pd.DataFrame) -> None:
    """Draw the share of predictions changed by reflection at the informative token, by layer."""
    ax.set_title("(d) after which layer is it too late?", loc="left")
    for model, colour, label in (
        ("tiny", BLUE, "1 layer, from scratch"),
        ("small", ORANGE, "2 layers, from scratch"),
    ):
        rows = table[(table["model"] == model) & (table["split"] == "test")]
        rows = rows[(rows["test"] == "reflect") & (rows["edit"] == "v_hat")]
        rows = rows[rows["site"] == "informative"]
        if len(rows):
            _line(ax, rows.groupby("layer")["flips"], colour, label, style="o-", alpha=0.2)
    ax.set(
        xlabel="layer whose output is reflected (0: embeddings)", ylabel="changed predictions",
        ylim=(-0.03, 1.05),
    )  # fmt: skip
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(fontsize=7)
