"""Figure 1: token-wise sparsity, internal linear representations, and the plane of k_hat and v_hat.

studies/practice/figure1.py makes its tables. Panels stand at fixed places of a page 17 cm wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.textpath import TextPath
from matplotlib.ticker import MaxNLocator

from probing.states.views import SentenceView
from slr.figures import BLACK, GREEN, GREY, PURPLE, RED, SKY, journal_style

SPLIT_NAMES = {
    "train": "train",
    "test": "test",
    "ood_tokens": "OOD tokens",
    "ood_structure": "OOD structure",
    "ood_structure_tokens": "OOD both",
    "ood_greeting": "added greeting",
    "ood_no_distractor": "no distractor",
    "ood_neutral_city": "neutral city",
    "ood_position": "new position",
    "ood_adjective": "new adjective",
    "ood_context": "new context",
}


class Series(NamedTuple):
    """The names of one row of dots."""

    label: str  # in tables and on pages
    group: str  # the model; in the figure it precedes the first row of its group
    short: str  # in the figure, after or below the group


def _probed(key: str, model: str, summary: str) -> dict[str, Series]:
    """The four probes of a pretrained model."""
    return {
        f"{key}-summary": Series(f"{model} {summary}", model, summary),
        f"{key}-mean": Series(f"{model} token mean", model, "token mean"),
        f"{key}-head": Series(f"{model}, single-location head", model, "single-location head"),
        f"{key}-reader": Series(
            f"{model}, locate and read (told the place)", model, "locate and read†"
        ),
    }


def _trained(layers: str, names: dict[str, str]) -> dict[str, Series]:
    """Small Transformers by key; the names say where their word vectors are from."""
    model = f"{layers.replace(' ', '-').removesuffix('s')} Transformer"
    return {key: Series(f"{model}, {name}", layers, name) for key, name in names.items()}


GLOVE = {
    "": "from scratch",
    "-glove": "GloVe vectors",
    "-glove-shuffled": "GloVe shuffled (control)",
}
CORPUS = {"tiny-corpus": "corpus vectors", "tiny-swap": "swapped corpus (control)"}
SERIES = {  # by key in the table, in the order of rows
    **_probed("minilm", "MiniLM", "[CLS]"),
    **_probed("smollm2", "SmolLM2", "last token"),
    **_probed("mpnet", "MPNet", "[CLS]"),
    **_trained("1 layer", {f"tiny{end}": name for end, name in GLOVE.items()} | CORPUS),
    **_trained("2 layers", {f"pair{end}": name for end, name in GLOVE.items()}),
    **_trained("2 layers", {"pair-in-order": "from scratch, sentences in order"}),
}

SPLIT_STYLES = {  # of dots: colour, marker, size
    "test": (BLACK, "o", 3.7),
    "ood_tokens": (RED, "^", 4.3),
    "ood_structure": (GREEN, "s", 3.5),
    "ood_structure_tokens": (PURPLE, "D", 3.4),
}
DATA_NAMES = {"published": "published data", "wide": "wide data"}
KIND_STYLES: dict[str, dict[str, Any]] = {
    "interval": {"lw": 0.8, "alpha": 1.0},
    "seeds": {"lw": 2.6, "alpha": 0.3},
}
# Of models in panel b: colour, face, marker.
# Green is attention here as in the report, where blue is k and orange is v.
FRAMES: dict[str, Any] = {
    "informative": {"ec": BLACK, "lw": 1.0},
    "distractor": {"ec": BLACK, "lw": 1.0, "ls": (0, (2, 1.5))},
}
BASELINES = {"untrained": (GREY, GREY, "|"), "uniform": (BLACK, BLACK, "|")}
TRAINED_STYLES = (
    (GREEN, GREEN, "o"), (GREEN, "white", "s"), (BLACK, BLACK, "D"), (BLACK, "white", "^"),
)  # fmt: skip
ROLE_STYLES = {  # role, label: name, colour, face, marker, size
    ("neutral", None): ("neutral", GREY, GREY, ".", 3),
    ("distractor", None): ("distractor", SKY, SKY, "s", 6),
    ("informative", 1): ("informative, label 1", PURPLE, PURPLE, "o", 7),
    ("informative", 0): ("informative, label 0", PURPLE, "white", "o", 7),
}

SIZE = (6.7, 6.7)  # inches: 17 cm
LEFT, RIGHT = 0.35, 1.03  # the axis of accuracies; points below it are drawn at its edge
KEY: dict[str, Any] = {
    "handletextpad": 0.4, "columnspacing": 1.2, "borderpad": 0, "borderaxespad": 0,
}  # fmt: skip


def plot_figure1(
    sentences: Sequence[SentenceView],
    sparsity: pd.DataFrame,
    dots: pd.DataFrame,
    plane: pd.DataFrame,
    *,
    plane_model: str = "MiniLM",
) -> Figure:
    """The four panels of Figure 1.

    Columns of ``sparsity``: model, split, mass and, if known, low, high, seeds; of ``dots``: data,
    series, split, accuracy and, if known, low, high, kind (of low and high: interval over words,
    seeds or ""), words, seeds; of ``plane``: k, v, role, label.
    """
    sparsity = sparsity.reindex(columns="model split mass low high seeds".split())
    dots = dots.reindex(columns="data series split accuracy low high kind words seeds".split())
    with journal_style():
        mpl.rc("font", size=7)
        mpl.rc("axes", labelsize=7, titlesize=8, linewidth=0.6)
        mpl.rc("xtick.major", size=2.5, width=0.6, pad=2)
        mpl.rc("ytick.major", size=2.5, width=0.6, pad=2)
        mpl.rc("legend", fontsize=7)
        figure = Figure(figsize=SIZE)
        for letter, x, y, title in (
            ("a", 0.06, 6.66, "attention of [CLS] in a trained Transformer"),
            ("b", 4.72, 6.66, "attention by split"),
            ("c", 0.06, 4.93, "accuracy by split"),
            ("d", 4.72, 3.05, f"{plane_model} tokens along $\\hat k$ and $\\hat v$"),
        ):
            text = f"$\\bf{{({letter})}}$ {title}"
            figure.text(x / SIZE[0], y / SIZE[1], text, va="top", fontsize=8)
        _draw_sentences(_axes(figure, 0.06, 5.12, 4.4, 1.36), sentences)
        _draw_mass(_axes(figure, 5.5, 4.25, 1.14, 2.2), sparsity)
        data = [name for name in DATA_NAMES if name in set(dots["data"])]
        width = (2.96 - 0.12 * (len(data) - 1)) / len(data)
        left = [1.5 + i * (width + 0.12) for i in range(len(data))]
        _draw_accuracy([_axes(figure, x, 0.9, width, 3.74) for x in left], data, dots)
        _draw_plane(_axes(figure, 5.0, 0.9, 1.64, 1.9), plane)
        return figure


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place that is given in inches."""
    w, h = SIZE
    return figure.add_axes((left / w, bottom / h, width / w, height / h))


def _draw_sentences(ax: Axes, sentences: Sequence[SentenceView]) -> None:
    """Words in boxes, in points; a sentence that is too long continues on the next line."""
    width, height = (72 * SIZE[i] * ax.get_position().size[i] for i in (0, 1))
    boxes, line = [], -1
    for sentence in sentences:
        line, x = line + 1, 0.0
        weights = sentence.attention[:, -1].mean(-1)  # the last layer, mean over heads
        for word, role, weight in zip(sentence.words, sentence.roles, weights, strict=True):
            is_mark = not any(letter.isalnum() for letter in word)
            room = TextPath((0, 0), word, size=7).get_extents().width + (1.6 if is_mark else 4)
            if not is_mark and x + room > width:
                line, x = line + 1, 12.0
            x -= 0.4 if is_mark else 0  # close to its word, and clear of the frame
            boxes.append((x, line, room, word, role, float(weight)))
            x += room + 1.6
    step = min(17.0, (height - 12) / (line + 1))
    tall = min(11.0, step - 1.5)
    for x, line, room, word, role, weight in boxes:
        y = -step * (line + 0.5)
        shade = (to_rgb(GREEN), min(1.0, weight))
        box = {"fc": shade, "clip_on": False, **FRAMES.get(role, {"ec": "none"})}
        ax.add_patch(Rectangle((x, y - tall / 2), room, tall, **box))
        colour = "white" if weight > 0.55 else BLACK
        ax.text(x + room / 2, y - 2.4, word, ha="center", color=colour)
    ax.set(xlim=(0, width), ylim=(-height, 0))
    ax.set_axis_off()
    shades = tuple(Patch(fc=(to_rgb(GREEN), weight), ec="none") for weight in (0.1, 0.5, 1.0))
    frames = [Patch(fc="none", **FRAMES[role]) for role in ("informative", "distractor")]
    ax.legend(
        [shades, *frames],
        ["attention 0 to 1 (last layer, mean of heads)", "informative word", "distractor"],
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0)}, ncols=3, loc="lower left", **KEY,
    )  # fmt: skip


def _draw_mass(ax: Axes, table: pd.DataFrame) -> None:
    splits, models = list(table["split"].unique()), list(table["model"].unique())
    trained = cycle(TRAINED_STYLES)
    for i, model in enumerate(models):
        colour, face, marker = BASELINES[model] if model in BASELINES else next(trained)
        rows = table[table["model"] == model]
        y = rows["split"].map(splits.index) + _dodge(i, len(models))
        ax.hlines(y, rows["low"], rows["high"], color=colour, lw=0.9)
        ax.plot(rows["mass"], y, marker, color=colour, mfc=face, mew=0.8, ms=4.0, label=model)
    ax.set_yticks(range(len(splits)), [SPLIT_NAMES[name] for name in splits])
    _lay_rows(ax, len(splits), range(1, len(splits)))
    ax.set_xlim(-0.03, 1.03)
    ax.set_xlabel("mass on the informative word", loc="right")
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    handles, labels = ax.get_legend_handles_labels()
    if table["low"].notna().any():
        handles.append(Line2D([], [], color=GREEN, lw=0.9))
        labels.append(f"95%, {_span(table['seeds'][table['low'].notna()])} seeds")
    ax.legend(handles, labels, loc="upper right", bbox_to_anchor=(1, -0.17), **KEY)


def _draw_accuracy(axes: Sequence[Axes], data: Sequence[str], table: pd.DataFrame) -> None:
    drawn = [key for key in SERIES if key in set(table["series"])]
    groups = [SERIES[key].group for key in drawn]
    starts = [i for i, group in enumerate(groups) if group not in groups[:i]]
    table = table[table["series"].isin(drawn) & table["split"].isin(SPLIT_STYLES)]
    table = table.assign(row=table["series"].map(drawn.index)).dropna(subset="accuracy")
    order = {split: i for i, split in enumerate(SPLIT_STYLES)}
    table = table.sort_values("split", key=lambda names: names.map(order), ignore_index=True)
    for ax, name in zip(axes, data, strict=True):
        rows = table[table["data"] == name]
        for split, part in rows.groupby("split", sort=False):
            _draw_split(ax, str(split), part)
        _write_low_values(ax, rows[rows["accuracy"] < LEFT])
        ax.axvline(0.5, color=BLACK, lw=0.7, ls=":", zorder=1)
        ax.set(xlim=(LEFT, RIGHT), xlabel="accuracy")
        ax.set_xticks([0.5, 0.75, 1], ["0.5", "0.75", "1"])
        words = f"\n({_span(rows['words'])} words)" if rows["words"].notna().any() else ""
        ax.set_title(DATA_NAMES[name] + words, fontsize=7, pad=3)
        ax.set_yticks(range(len(drawn)), [""] * len(drawn))
        _lay_rows(ax, len(drawn), starts[1:])
    names = [f"   {SERIES[key].short}" for key in drawn]
    for i in starts:
        model = groups[i].replace(" ", "\\ ")
        names[i] = f"$\\bf{{{model}}}$, {SERIES[drawn[i]].short}"
    axes[0].set_yticks(range(len(drawn)), names, ha="left")
    axes[0].tick_params(axis="y", pad=103.7)
    _draw_key(axes[0], table)


def _draw_split(ax: Axes, split: str, rows: pd.DataFrame) -> None:
    colour = SPLIT_STYLES[split][0]
    shift = _dodge(list(SPLIT_STYLES).index(split), len(SPLIT_STYLES))
    y, inside = rows["row"] + shift, rows["accuracy"] >= LEFT
    for kind, style in KIND_STYLES.items():
        part = rows[(rows["kind"] == kind) & rows["low"].notna()]
        ax.hlines(y[part.index], part["low"], part["high"], color=colour, **style)
    ax.plot(rows["accuracy"][inside], y[inside], label=SPLIT_NAMES[split], **_marks(split))
    for size, outside in ((2.5, inside & (rows["low"] < LEFT)), (4.2, ~inside)):
        edge = np.full(outside.sum(), LEFT + size / 400)
        ax.plot(edge, y[outside], "<", color=colour, ms=size, mew=0)


def _marks(split: str) -> dict[str, Any]:
    """Marks with a white rim, so that one can be told from another below it."""
    colour, marker, size = SPLIT_STYLES[split]
    return {"color": colour, "marker": marker, "ms": size, "ls": "", "mec": "white", "mew": 0.3}


def _write_low_values(ax: Axes, rows: pd.DataFrame) -> None:
    """The accuracies left of the axis, in numbers from top to bottom; once if they are equal."""
    for row, values in rows.groupby("row")["accuracy"]:
        numbers = [f"{value:.2f}" for value in values]
        text = ", ".join(numbers if len(set(numbers)) > 1 else numbers[:1])
        box = {"fc": "white", "ec": "none", "pad": 0.5}
        ax.text(LEFT + 0.035, row, text, va="center_baseline", fontsize=6.5, bbox=box)


def _draw_key(ax: Axes, table: pd.DataFrame) -> None:
    """What is drawn: splits, chance, kinds of lines, and the dagger."""
    seeds = table["seeds"][table["kind"] == "seeds"]
    over_seeds = f"95% interval over {_span(seeds)} training seeds" if len(seeds) else ""
    kinds = {"interval": "95% interval over words", "seeds": over_seeds}
    key: dict[str, dict[str, Any]] = {
        SPLIT_NAMES[split]: _marks(split) for split in SPLIT_STYLES if split in set(table["split"])
    }
    key["chance"] = {"color": BLACK, "lw": 0.7, "ls": ":"}
    for kind, style in KIND_STYLES.items():
        if kind in set(table["kind"]):
            key[kinds[kind]] = {"color": BLACK, **style}
    if any(SERIES[name].short.endswith("†") for name in table["series"]):
        dagger = {"color": BLACK, "marker": "$†$", "ms": 6, "mew": 0, "ls": ""}
        key["told in training which word decides"] = dagger
    handles = [Line2D([], [], **style) for style in key.values()]
    figure: Any = ax.figure
    corner = 0.06 / SIZE[0], 0.06 / SIZE[1]
    figure.legend(handles, list(key), ncols=3, loc="lower left", bbox_to_anchor=corner, **KEY)


def _draw_plane(ax: Axes, table: pd.DataFrame) -> None:
    for (role, label), (name, edge, face, marker, size) in ROLE_STYLES.items():
        rows: Any = table[(table["role"] == role) & ((label is None) | (table["label"] == label))]
        ax.scatter(
            rows["k"], rows["v"], s=size, c=face, ec=edge, lw=0.4, marker=marker, alpha=0.7,
            label=name, rasterized=True,
        )  # fmt: skip
    ax.axhline(0, color=GREY, lw=0.6)
    ax.axvline(0, color=GREY, lw=0.6)
    ax.set(xlabel="along $\\hat k$ (where)", ylabel="along $\\hat v$ (what)")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(4, integer=True))
    ax.legend(loc="upper right", bbox_to_anchor=(1, -0.235), ncols=2, markerscale=1.5, **KEY)


def _dodge(i: int, n: int) -> float:
    """The place of the i-th of n marks around the middle of a row."""
    return 0.82 * ((i + 0.5) / n - 0.5)


def _lay_rows(ax: Axes, n: int, separators: Sequence[int]) -> None:
    """Rows 0 to n - 1 from top to bottom, with light lines above some."""
    ax.hlines([row - 0.5 for row in separators], 0, 1, color="#CCCCCC", lw=0.5, zorder=0,
              transform=ax.get_yaxis_transform())  # fmt: skip
    ax.set_ylim(n - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)


def _span(numbers: pd.Series) -> str:
    low, high = (f"{end:.0f}" for end in (numbers.min(), numbers.max()))
    return low if low == high else f"{low} to {high}"
