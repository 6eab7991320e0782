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

    from slr.layer import ARCHITECTURES
    from slr.layer_figures import plot_layer
    from slr.layer_training import LayerTraining, train_layers
    from slr.task import Task

    task = Task(d=config.d or 80, L=10, gamma=math.sqrt(1 / 2), noise_std=0.1)
    runs, variant_runs, n_steps, variant_steps = (
        (2, 1, 20, 10) if config.smoke else (FULL_RUNS, FULL_RUNS, 8000, 4000) if config.full
        else (4, 2, 8000, 1000)
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
