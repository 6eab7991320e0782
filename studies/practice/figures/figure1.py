"""Figure 1: token-wise sparsity, internal linear representations, and the plane of k_hat and v_hat.

studies/practice/figure1.py makes its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from probing.states.views import SentenceView
from slr.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, YELLOW, journal_style

# The bars of the paper's Figure 1: frozen bert-base-uncased, logistic regression on [CLS], mean
# over its 12 layers (arXiv 2410.01537).
PUBLISHED = {
    "train": 1.00,
    "test": 0.95,
    "ood_tokens": 0.64,
    "ood_structure": 0.75,
    "ood_structure_tokens": 0.69,
}
SPLIT_NAMES = {
    "train": "train",
    "test": "test",
    "ood_tokens": "OOD tokens",
    "ood_structure": "OOD structure",
    "ood_structure_tokens": "OOD both",
}


class Series(NamedTuple):
    """Labels, colour and hatching of one series of bars."""

    label: str  # in tables and on pages
    colour: str
    short: str = ""  # in the legend, where it continues the label above
    hatch: str | None = None


SERIES = {  # by name in the table
    "bert-published": Series("BERT [CLS], published", GREY, hatch="//"),
    "minilm-summary": Series("MiniLM [CLS]", SKY),
    "minilm-mean": Series("MiniLM token mean", BLUE),
    "minilm-head": Series("MiniLM, single-location head", GREEN),
    "minilm-reader": Series("MiniLM, locate and read (layer by CV)", YELLOW),
    "smollm2-summary": Series("SmolLM2 last token", SKY, hatch="...."),
    "smollm2-mean": Series("SmolLM2 token mean", BLUE, hatch="...."),
    "smollm2-head": Series("SmolLM2, single-location head", GREEN, hatch="...."),
    "smollm2-reader": Series("SmolLM2, locate and read (layer by CV)", YELLOW, hatch="...."),
    "tiny": Series("1-layer Transformer, from scratch", ORANGE),
    "tiny-corpus": Series("1-layer Transformer, with corpus vectors", RED, "… with corpus vectors"),
    "tiny-swap": Series(
        "1-layer Transformer, with swapped corpus (control)",
        PURPLE,
        "… with swapped corpus (control)",
    ),
}
NOT_DRAWN = {"smollm2-mean", "smollm2-head"}  # there are bars enough; tables have them
ROLE_STYLES = {
    "neutral": (GREY, ".", 6),
    "distractor": (ORANGE, "s", 14),
    "informative": (BLUE, "o", 14),
}


def plot_figure1(
    sentences: Sequence[SentenceView],
    sparsity: pd.DataFrame,
    bars: pd.DataFrame,
    plane: pd.DataFrame,
) -> Figure:
    """The four panels of Figure 1.

    Columns of ``sparsity``: model, split, mass; of ``bars``: series, split, accuracy, low, high
    and, for the range over seeds, lowest_seed, highest_seed, seeds; of ``plane``: k, v, role.
    """
    with journal_style():
        figure = Figure(figsize=(10.0, 6.6), layout="constrained")
        halves: Any = figure.subfigures(2, 1, height_ratios=[1, 1.35])
        top, bottom = halves
        shaded, mass = top.subplots(1, 2, width_ratios=[2.2, 1])
        accuracy, scatter = bottom.subplots(1, 2, width_ratios=[2.2, 1])
        for letter, ax, title in (
            ("a", shaded, "attention of [CLS] in the trained model"),
            ("b", mass, "attention on the informative word"),
            ("c", accuracy, "what can be read off, split by split"),
            ("d", scatter, "MiniLM tokens along $\\hat k$ and $\\hat v$"),
        ):
            ax.set_title(f"({letter}) {title}", loc="left")
        _draw_sentences(shaded, sentences)
        _draw_mass(mass, sparsity)
        _draw_bars(accuracy, bars)
        _draw_plane(scatter, plane)
        return figure


def _draw_sentences(ax: Axes, sentences: Sequence[SentenceView]) -> None:
    ax.set_axis_off()
    longest = max(sum(len(word) + 1.6 for word in view.words) for view in sentences)
    for row, sentence in enumerate(sentences):
        x = 0.0
        weights = sentence.attention[:, 0, 0]  # the model has one layer with one head
        for word, role, weight in zip(sentence.words, sentence.roles, weights, strict=True):
            width = len(word) + 1.0
            edge = {"informative": BLUE, "distractor": ORANGE}.get(role, "none")
            box = Rectangle(
                (x, -row - 0.36), width, 0.72, fc=(0.0, 0.45, 0.70, min(1.0, float(weight))),
                ec=edge, lw=1.4,
            )  # fmt: skip
            ax.add_patch(box)
            colour = "white" if weight > 0.55 else BLACK
            ax.text(x + width / 2, -row, word, ha="center", va="center", fontsize=7, color=colour)
            x += width + 0.6
    ax.set(xlim=(-0.5, longest), ylim=(-len(sentences) - 0.3, 0.7))
    ax.text(
        0, -len(sentences) + 0.05, "shade: attention;  blue frame: informative word;  "
        "orange frame: distractor", fontsize=7, va="center",
    )  # fmt: skip


def _draw_mass(ax: Axes, table: pd.DataFrame) -> None:
    splits = [name for name in SPLIT_NAMES if name in set(table["split"])]
    styles = {"trained": BLUE, "untrained": ORANGE, "uniform": GREY}
    for i, (model, colour) in enumerate(styles.items()):
        rows = table[table["model"] == model].set_index("split")["mass"]
        places = np.arange(len(splits)) + (i - 1) * 0.27
        ax.bar(places, [rows[name] for name in splits], 0.25, color=colour, label=model)
    ax.set_xticks(range(len(splits)), [SPLIT_NAMES[name].replace(" ", "\n") for name in splits])
    ax.tick_params(axis="x", labelsize=7)
    ax.set(ylim=(0, 1.02), ylabel="attention mass")
    ax.grid(visible=False, axis="x")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, fontsize=7)


def _draw_bars(ax: Axes, table: pd.DataFrame) -> None:
    splits = list(SPLIT_NAMES)
    drawn = set(table["series"]) - NOT_DRAWN
    series = [name for name in SERIES if name in drawn]
    width = 0.85 / len(series)
    for i, name in enumerate(series):
        label, colour = SERIES[name].short or SERIES[name].label, SERIES[name].colour
        rows = table[table["series"] == name].set_index("split").reindex(splits)
        values, low, high = rows[["accuracy", "low", "high"]].to_numpy(float).T
        places = np.arange(len(splits)) + (i - (len(series) - 1) / 2) * width
        style: dict[str, Any] = {"hatch": SERIES[name].hatch, "edgecolor": "white"}
        ax.bar(places, values, width * 0.92, color=colour, label=label, **style)
        errors = np.maximum(0, [values - low, high - values])
        ax.errorbar(places, values, errors, fmt="none", ecolor=BLACK, elinewidth=0.8)
        if "lowest_seed" in rows and rows["seeds"].max() > 1:  # training seeds apart
            for end in ("lowest_seed", "highest_seed"):
                ax.plot(places, rows[end], "_", color=BLACK, ms=4, mew=1.2)
    ax.axhline(0.5, color=BLACK, lw=0.8, ls=":")
    ax.text(-0.83, 0.505, "chance", fontsize=7, ha="left", va="bottom")
    ax.set_xticks(range(len(splits)), [SPLIT_NAMES[name] for name in splits])
    ax.set(xlim=(-0.85, len(splits) - 0.5), ylim=(0, 1.05), ylabel="accuracy")
    ax.grid(visible=False, axis="x")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, fontsize=7)


def _draw_plane(ax: Axes, table: pd.DataFrame) -> None:
    for role, (colour, marker, size) in ROLE_STYLES.items():
        rows: Any = table[table["role"] == role]
        ax.scatter(
            rows["k"], rows["v"], s=size, c=colour, marker=marker, alpha=0.6, lw=0, label=role,
            rasterized=True,
        )  # fmt: skip
    ax.axhline(0, color=GREY, lw=0.6)
    ax.axvline(0, color=GREY, lw=0.6)
    ax.set(xlabel="$x^\\top \\hat k$ (where)", ylabel="$x^\\top \\hat v$ (what)")
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, fontsize=7, handletextpad=0.1
    )
