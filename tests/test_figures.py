"""Figures show the numbers of their tables: heights, last points, bands, cells, shades.

A check draws a figure from a table of random numbers and reads the artists. Each check is also
run with a wrong drawing (every number a little too large), which it must see.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from artists import (
    all_bars,
    all_error_bars,
    bands,
    bars,
    curve,
    error_bars,
    horizontals,
    lines,
    points,
    texts,
)
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from probing.states.views import SentenceView
from slr import EXPERIMENTS, Overlaps, Task, Trajectory, excess_risk, flow, run_experiment
from slr.attentions.layer_training import LayerRuns, LayerTraining
from slr.dynamics.portrait import fixed_points
from slr.figures import BLUE, GREEN, GREY, PURPLE, plot_experiment, plot_portrait
from slr.sweep import cell_grid
from studies.practice.beside import COMPARED, ERF, SOFTMAX_SGD
from studies.practice.figures.bridge import (
    EDITS,
    TITLES,
    plot_against_error,
    plot_causal,
    plot_learning,
)
from studies.practice.figures.causal import plot_causal_tests
from studies.practice.figures.decoders import COLOURS as COLOURS_OF
from studies.practice.figures.decoders import COSINES, EFFECTS, MASS, plot_decoders
from studies.practice.figures.decoders import NAMES as LABELS
from studies.practice.figures.figure1 import (
    LEFT,
    NOT_DRAWN,
    ROLE_STYLES,
    SERIES,
    SPLIT_NAMES,
    plot_figure1,
)
from studies.practice.figures.length import CURVES as ATTENTION_CURVES
from studies.practice.figures.length import STYLES as PROBE_STYLES
from studies.practice.figures.length import plot_length
from studies.practice.figures.probes import plot_probes
from studies.theory.activations import ATTENTIONS, plot_activations
from studies.theory.figures.conditional_mean import ALIKE, plot_conditional_mean
from studies.theory.figures.layer import FLOOR, plot_layer
from studies.theory.figures.scaling import CURVES, plot_scaling
from studies.theory.figures.softmax_length import FLOWS, SHOWN_GAMMAS, plot_softmax_length
from studies.theory.figures.sweep import plot_sweep
from studies.theory.locations import plot_locations
from studies.theory.noise_length import plot_noise_length
from studies.theory.yardsticks import plot_yardsticks

ROW = {"runs": 8, "share_diverged": 0.0}


def table_of(keys: Mapping[str, Iterable[Any]], random: str, seed: int = 0) -> pd.DataFrame:
    """A row for every combination of the keys, and columns of random numbers in 0.1 .. 0.9."""
    table = pd.MultiIndex.from_product(keys.values(), names=list(keys)).to_frame(index=False)
    rng = np.random.default_rng(seed)
    return table.assign(**{name: rng.uniform(0.1, 0.9, len(table)) for name in random.split()})


@cache
def trajectory(name: str) -> Trajectory:
    experiment = EXPERIMENTS[name]
    return run_experiment(replace(experiment, runs=4, n_steps=10 * experiment.log_every))


# ---- the theory


def check_bands() -> None:
    runs = replace(trajectory("pgd-schedule"), diverged=np.zeros(4, dtype=bool))
    risk, alignment, square, distance = plot_experiment("name", runs, (2, 1)).axes
    kappa, nu = runs.overlaps.kappa, runs.overlaps.nu
    panels = [
        (risk, "trained", 0, runs.excess_risk),
        (alignment, r"$|\kappa|$", 0, abs(kappa)),
        (alignment, r"$|\nu|$", 1, abs(nu)),
        (distance, "", 0, runs.distance_to_manifold),
    ]
    for ax, label, number, values in panels:
        low, high = np.percentile(values, [2.5, 97.5], axis=0)
        drawn = curve(ax, label) if label else lines(ax)[-1]
        assert_array_equal(drawn.x, runs.step)
        assert_array_equal(drawn.y, values.mean(axis=0))
        band = bands(ax, runs.step)[number]
        assert_array_equal(band.low, low)
        assert_array_equal(band.high, high)
        assert (band.low <= drawn.y).all()
        assert (drawn.y <= band.high).all()
        assert ax.get_xlabel() == "step"
    for run in (2, 1):
        path = curve(square, f"run {run}")
        assert_array_equal(path, [kappa[run], nu[run]])


def check_single_runs() -> None:
    runs = trajectory("pgd-small-lambda")
    diverged = np.array([False, True, False, False])
    *_, alignment, _, distance = plot_experiment(
        "name", replace(runs, diverged=diverged), bands=False
    ).axes
    panels = (
        (alignment, abs(runs.overlaps.kappa), BLUE),
        (distance, runs.distance_to_manifold, PURPLE),
    )
    for ax, values, colour in panels:
        for run, is_grey in enumerate(diverged):
            drawn = [one for one in ax.lines if np.array_equal(one.get_ydata(), values[run])]
            assert [one.get_color() for one in drawn] == [GREY if is_grey else colour]


def check_portrait() -> None:
    experiment = EXPERIMENTS["pgd-manifold"]
    runs = trajectory("pgd-manifold")
    found = fixed_points(experiment.task, experiment.lam)
    figure = plot_portrait(experiment.task, experiment.lam, found, runs)
    landscape, field, risk_bar, speed_bar = figure.axes
    for ax in (landscape, field):
        for kind in ("minimum", "saddle", "maximum"):
            drawn = set(zip(*curve(ax, kind), strict=True))
            assert drawn == {(point.kappa, point.nu) for point in found if point.kind == kind}
    paths = [runs.overlaps.kappa[0], runs.overlaps.nu[0]]
    assert_array_equal(curve(landscape, "4 PGD runs"), paths)
    # The colours: the least and the largest risk and speed in the square, by brute force.
    axis = np.linspace(-1, 1, 41)
    kappa, nu = np.meshgrid(axis, axis)
    on_manifold = Overlaps(kappa, nu, *np.zeros((3, 41, 41)))
    risk = excess_risk(experiment.task, on_manifold, experiment.lam)
    low, high = risk_bar.get_ylim()
    assert low <= risk.min() < low + 0.1
    assert high - 0.1 < risk.max() <= high
    speed = np.hypot(*flow(experiment.task, kappa, nu, experiment.lam))
    assert_allclose(speed_bar.get_ylim(), (0, speed.max()), rtol=0.05, atol=0.01)


def check_yardsticks() -> None:
    names = "zero linear oracle bayes bayes_stderr"
    tables = {f"against_{name}": table_of({name: [2, 10, 100]}, names) for name in "dL"}
    regimes = ["L = 10", "L = sqrt(d)"]
    tables["corollary"] = table_of({"regime": regimes, "d": [100, 1000]}, "oracle predicted")
    *axes, growing = plot_yardsticks(tables, "").axes
    for ax, name in zip(axes, "dL", strict=True):
        table = tables[f"against_{name}"]
        assert_array_equal(curve(ax, "zero predictor"), [table[name], table["zero"]])
        assert_array_equal(curve(ax, "best linear"), [table[name], table["linear"]])
        assert_array_equal(curve(ax, r"erf oracle, best $\lambda$").y, table["oracle"])
        assert_array_equal(curve(ax, "Bayes (Monte-Carlo)").y, table["bayes"])
        ends = error_bars(ax, "Bayes (Monte-Carlo)")
        assert_allclose(ends.high - ends.low, 4 * table["bayes_stderr"])
    dotted = [line.y for line in lines(growing)][1::2]
    for label, (_, rows), predicted in zip(
        ("$L = 10$", r"$L = \sqrt{d}$"),
        tables["corollary"].groupby("regime", sort=False),
        dotted,
        strict=True,
    ):
        assert_array_equal(curve(growing, label), [rows["d"], rows["oracle"]])
        assert_array_equal(predicted, rows["predicted"])


def check_scaling() -> None:
    table = table_of({"curve": [*CURVES], "d": [100, 1000]}, "median share").assign(runs=30)
    for name in ("", "share_"):
        middle = table["share" if name else "median"]
        table[f"{name}low"], table[f"{name}high"] = middle - 0.05, middle + 0.07
    limits = table_of({"d": [100, 1000]}, "measured predicted")
    path = table_of({"step": [0, 10, 20]}, "limit step_size smallest")
    path["smallest"] = [-1.0, 1.0, 1.0]
    tables = {"steps_to_align": table, "stability_limits": limits, "along_schedule": path}
    steps, share, against_d, in_time = plot_scaling(tables).axes
    rows = table[table["curve"] == "sphere"]
    label = CURVES["sphere"][0]
    assert_array_equal(curve(steps, label), [rows["d"], rows["median"]])
    assert_allclose(error_bars(steps, label), [rows["low"], rows["high"]])
    flow = table[table["curve"] == "flow"]
    assert_array_equal(curve(steps, CURVES["flow"][0]).y, flow["median"])
    first = table[table["curve"] == "manifold"]["share"]
    assert_array_equal(share.containers[0].lines[0].get_ydata(), first)  # type: ignore[attr-defined]
    assert_array_equal(curve(against_d, "measured (bisection)").y, limits["measured"])
    for ax, values in ((against_d, limits["predicted"]), (in_time, path["limit"])):
        assert_array_equal(curve(ax, "2 / (largest eigenvalue)").y, values)
    assert_array_equal(curve(in_time, "the paper's step size").y, path["step_size"])


def check_activations() -> None:
    names = [*ATTENTIONS, "bayes"]
    shown: dict[str, list[float]] = {"d": [2, 10, 48], "L": [2, 10], "gamma": [0.5, 1.0]}
    parts = [
        table_of({"axis": [axis], "attention": names, axis: values}, "excess_risk stderr")
        for axis, values in shown.items()
    ]
    figure = plot_activations(pd.concat(parts), "")
    for ax, axis, part in zip(figure.axes, shown, parts, strict=True):
        for name in names:
            rows = part[part["attention"] == name]
            label = "Bayes" if name == "bayes" else name
            assert_array_equal(curve(ax, label), [rows[axis], rows["excess_risk"]])
            ends = error_bars(ax, label)
            assert_allclose(ends.high - ends.low, 4 * rows["stderr"])


def check_locations() -> None:
    names = ["bayes", "softmax", "sigmoid, threshold", "erf", "uniform", "layer"]
    table = table_of({"attention": names, "n_informative": [1, 2, 5]}, "relative_risk mass")
    table["low"], table["high"] = table["relative_risk"] - 0.05, table["relative_risk"] + 0.02
    risk, mass = plot_locations(table, "").axes
    for name in names:
        rows = table[table["attention"] == name]
        label = {"bayes": "Bayes", "layer": "softmax layer, trained"}.get(name, name)
        assert_array_equal(curve(risk, label), [rows["n_informative"], rows["relative_risk"]])
        assert_allclose(error_bars(risk, label), [rows["low"], rows["high"]])
    masses = [table[table["attention"] == name]["mass"] for name in names[1:]]
    assert_array_equal([line.y for line in lines(mass)], masses)


def check_noise_length() -> None:
    keys: dict[str, list[Any]] = {"gamma": [0.5, 1.0], "L": [5, 10], "noise": ["PGD", "0", "1"]}
    names = ("excess_risk", "steps", "share")
    table = table_of(keys, "oracle " + " ".join(names))
    for name in names:
        table[f"{name}_low"], table[f"{name}_high"] = table[name] / 2, table[name] * 2
    figure = plot_noise_length(table, "")
    figure.draw_without_rendering()
    axes = figure.axes
    for left, right in (axes[:2], axes[2:4]):  # a height means the same in both panels
        places = [(0, 0.1), (0, 0.3), (0, 0.9)]
        heights = left.transData.transform(places)[:, 1]
        assert_allclose(right.transData.transform(places)[:, 1], heights)
        first, second = np.diff(heights)
        assert first == pytest.approx(second), "a logarithmic axis"
    for column, gamma in enumerate((0.5, 1.0)):
        for L in (5, 10):
            rows = table[(table["gamma"] == gamma) & (table["L"] == L)]
            for ax, name in zip(axes[column::2], names, strict=True):
                assert_array_equal(curve(ax, f"$L={L}$").y, rows[name])
                ends = rows[f"{name}_low"], rows[f"{name}_high"]
                assert_allclose(error_bars(ax, f"$L={L}$"), ends)
        oracles = [line.y[0] for line in lines(axes[column]) if len(line.y) == 1]
        of_lengths = table[table["gamma"] == gamma].groupby("L")["oracle"].first()
        assert_array_equal(oracles, of_lengths)


def check_conditional_mean() -> None:
    lengths = [8, 32, 128]
    kinds = [f"{kind}, learned at {L}" for kind in ("softmax", "kernel") for L in lengths]
    names = ["softmax, best", "kernel", *kinds, "softmax, long"]
    table = table_of({"attention": names, "L": [8, 32, 128, 512]}, "error stderr")
    slopes = pd.DataFrame({"attention": names[:2], "value": -0.8, "low": -0.9, "high": -0.7})
    taught = ["supervised", "self-supervised"]
    cases: dict[str, Any] = {"queries": [ALIKE, "elsewhere"], "L": lengths, "objective": taught}
    objectives = table_of(cases, "softmax_error kernel_error")
    tables = {"errors": table, "slopes": slopes.assign(fitted_from=32), "objectives": objectives}
    best, softmax, kernel, ratio = plot_conditional_mean(tables, lengths, "").axes
    for name in names[:2]:
        rows = table[table["attention"] == name]
        assert_array_equal(curve(best, f"{name}\nslope -0.80 [-0.90, -0.70]").y, rows["error"])
    rows = table[table["attention"] == "softmax, long"]
    assert_array_equal(curve(best, "softmax, longer").y, rows["error"])
    fitted = [line for line in lines(best) if len(line.x) == 3]
    for line, name in zip(fitted, names, strict=False):
        slope = np.diff(np.log(line.y)) / np.diff(np.log(line.x))
        assert_allclose(slope, -0.8)
        rows = table[(table["attention"] == name) & (table["L"] > 8)]
        assert_allclose(np.log(line.y).mean(), np.log(rows["error"]).mean())
    assert len(fitted) == 2
    for ax, kind in ((softmax, "softmax"), (kernel, "kernel")):
        for L in lengths:
            rows = table[table["attention"] == f"{kind}, learned at {L}"]
            assert_array_equal(curve(ax, f"learned at $L={L}$").y, rows["error"])
        errors = objectives[f"{kind}_error"].to_numpy()
        assert_allclose(curve(ratio, kind).y, errors[1::2] / errors[::2])


def check_layer() -> None:
    rng = np.random.default_rng(0)
    training = LayerTraining(Task(d=12, L=4, gamma=0.7))
    trained = LayerRuns(training, np.array([0, 2, 4, 6]), *rng.uniform(0.1, 0.9, (5, 5, 4)))
    yardsticks = {"zero": 0.5, "bayes": 1e-9}
    kinds = ["aligned", "swapped", "neither", "no key"]
    ends = table_of({"architecture": ["a", "b"], "ended": kinds, "run": range(3)}, "excess_risk")
    names = "excess_risk mass key_cosine value_cosine"
    reduced = table_of({"run": range(3), "step": trained.step}, names, seed=1)
    figure = plot_layer(trained, reduced, ends, yardsticks, "title")
    risk, mass, alignment, final = figure.axes
    assert_array_equal(curve(risk, "softmax layer").y, np.median(trained.excess_risk, axis=0))
    assert_array_equal(curve(risk, "zero predictor (0.5)").y, [0.5, 0.5])
    assert_array_equal(lines(mass)[0].y, np.median(trained.mass, axis=0))
    low, high = np.percentile(trained.mass, [2.5, 97.5], axis=0)
    band, _ = bands(mass, trained.step)
    assert_array_equal(band, [low, high])
    groups = reduced.groupby("step")
    assert_array_equal(curve(risk, "reduced softmax").y, groups["excess_risk"].median())
    assert_array_equal(lines(mass)[1].y, groups["mass"].median())
    value = curve(alignment, r"reduced: $v$ with $v^\star$")
    assert_array_equal(value, [trained.step, groups["value_cosine"].median()])
    value = curve(alignment, r"value direction with $v^\star$")
    assert_array_equal(value, [trained.step[1:], np.median(trained.value_cosine, axis=0)[1:]])
    labels = [r"key near $k^\star$ (aligned)", r"key near $v^\star$ (swapped)", "neither"]
    for kind, label in zip(kinds, [*labels, "no key to learn"], strict=True):
        x, y = curve(final, label)
        for height, name in enumerate("ab"):
            rows = ends[(ends["architecture"] == name) & (ends["ended"] == kind)]
            assert_array_equal(x[np.round(y) == height], rows["excess_risk"])
    assert FLOOR < 0.1, "nothing above was cut off"
    assert [tick.get_text() for tick in final.get_yticklabels()] == ["a", "b"]


def test_on_the_manifold_the_distance_is_said_to_be_0() -> None:
    *_, distance = plot_experiment("name", trajectory("pgd-manifold")).axes
    assert [text.get_text() for text in distance.texts] == ["0 at every step"]


# ---- sweeps


def check_softmax_length() -> None:
    gammas = [*SHOWN_GAMMAS]
    keys: dict[str, list[Any]] = {"d": [100, 1000], "gamma": gammas, "log_L": [2.0, 4.0, 8.0]}
    training = table_of(keys, "risk steps_to_learn").assign(training="lambda constant")
    training["share"] = training["log_L"] / training["d"]
    learned = training.query("d == 100 and gamma == 0.5").assign(training="lambda learned")
    boundary = table_of({"d": [100, 1000], "gamma": gammas}, "oracle bayes")
    oracle = table_of({"d": [100, 1000], "share": [0.1, 0.2]}, "risk bayes").assign(gamma=0.5)
    warm: dict[str, list[Any]] = {
        "d": [100, 1000], "v": ["random", "v*"], "kappa": [0.5, 1.0], "share": [0.1, 0.2],
    }  # fmt: skip
    starts = table_of(warm, "").assign(gamma=0.5, risk=[0.1, 0.9, 0.2, 0.3] * 4)
    flows = table_of({"curve": [*FLOWS], "d": [100, 1000]}, "time").assign(aligned=1.0)
    flows["low"], flows["high"] = flows["time"] - 0.05, flows["time"] + 0.07
    tables = {"boundary": boundary, "oracle": oracle, "warm": starts, "against_d": flows}
    tables["training"] = pd.concat([training, learned.assign(steps_to_learn=5.0)])
    a, b, c, w, e, f, _ = plot_softmax_length(tables).axes
    for ax, d in ((a, 100), (b, 1000)):
        rows, places = training[training["d"] == d], boundary[boundary["d"] == d]
        (mesh,) = ax.collections
        wide = rows.pivot_table(index="gamma", columns="share", values="risk")
        assert_allclose(np.ravel(mesh.get_array()), wide.to_numpy().ravel())  # type: ignore[arg-type]
        assert_array_equal(curve(ax, "oracle: 1/2"), [places["oracle"], places["gamma"]])
        rows = oracle[oracle["d"] == d]
        assert_array_equal(curve(c, f"$d={d}$"), [rows["share"], rows["risk"]])
        assert_array_equal(curve(c, f"Bayes at most, $d={d}$").y, rows["bayes"])
        assert_allclose(error_bars(w, f"$d={d}$, $v$ random"), [[0.1, 0.2], [0.2, 0.3]])
    for gamma in gammas:
        rows = training.query("d == 100 and gamma == @gamma")
        shown = curve(e, rf"$\gamma={gamma:g}$")
        assert_allclose(shown, [np.exp(rows["log_L"]), rows["steps_to_learn"]])
    assert_array_equal(curve(e, r"$\lambda$ learned").y, [5.0] * 3)
    for name, (label, *_) in FLOWS.items():
        rows = flows[flows["curve"] == name]
        assert_array_equal(curve(f, f"{label}: 100% align"), [rows["d"], rows["time"]])
        assert_allclose(error_bars(f, f"{label}: 100% align"), [rows["low"], rows["high"]])


def check_sweep() -> None:
    axes: dict[str, list[Any]] = {
        "lam": [0.1, 0.2, 0.4],
        "d": [10, 20, 40],
        "L": [3, 4],
        "gamma": [0.5, 1.0],
    }
    table = table_of(axes, "share_aligned").assign(**ROW)
    figure = plot_sweep(table, cell_grid(axes | {"runs": 8}))
    titles = [ax.get_title() for ax in figure.axes[:2]]
    assert titles == ["$L$ = 3", "$L$ = 4"], "one map for each value of the first short axis"
    for ax, L in zip(figure.axes, (3, 4), strict=False):
        rows = table[table["L"] == L]
        mean = rows.groupby(["lam", "d"])["share_aligned"].mean().unstack()  # over gamma
        (mesh,) = ax.collections
        assert_allclose(np.reshape(mesh.get_array(), (3, 3)), mean)  # type: ignore[arg-type]
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("$d$", r"$\lambda$")


def check_curve() -> None:
    """With one setting that varies: the shares, with Wilson's intervals as scipy has them."""
    from scipy.stats import binomtest

    lam = [0.1, 0.2, 0.3]
    grids: list[tuple[dict[str, Any], Any]] = [
        ({"lam": lam}, lam),
        ({"start": ["manifold", "sphere"]}, [0, 1]),
        ({}, [cell_grid({}).axes["lam"][0]]),
    ]
    for axis, places in grids:
        grid = cell_grid(axis | {"runs": 8})
        table = table_of(axis or {"lam": places}, "").assign(**ROW)
        table["share_aligned"] = np.arange(1, len(table) + 1) / 8
        (ax,) = plot_sweep(table, grid).axes
        assert_array_equal(lines(ax)[0], [places, table["share_aligned"]])
        (ends,) = all_error_bars(ax)
        for i, low, high in zip(range(len(table)), *ends, strict=True):
            expected = binomtest(i + 1, 8).proportion_ci(0.95, method="wilson")
            assert_allclose([low, high], expected, atol=1e-4)


# ---- the Transformer


FIVE = ["train", "test", "ood_tokens", "ood_structure", "ood_structure_tokens"]
DRAWN = [key for key in SERIES if key not in NOT_DRAWN]


def tables_of_figure_1() -> dict[str, pd.DataFrame]:
    mass = table_of({"model": ["1 layer", "2 layers", "untrained"], "split": SPLIT_NAMES}, "mass")
    mass = mass.assign(lowest=mass["mass"] - 0.1, highest=mass["mass"] + 0.05, seeds=5)
    mass.loc[mass["model"] == "untrained", ["lowest", "highest"]] = np.nan
    keys = {"data": ["wide", "published"], "series": list(SERIES)[::-1], "split": FIVE[::-1]}
    dots = table_of(keys, "accuracy", seed=1)
    dots = dots.assign(low=dots["accuracy"] - 0.05, high=dots["accuracy"] + 0.1, words=6, seeds=5)
    dots["kind"] = np.where(dots["series"].isin([*SERIES][:13]), "interval", "range")
    is_bert = dots["series"] == "bert-published"
    dots.loc[is_bert, ["low", "high", "words", "seeds"]] = np.nan
    dots.loc[is_bert, "kind"] = ""
    initial = {"data": "published", "series": "bert-published", "split": "initial"}
    dots = dots[~(is_bert & (dots["data"] == "wide"))]
    dots = pd.concat([dots, pd.DataFrame([initial | {"accuracy": 0.5, "kind": ""}])])
    roles = ["neutral", "distractor", "informative"]
    plane = table_of({"role": roles, "label": [0, 1], "number": range(5)}, "k v", seed=2)
    return {"sparsity": mass, "dots": dots, "plane": plane}


def sentence_of(text: str, weight: float) -> SentenceView:
    """A sentence whose last word has this attention in the last layer, the mean of two heads."""
    words = text.split()
    attention = np.full((len(words), 2, 2), 0.01)
    attention[-1, 1] = weight - 0.05, weight + 0.05
    roles = ["neutral", "distractor", *["neutral"] * (len(words) - 3), "informative"]
    return SentenceView(words, roles, attention)


SENTENCES = [
    sentence_of("my dog is nice", 0.85),
    sentence_of("is nice . " + "purple crocodile , " * 8 + "dreadful", 0.3),
]


def check_figure_1() -> None:
    tables = tables_of_figure_1()
    _, mass, published, wide, scatter = plot_figure1(SENTENCES, **tables).axes
    sparsity, dots, plane = tables.values()
    for model, rows in sparsity.groupby("model"):
        assert_array_equal(curve(mass, model).x, rows["mass"])
        assert_array_equal(curve(mass, model).y.round(), range(len(rows)))
    ranges = sparsity[sparsity["lowest"].notna()].sort_values(["split", "model"], key=places)
    assert_allclose([line[1:] for line in horizontals(mass)], ranges[["lowest", "highest"]])
    for ax, name in ((published, "published"), (wide, "wide")):
        drawn = (dots["data"] == name) & (dots["split"] != "train") & dots["series"].isin(DRAWN)
        check_dots(ax, dots[drawn])
    for (role, label), (name, *_) in ROLE_STYLES.items():
        rows = plane[(plane["role"] == role) & ((label is None) | (plane["label"] == label))]
        assert_array_equal(points(scatter, name), [rows["k"], rows["v"]])


def places(names: pd.Series) -> pd.Series:
    """Where splits, series and models come from top to bottom."""
    order = [*SPLIT_NAMES, "initial", *DRAWN, "1 layer", "2 layers"]
    return names.map(order.index)


def check_dots(ax: Axes, table: pd.DataFrame) -> None:
    table = table.sort_values(["series", "split"], key=places)
    table = table.assign(row=table["series"].map(DRAWN.index))
    for split, rows in table.groupby("split"):
        inside = rows[rows["accuracy"] >= LEFT]
        drawn = curve(ax, SPLIT_NAMES.get(str(split), "initial embeddings"))
        downwards = np.argsort(drawn.y)
        assert_array_equal(drawn.x[downwards], inside["accuracy"])
        assert_array_equal(drawn.y[downwards].round(), inside["row"])
    ends = table[table["low"].notna()]
    drawn_ends = np.array(horizontals(ax))
    assert_allclose(drawn_ends[:, 1:], ends[["low", "high"]])
    assert_array_equal(drawn_ends[:, 0].round(), ends["row"])
    low = table[table["accuracy"] < LEFT].groupby("row")["accuracy"]
    numbers = {row: ", ".join(f"{value:.2f}" for value in values) for row, values in low}
    assert {text.get_position()[1]: text.get_text() for text in ax.texts} == numbers


def test_rows_of_figure_1_are_named_and_a_model_without_data_has_none() -> None:
    tables = tables_of_figure_1()
    dots = tables["dots"]
    tables["dots"] = dots[~dots["series"].str.startswith(("mpnet", "minilm-summary"))]
    _, mass, published, wide, scatter = plot_figure1(
        SENTENCES, **tables, plane_model="SmolLM2"
    ).axes
    assert [label.get_text() for label in mass.get_yticklabels()] == list(SPLIT_NAMES.values())
    names = [label.get_text().strip() for label in published.get_yticklabels()]
    assert names[:6] == [
        r"$\bf{BERT}$, [CLS], published",
        r"$\bf{MiniLM}$, token mean",
        "single-location head",
        "locate and read†",
        r"$\bf{SmolLM2}$, last token",
        "locate and read†",
    ]
    assert names[6] == r"$\bf{1\ layer}$, from scratch"
    assert len(names) == 14
    assert published.get_ylim() == wide.get_ylim() == (13.5, -0.5), "downwards, one row each"
    assert published.get_title() == "published data\n(6 words)"
    figure: Any = scatter.figure
    assert "SmolLM2 tokens" in figure.texts[3].get_text()
    key = [text.get_text() for text in figure.legends[0].get_texts()]
    assert key[-2:] == ["range over 5 training seeds", "told in training which word decides"]


def test_the_key_lists_only_what_is_drawn() -> None:
    tables = tables_of_figure_1()
    tables["dots"] = tables["dots"].query("series == 'tiny'")
    key = [text.get_text() for text in plot_figure1(SENTENCES, **tables).legends[0].get_texts()]
    splits = [SPLIT_NAMES[name] for name in FIVE[1:]]
    assert key == [*splits, "chance", "range over 5 training seeds"]


def test_equal_accuracies_left_of_the_axis_are_written_once() -> None:
    tables = tables_of_figure_1()
    tables["dots"] = tables["dots"].assign(accuracy=0.0)
    published = plot_figure1(SENTENCES, **tables).axes[2]
    assert [text.get_text() for text in published.texts] == ["0.00"] * len(DRAWN)


def test_labels_of_series_say_on_their_own_what_is_read() -> None:
    labels = [series.label for series in SERIES.values()]
    assert len(set(labels)) == len(SERIES)
    told = [key for key, series in SERIES.items() if series.short.endswith("†")]
    assert told == [key for key, series in SERIES.items() if "told the place" in series.label]
    assert told == ["minilm-reader", "smollm2-reader", "mpnet-reader"]
    assert SERIES["pair-glove"].label == "2-layer Transformer, GloVe vectors"


def test_intervals_over_words_and_ranges_over_seeds_look_different() -> None:
    *_, wide, _ = plot_figure1(SENTENCES, **tables_of_figure_1()).axes
    is_wide_line = {
        round(float(part[0, 1])): float(np.ravel(one.get_linewidth())[0]) > 2
        for one in wide.collections
        if isinstance(one, LineCollection)
        for part in one.get_segments()
        if one.get_transform().contains_branch(wide.transData)
    }
    trained = {i for i, key in enumerate(DRAWN) if key.startswith(("tiny", "pair"))}
    assert {row for row, is_wide in is_wide_line.items() if is_wide} == trained


@pytest.mark.parametrize("part", ["everything", "published data, five splits"])
def test_figure_1_fits_a_page_and_its_texts_are_legible(part: str) -> None:
    tables = tables_of_figure_1()
    if part != "everything":
        tables["dots"] = tables["dots"].query("data == 'published'")
        tables["sparsity"] = tables["sparsity"].query("split in @FIVE")[["model", "split", "mass"]]
    figure = plot_figure1([SENTENCES[0]] * 4 + SENTENCES[1:], **tables)
    width, height = figure.get_size_inches()
    assert max(width, height) <= 6.7  # inches: 17 cm
    figure.draw_without_rendering()
    shown = texts(figure)
    assert min(float(text.get_fontsize()) for text in shown) >= 6.5
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown]
    for text, box in boxes:
        assert figure.bbox.containsx(box.x0), text
        assert figure.bbox.containsx(box.x1), text
        assert figure.bbox.containsy(box.y0), text
        assert figure.bbox.containsy(box.y1), text
    overlapping = [(a[0], b[0]) for a, b in combinations(boxes, 2) if overlap(a[1], b[1])]
    assert not overlapping
    assert overlap(boxes[0][1], boxes[0][1]), "the check sees an overlap"


def overlap(one: Any, other: Any) -> bool:
    """Whether two boxes share more than a rim of one pixel: letters do not fill their boxes."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return bool(width > 1 and height > 1)


def test_words_are_shaded_by_their_attention_and_framed_by_their_role() -> None:
    shaded = plot_figure1(SENTENCES, **tables_of_figure_1()).axes[0]
    first: list[Any] = shaded.patches[:4]
    assert [text.get_text() for text in shaded.texts[:4]] == SENTENCES[0].words
    assert_allclose([box.get_facecolor()[3] for box in first], [0.01, 0.01, 0.01, 0.85])
    frames = [to_hex(box.get_edgecolor(), keep_alpha=True) for box in first]
    assert frames == ["#00000000", "#000000ff", "#00000000", "#000000ff"]
    assert first[1].get_linestyle() != first[3].get_linestyle() == "solid", "a distractor is dashed"
    assert to_hex(first[3].get_facecolor()) == GREEN.lower(), "the colour of attention"


def test_a_long_sentence_continues_below_and_a_mark_stands_close_to_its_word() -> None:
    shaded = plot_figure1(SENTENCES, **tables_of_figure_1()).axes[0]
    words = SENTENCES[1].words
    boxes: list[Any] = shaded.patches[4:]
    assert [text.get_text() for text in shaded.texts[4:]] == words
    lines_of = [box.get_y() for box in boxes]
    assert len(set(lines_of)) > 1
    assert lines_of == sorted(lines_of, reverse=True)
    assert max(box.get_x() + box.get_width() for box in boxes) <= shaded.get_xlim()[1] + 4
    gaps = {True: [], False: []}  # type: dict[bool, list[float]]
    for word, box, left in zip(words[1:], boxes[1:], boxes, strict=False):
        if box.get_y() == left.get_y():
            gaps[word in ".,"].append(box.get_x() - left.get_x() - left.get_width())
    assert max(gaps[True]) < min(gaps[False])


def check_learning() -> None:
    names = "nu kappa attention_mass relative_error distance_to_manifold"
    practice = table_of({"seed": range(5), "step": [0, 10, 20]}, names)
    theory = table_of({"run": range(6), "step": [0, 100]}, names, seed=1)
    practice["kappa"] *= -1  # of either sign
    theory["aligned"] = theory["run"] != 3
    theory["theory"] = ERF
    softmax = theory.assign(theory=SOFTMAX_SGD, aligned=True)
    frozen = table_of({"seed": range(2), "step": [0, 10, 20]}, names, seed=2)
    assert len(plot_learning(practice, theory).axes) == 8
    figure = plot_learning(practice, pd.concat([theory, softmax]), frozen)
    axes = np.array(figure.axes, dtype=object).reshape(4, 4)
    kept = theory[theory["aligned"]]
    titles = [axes[0, column].get_title() for column in range(4)]
    assert titles[1:3] == ["Transformer\nfrozen vectors\n2 seeds", f"{TITLES[ERF]}\n5 of 6 align"]
    assert titles[3] == f"{TITLES[SOFTMAX_SGD]}\n6 of 6 align"
    for column, table in enumerate((practice, frozen, kept, softmax)):
        groups = table[names.split()].abs().groupby(table["step"])
        for row, name in enumerate(names.split()[1:]):
            assert_array_equal(lines(axes[row, column])[-1].y, groups[name].median())
            band = bands(axes[row, column], table["step"].unique())[-1]
            assert_allclose(band, [groups[name].min(), groups[name].max()])
        assert_array_equal(curve(axes[0, column], "$v$").y, groups["nu"].median())


def check_against_error() -> None:
    keys: dict[str, Any] = {"model": ["ours", ERF], "quantity": COMPARED, "error": [0.9, 0.5, 0.1]}
    table = table_of(keys, "median")
    table = table.assign(lowest=table["median"] - 0.1, highest=table["median"] + 0.1)
    for ax, (_, rows) in zip(
        plot_against_error(table).axes, table.groupby("quantity", sort=False), strict=True
    ):
        medians = rows.set_index(["model", "error"])["median"]
        assert_array_equal(curve(ax, "ours").y, medians["ours"])
        ours = rows[rows["model"] == "ours"]
        (band,) = bands(ax, ours["error"])
        assert_allclose(band, [ours["lowest"], ours["highest"]])
        assert_array_equal(curve(ax, TITLES[ERF].replace("\n", ", ")).y, medians[ERF])
        assert ax.get_xlim()[0] > ax.get_xlim()[1], "the error falls from left to right"


def causal_tests() -> pd.DataFrame:
    edits = [name for name in EDITS if name != "LEACE"]
    cells = [
        *(("erase value", edit, site, layer, np.nan) for edit in edits
          for site, layer in (("informative", 0), ("distractor", 0), ("summary", 1))),
        *(("erase location", edit, "all words", 0, np.nan) for edit in edits),
        *(("steer", edit, "informative", 0, dose) for edit in ("v_hat", "random")
          for dose in (0.5, 1.0, 2.0)),
        *(("reflect", edit, "informative", layer, np.nan) for edit in ("v_hat", "random")
          for layer in (0, 1)),
        *(("reflect", "v_hat", "distractor", layer, np.nan) for layer in (0, 1)),
    ]  # fmt: skip
    tests = pd.DataFrame(cells, columns=["test", "edit", "site", "layer", "dose"])
    models = {"seed": range(3), "model": ["tiny", "small"], "split": ["test", "train"]}
    numbers = table_of({"cell": range(12 * len(cells))}, "accuracy attention_mass flips")
    table = table_of(models, "").merge(tests, how="cross")
    return pd.concat([table, numbers], axis=1)


def check_causal() -> None:
    table = causal_tests()
    value, location, doses, heads = plot_causal(table).axes
    part = table[(table["model"] == "tiny") & (table["split"] == "test")]
    mean = part.groupby(["test", "site", "layer", "edit"])[["accuracy", "attention_mass"]].mean()
    edits = [name for name in EDITS if name != "LEACE"]
    expected = [
        mean.loc[("erase value", site, layer, edit), "accuracy"]
        for site, layer in (("informative", 0), ("distractor", 0), ("summary", 1))
        for edit in edits
    ]
    assert_allclose(all_bars(value).y, expected)
    assert_allclose(all_bars(value).x.round(), np.repeat([0, 1, 2], len(edits)))
    assert [text.get_text() for text in value.texts] == ["not tried"] * 3, "LEACE is not 0"
    rows = part[(part["test"] == "erase value") & (part["edit"] == edits[0])]
    rows = rows[rows["site"] == "informative"]["accuracy"]
    assert_allclose(np.ravel(all_error_bars(value)[0]), [rows.min(), rows.max()])
    at = mean.loc[("erase location", "all words", 0)]
    both = [*at.loc[edits, "accuracy"], *at.loc[edits, "attention_mass"]]
    assert_allclose(all_bars(location).y, both)
    steered = part[(part["test"] == "steer") & (part["edit"] == "v_hat")].groupby("dose")["flips"]
    drawn = curve(doses, "steer along $\\hat v$")
    assert_allclose(drawn, [[0.5, 1.0, 2.0], steered.mean()])
    (band, _) = bands(doses, drawn.x)
    assert_allclose(band, [steered.min(), steered.max()])
    rows = part[(part["test"] == "reflect") & (part["edit"] == "random") & (part["layer"] == 0)]
    assert_allclose(curve(doses, "reflect along random directions").y, [rows["flips"].mean()])
    small = table[(table["model"] == "small") & (table["split"] == "test")]
    small = small[(small["test"] == "reflect") & (small["edit"] == "v_hat")]
    small = small[small["site"] == "informative"]
    by_layer = small.groupby("layer")["flips"].mean()
    assert_allclose(curve(heads, "2 layers, from scratch"), [by_layer.index, by_layer])


def check_probes() -> None:
    """Points and intervals of the trained model are those of the table, and so are dotted lines."""
    keys: dict[str, Any] = {
        "model": ["trained", "untrained"],
        "control": ["none"],
        "probe": ["summary", "reader"],
        "split": ["train", "test", "ood_tokens"],
        "layer": [2, 1, 3],
    }
    table = table_of(keys, "accuracy")
    table = table.assign(low=table["accuracy"] - 0.05, high=table["accuracy"] + 0.1)
    wrong = table.assign(control="shuffled labels", accuracy=0.5, low=0.5, high=0.5)
    summary, reader = plot_probes(pd.concat([table, wrong]), chosen=2).axes
    for ax, probe in ((summary, "summary"), (reader, "reader")):
        for split in ("test", "ood_tokens"):
            rows = table[(table["probe"] == probe) & (table["split"] == split)]
            trained = rows[rows["model"] == "trained"].sort_values("layer")
            assert_allclose(curve(ax, split).y, trained["accuracy"])
            assert_array_equal(np.round(curve(ax, split).x), [1, 2, 3])
            assert_allclose(error_bars(ax, split), [trained["low"], trained["high"]])
            untrained = rows[rows["model"] == "untrained"].sort_values("layer")
            dotted = [line.y for line in lines(ax) if len(line.y) == 3]
            assert any(np.allclose(y, untrained["accuracy"]) for y in dotted)
    assert any(set(line.x) == {2.0} for line in lines(reader)), "the layer that was chosen"


# ---- every check, and every check of a wrong drawing


def check_causal_tests() -> None:
    layers = [0, 1, 2]
    sites = {"informative": "LEACE random v_hat", "distractor": "LEACE v_hat", "summary": "LEACE"}
    tests = {"erase value": "LEACE random", "reflect": "v_hat random"}
    cells = [
        (test, edit, site, layer)
        for test, edits in tests.items()
        for site, own in sites.items()
        for edit in edits.split()
        if edit in own.split()
        for layer in layers
    ]
    table = pd.DataFrame(cells, columns=["test", "edit", "site", "layer"])
    rng = np.random.default_rng(0)
    table[["accuracy", "flips", "shift"]] = rng.random((len(table), 3))
    none = pd.DataFrame({"test": ["none"], "accuracy": [0.9]})
    names = "kappa nu kappa_null_95 nu_null_95 kappa_covariance_null_95 nu_covariance_null_95"
    directions = table_of({"layer": [1, 2], "head": [1, 2]}, names)
    erasure, flips, shifts, cosines = plot_causal_tests(pd.concat([table, none]), directions).axes

    def rows(test: str, edit: str, site: str) -> pd.DataFrame:
        part = table[(table["test"] == test) & (table["edit"] == edit) & (table["site"] == site)]
        return part.sort_values("layer")

    for site in sites:
        expected = rows("erase value", "LEACE", site)["accuracy"]
        assert_allclose(curve(erasure, site), [layers, expected])
    for label, site in (("informative word", "informative"), ("distractor", "distractor")):
        part = rows("reflect", "v_hat", site)
        assert_allclose(curve(flips, f"$\\hat v$, {label}"), [layers, part["flips"]])
        assert_allclose(curve(shifts, f"$\\hat v$, {label}"), [layers, part["shift"]])
    assert_allclose(curve(cosines, "value, $\\hat v$").y, directions["nu"].abs())


def check_decoders() -> None:
    quantities = [*MASS, *COSINES, *EFFECTS, "kappa_states_null", "nu_states_null"]
    table = table_of({"architecture": list(COLOURS_OF), "seed": range(3)}, " ".join(quantities))
    means = table.groupby("architecture")[quantities].mean()
    for ax, names in zip(plot_decoders(table).axes, (MASS, COSINES, EFFECTS), strict=True):
        for architecture, label in LABELS.items():
            assert_allclose(bars(ax, label), means.loc[architecture, list(names)])
    cosines: Any = plot_decoders(table).axes[1]
    nulls = sorted(line.get_ydata()[0] for line in cosines.lines if line.get_linestyle() == ":")
    assert_allclose(
        nulls, sorted(means[["kappa_states_null", "nu_states_null"]].to_numpy().ravel())
    )


def check_length() -> None:
    keys: dict[str, list[Any]] = {
        "model": ["minilm", "smollm2"],
        "fitted": ["short", "with fillers"],
        "probe": list(PROBE_STYLES),
        "fillers": [0, 2, 16],
        "side": ["both", "before"],
    }
    table = table_of(keys, "accuracy low high located")
    table["tokens"] = 10 + 26 * table["fillers"]
    table["low"], table["high"] = 0.9 * table["accuracy"], 1.1 * table["accuracy"]
    attentions: dict[str, list[Any]] = {"attention": list(ATTENTION_CURVES), "L": [2, 10, 100]}
    theory = table_of(attentions, "agreement", seed=1)
    figure = plot_length(table, theory)
    a, b, c, d, e, f = figure.axes
    both = table[table["side"] == "both"].set_index(["model", "fitted", "probe"])
    panels = {("minilm", "short"): a, ("smollm2", "short"): b}
    panels |= {("minilm", "with fillers"): d, ("smollm2", "with fillers"): e}
    for key, ax in panels.items():
        shown = bands(ax, [10, 62, 426])
        for probe, (label, _, marker, _) in PROBE_STYLES.items():
            rows = both.loc[(*key, probe)]
            assert_allclose(curve(ax, label), [rows["tokens"], rows["accuracy"]])
            if marker:
                low, high = shown.pop(0)
                assert_allclose([low, high], [rows["low"], rows["high"]])
        assert not shown
    for attention in ATTENTION_CURVES:
        rows = theory[theory["attention"] == attention]
        assert_allclose(curve(c, attention), [rows["L"], rows["agreement"]])
    for model, fitted in panels:
        name = {"minilm": "MiniLM", "smollm2": "SmolLM2"}[model]
        kind = "short" if fitted == "short" else "2 fillers"
        located = both.loc[(model, fitted, "reader"), "located"]
        assert_allclose(curve(f, f"{name}, {kind}").y, located)


CHECKS: dict[Callable[[], None], str] = {  # which ways of drawing carry its numbers
    check_bands: "plot fill_between",
    check_single_runs: "plot",
    check_portrait: "plot",
    check_yardsticks: "plot errorbar",
    check_scaling: "plot errorbar",
    check_activations: "errorbar",
    check_locations: "plot errorbar",
    check_noise_length: "plot errorbar",
    check_conditional_mean: "plot errorbar",
    check_layer: "plot fill_between",
    check_softmax_length: "pcolormesh plot errorbar",
    check_sweep: "pcolormesh",
    check_curve: "errorbar",
    check_figure_1: "plot:0 hlines:1 hlines:2 scatter:0 scatter:1",
    check_causal_tests: "plot",
    check_decoders: "bar",
    check_length: "plot fill_between",
    check_probes: "plot errorbar",
    check_learning: "plot fill_between",
    check_against_error: "plot fill_between",
    check_causal: "bar errorbar plot fill_between",
}
VALUES = {"pcolormesh": 2, "fill_between": 2}  # which argument; of others the second, or way:which


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_figure_shows_its_table(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize(
    ("check", "way"),
    [(check, way) for check, ways in CHECKS.items() for way in ways.split()],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_wrong_figure_is_seen(
    check: Callable[[], None], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    way, _, which = way.partition(":")
    right = getattr(Axes, way)
    at = int(which) if which else VALUES.get(way, 1)

    def wrong(self: Axes, *args: Any, **options: Any) -> Any:
        values = args[at : at + 1]
        larger = [1.02 * np.asarray(x, dtype=float) for x in values if not isinstance(x, str)]
        return right(self, *args[:at], *(larger or values), *args[at + 1 :], **options)

    monkeypatch.setattr(Axes, way, wrong)
    with pytest.raises(AssertionError):
        check()
