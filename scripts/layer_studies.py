"""Studies of run_slr.py that train whole attention layers. (Heavy imports wait inside.)"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from study import Result, progress_bar

if TYPE_CHECKING:
    from run_slr import Config

FULL_RUNS = 20  # the paper's


def layer(config: "Config", name: str) -> Result:
    """The paper's softmax layer by step, and the end of training without one part or another."""
    import pandas as pd

    from slr.attentions.layer import ARCHITECTURES
    from slr.attentions.layer_training import LayerTraining, train_layers
    from slr.layer_figures import plot_layer
    from slr.task import Task

    task = Task(d=config.d or 80, L=10, gamma=math.sqrt(1 / 2), noise_std=0.1)
    runs, variant_runs, n_steps, variant_steps = (
        (2, 1, 20, 10) if config.smoke else (FULL_RUNS, FULL_RUNS, 8000, 4000) if config.full
        else (4, 2, 8000, 700)
    )  # fmt: skip
    runs, variant_runs = config.runs or runs, config.runs or variant_runs
    n_steps = config.steps or n_steps
    paper = LayerTraining(task, n_steps=n_steps, log_every=max(1, n_steps // 40), seed=config.seed)
    paper = replace(paper, n_test=200) if config.smoke else paper
    with progress_bar("softmax layer", runs * n_steps) as progress:
        trained = train_layers(paper, range(runs), progress)
    # Adam, as some gates hardly move under the SGD that suits the softmax.
    short = replace(paper, optimiser="adam", step_size=1e-3, n_steps=variant_steps)
    short = replace(short, log_every=max(1, variant_steps // 10))
    variants = {}
    with progress_bar("without a part", len(ARCHITECTURES) * variant_runs * variant_steps) as bar:
        for label, architecture in ARCHITECTURES.items():
            training = replace(short, architecture=architecture)
            variants[label] = train_layers(training, range(variant_runs), bar)
    frames = [found.to_frame().assign(architecture=label) for label, found in variants.items()]
    yardsticks = task_yardsticks(task, config)
    few = "" if config.full else f" ({FULL_RUNS} with --full)"
    caption = (
        f"{task_in_words(task)}; (a-c) SGD, {runs} runs{few}, median and 95% percentile band\n"
        f"(d) Adam, {variant_steps} steps, {variant_runs} runs{few}"
    )
    figure = plot_layer(trained, variants, yardsticks, caption)
    final = {key: getattr(trained, key)[:, -1] for key in ("excess_risk", "mass", "key_cosine")}
    lines = [
        f"softmax, {runs} runs: {spread('excess risk', final['excess_risk'])}, "
        f"{spread('attention mass', final['mass'])}, {spread('cos(key, k*)', final['key_cosine'])}",
        ", ".join(f"{key} {value:.4g}" for key, value in yardsticks.items()),
        *(f"{label}, Adam, {variant_runs} runs: {ends(x)}" for label, x in variants.items()),
    ]
    tables = {
        "layer": trained.to_frame(),
        "architectures": pd.concat(frames, ignore_index=True),
        "yardsticks": pd.DataFrame([yardsticks]),
    }
    return Result(tables, {name: figure}, lines)


def locations(config: "Config", name: str) -> Result:
    """R informative tokens: the best attentions, Bayes, and a trained layer, against R."""
    import numpy as np
    import pandas as pd

    from slr.attentions.layer_training import LayerTraining, train_layers
    from slr.population_figures import plot_locations
    from slr.task import Task

    task = Task(d=config.d or 40, L=10, gamma=math.sqrt(1 / 2), noise_std=0.1)
    n_samples = 500 if config.smoke else 50_000
    runs, n_steps = (1, 5) if config.smoke else (FULL_RUNS, 4000) if config.full else (3, 600)
    runs, n_steps = config.runs or runs, config.steps or n_steps
    numbers = [1, 2] if config.smoke else list(range(1, task.L))
    rows = []
    with progress_bar("best attentions", len(numbers)) as progress:
        for R, rng in zip(
            numbers, np.random.default_rng(config.seed).spawn(len(numbers)), strict=True
        ):
            rows += location_rows(task, R, n_samples, rng)
            progress(1)
    training = LayerTraining(task, optimiser="adam", step_size=1e-3, n_steps=n_steps)
    training = replace(
        training, log_every=n_steps, seed=config.seed, n_test=200 if config.smoke else 2000
    )
    trained = [R for R in numbers if R in (1, 2, 3, 5, 8)]
    with progress_bar("layers", len(trained) * runs * n_steps) as progress:
        for R in trained:
            found = train_layers(replace(training, n_informative=R), range(runs), progress)
            risk = found.excess_risk[:, -1] * R / task.gamma**2
            low, middle, high = np.percentile(risk, [2.5, 50, 97.5])
            row = {"attention": "layer", "n_informative": R, "relative_risk": middle}
            rows.append(row | {"low": low, "high": high, "mass": found.mass[:, -1].mean()})
    table = pd.DataFrame(rows)
    few = "" if config.full else f" ({FULL_RUNS} and 4000 with --full)"
    caption = (
        f"{task_in_words(task)}, $Y$ the mean of $R$ values; attentions at their best, 2 standard"
        f" errors\nlayer: Adam, {runs} runs, {n_steps} steps{few}, median and 95% interval"
    )
    lines = [
        f"R = {R}: "
        + ", ".join(
            f"{r.attention} {r.relative_risk:.4f}"
            + ("" if np.isnan(r.mass) else f" (mass {r.mass:.2f})")
            for r in table[table["n_informative"] == R].itertuples()
        )
        for R in trained
    ]
    return Result({"locations": table}, {name: plot_locations(table, caption)}, lines)


def location_rows(task: Any, R: int, n_samples: int, rng: Any) -> list[dict[str, Any]]:
    """Excess risks over that of the zero predictor, gamma^2/R."""
    from slr.attentions.best import best_attention
    from slr.yardsticks import bayes_excess_risk

    zero = task.gamma**2 / R
    found = {"bayes": (bayes_excess_risk(task, n_samples, rng, R), math.nan)}
    for name in ("softmax", "sigmoid, threshold", "erf", "uniform"):
        activation: Any = name.split(",")[0]
        options: dict[str, Any] = {"fit_threshold": "threshold" in name, "n_informative": R}
        best = best_attention(task, activation, n_samples, rng, **options)
        found[name] = (best.excess_risk, best.mass)
    return [
        {"attention": name, "n_informative": R, "relative_risk": risk.value / zero, "mass": mass}
        | {
            "low": (risk.value - 2 * risk.stderr) / zero,
            "high": (risk.value + 2 * risk.stderr) / zero,
        }
        for name, (risk, mass) in found.items()
    ]


def task_yardsticks(task: Any, config: "Config") -> dict[str, float]:
    """Excess risks to compare with: zero, best linear, erf oracle at its best lam, Bayes."""
    import numpy as np

    from slr import yardsticks as y

    n_samples = 2_000 if config.smoke else 100_000
    bayes = y.bayes_excess_risk(task, n_samples, np.random.default_rng(config.seed))
    return {
        "zero": y.zero_excess_risk(task),
        "linear": y.linear_excess_risk(task),
        "oracle": float(y.oracle_excess_risk(task, y.best_oracle_lam(task))),
        "bayes": bayes.value,
    }


def task_in_words(task: Any) -> str:
    numbers = rf"$d={task.d}$, $L={task.L}$, $\gamma^2={task.gamma**2:g}$"
    return rf"{numbers}, $\varepsilon={task.noise_std:g}$"


def ends(found: Any) -> str:
    values = (found.excess_risk[:, -1], found.mass[:, -1], abs(found.swap_cosine[:, -1]))
    labels = ("excess risk", "mass", "|cos(key, v*)|")
    return ", ".join(map(spread, labels, values))


def spread(label: str, values: Any) -> str:
    return f"{label} {values.min():.4f} to {values.max():.4f}"
