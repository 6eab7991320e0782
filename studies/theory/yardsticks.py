"""Yardsticks for any predictor: the risks of Bayes, oracle, best linear and zero, by d and L."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.study import Figure, Result, Said, SlrOptions, Tables, progress_bar, slr_study

if TYPE_CHECKING:
    from slr.task import Task

Options = SlrOptions  # it has no others
TOKENS = 3_000_000  # per setting, for Bayes: its error bars are then smaller than its markers
REGIMES: dict[str, Callable[[int], int]] = {  # L by d, for Corollary 2
    "L = 10": lambda d: 10,
    "L = sqrt(d)": math.isqrt,
    "L = d": lambda d: d,
}


def run(options: Options) -> Result:
    from slr.task import Task

    most = 2_000 if options.smoke else 50_000  # sequences
    base = Task(d=400, L=10, gamma=math.sqrt(1 / 2))
    dimensions = [round(x) for x in np.geomspace(2, 10**6, 4 if options.smoke else 20)]
    lengths = [round(x) for x in np.geomspace(2, 1000, 4 if options.smoke else 16)]
    small = replace(base, d=20)  # small enough for Bayes to be imperfect
    rngs = np.random.default_rng(options.seed).spawn(3)
    tables = {}
    for axis, tasks, rng in (
        ("d", [replace(base, d=d) for d in dimensions], rngs[0]),
        ("L", [replace(small, L=L) for L in lengths], rngs[1]),
    ):
        rows = []
        with progress_bar(f"yardsticks against {axis}", len(tasks)) as progress:
            for task in tasks:
                row = {"d": task.d, "L": task.L, "gamma": task.gamma}
                rows.append(row | excess_risks(task, min(most, TOKENS // task.L), rng))
                progress(1)
        tables[f"against_{axis}"] = pd.DataFrame(rows)
    tables["corollary"] = corollary(base, most, rngs[2])
    caption = (
        rf"$\gamma^2={base.gamma**2:g}$; (a) $L={base.L}$, (b) $d={small.d}$, bars: 2 standard"
    )
    figure = plot_yardsticks(tables, f"{caption} errors; (c) dotted: predicted rate")
    return Result(tables, {"yardsticks": figure})


def corollary(base: "Task", n_samples: int, rng: Any) -> pd.DataFrame:
    """The best oracle as d grows, for each regime of L: Corollary 2 needs both columns of lam.

    Bayes is too small to be simulated there; ``bayes_at_most`` bounds it.
    """
    from slr import yardsticks as y

    rows = []
    for regime, length in REGIMES.items():
        for d in 10 ** np.arange(2, 13):
            task = replace(base, d=int(d), L=length(int(d)))
            lam = y.best_oracle_lam(task)
            row = {"regime": regime, "d": task.d, "L": task.L, "lam": lam}
            row |= {"lam_sqrt_L": lam * task.L**0.5, "lam_sqrt_d": lam * task.d**0.5}
            row["oracle"] = float(y.oracle_excess_risk(task, lam))
            row["bayes_at_most"] = y.bayes_at_most(task, n_samples, rng).value
            # The rate is that of d far larger than L.
            row["predicted"] = math.nan if regime == "L = d" else y.oracle_rate(task)
            rows.append(row)
    return pd.DataFrame(rows)


def excess_risks(task: Any, n_samples: int, rng: Any) -> dict[str, float]:
    """Excess risks of guessing 0, the best linear predictor, the best erf oracle, and Bayes."""
    from slr import yardsticks as y

    bayes, lam = y.bayes_excess_risk(task, n_samples, rng), y.best_oracle_lam(task)
    return {
        "zero": y.zero_excess_risk(task),
        "linear": y.linear_excess_risk(task),
        "oracle_lam": lam,
        "oracle": float(y.oracle_excess_risk(task, lam)),
        "bayes": bayes.value,
        "bayes_stderr": bayes.stderr,
    }


def plot_yardsticks(tables: Mapping[str, Any], caption: str) -> Figure:
    """Excess risk of the yardsticks against d and against L, and of the oracle as both grow.

    ``tables["against_d"]`` and ``["against_L"]`` have a column per yardstick and ``bayes_stderr``;
    ``tables["corollary"]`` has regime, d, oracle and predicted.
    """
    from slr.figures import COLOURS, MARKERS, YARDSTICK_STYLES, journal_style, panels

    with journal_style():
        figure, axes = panels(1, 3, (10.0, 3.2))
        for ax, name in zip(axes, "dL", strict=False):
            table = tables[f"against_{name}"]
            for key, (label, colour, style) in YARDSTICK_STYLES.items():
                if key == "bayes":
                    shown = table[table["bayes"] > 1e-4]
                    error = 2 * shown["bayes_stderr"]
                    ax.errorbar(
                        shown[name], shown["bayes"], error, fmt="o", color=colour, ms=3.5,
                        label=f"{label} (Monte-Carlo)",
                    )  # fmt: skip
                else:
                    ax.plot(table[name], table[key], ls=style, color=colour, label=label)
            ax.set(xscale="log", yscale="log", xlabel=f"${name}$", ylabel="excess risk")
            ax.set_ylim(1e-4, 1)
        axes[1].legend(loc="lower right")  # where nothing is drawn
        regimes = tables["corollary"].groupby("regime", sort=False)
        for (regime, rows), colour, marker in zip(regimes, COLOURS, MARKERS, strict=False):
            label = "$" + regime.replace("sqrt(d)", r"\sqrt{d}") + "$"
            axes[2].plot(rows["d"], rows["oracle"], marker, color=colour, ms=4, label=label)
            axes[2].plot(rows["d"], rows["predicted"], ":", color=colour, lw=1.0)
        axes[2].set(xscale="log", yscale="log", xlabel="$d$", ylabel="excess risk of the oracle")
        axes[2].legend(loc="lower left")
        figure.suptitle(caption, fontsize=9)
        return figure


def says(tables: Tables) -> Said:
    table = tables["against_d"]
    shown = table.iloc[[0, len(table) // 2, -1]]
    shown = shown.set_index("d")[["zero", "linear", "oracle", "bayes", "bayes_stderr"]]
    growing = tables["corollary"]
    growing = growing[np.log10(growing["d"]).isin([2, 6, 12])].set_index(["regime", "d"])
    formats = {"lam_sqrt_L": "{:.2g}", "lam_sqrt_d": "{:.2g}"}
    formats |= dict.fromkeys(("oracle", "predicted", "bayes_at_most"), "{:.1e}")
    texts = {name: growing[name].map(style.format) for name, style in formats.items()}
    texts["predicted"] = texts["predicted"].where(growing["predicted"].notna(), "")
    return [
        "Excess risks at three dimensions:",
        shown.map("{:.4f}".format),
        "Corollary 2, with lam at its best: the oracle reaches Bayes if lam sqrt(L) tends to 0 and "
        "lam sqrt(d) to infinity. Excess risk of the oracle, its predicted rate, and a bound of "
        "Bayes:",
        pd.DataFrame(texts),
    ]


STUDY = slr_study(
    __name__,
    "How good can one be?",
    "Excess risk of the zero predictor, the best linear one, the erf oracle at its best "
    "lambda, and Bayes, (a) against the dimension d and (b) against the length L; (c) the oracle "
    "as d grows, for three lengths.",
)
