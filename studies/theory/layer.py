"""A whole softmax attention layer trained on the same task, and layers without one of its parts."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.rendering import spread, spreads
from studies.study import Claim, Figure, Result, Said, SlrOptions, Tables, progress_bar, slr_study
from studies.theory.yardsticks import excess_risks

if TYPE_CHECKING:
    from slr.attentions.layer_training import LayerRuns

FULL_RUNS = 20  # the paper's
FLOOR = 2e-4  # of the risk axes: a few thousand sequences do not resolve less


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    runs: int | None = None
    """Number of repetitions; None: 4 (2 of each layer without a part), or 20 with --full."""
    d: int = 80
    """Dimension."""
    steps: int | None = None
    """Number of steps of the softmax layer; None: the paper's 8000."""
    full: bool = False
    """Train the paper's 20 repetitions, with more steps where a part is missing (takes minutes)."""


def run(options: Options) -> Result:
    """Train the paper's softmax layer, and layers without one part or another."""
    from slr.attentions.layer import ARCHITECTURES
    from slr.attentions.layer_training import LayerTraining, train_layers
    from slr.figures import YARDSTICK_STYLES, task_in_words
    from slr.task import Task

    task = Task(d=options.d, L=10, gamma=math.sqrt(1 / 2), noise_std=0.1)
    runs, variant_runs, n_steps, variant_steps = (
        (2, 1, 20, 10) if options.smoke else (FULL_RUNS, FULL_RUNS, 8000, 4000) if options.full
        else (4, 2, 8000, 700)
    )  # fmt: skip
    runs, variant_runs = options.runs or runs, options.runs or variant_runs
    n_steps = options.steps or n_steps
    paper = LayerTraining(task, n_steps=n_steps, log_every=max(1, n_steps // 40), seed=options.seed)
    paper = replace(paper, n_test=200) if options.smoke else paper
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
    frames = [layers.to_frame().assign(architecture=name) for name, layers in variants.items()]
    n_samples = 2_000 if options.smoke else 100_000
    risks = excess_risks(task, n_samples, np.random.default_rng(options.seed))
    yardsticks = {name: risks[name] for name in YARDSTICK_STYLES}
    few = "" if options.full else f" ({FULL_RUNS} with --full)"
    caption = (
        f"{task_in_words(task)}; (a-c) SGD, {runs} runs{few}, median and 95% percentile band\n"
        f"(d) Adam, {variant_steps} steps, {variant_runs} runs{few}"
    )
    tables = {
        "layer": trained.to_frame(),
        "architectures": pd.concat(frames, ignore_index=True),
        "yardsticks": pd.DataFrame([yardsticks]),
    }
    return Result(tables, {"layer": plot_layer(trained, variants, yardsticks, caption)})


def plot_layer(
    trained: "LayerRuns",
    variants: "Mapping[str, LayerRuns]",
    yardsticks: Mapping[str, float],
    caption: str,
) -> Figure:
    """Excess risk, attention mass and alignment by step; final excess risk of the variants."""
    from slr.figures import BLUE, GREY, ORANGE, draw_bands, journal_style, panels

    with journal_style():
        figure, (risk, mass, alignment, final) = panels(2, 2, (8.2, 6.0))
        draw_bands(risk, trained.step, trained.excess_risk, BLUE, "softmax layer")
        _draw_yardsticks(risk, yardsticks)
        risk.set(xlabel="step", ylabel="excess risk", yscale="log", ylim=(FLOOR, 1))
        risk.legend(loc="upper right", bbox_to_anchor=(1.0, 0.76), fontsize=7)

        draw_bands(mass, trained.step, trained.mass, BLUE, "")
        uniform = 1 / trained.training.task.L
        mass.axhline(uniform, color=GREY, ls=":", label="uniform")
        mass.set(xlabel="step", ylabel="attention mass, informative token", ylim=(0, 1.03))
        mass.legend(loc="lower right", bbox_to_anchor=(1.0, 0.12))

        key, value = trained.key_cosine[:, 1:], trained.value_cosine[:, 1:]  # the key starts at 0
        draw_bands(alignment, trained.step[1:], value, ORANGE, r"value direction with $v^\star$")
        draw_bands(
            alignment, trained.step[1:], key, BLUE, r"key $K^\top Q x_{\rm cls}$ with $k^\star$"
        )
        alignment.set(xlabel="step", ylabel="cosine", ylim=(0, 1.03))
        alignment.legend(loc="lower right")

        _draw_variants(final, variants, yardsticks)
        figure.suptitle(caption, fontsize=8)
        return figure


def _draw_yardsticks(ax: Any, yardsticks: Mapping[str, float], *, vertical: bool = False) -> None:
    """Draw lines at the yardsticks, labelled with their values; below FLOOR only the label."""
    from slr.figures import YARDSTICK_STYLES

    line = ax.axvline if vertical else ax.axhline
    for name, value in yardsticks.items():
        label, colour, style = YARDSTICK_STYLES[name]
        shown = f"{label} ({value:.2g})" if value > 1e-6 else f"{label} ($< 10^{{-6}}$)"
        if value > FLOOR:
            line(value, color=colour, ls=style, lw=1.1, label=shown)
        else:
            ax.plot([], [], color=colour, ls=style, lw=1.1, label=shown)


def _draw_variants(
    ax: Any, variants: "Mapping[str, LayerRuns]", yardsticks: Mapping[str, float]
) -> None:
    from slr.figures import BLUE, PURPLE

    _draw_yardsticks(ax, yardsticks, vertical=True)
    for row, runs in enumerate(variants.values()):
        values = np.maximum(runs.excess_risk[:, -1], FLOOR)
        attends = runs.mass[:, -1] > 0.5
        for chosen, colour in ((attends, BLUE), (~attends, PURPLE)):
            ax.plot(values[chosen], np.full(chosen.sum(), row), "o", color=colour, ms=4, alpha=0.8)
    ax.plot([], [], "o", color=BLUE, ms=4, label="attention mass > 0.5")
    ax.plot([], [], "o", color=PURPLE, ms=4, label="less, or no attention")
    ax.set_yticks(range(len(variants)), list(variants))
    ax.invert_yaxis()
    ax.set(xscale="log", xlim=(FLOOR, 1), xlabel="excess risk at the end")
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[-2:], labels[-2:], loc="lower left", fontsize=7)


def claims(tables: Tables) -> Iterator[Claim]:
    rows = _last_step(tables["layer"])
    oracle = tables["yardsticks"]["oracle"].iloc[0]
    risk, mass = rows["excess_risk"], rows["mass"]
    text = f"softmax attention layer: excess risk (erf oracle: {oracle:.3f})"
    paper = "a whole layer solves it too (appendix)"
    yield Claim.at_most(text, risk, 0.005, paper=paper, **_over_runs(risk))
    text = "... its attention on the informative token"
    yield Claim.at_least(text, mass, 0.98, **_over_runs(mass))


def _over_runs(values: pd.Series) -> dict[str, str]:
    ends = f"[{values.min():.4f}, {values.max():.4f}] over {len(values)} runs"
    return {"measured": f"{values.median():.4f}", "interval": ends}


def _last_step(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["step"] == table["step"].max()]


def says(tables: Tables) -> Said:
    end, variants = _last_step(tables["layer"]), _last_step(tables["architectures"])
    yardsticks = tables["yardsticks"].iloc[0]
    swapped = variants["swap_cosine"].abs()
    groups = variants.assign(swapped=swapped).groupby("architecture", sort=False)
    names = {"mass": "attention on the informative token", "swapped": "|cos(key, v*)|"}
    shown = spreads(groups, names)
    shown.insert(0, "excess risk", groups["excess_risk"].agg(spread, 3))
    known = ", ".join(f"{name} {yardsticks[name]:.3f}" for name in yardsticks.index)
    return [
        f"A softmax layer after {end['step'].max():,} steps of SGD, mean (range) over {len(end)} "
        f"runs: excess risk {spread(end['excess_risk'], 4)}, attention on the informative token "
        f"{spread(end['mass'], 3)}, cosine of its key direction and k* "
        f"{spread(end['key_cosine'])}. Excess risks for comparison: {known}.",
        f"Layers without some of their parts, after {variants['step'].max():,} steps of Adam, "
        f"{variants['run'].nunique()} runs each:",
        shown,
    ]


STUDY = slr_study(
    __name__,
    "A whole attention layer",
    "A softmax layer by training step: (a) excess risk, (b) attention on the informative "
    "token, (c) alignment; (d) the final risk of layers without some of their parts.",
)
