"""Figure of 1-layer decoders beside BERT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probing.statistics import median_interval
from slr.figures import BLACK, BLUE, GREEN, ORANGE, journal_style

COLOURS = {"bert": BLUE, "gpt2": ORANGE, "llama": GREEN}
NAMES = {"bert": "BERT (read at [CLS])", "gpt2": "GPT-2", "llama": "Llama (rotary positions)"}
MASS = {"mass": "all\nsentences", "mass_elsewhere": "word not\nlast", "mass_untrained": "untrained"}
COSINES = {"kappa": "key, $\\hat k$", "nu": "value, $\\hat v$"}
EFFECTS = {
    "erased": "erased\nat word",
    "erased_distractor": "erased at\ndistractor",
    "erased_random": "random\nat word",
    "reflected": "turned\nby $\\hat v$",
    "reflected_random": "turned by\nrandom",
}


def plot_decoders(table: pd.DataFrame) -> Figure:
    """Three panels of quantities, grouped by architecture: columns of the study's table."""
    with journal_style():
        figure = Figure(figsize=(10.0, 3.4), layout="constrained")
        axes: Any = figure.subplots(1, 3, width_ratios=[3, 2, 5], sharey=True)
        mass, cosines, effects = axes
        _draw(mass, table, MASS)
        mass.set_title("(a) attention on the word", loc="left")
        _draw(cosines, table, COSINES)
        for architecture, rows in table.groupby("architecture"):
            places, width = _places(str(architecture), len(COSINES))
            for place, name in zip(places, COSINES, strict=True):
                ends = [place - width / 2, place + width / 2]
                cosines.plot(ends, 2 * [rows[f"{name}_states_null"].median()], ":", color=BLACK)
        cosines.set_title("(b) |cosine| with probes", loc="left")
        _draw(effects, table, EFFECTS)
        effects.axvline(2.5, color=BLACK, lw=0.6)
        effects.set_title("(c) accuracy after an edit; predictions turned", loc="left")
        mass.set_ylim(0, 1.05)
        figure.legend(*mass.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw(ax: Axes, table: pd.DataFrame, quantities: Mapping[str, str]) -> None:
    """Draw training seeds as dots, and each quantity's median with its interval, beside them."""
    for architecture, colour in COLOURS.items():
        rows = table[table["architecture"] == architecture]
        places, width = _places(architecture, len(quantities))
        for place, name in zip(places, quantities, strict=True):
            ax.plot([place - width / 5] * len(rows), rows[name], ".", color=colour, ms=4, alpha=0.4)
        known = [rows[name].dropna() for name in quantities]
        ends = np.array([median_interval(x) if len(x) else 3 * [np.nan] for x in known])
        median = ends[:, 0]
        errors = [median - ends[:, 1], ends[:, 2] - median]
        style: dict[str, Any] = {"fmt": "o", "ms": 4, "color": colour, "capsize": 2}
        ax.errorbar(places + width / 5, median, errors, label=NAMES[architecture], **style)
    ax.set_xticks(range(len(quantities)), list(quantities.values()))
    ax.tick_params(axis="x", labelsize=7)
    ax.grid(visible=False, axis="x")


def _places(architecture: str, n: int) -> tuple[Any, float]:
    """The places of the bars of an architecture in n groups, and the width of each."""
    width = 0.8 / len(COLOURS)
    return np.arange(n) + (
        list(COLOURS).index(architecture) - (len(COLOURS) - 1) / 2
    ) * width, width
