"""Run experiments on the idealised model: the paper's, and what lies beyond it.

NAME is one of the paper's experiments (pgd-schedule, pgd-manifold, sgd-schedule, pgd-large-lambda,
pgd-small-lambda), or portrait (the flow on the manifold), yardsticks (Bayes, oracle, linear, zero
against d and L), scaling (steps to align for d up to 10^12), success (share of successful runs over
lam and its decay), layer (a whole attention layer, and what it does without its parts),
activations (the best risk of each attention against Bayes), conditional-mean (attention as
an estimate of E[value | key]: error against L), locations (several informative tokens),
noise-length (training over label noise, L and gamma), sweep (any grid of settings, on any number of
cores: --grid, --vary, --jobs, --cluster; one that was stopped goes on where it was);
paper (the paper's five) or all. Each writes a folder: tables (parquet), its settings and figures.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import sweep_study
import tyro
from code_version import code_sha256
from command_line import run
from layer_studies import layer, locations
from population_studies import activations, conditional_mean, noise_length
from run_directory import CONFIG, check_output, is_current, run_directory
from study import Result, progress_bar

PAPER = ("pgd-schedule", "pgd-manifold", "sgd-schedule", "pgd-large-lambda", "pgd-small-lambda")


@dataclass(frozen=True)
class Config:
    name: Annotated[str, tyro.conf.Positional] = "all"
    """What to run."""
    output: Path = Path("results/slr")
    """Folder for the results; each NAME gets a sub-folder."""
    runs: int | None = None
    """Number of repetitions (default: the paper's 30, or what a study can afford)."""
    seed: int = 0
    """Every result is a function of the seed and the other options."""
    d: int | None = None
    """Another dimension than the paper's (for its experiments, portrait, layer, locations)."""
    steps: int | None = None
    """Another number of steps (for the paper's experiments, layer, locations, noise-length)."""
    full: bool = False
    """All repetitions where the default has fewer to stay short (it takes minutes)."""
    smoke: bool = False
    """A quick pass over everything with few runs and steps, to see that it works."""
    grid: Path | None = None
    """The grid of the sweep, a TOML file: lists of values, crossed (default: lam x step_size)."""
    vary: tuple[str, ...] = ()
    """Or settings of the sweep as name=value,value,... or name=first:last:count[:log]."""
    jobs: int | None = None
    """Processes of the sweep (default: one a core)."""
    cluster: str | None = None
    """Address of a Dask scheduler that runs the sweep instead, such as tcp://host:8786."""
    overwrite: bool = False
    """Replace results that are already there; without it, those made alike are kept."""


def main(config: Config) -> None:
    groups = {"all": list(STUDIES), "paper": list(PAPER)}
    names = groups.get(config.name, [config.name])
    if config.name not in (*STUDIES, *groups):
        known = ", ".join((*STUDIES, *groups))
        raise ValueError(f"no experiment {config.name!r}; there are {known}")
    for name in names:
        folder, settings = config.output / name, settings_of(config, name)
        if not config.overwrite and is_current(folder, settings):
            print(f"{name}: unchanged, see {folder}")
            continue
        if not config.overwrite and (folder / CONFIG).exists():
            raise FileExistsError(f"{folder} was made with other settings; add --overwrite")
        check_output(folder, overwrite=config.overwrite)
        result = STUDIES[name](config, name)
        with run_directory(folder, settings, overwrite=config.overwrite) as partial:
            write(result, partial)
        if result.scratch:
            shutil.rmtree(result.scratch)
        print("\n".join(f"{name}: {line}" for line in [*result.lines, f"written to {folder}"]))


def settings_of(config: Config, name: str) -> dict[str, Any]:
    """What decides the result."""
    return {
        "code_sha256": code_sha256(__file__),
        "name": name,
        "runs": config.runs,
        "seed": config.seed,
        "d": config.d,
        "steps": config.steps,
        "full": config.full,
        "smoke": config.smoke,
    } | (sweep_study.settings_of(config) if name == "sweep" else {})


def write(result: Result, folder: Path) -> None:
    for stem, table in result.tables.items():
        table.to_parquet(folder / f"{stem}.parquet", index=False)
    for stem, figure in result.figures.items():
        figure.savefig(folder / f"{stem}.png")
        figure.savefig(folder / f"{stem}.pdf")


def paper_experiment(config: Config, name: str) -> Result:
    from slr.dynamics.experiment import EXPERIMENTS, run_experiment
    from slr.dynamics.trajectory import ALIGNMENT
    from slr.figures import plot_experiment

    experiment = EXPERIMENTS[name]
    if config.d is not None:
        experiment = replace(experiment, d=config.d)
    runs = config.runs or (4 if config.smoke else experiment.runs)
    n_steps = config.steps or (20 * experiment.log_every if config.smoke else experiment.n_steps)
    experiment = replace(experiment, runs=runs, n_steps=n_steps, seed=config.seed)
    with progress_bar(name, experiment.runs * n_steps) as progress:
        trajectory = run_experiment(experiment, progress=progress)
    # From the sphere with a small lam runs end at different points: bands would hide that.
    figure = plot_experiment(name, trajectory, bands=name != "pgd-small-lambda")
    swapped = trajectory.outcomes()["swapped"].sum()
    risk = trajectory.excess_risk[:, -1]
    lines = [
        f"{trajectory.aligned().sum()} of {runs} runs aligned (|kappa|, |nu| > {ALIGNMENT}; "
        f"{trajectory.aligned(0.99).sum()} above 0.99), {swapped} at k = +-v*, "
        f"{trajectory.diverged.sum()} diverged",
        f"final excess risk {min(risk):.4f} to {max(risk):.4f}; "
        f"largest final distance to M {trajectory.distance_to_manifold[:, -1].max():.2g}",
    ]
    return Result({"trajectory": trajectory.to_frame()}, {name: figure}, lines)


def portrait(config: Config, name: str) -> Result:
    import numpy as np
    import pandas as pd

    from slr import EXPERIMENTS, Overlaps, fixed_points, pgd
    from slr.figures import plot_portrait

    experiment = EXPERIMENTS["pgd-manifold"]
    task, lam = replace(experiment.task, d=config.d or experiment.d), experiment.lam
    # Random starts of R^d crowd around the saddle: these are spread over the square.
    rng = np.random.default_rng(config.seed)
    kappa, nu = rng.uniform(-0.95, 0.95, (2, config.runs or 16))
    start = Overlaps(kappa, nu, 0.0, 0.0, 0.0)
    step_size, n_steps = experiment.step_size, experiment.n_steps
    trajectory = pgd(task, start, lam=lam, step_size=step_size, n_steps=n_steps, log_every=20)
    points = fixed_points(task, lam)
    figure = plot_portrait(task, lam, points, trajectory)
    tables = {"fixed_points": pd.DataFrame(points), "trajectory": trajectory.to_frame()}
    lines = [f"{point.kind} at ({point.kappa:g}, {point.nu:g})" for point in points]
    return Result(tables, {name: figure}, lines)


def yardsticks(config: Config, name: str) -> Result:
    import math

    import numpy as np
    import pandas as pd

    from slr import yardsticks as y
    from slr.figures import plot_yardsticks
    from slr.task import Task

    n_samples = 2_000 if config.smoke else 100_000
    base = Task(d=400, L=10, gamma=math.sqrt(1 / 2))
    dimensions = [round(x) for x in np.geomspace(2, 10**6, 4 if config.smoke else 20)]
    lengths = [round(x) for x in np.geomspace(2, 1000, 4 if config.smoke else 16)]
    small = replace(base, d=20)  # small enough for Bayes to be imperfect
    rngs = np.random.default_rng(config.seed).spawn(2)
    tables = {}
    for axis, tasks, rng in (
        ("d", [replace(base, d=d) for d in dimensions], rngs[0]),
        ("L", [replace(small, L=L) for L in lengths], rngs[1]),
    ):
        rows = []
        with progress_bar(f"{name} against {axis}", len(tasks)) as progress:
            for task in tasks:
                bayes = y.bayes_excess_risk(task, n_samples, rng)
                lam = y.best_oracle_lam(task)
                row = {"d": task.d, "L": task.L, "gamma": task.gamma, "zero": task.gamma**2}
                row |= {"linear": y.linear_excess_risk(task), "oracle_lam": lam}
                row |= {"oracle": float(y.oracle_excess_risk(task, lam))}
                rows.append(row | {"bayes": bayes.value, "bayes_stderr": bayes.stderr})
                progress(1)
        tables[axis] = pd.DataFrame(rows)
    columns = {axis: {key: t[key].to_numpy() for key in t} for axis, t in tables.items()}
    caption = rf"$\gamma^2={base.gamma**2:g}$; (a) $L={base.L}$, (b) $d={small.d}$"
    figure = plot_yardsticks(columns, f"{caption}; bars: 2 standard errors")
    last = tables["d"].iloc[-1]
    lines = [f"at d = {int(last['d'])}: oracle {last['oracle']:.4f}, Bayes {last['bayes']:.2g}"]
    return Result({f"against_{axis}": t for axis, t in tables.items()}, {name: figure}, lines)


def scaling(config: Config, name: str) -> Result:
    import math

    import numpy as np
    import pandas as pd

    from slr.dynamics import scaling as s
    from slr.dynamics.experiment import EXPERIMENTS, run_experiment
    from slr.scaling_figures import plot_scaling

    top = 4 if config.smoke else 12
    powers = [10**p for p in range(2, top + 1)]
    base = EXPERIMENTS["pgd-small-lambda"]
    runs = config.runs or (4 if config.smoke else 30)
    studies = [("manifold", "pgd-manifold", powers, runs)]
    longest = 10**5 if config.full else 10**4  # steps from the sphere grow with d
    studies += [("sphere", "pgd-small-lambda", [d for d in powers if d <= longest], runs)]
    studies += [("sgd", "sgd-schedule", [80] if config.smoke else [80, 160, 320, 640], 4)]
    rows = []
    for curve, experiment_name, dimensions, n_runs in studies:
        for d in dimensions:
            experiment = s.scaled_experiment(experiment_name, d)
            experiment = replace(experiment, runs=n_runs, seed=config.seed)
            if config.smoke:
                experiment = replace(experiment, n_steps=20 * experiment.log_every)
            with progress_bar(f"{curve}, d = {d:.0e}", n_runs * experiment.n_steps) as progress:
                steps = run_experiment(experiment, progress=progress).steps_to_align()
            rows.append({"curve": curve, "d": d} | summary(steps))
    flow_runs = runs
    with progress_bar("gradient flow", len(powers) * flow_runs) as progress:
        for d, rng in zip(
            powers, np.random.default_rng(config.seed).spawn(len(powers)), strict=True
        ):
            experiment = s.scaled_experiment("pgd-small-lambda", d)
            times = s.flow_times_to_align(experiment.task, flow_runs, rng, experiment.lam)
            rows.append({"curve": "flow", "d": d} | summary(times / experiment.step_size))
            progress(flow_runs)
    limits = []
    for d in powers:
        task, lam = replace(base.task, d=d), base.lam * math.sqrt(base.d / d)
        measured, predicted = s.stability_limit(task, lam), s.predicted_stability_limit(task, lam)
        limits.append({"d": d, "lam": lam, "measured": measured, "predicted": predicted})
    tables = {"steps_to_align": pd.DataFrame(rows), "stability_limits": pd.DataFrame(limits)}
    figure = plot_scaling(tables["steps_to_align"], tables["stability_limits"])
    shown = [row for row in rows if row["curve"] in ("manifold", "flow") and row["d"] == powers[-1]]
    lines = [
        f"{row['curve']}, d = {row['d']:.0e}: {row['median']:.3g} steps (median), "
        f"{row['share']:.0%} of runs aligned"
        for row in shown
    ]
    return Result(tables, {name: figure}, lines)


def summary(steps: Any) -> dict[str, float]:
    """The share of runs that align, and median and 95% interval of the steps of those."""
    import numpy as np

    found = steps[np.isfinite(steps)]
    low, median, high = np.percentile(found, [2.5, 50, 97.5]) if len(found) else [float("nan")] * 3
    share = len(found) / len(steps)
    return {"runs": len(steps), "share": share, "median": median, "low": low, "high": high}


def success(config: Config, name: str) -> Result:
    import numpy as np
    import pandas as pd

    from slr.scaling_figures import plot_success_map
    from slr.sweep.cells import cell_grid, train_cell

    cells, n_steps = (6, 500) if config.smoke else (40 if config.full else 30, 20_000)
    runs = config.runs or (4 if config.smoke else 30 if config.full else 10)
    axes: dict[str, Any] = {"lam": np.geomspace(0.01, 3, cells).tolist()}
    axes |= {"lam_decay": np.geomspace(1e-5, 1e-1, cells).tolist(), "seed": config.seed}
    grid = cell_grid(axes | {"n_steps": n_steps, "log_every": n_steps, "runs": runs})
    with progress_bar(name, len(grid)) as progress:
        rows = []
        for settings in map(grid.cell, range(len(grid))):
            rows.append(settings | train_cell(settings))
            progress(1)
    columns = {"share_aligned": "share", "share_diverged": "diverged"}
    table = pd.DataFrame(rows).rename(columns=columns)
    best = table.loc[table["share"].idxmax()]
    lines = [
        f"{len(table)} cells of {runs} runs; best share {best['share']:.2f} "
        f"at lam = {best['lam']:.3g}, lam_decay = {best['lam_decay']:.2g}"
    ]
    return Result({"success": table}, {name: plot_success_map(table)}, lines)


def sweep(config: Config, name: str) -> Result:
    return Result(*sweep_study.run_sweep(config), scratch=sweep_study.parts_folder(config))


STUDIES: dict[str, Callable[[Config, str], Result]] = {
    **dict.fromkeys(PAPER, paper_experiment),
    "portrait": portrait,
    "yardsticks": yardsticks,
    "scaling": scaling,
    "success": success,
    "layer": layer,
    "activations": activations,
    "conditional-mean": conditional_mean,
    "locations": locations,
    "noise-length": noise_length,
    "sweep": sweep,
}

if __name__ == "__main__":
    run(main, Config, __doc__)
