"""The gradient flow on the invariant manifold, its fixed points, and runs of PGD on it."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from studies.bounds import Count, Dimension
from studies.study import Result, Said, SlrOptions, Tables, slr_study

LOG_EVERY = 20


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    runs: Count = 16
    """Number of runs that are drawn."""
    d: Dimension = 400
    """Dimension; the default is the paper's."""


def run(options: Options) -> Result:
    from slr import EXPERIMENTS, Overlaps, fixed_points, pgd
    from slr.figures import plot_portrait

    experiment = EXPERIMENTS["pgd-manifold"]
    task, lam = replace(experiment.task, d=options.d), experiment.lam
    # Random starts of R^d crowd around the saddle: these are spread over the square.
    rng = np.random.default_rng(options.seed)
    kappa, nu = rng.uniform(-0.95, 0.95, (2, options.runs))
    start = Overlaps(kappa, nu, 0.0, 0.0, 0.0)
    step_size, n_steps = experiment.step_size, experiment.n_steps
    trajectory = pgd(
        task, start, lam=lam, step_size=step_size, n_steps=n_steps, log_every=LOG_EVERY
    )
    points = fixed_points(task, lam)
    figure = plot_portrait(task, lam, points, trajectory)
    tables = {"fixed_points": pd.DataFrame(points), "trajectory": trajectory.to_frame()}
    return Result(tables, {"portrait": figure})


def says(tables: Tables) -> Said:
    points = tables["fixed_points"].round(3).set_index("kind")
    return ["Fixed points of the flow on the invariant manifold:", points]


STUDY = slr_study(
    __name__,
    "The flow on the manifold",
    "Streamlines of the gradient flow in the (kappa, nu) square, its five fixed points, and "
    "runs of PGD on it.",
)
