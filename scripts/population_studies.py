"""Studies of run_slr.py on the idealised model beyond the paper. (Heavy imports wait inside.)"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from study import Result, progress_bar

if TYPE_CHECKING:
    from run_slr import Config

# What is drawn: (activation, threshold fitted too).
DRAWN = {
    "softmax": ("softmax", False),
    "sigmoid, threshold": ("sigmoid", True),
    "relu, threshold": ("relu", True),
    "relu": ("relu", False),
    "erf": ("erf", False),
    "linear": ("linear", False),
    "sigmoid": ("sigmoid", False),
}


def activations(config: "Config", name: str) -> Result:
    """The best excess risk of each attention against d, L and gamma, with Bayes."""
    import numpy as np
    import pandas as pd

    from slr.population_figures import plot_activations
    from slr.task import Task

    n_samples = 500 if config.smoke else 200_000 if config.full else 20_000
    points = 2 if config.smoke else 9  # odd: gamma = 1 is one of them
    base = Task(d=20, L=10, gamma=1.0)
    axes: dict[str, list[Any]] = {
        "d": sorted({round(x) for x in np.geomspace(2, 48, points)}),  # beyond, softmax never errs
        "L": sorted({round(x) for x in np.geomspace(2, 100, points)}),
        "gamma": [float(x) for x in np.geomspace(0.5, 2, points)],
    }
    total = sum(len(values) for values in axes.values())
    rngs = iter(np.random.default_rng(config.seed).spawn(total))
    rows = []
    with progress_bar(name, total) as progress:
        for axis, values in axes.items():
            for value in values:
                task = replace(base, **{axis: value})
                rows += [{"axis": axis, **row} for row in best_rows(task, n_samples, next(rngs))]
                progress(1)
    table = pd.DataFrame(rows)
    caption = (
        rf"best over $\lambda$, scale of $v$ (and threshold), at $k^\star, v^\star$: $d={base.d}$,"
        rf" $L={base.L}$, $\gamma={base.gamma:g}$ but for the axis; {n_samples:,} samples,"
        " bars: 2 standard errors"
    )
    figure = plot_activations(table, DRAWN, caption)
    at_one = table[(table["axis"] == "d") & (table["attention"].isin(["softmax", "bayes"]))]
    wide = at_one.pivot_table(index="d", columns="attention", values=["excess_risk", "stderr"])
    gap = (wide["excess_risk"]["softmax"] - wide["excess_risk"]["bayes"]).abs()
    error = np.hypot(wide["stderr"]["softmax"], wide["stderr"]["bayes"])
    top = table[(table["axis"] == "d") & (table["d"] == max(axes["d"]))]
    lines = [
        f"softmax against Bayes at gamma = 1, d = {min(axes['d'])} to {max(axes['d'])}: "
        f"at most {(gap / error).max():.1f} standard errors apart",
        f"at d = {max(axes['d'])}, L = {base.L}, gamma = 1: "
        + ", ".join(f"{row.attention} {row.excess_risk:.4f}" for row in top.itertuples()),
    ]
    return Result({"activations": table}, {name: figure}, lines)


def best_rows(task: Any, n_samples: int, rng: Any) -> list[dict[str, Any]]:
    """One row an attention, and one for Bayes."""
    from slr.activations import best_attention
    from slr.yardsticks import bayes_excess_risk

    setting = {"d": task.d, "L": task.L, "gamma": task.gamma}
    bayes = bayes_excess_risk(task, n_samples, rng)
    rows = [setting | {"attention": "bayes", "excess_risk": bayes.value, "stderr": bayes.stderr}]
    for label, (activation, fit_threshold) in DRAWN.items():
        found = best_attention(activation, task, n_samples, rng, fit_threshold=fit_threshold)  # type: ignore[arg-type]
        risk = {"excess_risk": found.excess_risk.value, "stderr": found.excess_risk.stderr}
        at = {"lam": found.lam, "threshold": found.threshold, "scale": found.scale}
        rows.append(setting | {"attention": label} | risk | {"mass": found.mass} | at)
    return rows
