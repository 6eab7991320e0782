"""Figures of studies beyond the paper, from tidy tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure

from slr.figures import COLOURS, GREY, journal_style, panels

MARKERS = "osD^vP*X"


def plot_activations(table: Any, attentions: Iterable[str], caption: str) -> Figure:
    """Best excess risk of each attention, and Bayes, against d, L and gamma.

    ``table`` has axis ("d", "L" or "gamma"), these three, attention, excess_risk and stderr.
    """
    labels = {"d": "$d$", "L": "$L$", "gamma": r"$\gamma$"}
    with journal_style():
        figure, axes = panels(1, 3, (10.0, 3.5))
        for ax, (axis, label) in zip(axes, labels.items(), strict=True):
            rows = table[table["axis"] == axis]
            styles = zip((*COLOURS[:6], GREY), MARKERS, attentions, strict=False)
            for colour, marker, name in styles:
                one = rows[rows["attention"] == name]
                style = "--" if "threshold" in name else "-"
                size = 6.5 if name == "erf" else 3.5  # linear lies on top of it
                ax.errorbar(
                    one[axis], one["excess_risk"], 2 * one["stderr"], fmt=marker, ls=style,
                    color=colour, ms=size, lw=1.1, label=name,
                )  # fmt: skip
            bayes = rows[rows["attention"] == "bayes"]
            ax.plot(
                bayes[axis], bayes["excess_risk"], "o", color="black", mfc="none", ms=8, mew=1.2,
                ls="", label="Bayes",
            )  # fmt: skip
            ax.set(xscale="log", yscale="log", xlabel=label, ylabel="best excess risk")
            ax.set_ylim(1e-3, None)
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=8,
            columnspacing=1.2, handlelength=2.4,
        )  # fmt: skip
        ticks: tuple[list[float], ...] = (
            [2, 5, 10, 20, 50],
            [2, 5, 10, 20, 50, 100],
            [0.5, 0.7, 1, 1.4, 2],
        )
        for ax, values in zip(axes, ticks, strict=True):
            ax.set_xticks(values, [f"{x:g}" for x in values])
            ax.set_xticks([], minor=True)
        figure.suptitle(caption, fontsize=8)
        return figure
