"""Figures of studies beyond the paper, from tidy tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slr.figures import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    journal_style,
    panels,
)

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
            ax.errorbar(
                bayes[axis], bayes["excess_risk"], 2 * bayes["stderr"], fmt="o", color=BLACK,
                mfc="none", ms=8, mew=1.2, lw=1.0, label="Bayes",
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


def plot_conditional_mean(
    table: Any,
    learned_at: Sequence[int],
    slopes: Mapping[str, Any],
    fitted: Sequence[int],
    caption: str,
) -> Figure:
    """Error against L on log axes with fitted slopes; and of attention learned at one length.

    ``table`` has attention, L, error and stderr; ``slopes`` of the two attentions that are
    best at each length, fitted to the lengths ``fitted``.
    """
    with journal_style():
        figure, (best, softmax, kernel) = panels(1, 3, (10.0, 3.6))
        for (label, slope), colour, marker in zip(slopes.items(), (BLUE, GREEN), "os", strict=True):
            words = f"{label}\nslope {slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]"
            _draw_errors(best, table, label, colour, marker, words, ls="")
            rows = table[(table["attention"] == label) & table["L"].isin(fitted)]
            x = np.log(rows["L"].to_numpy(float))
            height = np.log(rows["error"].to_numpy(float)).mean()
            line = np.exp(height + slope.value * (x - x.mean()))
            best.plot(np.exp(x), line, color=colour, lw=1.0)
        best.set_title("best at each $L$")
        kinds = ((softmax, "softmax", "softmax, best"), (kernel, "kernel", "kernel"))
        for ax, kind, reference in kinds:
            for at, colour, marker in zip(learned_at, (ORANGE, RED, PURPLE), "^vD", strict=False):
                label = f"{kind}, learned at {at}"
                _draw_errors(ax, table, label, colour, marker, f"learned at $L={at}$", ls="-")
            words = "best at each $L$" if kind == "softmax" else "true kernel and noise"
            _draw_errors(ax, table, reference, BLACK, "", words, ls=":")
            ax.set_title(f"{kind} attention, learned at one $L$")
        bottom = table["error"].min() / 2
        for ax in (best, softmax, kernel):
            ax.set(xscale="log", yscale="log", xlabel="number of tokens $L$", ylim=(bottom, 1))
            ax.legend(loc="lower left", fontsize=7)
        best.set_ylabel("squared error of $E[$value$|$key$, z]$")
        figure.suptitle(caption, fontsize=8)
        return figure


def _draw_errors(
    ax: Axes, table: Any, name: str, colour: str, marker: str, label: str, *, ls: str
) -> None:
    rows = table[table["attention"] == name].sort_values("L")
    ax.errorbar(
        rows["L"], rows["error"], 2 * rows["stderr"], color=colour, marker=marker, ls=ls, ms=4,
        lw=1.2, label=label,
    )  # fmt: skip


LOCATION_STYLES = {  # of attentions at the population level: colour, marker, line
    "bayes": (BLACK, "", ":"),
    "softmax": (BLUE, "o", "-"),
    "sigmoid, threshold": (ORANGE, "s", "--"),
    "erf": (PURPLE, "v", "-"),
    "uniform": (GREY, "", "-."),
    "layer": (RED, "D", ""),
}


def plot_locations(table: Any, caption: str) -> Figure:
    """Excess risk over that of the zero predictor, and attention mass, against R.

    ``table`` has attention, n_informative, relative_risk, low, high, mass (bars from low to high).
    """
    with journal_style():
        figure, (risk, mass) = panels(1, 2, (8.0, 3.5))
        for name, (colour, marker, ls) in LOCATION_STYLES.items():
            rows = table[table["attention"] == name].sort_values("n_informative")
            x, y = rows["n_informative"], rows["relative_risk"]
            label = {"bayes": "Bayes", "layer": "softmax layer, trained"}.get(name, name)
            style: dict[str, Any] = {"color": colour, "marker": marker, "ls": ls, "ms": 4.5}
            bars = [y - rows["low"], rows["high"] - y]
            risk.errorbar(x, y, bars, lw=1.2, label=label, **style)
            if name != "bayes":
                mass.plot(x, rows["mass"], **style)
        risk.set(yscale="log", ylim=(1e-4, 1.3), ylabel="excess risk / risk of zero")
        mass.set(ylim=(0, 1.03), ylabel="attention on informative tokens")
        for ax in (risk, mass):
            ax.set_xlabel("informative tokens $R$")
        figure.legend(*risk.get_legend_handles_labels(), loc="outside right center")
        figure.suptitle(caption, fontsize=8)
        return figure


def plot_noise_length(table: Any, caption: str) -> Figure:
    """Final excess risk (top) and steps to align (below) against noise, for each gamma and L.

    ``table`` has gamma, L, noise (a label, "PGD" without sampling), share (of runs that align),
    oracle (at the last lam), and excess_risk and steps with their _low and _high.
    """
    gammas, lengths = sorted(table["gamma"].unique()), sorted(table["L"].unique())
    noises = list(dict.fromkeys(table["noise"]))
    with journal_style():
        figure, axes = panels(2, len(gammas), (3.2 * len(gammas) + 0.4, 5.4))
        for column, gamma in enumerate(gammas):
            top, below = axes[column], axes[len(gammas) + column]
            for row, L in enumerate(lengths):
                rows = table[(table["gamma"] == gamma) & (table["L"] == L)]
                x = np.array([noises.index(name) for name in rows["noise"]]) + 0.12 * (row - 1.5)
                for ax, name in ((top, "excess_risk"), (below, "steps")):
                    middle = rows[name].to_numpy(float)
                    low, high = (rows[f"{name}_{end}"].to_numpy(float) for end in ("low", "high"))
                    ax.errorbar(
                        x, middle, [middle - low, high - middle], fmt=MARKERS[row],
                        color=COLOURS[row], ms=4, lw=1.0, label=f"$L={L}$",
                    )  # fmt: skip
                top.plot(x[:1], rows["oracle"][:1], "_", color=COLOURS[row], ms=14, mew=1.5)
                for at, share in zip(x, rows["share"], strict=True):
                    if share == 0:
                        below.text(at, 0.02, "x", color=COLOURS[row], ha="center",
                                   transform=below.get_xaxis_transform())  # fmt: skip
            top.axhline(gamma**2, color=GREY, ls=":", lw=1.0)
            top.set(yscale="log", title=rf"$\gamma={gamma:.2g}$")
            below.set(yscale="log", xlabel=r"PGD, or SGD with noise $\varepsilon$")
            for ax in (top, below):
                ax.set_xticks(range(len(noises)), noises)
                ax.set_xlim(-0.6, len(noises) - 0.4)
        axes[0].set_ylabel("excess risk at the end")
        axes[len(gammas)].set_ylabel("steps to align")
        risks = (axes[: len(gammas)], axes[len(gammas) :])
        for group in risks:
            limits = [ax.get_ylim() for ax in group]
            for ax in group:
                ax.set_ylim(min(x[0] for x in limits), max(x[1] for x in limits))
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(lengths))
        figure.suptitle(caption, fontsize=8)
        return figure
