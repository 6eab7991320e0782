"""Where training succeeds: a sweep over lambda and its decay, from the sphere.

The best of many cells is best partly by luck, so fresh runs at the best cells (and at the paper's
schedule) say how often they really align.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.bounds import Count
from studies.study import Figure, Result, Said, Tables, progress_bar, slr_study
from studies.theory.sweep import SweepOptions, compute, rows_folder

if TYPE_CHECKING:
    from slr.dynamics.experiment import Experiment

BEST = 9  # cells that are confirmed, at most
FRESH_RUNS = 300  # at each of them


@dataclass(frozen=True, kw_only=True)
class Options(SweepOptions):
    runs: Count | None = None
    """Number of runs per setting; None: 30, as in the paper."""


def run(options: Options) -> Result:
    from slr.dynamics.experiment import EXPERIMENTS
    from slr.sweep import cell_grid
    from studies.theory.figures.sweep import plot_sweep

    schedule = EXPERIMENTS["pgd-schedule"]
    n_steps = 500 if options.smoke else schedule.n_steps
    values = 6 if options.smoke else 30
    runs = options.runs or (4 if options.smoke else schedule.runs)
    axes = {"lam": f"0.01:3:{values}:log", "lam_decay": f"1e-5:1e-1:{values}:log"}
    fixed = {"n_steps": n_steps, "log_every": n_steps, "runs": runs, "seed": options.seed}
    grid = cell_grid(axes | fixed)
    table = compute(grid, options, "success").table
    base = replace(schedule, n_steps=n_steps, log_every=n_steps, seed=options.seed + 1)
    base = replace(base, runs=6 if options.smoke else FRESH_RUNS)
    confirmed = confirm(best_cells(table), base)
    figure = plot_sweep(table, grid)
    mark(figure, confirmed)
    tables = {"success": table, "confirmed": confirmed}
    return Result(tables, {"success": figure}, scratch=rows_folder(options, "success"))


def best_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The cells with the largest share of aligned runs; of many equal ones, some of each region."""
    best = table[table["share_aligned"] == table["share_aligned"].max()]
    places = np.linspace(0, len(best) - 1, min(BEST, len(best))).round().astype(int)
    return best.iloc[places]


def confirm(cells: pd.DataFrame, schedule: "Experiment") -> pd.DataFrame:
    """Shares of fresh runs that align, with 95% intervals: at cells of the map, and the paper's."""
    from scipy.stats import binomtest

    from slr.dynamics.experiment import run_experiment
    from slr.sweep.cells import seed_sequence

    places = [(row.lam, row.lam_decay, row.share_aligned) for row in cells.itertuples()]
    places.append((schedule.lam, schedule.lam_decay, np.nan))
    rows: list[dict[str, Any]] = []
    with progress_bar("fresh runs", len(places) * schedule.runs * schedule.n_steps) as progress:
        for lam, lam_decay, on_the_map in places:
            fresh = replace(schedule, lam=lam, lam_decay=lam_decay)
            rng = np.random.default_rng(seed_sequence(fresh))
            trajectory = run_experiment(fresh, rng=rng, progress=progress)
            aligned = int(trajectory.aligned().sum())
            interval = binomtest(aligned, fresh.runs).proportion_ci()
            rows.append(
                {
                    "lam": lam,
                    "lam_decay": lam_decay,
                    "paper": np.isnan(on_the_map),
                    "on_the_map": on_the_map,
                    "runs": fresh.runs,
                    "aligned": aligned,
                    "low": interval.low,
                    "high": interval.high,
                }
            )
    return pd.DataFrame(rows)


def mark(figure: Figure, confirmed: pd.DataFrame) -> None:
    """Mark the paper's schedule on the map, and the cells that were confirmed."""
    ax = figure.axes[0]
    cells, paper = confirmed[~confirmed["paper"]], confirmed[confirmed["paper"]].iloc[0]
    ax.plot(cells["lam"], cells["lam_decay"], "o", mfc="none", mec="black", ms=5)
    place = (paper["lam"], paper["lam_decay"])
    ax.plot(*place, "*", color="white", mec="black", ms=11)
    ax.annotate(
        "paper's schedule", place, xytext=(-9, 0), textcoords="offset points", fontsize=7,
        ha="right", va="center", bbox={"fc": "white", "ec": "none", "alpha": 0.7, "pad": 1.5},
    )  # fmt: skip


def says(tables: Tables) -> Said:
    table, confirmed = tables["success"], tables["confirmed"]
    share, runs = table["share_aligned"], table["runs"].iloc[0]
    best = table[share == share.max()]
    cells, paper = confirmed[~confirmed["paper"]], confirmed[confirmed["paper"]].iloc[0]
    shown = confirmed.assign(
        lam=confirmed["lam"].map("{:.3g}".format),
        decay=confirmed["lam_decay"].map("{:.3g}".format),
        map=[
            "(the paper's schedule)" if np.isnan(p) else f"{p * runs:.0f} of {runs}"
            for p in confirmed["on_the_map"]
        ],
        fresh=[
            f"{row.aligned} of {row.runs} [{row.low:.3f}, {row.high:.3f}]"
            for row in confirmed.itertuples()
        ],
    )
    names = {"lam": "lambda at the start", "map": "aligned on the map", "fresh": "fresh runs"}
    return [
        f"At least 95% of the {runs} runs align at {(share >= 0.95).sum()} of {len(table):,} "
        f"settings, within {table['n_steps'].iloc[0]:,} steps. The best share, {share.max():.2f}, "
        f"is reached at {len(best)} settings, with lam from {best['lam'].min():.2g} to "
        f"{best['lam'].max():.2g} and decays from {best['lam_decay'].min():.2g} to "
        f"{best['lam_decay'].max():.2g}. The best of {len(table):,} settings is best partly by "
        f"luck: of {paper['runs']} fresh runs at each of {len(cells)} of them, "
        f"{cells['aligned'].min()} to {cells['aligned'].max()} align, and "
        f"{paper['aligned']} at the paper's schedule (95% intervals in the table).",
        shown[["lam", "decay", "map", "fresh"]].rename(columns=names).set_index(names["lam"]),
    ]


STUDY = slr_study(
    __name__,
    "Where training succeeds",
    "The share of PGD runs that align, over lambda and its decay; to the right of the dashed line "
    "most runs are still unstable at the end. Circles: settings that were confirmed on fresh runs.",
)
