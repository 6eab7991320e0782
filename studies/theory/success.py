"""Where training succeeds: a sweep over lambda and its decay, from the sphere."""

from dataclasses import dataclass

from studies.study import Result, Said, Tables, slr_study
from studies.theory.sweep import SweepOptions, compute, rows_folder


@dataclass(frozen=True, kw_only=True)
class Options(SweepOptions):
    runs: int | None = None
    """Number of runs per setting; None: 10, or 30 with --full."""
    full: bool = False
    """Train at 40 x 40 settings instead of 30 x 30."""


def run(options: Options) -> Result:
    from slr.dynamics.experiment import EXPERIMENTS
    from slr.sweep import cell_grid
    from studies.theory.sweep_figure import plot_sweep

    n_steps = 500 if options.smoke else EXPERIMENTS["pgd-small-lambda"].n_steps
    values = 6 if options.smoke else 40 if options.full else 30
    runs = options.runs or (4 if options.smoke else 30 if options.full else 10)
    axes = {"lam": f"0.01:3:{values}:log", "lam_decay": f"1e-5:1e-1:{values}:log"}
    fixed = {"n_steps": n_steps, "log_every": n_steps, "runs": runs, "seed": options.seed}
    grid = cell_grid(axes | fixed)
    table = compute(grid, options, "success").table
    figure = plot_sweep(table, grid)
    schedule = EXPERIMENTS["pgd-schedule"]
    place = (schedule.lam, schedule.lam_decay)
    figure.axes[0].plot(*place, "*", color="white", mec="black", ms=11)
    figure.axes[0].annotate(
        f"paper's schedule\n({schedule.n_steps:,} steps)", place, xytext=(0, 9), fontsize=7,
        textcoords="offset points", color="white", ha="center",
    )  # fmt: skip
    folder = rows_folder(options, "success")
    return Result({"success": table}, {"success": figure}, scratch=folder)


def says(tables: Tables) -> Said:
    table = tables["success"]
    share = table["share_aligned"]
    best = table[share == share.max()]
    lam, decay = best["lam"], best["lam_decay"]
    return [
        f"At least 95% of the runs align at {(share >= 0.95).sum()} of {len(table):,} settings. "
        f"The best share, {share.max():.2f}, is reached for lam from {lam.min():.2g} to "
        f"{lam.max():.2g} and decays from {decay.min():.2g} to {decay.max():.2g}."
    ]


STUDY = slr_study(
    __name__,
    "Where training succeeds",
    "The share of PGD runs that reach a global minimum, over lambda and its decay; to the right of "
    "the dashed line most runs are still unstable at the end.",
)
