"""Theory beside practice: the same quantities for the idealised model and for the Transformer."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slr.attentions.best import expected_attention_mass
from slr.dynamics.experiment import EXPERIMENTS, run_experiment
from slr.yardsticks import bayes_excess_risk, zero_excess_risk

QUANTITIES = {  # column: what it is called in tables and figures
    "kappa": "alignment of k, |kappa|",
    "nu": "alignment of v, |nu|",
    "rho": "|rho| = |k . v|",
    "distance_to_manifold": "distance to the manifold",
    "attention_mass": "attention on the informative token",
    "relative_error": "error, from 1 (knows nothing) to 0 (best possible)",
}
LEVEL = 0.9  # an alignment above it counts as learned


def theory_curves(name: str = "pgd-schedule", *, n_logged: int = 60) -> pd.DataFrame:
    """One of the paper's experiments, one row a run and step, with the Transformer's columns.

    relative_error is the excess risk above that of Bayes, over the same of the zero predictor.
    """
    experiment = EXPERIMENTS[name]
    trajectory = run_experiment(experiment)
    task = experiment.task
    bayes = bayes_excess_risk(task, 100_000, np.random.default_rng(0)).value
    zero = zero_excess_risk(task)
    table = trajectory.to_frame()
    # Early steps closer together, as in the Transformer's snapshots.
    last = len(trajectory.step) - 1
    kept = {round(last * (i / (n_logged - 1)) ** 1.5) for i in range(n_logged)}
    table = table[table["step"].isin(trajectory.step[sorted(kept)])].reset_index(drop=True)
    table["attention_mass"] = expected_attention_mass(
        task, table["kappa"].to_numpy(), table["lam"].to_numpy()
    )
    table["relative_error"] = (table["excess_risk"] - bayes) / (zero - bayes)
    return table


def start_and_end(curves: pd.DataFrame, by: str) -> pd.DataFrame:
    """Each quantity at the first and the last step: median and 95% range over ``by``."""
    rows = []
    ends = {"start": curves["step"].min(), "end": curves["step"].max()}
    for when, step in ends.items():
        part = curves[curves["step"] == step]
        for column in QUANTITIES:
            values = part[column].abs()
            low, high = np.quantile(values, [0.025, 0.975])
            rows.append(
                {
                    "quantity": column,
                    "when": when,
                    "median": float(values.median()),
                    "low": float(low),
                    "high": float(high),
                    "n": part[by].nunique(),
                }
            )
    return pd.DataFrame(rows)


def order_of_learning(curves: pd.DataFrame, by: str) -> pd.DataFrame:
    """For each seed or run: the share of the training after which v, and k, stay aligned."""
    from probing.circuits.learning import first_above

    rows = []
    for key, part in curves.groupby(by):
        last = part["step"].max()
        steps = {name: first_above(part, name, LEVEL) / last for name in ("kappa", "nu")}
        rows.append({by: key, "k": steps["kappa"], "v": steps["nu"]})
    return pd.DataFrame(rows)
