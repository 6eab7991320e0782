"""The figure of softmax attention in long sequences: what can be learned, and what is."""

from collections.abc import Mapping
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
    MARKERS,
    ORANGE,
    PURPLE,
    RED,
    journal_style,
    panels,
)

BY_DIMENSION = {100: (BLUE, "o"), 1000: (RED, "s")}
FLOWS = {  # name in the table: label, colour, marker
    "erf": (r"erf, $\lambda=2/\sqrt{d}$", ORANGE, "o"),
    "softmax": (r"softmax, $\lambda=2/\sqrt{d}$", BLUE, "s"),
    "softmax, larger lambda": (r"softmax, $\lambda=2\log L/h$", GREEN, "D"),
}
SHARE = r"$(\log L)\,/\,d$"
LEAST = 1e-8  # risk that is shown
SHOWN_GAMMAS = (0.25, 0.5, 1.0, 2.0)


def plot_softmax_length(tables: Mapping[str, Any]) -> Figure:
    """Six panels; risks are in units of gamma^2.

    ``training`` has d, gamma, share, log_L, training, risk and steps_to_learn; ``boundary`` has d,
    gamma, oracle and bayes; ``oracle`` has d, share, risk and bayes; ``warm`` has d, kappa, share
    and risk; ``against_d`` has d, curve, time, low, high and aligned.
    """
    with journal_style():
        figure, axes = panels(2, 3, (10.6, 6.4))
        first, second, oracle, warm, steps, times = axes
        constant = tables["training"].query("training == 'lambda constant'")
        dimensions = sorted(constant["d"].unique())
        for ax, d in zip((first, second), dimensions, strict=False):
            mesh = _draw_map(ax, constant.query("d == @d"), tables["boundary"].query("d == @d"), d)
        label = r"median final risk of PGD, $/\,\gamma^2$"
        figure.colorbar(mesh, ax=second, label=label, extend="max")
        legend = first.get_legend_handles_labels()  # the second map has the room for it
        second.legend(*legend, fontsize=6.5, loc="center", bbox_to_anchor=(0.62, 0.5))
        _draw_oracle(oracle, tables["oracle"])
        _draw_warm(warm, tables["warm"])
        _draw_steps(steps, tables["training"])
        _draw_times(times, tables["against_d"])
        if len(dimensions) == 1:
            second.set_axis_off()
        return figure


def _edges(values: Any) -> Any:
    """Edges of cells around values, on a logarithmic axis."""
    logs = np.log(values)
    inner = (logs[1:] + logs[:-1]) / 2
    ends = [2 * logs[0] - inner[0]], [2 * logs[-1] - inner[-1]]
    return np.exp(np.concatenate([ends[0], inner, ends[1]]))


def _draw_map(ax: Axes, cells: Any, places: Any, d: int) -> Any:
    """Final risks over length and gamma, with what the oracle and Bayes reach."""
    wide = cells.pivot_table(index="gamma", columns="share", values="risk")
    x, y = _edges(wide.columns.to_numpy()), _edges(wide.index.to_numpy())
    mesh = ax.pcolormesh(x, y, wide.to_numpy(), cmap="viridis", vmin=0, vmax=1, rasterized=True)
    places = places.sort_values("gamma")
    ax.plot(places["oracle"], places["gamma"], "o-", color=BLACK, ms=3, label="oracle: 1/2")
    bayes = places[places["bayes"] < x[-1]]
    ax.plot(bayes["bayes"], bayes["gamma"], ":", color=BLACK, label="Bayes, large $d$")
    ax.set(xscale="log", yscale="log", xlabel=SHARE, ylabel=r"$\gamma$", title=f"$d={d}$")
    ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    ax.set_yticks(wide.index, [f"{gamma:g}" for gamma in wide.index])
    ax.minorticks_off()
    ax.grid(visible=False)
    return mesh


def _draw_oracle(ax: Axes, table: Any) -> None:
    for d, rows in table.groupby("d"):
        rows = rows.sort_values("share")
        colour, marker = BY_DIMENSION[d]
        ax.plot(rows["share"], rows["risk"], f"{marker}-", color=colour, ms=3.5, label=f"$d={d}$")
        if rows["bayes"].max() > LEAST:
            label = f"Bayes at most, $d={d}$"
            ax.plot(rows["share"], rows["bayes"], ":", color=colour, label=label)
    ax.axvline(0.25, color=GREY, ls="--", lw=1.0, label=r"$\log L = d/4$")
    gamma = table["gamma"].iloc[0]
    ax.set(xlabel=SHARE, ylabel=r"oracle's best risk, $/\,\gamma^2$", yscale="log")
    ax.set(ylim=(LEAST, 3), title=rf"$\gamma={gamma:g}$")
    ax.legend(fontsize=6, loc="upper left")


def _draw_warm(ax: Axes, table: Any) -> None:
    """The largest share that is learned from each kappa, up to the next one, which is not."""
    kappa = np.linspace(0, 1, 101)
    ax.plot(kappa, kappa**2 / 4, color=BLACK, lw=1.0, label=r"$\kappa_0^2/4$")
    gap = np.diff(np.unique(table["share"])).min()
    for (d, v), rows in table.groupby(["d", "v"]):
        colour, marker = BY_DIMENSION[d]
        learned = rows["share"].where(rows["risk"] < 0.5, 0.0).groupby(rows["kappa"]).max()
        is_random = v == "random"
        ax.errorbar(
            learned.index + (0.01 if is_random else -0.01), learned + gap / 2, gap / 2, fmt=marker,
            color=colour, mfc="white" if is_random else colour, ms=3.5, lw=1.0,
            label=f"$d={d}$, " + ("$v$ random" if is_random else r"$v=v^\star$"),
        )  # fmt: skip
    ax.set(xlabel=r"$\kappa_0$, at the start", ylabel=f"largest {SHARE} that is learned")
    ax.set_title(rf"$\lambda=\sqrt{{2\log L}}$, $\gamma={table['gamma'].iloc[0]:g}$")
    ax.set(xlim=(0, 1.05), ylim=(0, 0.34))
    ax.legend(fontsize=6.5, loc="upper left", ncols=2, columnspacing=1.0)


def _draw_steps(ax: Axes, table: Any) -> None:
    for d, of_d in table.groupby("d"):
        constant = of_d[of_d["training"] == "lambda constant"]
        for place, gamma in enumerate(SHOWN_GAMMAS):
            rows = constant[constant["gamma"] == gamma].sort_values("log_L")
            look: dict[str, Any] = {"color": COLOURS[place], "ms": 3.5}
            full = d == 100
            ax.plot(
                np.exp(rows["log_L"]), rows["steps_to_learn"], MARKERS[place],
                ls="-" if full else "--", mfc=COLOURS[place] if full else "white",
                label=rf"$\gamma={gamma:g}$" if full else None, **look,
            )  # fmt: skip
    learned = table[table["training"] == "lambda learned"].sort_values("log_L")
    lengths = np.exp(learned["log_L"])
    ax.plot(lengths, learned["steps_to_learn"], "*:", color=PURPLE, label=r"$\lambda$ learned")
    L = np.array([1e1, 1e4])
    ax.plot(L, 30 * L, color=GREY, lw=0.8, label=r"$\sim L$")
    ax.set(xscale="log", yscale="log", xlabel="$L$", ylabel="steps to learn (median)")
    ax.set(xlim=(6, 1e5), ylim=(50, 2e5))
    ax.set_title("filled: $d=100$, open: $d=1000$")
    ax.legend(fontsize=6.5, loc="lower right")


def _draw_times(ax: Axes, table: Any) -> None:
    for name, (label, colour, marker) in FLOWS.items():
        rows = table[table["curve"] == name].sort_values("d")
        bars = [rows["time"] - rows["low"], rows["high"] - rows["time"]]
        shares = dict.fromkeys(f"{share:.0%}" for share in rows["aligned"].agg(["min", "max"]))
        label = f"{label}: {' to '.join(shares)} align"
        ax.errorbar(
            rows["d"], rows["time"], bars, fmt=f"{marker}-", color=colour, ms=3.5, lw=1.0,
            capsize=2, label=label,
        )  # fmt: skip
    ax.set(xscale="log", xlabel="$d$", ylabel="time to align of the flow", ylim=(0, None))
    ax.set_title(r"$L=10$, $\gamma^2=1/2$")
    ax.legend(fontsize=6.5)
