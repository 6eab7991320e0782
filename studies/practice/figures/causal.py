"""Figure of the causal tests of one model, by layer."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slr.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, journal_style

SITES = {"informative": BLUE, "distractor": GREEN, "summary": PURPLE}
TURNS = {  # edit, site: its colour, its name
    ("v_hat", "informative"): (ORANGE, "$\\hat v$, informative word"),
    ("v_hat", "distractor"): (GREEN, "$\\hat v$, distractor"),
    ("random", "informative"): (GREY, "random"),
    ("random (states)", "informative"): (BLACK, "random, as states vary"),
}


def plot_causal_tests(causal: pd.DataFrame, directions: pd.DataFrame) -> Figure:
    """Four panels over the layers of one model, from the tables of ``causal`` studies."""
    with journal_style():
        figure = Figure(figsize=(9.0, 6.0), layout="constrained")
        axes: Any = figure.subplots(2, 2)
        _draw_erasure(axes[0, 0], causal)
        _draw_turns(axes[0, 1], causal, "flips")
        axes[0, 1].set(title="(b) reflect along $\\hat v$", ylabel="changed predictions")
        axes[0, 1].set_ylim(-0.03, 1.05)
        axes[0, 1].legend(fontsize=7)
        _draw_turns(axes[1, 0], causal, "shift")
        axes[1, 0].set(title="(c) how far the logit moves", ylabel="share of the labels' distance")
        _draw_cosines(axes[1, 1], directions)
        for ax in axes.flat:
            ax.title.set_horizontalalignment("left")
            ax.title.set_position((0, 1))
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
    ax.set(title="(a) erase the label (LEACE)", ylabel="accuracy", ylim=(-0.03, 1.05))
    ax.set_xlabel("layer whose states are edited (0: embeddings)")
    ax.legend(fontsize=7)


def _draw_turns(ax: Axes, causal: pd.DataFrame, column: str) -> None:
    rows = causal[causal["test"] == "reflect"]
    for (edit, site), (colour, label) in TURNS.items():
        part = rows[(rows["edit"] == edit) & (rows["site"] == site)].sort_values("layer")
        if len(part):
            ax.plot(part["layer"], part[column], "o-", color=colour, ms=4, label=label)
    ax.set_xlabel("layer whose states are edited (0: embeddings)")


def _draw_cosines(ax: Axes, directions: pd.DataFrame) -> None:
    """Draw the closest head of each layer, for key and value apart."""
    kinds = {"kappa": (BLUE, "key, $\\hat k$"), "nu": (ORANGE, "value, $\\hat v$")}
    for name, (colour, label) in kinds.items():
        size = directions[name].abs().groupby(directions["layer"]).max()
        ax.plot(size.index, size, "o-", color=colour, ms=4, label=label)
        for kind, style in (("null", ":"), ("covariance_null", "--")):
            null = directions.groupby("layer")[f"{name}_{kind}_95"].first()
            ax.plot(null.index, null, ls=style, color=colour, lw=0.9)
    ax.plot([], [], ls=":", color=GREY, label="random, 95%")
    ax.plot([], [], ls="--", color=GREY, label="random as states vary, 95%")
    ax.set(title="(d) directions in the weights", ylabel="largest |cosine| of a head")
    ax.set(xlabel="layer of the head", ylim=(-0.03, 1.05))
    ax.legend(fontsize=7)
