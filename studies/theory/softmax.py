"""Softmax instead of erf: yardsticks, the landscape, and how training ends.

Real attention is a softmax. Its risk is exact here (docs/theory.md, section 15), so that both gates
can be compared without a sample: the best each can do, whether the swapped point exists at which
erf runs may end, how many of 600 runs end there, and what happens if lam is learned.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.bounds import Count, Dimension
from studies.findings import Finding, of_row, share
from studies.rendering import number
from studies.study import Result, Said, SlrOptions, Tables, progress_bar, slr_study

if TYPE_CHECKING:
    from slr.task import Task

GATES: tuple[Any, ...] = ("erf", "softmax")
LAMS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
TIME = 80.0  # step size times steps: that of the paper's pgd-small-lambda
STEP_SIZE = 4e-3  # the paper's, or half the stability limit if that is less
LEARNED_FROM = 0.1  # the lam at which learning begins
LEARNED_STEP = 1e-3  # a larger step size is beyond stability for erf's lam k
LOGGED = 80  # steps of runs that learn lam
ENDS = {"aligned": "aligned", "swapped": "swapped", "elsewhere": "elsewhere"}


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    runs: Count = 600
    """Number of runs per gate and lambda."""
    d: Dimension = 400
    """Dimension of the training runs; the default is the paper's."""


def run(options: Options) -> Result:
    from slr.dynamics.experiment import EXPERIMENTS
    from slr.dynamics.portrait import fixed_points
    from studies.theory.figures.softmax import plot_softmax

    task = replace(EXPERIMENTS["pgd-small-lambda"].task, d=options.d)
    lams = (0.1, 1.0) if options.smoke else LAMS
    runs = min(options.runs, 8) if options.smoke else options.runs
    rng = np.random.default_rng(options.seed)
    yardsticks = best_risks(options, rng.spawn(1)[0])
    ends, share = trained_ends(task, lams, runs, options, rng.spawn(1)[0])
    learned = learned_runs(task, runs, options, rng.spawn(1)[0])
    points = [
        {"gate": gate, "lam": lam, **vars(point)}
        for gate in GATES
        for lam in lams
        for point in fixed_points(task, lam, gate)
    ]
    tables = {
        "yardsticks": yardsticks,
        "ends": ends,
        "shares": share,
        "slopes": swapped_point(task, lams),
        "fixed_points": pd.DataFrame(points),
        "learned": learned,
        "published": published_ends(options),
    }
    return Result(tables, {"softmax": plot_softmax(tables, task)})


def best_risks(options: Options, rng: np.random.Generator) -> pd.DataFrame:
    """The best risk of each attention at k*, v*, and Bayes, by length; d small enough to see it."""
    from slr import yardsticks as y
    from slr.task import Task

    lengths = (2, 100) if options.smoke else (2, 5, 10, 30, 100, 300, 1000, 3000, 10_000)
    n_samples = 2_000 if options.smoke else 40_000
    rows = []
    with progress_bar("yardsticks", 2 * len(lengths)) as progress:
        for gamma in (1.0, math.sqrt(1 / 2)):
            for L in lengths:
                task = Task(d=40, L=L, gamma=gamma)
                row: dict[str, Any] = {"d": task.d, "L": L, "gamma": gamma}
                bayes = y.bayes_excess_risk(task, min(n_samples, 4_000_000 // L), rng)
                row |= {"bayes": bayes.value, "bayes_stderr": bayes.stderr}
                for gate in GATES:
                    lam = y.best_oracle_lam(task, gate)
                    row[f"{gate}_lam"] = lam
                    row[gate] = float(y.oracle_excess_risk(task, lam, gate))
                row["linear attention"] = y.linear_attention_excess_risk(task, affine=False)
                row["affine attention"] = y.linear_attention_excess_risk(task)
                row["linear"] = y.linear_excess_risk(task)
                rows.append(row)
                progress(1)
    return pd.DataFrame(rows)


def trained_ends(
    task: "Task", lams: Any, runs: int, options: Options, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """How runs from the sphere end at constant lam, one row per run; and shares, with intervals.

    Both gates begin at the same starts, and train for the same time.
    """
    from scipy.stats import binomtest

    from slr.dynamics.reduced import pgd
    from slr.dynamics.stability import predicted_stability_limit
    from slr.overlaps import start_on_sphere
    from slr.yardsticks import oracle_excess_risk

    start = start_on_sphere(task, runs, rng)
    parts, rows = [], []
    with progress_bar("training", len(GATES) * len(lams)) as progress:
        for gate in GATES:
            for lam in lams:
                limit = predicted_stability_limit(task, lam, gate)
                step_size = min(STEP_SIZE, limit / 2)
                n_steps = 200 if options.smoke else math.ceil(TIME / step_size)
                settings: dict[str, Any] = {"lam": lam, "step_size": step_size, "gate": gate}
                settings |= {"n_steps": n_steps, "log_every": n_steps}
                outcomes = pgd(task, start, **settings).outcomes()
                kinds = [outcomes["aligned"], outcomes["swapped"]]
                outcomes["ended"] = np.select(kinds, list(ENDS)[:2], "elsewhere")
                parts.append(outcomes.assign(gate=gate, lam=lam, step_size=step_size))
                row: dict[str, Any] = {"gate": gate, "lam": lam, "runs": runs}
                for kind in ENDS:
                    count = int((outcomes["ended"] == kind).sum())
                    interval = binomtest(count, runs).proportion_ci()
                    row |= {kind: count / runs, f"{kind}_low": interval.low}
                    row |= {f"{kind}_high": interval.high}
                row["excess_risk"] = outcomes["excess_risk"].median()
                row["oracle"] = float(oracle_excess_risk(task, lam, gate))
                row["kappa"] = outcomes["kappa"].median()
                rows.append(row)
                progress(1)
    return pd.concat(parts, ignore_index=True), pd.DataFrame(rows)


def swapped_point(task: "Task", lams: Any) -> pd.DataFrame:
    """The smallest slope of the risk with k = v*, over all v: 0 if the swapped point exists."""
    from slr.dynamics.stability import smallest_slope_at_v_star

    rows = []
    for gate in GATES:
        for lam in lams:
            slope, where = smallest_slope_at_v_star(task, lam, gate)
            rows.append({"gate": gate, "lam": lam, "slope": slope, **where._asdict()})
    return pd.DataFrame(rows).astype(dict.fromkeys(("slope", "nu", "theta"), float))


def learned_runs(
    task: "Task", runs: int, options: Options, rng: np.random.Generator
) -> pd.DataFrame:
    """Training with a lam that is learned, one row per gate, run and logged step."""
    from slr.dynamics.reduced import pgd
    from slr.overlaps import start_on_sphere

    start = start_on_sphere(task, runs, rng)
    n_steps = 400 if options.smoke else math.ceil(TIME / LEARNED_STEP)
    settings: dict[str, Any] = {"lam": LEARNED_FROM, "step_size": LEARNED_STEP}
    settings |= {"n_steps": n_steps, "log_every": n_steps // LOGGED, "learn_lam": True}
    parts = []
    for gate in GATES:
        total = runs * n_steps
        with progress_bar(f"lam learned, {gate}", total) as progress:
            trajectory = pgd(task, start, **settings, gate=gate, progress=progress)
        aligned = trajectory.aligned()
        table = trajectory.to_frame().assign(gate=gate)
        parts.append(table.assign(aligned=aligned[table["run"].to_numpy()]))
    return pd.concat(parts, ignore_index=True)


def published_ends(options: Options) -> pd.DataFrame:
    """How the paper's own 30 starts end, at three lam and with both gates."""
    from slr.dynamics.experiment import EXPERIMENTS, published_start
    from slr.dynamics.reduced import pgd

    experiment = EXPERIMENTS["pgd-small-lambda"]
    start, rows = published_start("pgd-small-lambda"), []
    n_steps = 200 if options.smoke else experiment.n_steps
    for gate in GATES:
        for lam in (0.05, 0.1, 0.2):
            settings: dict[str, Any] = {"lam": lam, "step_size": experiment.step_size}
            settings |= {"n_steps": n_steps, "log_every": n_steps, "gate": gate}
            outcomes = pgd(experiment.task, start, **settings).outcomes()
            row = {"gate": gate, "lam": lam, "runs": len(outcomes)}
            row |= {kind: int(outcomes[kind].sum()) for kind in ("aligned", "swapped")}
            row["excess_risk"] = outcomes["excess_risk"].median()
            rows.append(row)
    return pd.DataFrame(rows)


def findings(tables: Tables) -> Iterator[Finding]:
    shares = tables["shares"].set_index(["gate", "lam"])
    row = shares.loc[("softmax", 0.1)]
    yield Finding(
        text="With softmax in place of erf and lambda = 0.1 a share of {} of the runs of PGD from "
        f"random starts find k* and v* (erf: {shares.loc[('erf', 0.1), 'aligned']:.2f}).",
        **of_row(row, "aligned", "aligned"),
        form=".3f",
        required="at least 0.99",
        holds=bool(row["aligned_low"] >= 0.99),
    )
    softmax, erf = (shares.loc[gate, "swapped"].max() for gate in ("softmax", "erf"))
    slopes = tables["slopes"].groupby("gate")["slope"]
    least, most = slopes.min()["softmax"], slopes.max()["erf"]
    yield Finding(
        text="The swapped point does not exist for softmax: with k at v* its risk has a slope of "
        f"{{}} or more at every v and lambda (erf: {most:.0g}), and a share of {softmax:g} of its "
        f"runs at most end there (erf: {erf:.3f}).",
        value=least,
        form=".3f",
        required="slope above 1e-3 (erf: below 1e-6), and no run",
        holds=bool(least > 1e-3 and most < 1e-6 and softmax == 0),
    )
    learned = tables["learned"]
    last = learned[learned["step"] == learned["step"].max()].set_index("gate")
    runs = last.loc["softmax", "aligned"]
    yield Finding(
        text="Where lambda is learned too, a share of {} of softmax runs find k* and v* (erf: "
        f"{last.loc['erf', 'aligned'].mean():.2f}); every softmax run ends at an excess risk of "
        f"{last.loc['softmax', 'excess_risk'].max():.0e} or less.",
        **share(runs.sum(), len(runs)),
    )


def says(tables: Tables) -> Said:
    shares = tables["shares"]
    shown = shares.assign(**{kind: shares[kind].map("{:.3f}".format) for kind in ENDS})
    risks = {name: shares[name].map(lambda x: number(x, 4)) for name in ("excess_risk", "oracle")}
    shown = shown.assign(**risks, kappa=shares["kappa"].map("{:.2f}".format))
    shown = shown.set_index(["gate", "lam"])[[*ENDS, "excess_risk", "oracle", "kappa"]]
    names = {"excess_risk": "excess risk, median", "oracle": "oracle at this lambda"}
    names |= {"kappa": "kappa, median"}
    slopes = tables["slopes"].pivot_table(index="lam", columns="gate", values="slope")
    learned = tables["learned"]
    last = learned[learned["step"] == learned["step"].max()]
    ended = last.groupby("gate").agg(
        runs=("run", "size"), aligned=("aligned", "sum"), lam=("lam", "median"),
        risk=("excess_risk", "median"), worst=("excess_risk", "max"),
    )  # fmt: skip
    for name in ("lam", "risk", "worst"):
        ended[name] = ended[name].map(lambda x: f"{x:.3g}")
    ended = ended.rename(
        columns={"lam": "lambda at the end, median", "risk": "excess risk, median"}
    ).rename(columns={"worst": "excess risk, largest"})
    return [
        f"How {shares['runs'].iloc[0]} runs of PGD from random starts end, by gate and (constant) "
        "lambda: shares. Aligned: k near k* and v near v* (above 0.95); swapped: k near v*; "
        "elsewhere: neither. A sharp softmax that attends to the right token has nothing left to "
        "gain from turning k further, so its kappa creeps, at a risk of nearly 0.",
        shown.rename(columns=names),
        "The smallest slope of the risk along the spheres with k at v*, over all v. It is 0 if the "
        "swapped point exists.",
        slopes.map(lambda x: f"{x:.2g}"),
        "Fixed points of the flow on the manifold, softmax, by lambda: their kinds.",
        kinds(tables["fixed_points"].query("gate == 'softmax'")),
        f"Runs that also learn lambda, from {LEARNED_FROM:g} (k of free length, as in a "
        "Transformer):",
        ended,
        "The best excess risk of each attention at k*, v*, and Bayes (with its standard error), at "
        "d = 40, by length:",
        best_in_words(tables["yardsticks"]),
    ]


def kinds(points: pd.DataFrame) -> pd.DataFrame:
    """One row per lam, one column per fixed point."""
    places = [f"({k:.3g}, {n:.3g})" for k, n in points[["kappa", "nu"]].to_numpy()]
    wide = points.assign(place=places).pivot_table(
        index="lam", columns="place", values="kind", aggfunc="first"
    )
    return wide.fillna("")


def best_in_words(table: pd.DataFrame) -> pd.DataFrame:
    shown = table.set_index(["gamma", "L"])
    columns = ["bayes", "softmax", "erf", "affine attention", "linear attention", "linear"]
    texts = shown[columns].map(lambda x: number(x, 4))
    texts["bayes"] += [f" ({x:.1g})" for x in shown["bayes_stderr"]]
    texts["softmax's lambda"] = shown["softmax_lam"].map("{:.3g}".format)
    return texts.rename(index=lambda x: f"{x:.3g}", level="gamma").rename(
        columns={"bayes": "Bayes", "linear": "best linear predictor"}
    )


STUDY = slr_study(
    __name__,
    "Softmax attention, exactly",
    "(a) Best excess risk of each attention at the true directions, and Bayes, by length; (b) how "
    "runs of PGD end, by lambda and gate; (c) smallest slope of the risk with k at v*, which is 0 "
    "where the swapped point exists; (d) gradient flow of softmax on the invariant manifold; "
    "(e, f) training with a lambda that is learned: excess risk and lambda.",
)
