"""Several informative tokens: the best attentions, Bayes, and a trained layer, against R."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.bounds import Count, Dimension
from studies.findings import Finding, of_row
from studies.rendering import number
from studies.study import Figure, Result, Said, SlrOptions, Tables, progress_bar, slr_study
from studies.theory.activations import best_of
from studies.theory.layer import trained_in_parallel

if TYPE_CHECKING:
    from slr.attentions.layer_training import LayerRuns
    from slr.task import Task

TRAINED = (1, 2, 3, 5, 8)  # numbers of informative tokens at which a layer is trained
LATE = 3  # readings in the last third of the steps: the risk jumps, so each run shows their median


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    runs: Count | None = None
    """Number of repetitions of the trained layer; None: 20."""
    d: Dimension = 40
    """Dimension."""
    steps: Count | None = None
    """Number of steps of the trained layer; None: 600."""


def run(options: Options) -> Result:
    from slr.attentions.layer_training import LayerTraining
    from slr.figures import task_in_words
    from slr.task import Task

    task = Task(d=options.d, L=10, gamma=math.sqrt(1 / 2), noise_std=0.1)
    n_samples = 500 if options.smoke else 50_000
    runs, n_steps = (1, 5) if options.smoke else (20, 600)
    runs, n_steps = options.runs or runs, options.steps or n_steps
    numbers = [1, 2] if options.smoke else list(range(1, task.L))
    training = LayerTraining(task, optimiser="adam", step_size=1e-3, n_steps=n_steps)
    training = replace(training, n_test=200 if options.smoke else 1000, seed=options.seed)
    training = replace(training, log_every=max(1, n_steps // (3 * LATE)))
    rows = []
    with progress_bar("best attentions", len(numbers)) as progress:
        rngs = np.random.default_rng(options.seed).spawn(len(numbers))
        for R, rng in zip(numbers, rngs, strict=True):
            rows += _rows(task, R, n_samples, rng)
            progress(1)
    trainings = [replace(training, n_informative=R) for R in numbers if R in TRAINED]
    layers = trained_in_parallel(trainings, range(runs), "layers")
    rows += [_layer_row(trained) for trained in layers]
    table = pd.DataFrame(rows)
    caption = (
        f"{task_in_words(task)}, $Y$ the mean of $R$ values; attentions at their best, 2 standard"
        f" errors\nlayer: Adam, {n_steps} steps, median and 95% percentile interval of {runs} runs"
    )
    return Result({"locations": table}, {"locations": plot_locations(table, caption)})


def _layer_row(layers: "LayerRuns") -> dict[str, Any]:
    R, task = layers.training.n_informative, layers.training.task
    risk = np.median(layers.excess_risk[:, -LATE:], axis=1) * R / task.gamma**2
    low, middle, high = np.percentile(risk, [2.5, 50, 97.5])
    mass = float(np.median(layers.mass[:, -1]))
    row = {"attention": "layer", "n_informative": R, "relative_risk": middle, "mass": mass}
    return row | {"low": low, "high": high}


def _rows(task: "Task", R: int, n_samples: int, rng: Any) -> list[dict[str, Any]]:
    """Rows with excess risks relative to that of the zero predictor, gamma^2/R."""
    from slr.yardsticks import bayes_excess_risk

    zero = task.gamma**2 / R
    risks = {"bayes": (bayes_excess_risk(task, n_samples, rng, n_informative=R), math.nan)}
    for name in ("softmax", "sigmoid, threshold", "erf", "uniform"):
        best = best_of(name, task, n_samples, rng, n_informative=R)
        risks[name] = (best.excess_risk, best.mass)
    return [
        {
            "attention": name,
            "n_informative": R,
            "relative_risk": risk.value / zero,
            "mass": mass,
            "low": (risk.value - 2 * risk.stderr) / zero,
            "high": (risk.value + 2 * risk.stderr) / zero,
        }
        for name, (risk, mass) in risks.items()
    ]


def plot_locations(table: Any, caption: str) -> Figure:
    """Excess risk relative to that of the zero predictor, and attention mass, against R.

    ``table`` has attention, n_informative, relative_risk, low, high, mass (bars from low to high).
    """
    from slr.figures import BLACK, BLUE, GREY, ORANGE, PURPLE, RED, journal_style, panels

    styles = {  # colour, marker, line
        "bayes": (BLACK, "", ":"),
        "softmax": (BLUE, "o", "-"),
        "sigmoid, threshold": (ORANGE, "s", "--"),
        "erf": (PURPLE, "v", "-"),
        "uniform": (GREY, "", "-."),
        "layer": (RED, "D", ""),
    }
    with journal_style():
        figure, (risk, mass) = panels(1, 2, (8.0, 3.5))
        for name, (colour, marker, ls) in styles.items():
            rows = table[table["attention"] == name].sort_values("n_informative")
            x, y = rows["n_informative"], rows["relative_risk"]
            label = {"bayes": "Bayes", "layer": "softmax layer, trained"}.get(name, name)
            style: dict[str, Any] = {"color": colour, "marker": marker, "ls": ls, "ms": 4.5}
            bars = [y - rows["low"], rows["high"] - y]
            risk.errorbar(x, y, bars, lw=1.2, label=label, **style)
            if name != "bayes":
                mass.plot(x, rows["mass"], **style)
        risk.set(yscale="log", ylim=(1e-4, 1.3), ylabel="excess risk / risk of zero")
        mass.set(ylim=(0, 1.03), ylabel="attention on informative tokens")
        for ax in (risk, mass):
            ax.set_xlabel("informative tokens $R$")
        figure.legend(*risk.get_legend_handles_labels(), loc="outside right center")
        figure.suptitle(caption, fontsize=8)
        return figure


def findings(tables: Tables) -> Iterator[Finding]:
    rows = tables["locations"].query("n_informative == 2").set_index("attention")
    yield Finding(
        text="With two informative tokens the best softmax attention has {} of the risk of "
        f"guessing 0, and Bayes {rows.loc['bayes', 'relative_risk']:.4f}: one softmax finds one "
        "location.",
        **of_row(rows.loc["softmax"], "relative_risk"),
        form=".3f",
    )


def says(tables: Tables) -> Said:
    wide = tables["locations"].pivot_table(
        index="n_informative", columns="attention", values="relative_risk", sort=False
    )
    return [
        "Excess risk, relative to guessing 0, of the best attentions, of Bayes and of a trained "
        "softmax layer (median over runs):",
        wide.rename_axis("informative tokens").map(lambda risk: number(risk, 4)),
    ]


STUDY = slr_study(
    __name__,
    "Several informative tokens",
    "Excess risk relative to guessing 0, and attention mass, against the number of "
    "informative tokens.",
)
