"""Figure of the causal tests of one model, by layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slr.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, journal_style, panels

SITES = {"informative": BLUE, "distractor": GREEN, "summary": PURPLE}
TURNS = {  # edit, site: its colour, its name
    ("v_hat", "informative"): (ORANGE, "$\\hat v$, informative word"),
    ("v_hat", "distractor"): (GREEN, "$\\hat v$, distractor"),
    ("random", "informative"): (GREY, "random"),
    ("random (states)", "informative"): (BLACK, "random, as states vary"),
}
COSINES = {"kappa": (BLUE, "key, $\\hat k$", -0.15), "nu": (ORANGE, "value, $\\hat v$", 0.15)}
EDITED = "layer whose states are edited (0: embeddings)"


def plot_causal_tests(causal: pd.DataFrame, directions: pd.DataFrame) -> Figure:
    """A panel for each kind of test in the tables of the study `causal`, over layers."""
    tests = set(causal["test"])
    draw: list[Callable[[Axes], None]] = []
    if "erase value" in tests:
        draw.append(partial(_draw_erasure, causal=causal))
    if "reflect" in tests:
        draw += [partial(_draw_flips, causal=causal), partial(_draw_shifts, causal=causal)]
    draw.append(partial(_draw_cosines, directions=directions))
    columns = 2 if len(draw) in (2, 4) else len(draw)
    rows = len(draw) // columns
    with journal_style():
        figure, axes = panels(rows, columns, (3.6 * columns + 0.4, 2.9 * rows))
        for letter, ax, panel in zip("abcd", axes, draw, strict=False):
            panel(ax)
            ax.set_title(f"({letter}) {ax.get_title()}", loc="left")
            ax.set_title("")
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _draw_erasure(ax: Axes, causal: pd.DataFrame) -> None:
    rows = causal[causal["test"] == "erase value"]
    for site, colour in SITES.items():
        part = rows[(rows["site"] == site) & (rows["edit"] == "LEACE")].sort_values("layer")
        if len(part):
            ax.plot(part["layer"], part["accuracy"], "o-", color=colour, ms=4, label=site)
    part = rows[(rows["site"] == "informative") & (rows["edit"] == "random (states)")]
    label = "informative, random"
    ax.plot(part["layer"], part["accuracy"], "o:", color=GREY, ms=4, label=label)
    before = causal.loc[causal["test"] == "none", "accuracy"].iloc[0]
    ax.axhline(before, color=BLACK, lw=0.8, ls="--", label="no edit")
    ax.axhline(0.5, color=BLACK, lw=0.8, ls=":")
    ax.set(title="erase the label (LEACE)", ylabel="accuracy", ylim=(-0.03, 1.05), xlabel=EDITED)
    ax.legend(fontsize=7)


def _draw_flips(ax: Axes, causal: pd.DataFrame) -> None:
    _draw_turns(ax, causal, "flips")
    ax.set(title="reflect along a direction", ylabel="changed predictions", ylim=(-0.03, 1.05))
    ax.legend(fontsize=7)


def _draw_shifts(ax: Axes, causal: pd.DataFrame) -> None:
    _draw_turns(ax, causal, "shift")
    ax.set(title="how far the logit moves", ylabel="in distances between the labels")


def _draw_turns(ax: Axes, causal: pd.DataFrame, column: str) -> None:
    rows = causal[causal["test"] == "reflect"]
    for (edit, site), (colour, label) in TURNS.items():
        part = rows[(rows["edit"] == edit) & (rows["site"] == site)].sort_values("layer")
        if len(part):
            ax.plot(part["layer"], part[column], "o-", color=colour, ms=4, label=label)
    ax.set_xlabel(EDITED)


def _draw_cosines(ax: Axes, directions: pd.DataFrame) -> None:
    """Draw a dot per head; by chance one in twenty is above the dotted line of its layer."""
    for name, (colour, label, shift) in COSINES.items():
        ax.plot(directions["layer"] + shift, directions[name].abs(), ".", color=colour, label=label)
        for kind, style in (("null", ":"), ("covariance_null", "--")):
            null = directions.groupby("layer")[f"{name}_{kind}_95"].first()
            ax.plot(null.index, null, ls=style, color=colour, lw=0.9)
    ax.plot([], [], ls=":", color=GREY, label="random, 95%")
    ax.plot([], [], ls="--", color=GREY, label="random, as states vary, 95%")
    ax.set(title="directions in the weights", ylabel="|cosine|, one dot per head")
    ax.set(xlabel="layer of the head", ylim=(-0.03, 1.05))
    ax.legend(fontsize=7)
