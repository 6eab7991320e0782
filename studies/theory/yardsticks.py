"""Yardsticks for any predictor: the risks of Bayes, oracle, best linear and zero, by d and L."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from studies.study import Claim, Figure, Result, Said, SlrOptions, Tables, progress_bar, slr_study

Options = SlrOptions  # it has no others


def run(options: Options) -> Result:
    from slr.task import Task

    n_samples = 2_000 if options.smoke else 100_000
    base = Task(d=400, L=10, gamma=math.sqrt(1 / 2))
    dimensions = [round(x) for x in np.geomspace(2, 10**6, 4 if options.smoke else 20)]
    lengths = [round(x) for x in np.geomspace(2, 1000, 4 if options.smoke else 16)]
    small = replace(base, d=20)  # small enough for Bayes to be imperfect
    rngs = np.random.default_rng(options.seed).spawn(2)
    tables = {}
    for axis, tasks, rng in (
        ("d", [replace(base, d=d) for d in dimensions], rngs[0]),
        ("L", [replace(small, L=L) for L in lengths], rngs[1]),
    ):
        rows = []
        with progress_bar(f"yardsticks against {axis}", len(tasks)) as progress:
            for task in tasks:
                row = {"d": task.d, "L": task.L, "gamma": task.gamma}
                rows.append(row | excess_risks(task, n_samples, rng))
                progress(1)
        tables[axis] = pd.DataFrame(rows)
    caption = rf"$\gamma^2={base.gamma**2:g}$; (a) $L={base.L}$, (b) $d={small.d}$"
    figure = plot_yardsticks(tables, f"{caption}; bars: 2 standard errors")
    named = {f"against_{axis}": table for axis, table in tables.items()}
    return Result(named, {"yardsticks": figure})


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
    """Excess risk of the yardsticks against d and against L.

    ``tables["d"]`` and ``tables["L"]`` have a column of that name, one per yardstick, and
    ``bayes_stderr``.
    """
    from slr.figures import YARDSTICK_STYLES, journal_style, panels

    with journal_style():
        figure, axes = panels(1, 2, (7.0, 3.0))
        for ax, (name, table) in zip(axes, tables.items(), strict=True):
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
        figure.suptitle(caption, fontsize=9)
        return figure


def claims(tables: Tables) -> Iterator[Claim]:
    last = tables["against_d"].iloc[-1]
    gap = last["oracle"] - last["bayes"]
    yield Claim(
        claim=f"excess risk of the oracle minus that of Bayes, d = {last['d']:.0f}",
        paper="tends to 0 (Corollary 2)",
        required="below 0.001",
        measured=f"{gap:.1e}",
        passed=bool(gap < 0.001),
    )
    last = tables["against_L"].iloc[-1]
    share = last["linear"] / last["zero"]
    yield Claim(
        claim=f"risk of the best linear predictor relative to guessing 0, L = {last['L']:.0f}",
        paper="tends to 1 (Proposition 3)",
        required="above 0.99",
        measured=f"{share:.4f}",
        passed=bool(share > 0.99),
    )


def says(tables: Tables) -> Said:
    table = tables["against_d"]
    shown = table.iloc[[0, len(table) // 2, -1]]
    shown = shown.set_index("d")[["zero", "linear", "oracle", "bayes", "bayes_stderr"]]
    return ["Excess risks at three dimensions:", shown.map("{:.4f}".format)]


STUDY = slr_study(
    __name__,
    "How good can one be?",
    "Excess risk of the zero predictor, the best linear one, the erf oracle at its best "
    "lambda, and Bayes, against the dimension d and the length L.",
)
