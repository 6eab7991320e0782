"""The figure of attention as a conditional mean: its errors, and what two objectives teach it."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from studies.study import Figure

ALIKE = "law of the keys"  # the queries of contexts that are not the control


def plot_conditional_mean(
    tables: Mapping[str, Any], learned_at: Sequence[int], caption: str
) -> Figure:
    """Errors against L: the best attentions with fitted slopes, those learned at one length.

    ``tables`` are those of the study: errors, slopes (with the first length fitted) and objectives.
    """
    from slr.figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, journal_style, panels

    table = tables["errors"]
    with journal_style():
        figure, (best, softmax, kernel, ratio) = panels(2, 2, (8.0, 6.4))
        for row, colour, marker in zip(
            tables["slopes"].itertuples(), (BLUE, GREEN), "os", strict=True
        ):
            words = f"{row.attention}\nslope {row.value:.2f} [{row.low:.2f}, {row.high:.2f}]"
            _draw_errors(best, table, row.attention, colour, marker, words, ls="")
            rows = table[(table["attention"] == row.attention) & (table["L"] >= row.fitted_from)]
            x = np.log(rows["L"].to_numpy(float))
            height = np.log(rows["error"].to_numpy(float)).mean()
            line = np.exp(height + row.value * (x - x.mean()))
            best.plot(np.exp(x), line, color=colour, lw=1.0)
        _draw_errors(best, table, "softmax, long", BLUE, "x", "softmax, longer", ls=":")
        best.set_title("best at each $L$")
        kinds = ((softmax, "softmax", "softmax, best"), (kernel, "kernel", "kernel"))
        for ax, kind, reference in kinds:
            for L, colour, marker in zip(learned_at, (ORANGE, RED, PURPLE), "^vD", strict=False):
                label = f"{kind}, learned at {L}"
                _draw_errors(ax, table, label, colour, marker, f"learned at $L={L}$", ls="-")
            words = "best at each $L$" if kind == "softmax" else "true kernel and noise"
            _draw_errors(ax, table, reference, BLACK, "", words, ls=":")
            ax.set_title(f"{kind} attention, learned at one $L$")
        bottom = table["error"].min() / 2
        for ax in (best, softmax, kernel):
            ax.set(xscale="log", yscale="log", xlabel="number of tokens $L$", ylim=(bottom, 1))
            ax.legend(loc="lower left", fontsize=7)
        best.set_ylabel("squared error of $E[$value$|$key$, z]$")
        _draw_ratios(ratio, tables["objectives"], (BLUE, GREEN))
        figure.suptitle(caption, fontsize=8)
        return figure


def _draw_errors(
    ax: Any, table: Any, name: str, colour: str, marker: str, label: str, *, ls: str
) -> None:
    rows = table[table["attention"] == name].sort_values("L")
    ax.errorbar(
        rows["L"], rows["error"], 2 * rows["stderr"], color=colour, marker=marker, ls=ls, ms=4,
        lw=1.2, label=label,
    )  # fmt: skip


def _draw_ratios(ax: Any, objectives: Any, colours: Sequence[str]) -> None:
    """Errors of the self-supervised attentions relative to the supervised ones."""
    cases = objectives.set_index(["queries", "L"])
    taught = {name: cases[cases["objective"] == name] for name in ("supervised", "self-supervised")}
    places = np.arange(len(taught["supervised"]))
    for kind, colour, marker in zip(("softmax", "kernel"), colours, "os", strict=True):
        errors = {name: rows[f"{kind}_error"].to_numpy() for name, rows in taught.items()}
        ratios = errors["self-supervised"] / errors["supervised"]
        ax.plot(places, ratios, marker, color=colour, ms=5, label=kind)
    names = [
        f"$L={L}$" if queries == ALIKE else f"$L={L}$,\n{textwrap.fill(queries, 12)}"
        for queries, L in taught["supervised"].index
    ]
    ax.axhline(1, color="black", lw=0.8, ls=":")
    ax.set_xticks(places, names)
    ax.set(xlim=(-0.5, len(places) - 0.3), ylabel="error, relative to supervised")
    ax.set_title("learned from hidden tokens")
    ax.legend(loc="upper left", fontsize=7)
