"""Where training succeeds: a sweep over lambda and its decay, from the sphere."""

from dataclasses import dataclass
from typing import Any

from studies.study import Figure, Result, Said, Tables, slr_study
from studies.theory.sweep import SweepOptions, compute, rows_folder


@dataclass(frozen=True, kw_only=True)
class Options(SweepOptions):
    runs: int | None = None
    """Runs per setting (default: 10, with --full 30)."""
    full: bool = False
    """40 x 40 settings instead of 30 x 30."""


def run(options: Options) -> Result:
    from slr.dynamics.experiment import EXPERIMENTS
    from slr.sweep.cells import cell_grid

    n_steps = 500 if options.smoke else EXPERIMENTS["pgd-small-lambda"].n_steps
    values = 6 if options.smoke else 40 if options.full else 30
    runs = options.runs or (4 if options.smoke else 30 if options.full else 10)
    axes = {"lam": f"0.01:3:{values}:log", "lam_decay": f"1e-5:1e-1:{values}:log"}
    fixed = {"n_steps": n_steps, "log_every": n_steps, "runs": runs, "seed": options.seed}
    swept = compute(cell_grid(axes | fixed), options, "success")
    figures = {"success": plot_success(swept.table)}
    return Result({"success": swept.table}, figures, scratch=rows_folder(options, "success"))


def plot_success(table: Any) -> Figure:
    """The share of runs that align, over lam and lam_decay."""
    from slr.dynamics.experiment import EXPERIMENTS
    from slr.dynamics.trajectory import ALIGNMENT
    from slr.figures import journal_style, panels

    share, diverged = (
        table.pivot_table(index="lam_decay", columns="lam", values=name)
        for name in ("share_aligned", "share_diverged")
    )
    schedule = (EXPERIMENTS["pgd-schedule"].lam, EXPERIMENTS["pgd-schedule"].lam_decay)
    cell = table.iloc[0]
    with journal_style():
        figure, (ax,) = panels(1, 1, (5.4, 4.2))
        ax.grid(visible=False)
        axes = share.columns.to_numpy(), share.index.to_numpy()
        image = ax.pcolormesh(*axes, share, cmap="cividis", vmin=0, vmax=1, shading="nearest")
        unstable = diverged.to_numpy() > 0.5
        if unstable.any() and not unstable.all():
            ax.contour(*axes, diverged, levels=[0.5], colors="white", linestyles="--", linewidths=1)
        ax.plot(*schedule, "*", color="white", mec="black", ms=11)
        ax.annotate(
            "paper's schedule\n(120 000 steps)", schedule, xytext=(0, -16), fontsize=7,
            textcoords="offset points", color="white", va="center", ha="center",
        )  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel=r"$\lambda_0$", ylabel=r"decay of $\lambda$")
        figure.colorbar(image, label=rf"share of runs with $|\kappa|, |\nu| > {ALIGNMENT}$")
        figure.suptitle(
            rf"PGD from the sphere: $d={cell['d']}$, $L={cell['L']}$, step size "
            rf"{cell['step_size']:g}, {cell['n_steps']} steps; {share.size} cells, "
            f"{cell['runs']} runs each\n"
            "dashed: to the right of it most runs are still unstable at the end",
            fontsize=8,
        )
        return figure


def says(tables: Tables) -> Said:
    table = tables["success"]
    share = table["share_aligned"]
    best = table[share == share.max()]
    lam, decay = best["lam"], best["lam_decay"]
    return [
        f"Of {len(table):,} settings {(share >= 0.95).sum()} have at least 95% of their runs "
        f"aligned. The best share, {share.max():.2f}, is reached for lam from {lam.min():.2g} to "
        f"{lam.max():.2g} and decays from {decay.min():.2g} to {decay.max():.2g}."
    ]


STUDY = slr_study(
    __name__,
    "Where training succeeds",
    "The share of PGD runs that reach a global minimum, over lambda and its decay.",
)
