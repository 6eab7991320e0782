"""A whole softmax attention layer trained on the same task, and layers without one of its parts.

Beside it, the layer reduced to what the theory has: one key of free length, one value of length 1.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd

from studies.bounds import MOST, Count, Dimension, Within
from studies.findings import Finding, median
from studies.rendering import number
from studies.study import Result, Said, SlrOptions, Tables, slr_study
from studies.theory.figures.layer import plot_layer
from studies.theory.yardsticks import excess_risks
from studies.workers import in_parallel

if TYPE_CHECKING:
    from slr.attentions.layer_training import LayerRuns, LayerTraining
    from slr.dynamics.trajectory import Trajectory

LATE = 1000  # steps at the end of the paper's training: the risk jumps, so findings take a median
STEP_SIZES = (3e-4, 1e-3, 3e-3)  # of Adam: each variant gets the best of them
REDUCED_STEP_SIZES = (1e-3, 3e-3, 1e-2)  # of SGD, for the reduced softmax
TUNING_RUNS = 3  # that choose a step size; they are not among those reported
QUARTER = 4  # a variant is judged by the last quarter of its steps
FALLING = 0.1  # a larger decrease in the last quarter is said
FOUND = math.sqrt(1 / 2)  # a cosine above it with k* leaves less for v*, and the reverse


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    runs: Count | None = None
    """Number of repetitions of every layer; None: the paper's 20."""
    d: Dimension = 80
    """Dimension."""
    steps: Count | None = None
    """Number of steps of the softmax layer; None: the paper's 8000."""
    variant_steps: Annotated[int, Within(QUARTER, MOST)] | None = None
    """Number of steps of each layer without a part; None: 480."""


def run(options: Options) -> Result:
    """Train the paper's softmax layer, and layers without one part or another."""
    from slr.attentions.layer_training import LayerTraining
    from slr.figures import YARDSTICK_STYLES, task_in_words
    from slr.task import Task

    task = Task(d=options.d, L=10, gamma=math.sqrt(1 / 2), noise_std=0.1)
    runs, n_steps, variant_steps = (2, 20, 12) if options.smoke else (20, 8000, 480)
    runs, n_steps = options.runs or runs, options.steps or n_steps
    variant_steps = options.variant_steps or variant_steps
    n_test = 200 if options.smoke else 1000
    paper = LayerTraining(task, n_steps=n_steps, log_every=max(1, n_steps // 80))
    paper = replace(paper, n_test=n_test, seed=options.seed)
    sizes = choose_reduced_step_size(paper, runs)
    (size,) = sizes[sizes["chosen"]]["step_size"]
    reduced = train_reduced(paper, range(runs), float(size))
    # Adam, as some gates hardly move under the SGD that suits the softmax.
    variant = replace(paper, optimiser="adam", n_steps=variant_steps)
    step_sizes = choose_step_sizes(variant, runs)
    trainings = [paper, *_variants(variant, step_sizes)]
    trained, *others = trained_in_parallel(trainings, range(runs), "layers")
    variants = dict(zip(step_sizes["architecture"].unique(), others, strict=True))
    frames = [layers.to_frame().assign(architecture=name) for name, layers in variants.items()]
    risks = excess_risks(
        task, 2_000 if options.smoke else 100_000, np.random.default_rng(options.seed)
    )
    tables = {
        "layer": trained.to_frame(),
        "reduced": reduced_table(reduced),
        "reduced_step_sizes": sizes,
        "architectures": pd.concat(frames, ignore_index=True),
        "step_sizes": step_sizes,
        "ends": pd.concat([ends(name, layers) for name, layers in variants.items()]),
        "yardsticks": pd.DataFrame([{name: risks[name] for name in YARDSTICK_STYLES}]),
    }
    caption = (
        f"{task_in_words(task)}; {runs} runs each; (a-c) SGD, median and 95% percentile band\n"
        f"dashed: the theory's softmax, $k$, $v$ and $\\lambda$ alone, step size {size:g}\n"
        f"(d) Adam, {variant_steps} steps, step size chosen for each layer on {TUNING_RUNS} other "
        "runs; one point per run"
    )
    yardsticks = tables["yardsticks"].iloc[0].to_dict()
    figure = plot_layer(trained, tables["reduced"], tables["ends"], yardsticks, caption)
    return Result(tables, {"layer": figure})


def trained_in_parallel(
    trainings: "Sequence[LayerTraining]", runs: Sequence[int], label: str
) -> "list[LayerRuns]":
    """The runs of each training, one run per core at a time."""
    from slr.attentions.layer_training import joined

    jobs = [(training, run) for training in trainings for run in runs]
    parts = in_parallel(_train, jobs, label)
    return [joined(parts[i : i + len(runs)]) for i in range(0, len(parts), len(runs))]


def _train(job: "tuple[LayerTraining, int]") -> "LayerRuns":
    from slr.attentions.layer_training import train_layer

    return train_layer(*job)


def train_reduced(training: "LayerTraining", runs: Sequence[int], size: float) -> "Trajectory":
    """The theory's softmax, by SGD in law on as many sequences as the layer: k, v and lam alone.

    Runs start at uniform k and v with lam = 1/sqrt(d); the excess risk is exact.
    """
    from slr.dynamics.reduced import sgd
    from slr.overlaps import start_on_sphere

    task = training.task
    rngs = [np.random.default_rng([training.seed, run]) for run in runs]
    return sgd(
        task,
        start_on_sphere(task, len(rngs), rngs),
        lam=1 / math.sqrt(task.d),
        step_size=size,
        n_steps=training.n_steps,
        log_every=training.log_every,
        batch_size=training.batch_size,
        rng=rngs,
        gate="softmax",
        learn_lam=True,
    )


def choose_reduced_step_size(training: "LayerTraining", runs: int) -> pd.DataFrame:
    """The median risk of TUNING_RUNS further runs at the end, for each step size."""
    others = range(runs, runs + TUNING_RUNS)
    risk = [
        float(np.median(train_reduced(training, others, size).excess_risk[:, -1]))
        for size in REDUCED_STEP_SIZES
    ]
    table = pd.DataFrame({"step_size": REDUCED_STEP_SIZES, "excess_risk": risk})
    return table.assign(chosen=table.index == table["excess_risk"].idxmin())


def reduced_table(trajectory: "Trajectory") -> pd.DataFrame:
    """The columns of the layer, one row per run and logged step; mass and risk are exact."""
    from slr.gates.softmax import attention_mass

    table = trajectory.to_frame()
    mass = attention_mass(trajectory.task, table["kappa"].to_numpy(), table["lam"].to_numpy())
    return table.assign(mass=mass, key_cosine=table["kappa"], value_cosine=table["nu"])


def choose_step_sizes(variant: "LayerTraining", runs: int) -> pd.DataFrame:
    """The median risk of TUNING_RUNS further runs at the end, for each layer and step size."""
    from slr.attentions.layer import ARCHITECTURES

    cells = [(name, step_size) for name in ARCHITECTURES for step_size in STEP_SIZES]
    trainings = [
        replace(
            variant, architecture=ARCHITECTURES[name], step_size=size, log_every=variant.n_steps
        )
        for name, size in cells
    ]
    trained = trained_in_parallel(trainings, range(runs, runs + TUNING_RUNS), "step sizes")
    risk = [float(np.median(layers.excess_risk[:, -1])) for layers in trained]
    table = pd.DataFrame(cells, columns=["architecture", "step_size"]).assign(excess_risk=risk)
    best = table.groupby("architecture")["excess_risk"].transform("min")
    return table.assign(chosen=table["excess_risk"] == best)


def _variants(variant: "LayerTraining", step_sizes: pd.DataFrame) -> "Iterator[LayerTraining]":
    from slr.attentions.layer import ARCHITECTURES

    log_every = max(1, variant.n_steps // (3 * QUARTER))
    for row in step_sizes[step_sizes["chosen"]].itertuples():
        layer = ARCHITECTURES[row.architecture]
        yield replace(variant, architecture=layer, step_size=row.step_size, log_every=log_every)


def ends(name: str, layers: "LayerRuns") -> pd.DataFrame:
    """How each run of a layer ended, one row per run.

    excess_risk is the median over the last quarter of the steps, and change its relation to that of
    the third quarter, minus 1.
    """
    quarter = layers.training.n_steps / QUARTER
    last, before = (
        np.median(
            layers.excess_risk[:, (layers.step > low) & (layers.step <= low + quarter)], axis=1
        )
        for low in (3 * quarter, 2 * quarter)
    )
    aligned, swapped = (
        abs(cosine[:, -1]) > FOUND for cosine in (layers.key_cosine, layers.swap_cosine)
    )
    kind = np.select(
        [aligned, swapped, np.isnan(layers.key_cosine[:, -1])],
        ["aligned", "swapped", "no key"],
        "neither",
    )
    columns = {"run": np.arange(len(last)), "ended": kind, "excess_risk": last}
    columns |= {"change": last / before - 1, "mass": layers.mass[:, -1]}
    return pd.DataFrame(columns).assign(
        architecture=name, step_size=layers.training.step_size, steps=layers.training.n_steps
    )


def late(table: pd.DataFrame) -> pd.DataFrame:
    """The median of each run over the last LATE steps."""
    rows = table[table["step"] > table["step"].max() - LATE]
    return rows.groupby("run").median()


def findings(tables: Tables) -> Iterator[Finding]:
    runs = late(tables["layer"])
    oracle = tables["yardsticks"]["oracle"].iloc[0]
    yield Finding(
        text="A whole softmax layer (the text of the paper's appendix) ends at an excess risk of "
        f"{{}}, median over {len(runs)} runs, where the erf oracle has {oracle:.2f}.",
        **median(runs["excess_risk"]),
        form=".4f",
    )
    yield Finding(
        text="The key of a whole softmax layer (the text of the paper's appendix) ends at a cosine "
        f"of {{}} with k*, median over {len(runs)} runs.",
        **median(runs["key_cosine"]),
        published="0.994, in the released notebook",
        why="the released layer has layer norm, residual connections and a register token, and "
        "the value was read at step 400 of one run",
    )
    reduced = late(tables["reduced"])
    risk, mass = reduced["excess_risk"].max(), reduced["mass"].min()
    yield Finding(
        text="A softmax layer reduced to k, v and lambda solves the task too: in the worst of "
        f"{len(reduced)} runs its excess risk is {{}}, and its attention on the informative token "
        f"{mass:.3f} or more.",
        value=risk,
        form=".4f",
        required="excess risk at most 0.005 and attention at least 0.98, in every run",
        holds=bool(risk <= 0.005 and mass >= 0.98),
    )


def says(tables: Tables) -> Said:
    runs, all_ends = late(tables["layer"]), tables["ends"]
    yardsticks = tables["yardsticks"].iloc[0]
    known = ", ".join(f"{name} {yardsticks[name]:.3f}" for name in yardsticks.index)
    above = _above(tables["layer"], 0.005)
    change = all_ends.groupby(["architecture", "ended"], sort=False)["change"].median()
    falling = "; ".join(f"{name} ({kind})" for name, kind in change.index[change < -FALLING])
    return [
        f"A softmax layer, {tables['layer']['step'].max():,} steps of SGD, median over the last "
        f"{LATE:,}, median (range) over {len(runs)} runs: excess risk "
        f"{middle(runs['excess_risk'], 4)}, attention on the informative token "
        f"{middle(runs['mass'], 3)}, cosine of its key direction and k* "
        f"{middle(runs['key_cosine'])}. The risk jumps: {above} of the readings of those steps are "
        f"above 0.005. Excess risks for comparison: {known}.",
        reduced_in_words(late(tables["reduced"]), tables["reduced_step_sizes"]),
        f"Layers without some of their parts, {all_ends['steps'].iloc[0]:,} steps of Adam, "
        f"{all_ends['run'].nunique()} runs each, by how the runs ended: aligned (|cosine| of the "
        f"key and k* above {FOUND:.2f}), swapped (key and v*), or neither. Excess risk: median "
        "(range) over those runs, of each run's median over its last quarter; change: against the "
        "quarter before, median over those runs.",
        ends_in_words(all_ends),
        f"The risk was still falling, by more than {FALLING:.0%} in the last quarter, for: "
        f"{falling or 'none'}.",
        f"The step size of each layer was chosen on {TUNING_RUNS} other runs; their median excess "
        "risk at the end:",
        step_sizes_in_words(tables["step_sizes"]),
    ]


def reduced_in_words(runs: pd.DataFrame, sizes: pd.DataFrame) -> str:
    """How the reduced softmax ended, and how its step size was chosen."""
    tried = ", ".join(f"{row.step_size:g}: {row.excess_risk:.2g}" for row in sizes.itertuples())
    (size,) = sizes[sizes["chosen"]]["step_size"]
    return (
        "The same layer reduced to what the theory has, one head with k, v and lam = |k| alone and "
        f"|v| = 1: as many steps and sequences of SGD, in law, over {len(runs)} runs. Excess risk "
        f"{middle(runs['excess_risk'], 4)}, attention {middle(runs['mass'], 3)}, cosine of k and "
        f"k* {middle(runs['key_cosine'])}, of v and v* {middle(runs['value_cosine'])}, lam "
        f"{middle(runs['lam'])}. Its step size, {size:g}, was chosen on {TUNING_RUNS} other runs "
        f"by their median excess risk at the end ({tried})."
    )


def _above(table: pd.DataFrame, bound: float) -> str:
    rows = table[table["step"] > table["step"].max() - LATE]
    return f"{(rows['excess_risk'] > bound).sum()} of {len(rows)}"


def middle(values: Any, digits: int = 2) -> str:
    """Median and range over repetitions; nothing where there is nothing."""
    if values.isna().all():
        return ""
    low, high = values.min(), values.max()
    return f"{values.median():.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def ends_in_words(table: pd.DataFrame) -> pd.DataFrame:
    """One row per layer and kind of end."""
    order = pd.Categorical(table["architecture"], table["architecture"].unique())
    table = table.assign(architecture=order)
    groups = table.groupby(
        ["architecture", "ended"], observed=True
    )  # in this order, and aligned first
    runs = table.groupby("architecture", observed=True)["run"].nunique()
    shown = pd.DataFrame({"runs": [f"{len(g)} of {runs[name]}" for (name, _), g in groups]})
    shown.index = groups.size().index
    shown["excess risk"] = groups["excess_risk"].agg(middle, 4)
    shown["attention on the informative token"] = groups["mass"].agg(middle)
    shown["change"] = [f"{change:+.0%}" for change in groups["change"].median()]
    return shown.rename_axis(["layer", "ended"])


def step_sizes_in_words(table: pd.DataFrame) -> pd.DataFrame:
    wide = table.pivot_table(
        index="architecture", columns="step_size", values="excess_risk", sort=False
    )
    chosen = table[table["chosen"]].set_index("architecture")["step_size"]
    shown = wide.map(lambda risk: number(risk, 4)).rename(columns=lambda size: f"{size:g}")
    return shown.assign(chosen=[f"{chosen[name]:g}" for name in shown.index]).rename_axis("layer")


STUDY = slr_study(
    __name__,
    "A whole attention layer",
    "A softmax layer by training step, and dashed the theory's softmax, reduced to k, v and lam: "
    "(a) excess risk, (b) attention on the informative token, (c) alignment; (d) the final risk of "
    "layers without some of their parts, by how each run ended.",
)
