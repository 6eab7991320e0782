"""How long a sequence softmax attention can search: L up to e^d, by exact PGD, and d up to 10^12.

Two questions, with thresholds that were set before the run. Is the solution there: is the risk of
the oracle (k*, v*) at its best lambda below half of gamma^2, the zero predictor's risk? And is it
found: is the median risk of PGD below half of gamma^2 after a fixed number of steps? PGD starts
from the sphere with lambda = min(2 log L, d/2) / h, h = sqrt(d/2), so that the oracle's informative
token has the weight of L^2 mean tokens, or else with a lambda that is learned. All numbers are
exact integrals: no sequence is drawn.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import pandas as pd

from studies.bounds import MOST, Count, Within
from studies.findings import Finding
from studies.rendering import pivoted
from studies.study import Result, Said, SlrOptions, Tables, slr_study
from studies.workers import in_parallel

if TYPE_CHECKING:
    from slr.overlaps import Overlaps
    from slr.task import Task

LOG_EVERY = 50
HALF = 0.5  # of gamma^2: a risk below it counts as success
PAPER_STEPS = 20_000  # the paper's number of steps of PGD
LARGEST_STEP = 1.0  # half of the stability limit, or this where nothing would be unstable
GAMMAS = {100: (0.25, 0.35, 0.5, 0.71, 1.0, 1.41, 2.0), 1000: (0.25, 0.5, 1.0, 2.0)}
LOG_LENGTHS = {  # for training: powers of sqrt(10), and some up to e^d
    100: (*(math.log(10) * np.arange(2, 10) / 2).tolist(), 15, 20, 25, 30, 50, 100),
    1000: (*(math.log(10) * np.arange(2, 10) / 2).tolist(), 25, 50, 100, 200, 300),
}
ORACLE_SHARES = (0.05, 0.1, 0.15, 0.2, 0.225, 0.25, 0.275, 0.3, 0.35)  # (log L)/d
WARM_SHARES = (*(0.02 * np.arange(1, 14)).round(2).tolist(),)
WARM_KAPPAS = tuple((0.1 * np.arange(1, 11)).round(1).tolist())
SHOWN_GAMMA = 0.5  # of the oracle against length, the warm starts and the learned lambda
L_AGAINST_D = 10


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    runs: Count | None = None
    """Number of random starts per setting; None: 30, as in the paper."""
    steps: Annotated[int, Within(4, MOST)] | None = None
    """Number of steps of PGD; None: 100 000, five times the paper's."""


class Job(NamedTuple):
    """One setting, for one process: ``rows`` of a table are a function of the settings."""

    table: str
    rows: Callable[..., list[dict[str, Any]]]
    settings: tuple[Any, ...]


def run(options: Options) -> Result:
    from studies.theory.figures.softmax_length import plot_softmax_length

    jobs = _jobs(options)
    tables: dict[str, list[dict[str, Any]]] = {job.table: [] for job in jobs}
    for job, rows in zip(jobs, in_parallel(_rows, jobs, "softmax-length"), strict=True):
        tables[job.table] += rows
    frames = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    frames["growth"] = growth(frames["training"])
    frames["limits"] = limits(frames)
    return Result(frames, {"softmax-length": plot_softmax_length(frames)})


def _rows(job: Job) -> list[dict[str, Any]]:
    return job.rows(*job.settings)


def _jobs(options: Options) -> list[Job]:
    """All settings, those that take longest first."""
    smoke = options.smoke
    runs = options.runs or (4 if smoke else 30)
    steps = options.steps or (400 if smoke else 5 * PAPER_STEPS)
    dimensions = (100,) if smoke else (1000, 100)
    seed, jobs = options.seed, []
    for d in dimensions:
        gammas = GAMMAS[d][2:5:2] if smoke else GAMMAS[d]
        lengths = LOG_LENGTHS[d][:3] if smoke else LOG_LENGTHS[d]
        shares = (0.15, 0.3) if smoke else ORACLE_SHARES
        warm = WARM_SHARES[2::6] if smoke else WARM_SHARES
        jobs += [Job("boundary", boundary, (d, gamma)) for gamma in gammas]
        jobs += [Job("oracle", oracle, (d, SHOWN_GAMMA, share)) for share in reversed(shares)]
        jobs += [
            Job("warm", warm_starts, (d, SHOWN_GAMMA, share, seed)) for share in reversed(warm)
        ]
        cells = [(d, gamma, log_L) for log_L in reversed(lengths) for gamma in gammas]
        jobs += [Job("training", training, (*cell, runs, steps, seed)) for cell in cells]
    learned = LOG_LENGTHS[100][: 1 if smoke else 6]
    few = min(runs, 10)
    jobs += [
        Job("training", training, (100, SHOWN_GAMMA, log_L, few, steps, seed, True))
        for log_L in learned
    ]
    powers = range(2, 5) if smoke else range(2, 13)
    return jobs + [Job("against_d", against_d, (10**p, runs, seed)) for p in powers]


# ---- one setting


def task_of(d: int, log_L: float, gamma: float) -> "Task":
    from slr.task import Task

    return Task(d=d, L=max(2, round(math.exp(log_L))), gamma=gamma)


def rule(task: "Task") -> float:
    """The constant lambda of training: 2 log L / h, and h beyond log L = d/4."""
    return min(2 * math.log(task.L), task.signal**2) / task.signal


def step_size_of(task: "Task", lam: float) -> float:
    """Half of the largest stable step size at the aligned point, and at most LARGEST_STEP."""
    from slr.dynamics.stability import predicted_stability_limit

    return min(predicted_stability_limit(task, lam, "softmax") / 2, LARGEST_STEP)


def best_oracle(task: "Task") -> tuple[float, float]:
    """The best lambda of the oracle and its risk in units of gamma^2, for log L of order d.

    The best lambda is there of the size of h (docs/theory.md), which is where it is looked for.
    """
    from scipy.optimize import minimize_scalar

    from slr.yardsticks import oracle_excess_risk

    def risk(x: float) -> float:
        return float(oracle_excess_risk(task, task.signal * math.exp(x), "softmax"))

    bounds = (math.log(0.25), math.log(2 / min(task.gamma, 1.0) ** 2))
    best = minimize_scalar(risk, bounds=bounds, method="bounded", options={"xatol": 0.03})
    return task.signal * math.exp(float(best.x)), float(best.fun) / task.gamma**2


def oracle(d: int, gamma: float, share: float) -> list[dict[str, Any]]:
    """The oracle at its best lambda, and an upper bound of Bayes, at log L = share d."""
    from slr.yardsticks import bayes_at_most

    task = task_of(d, share * d, gamma)
    lam, risk = best_oracle(task)
    bayes = bayes_at_most(task, 20_000, np.random.default_rng(0)).value / gamma**2
    return [{"d": d, "gamma": gamma, "share": share, "lam": lam, "risk": risk, "bayes": bayes}]


def boundary(d: int, gamma: float) -> list[dict[str, Any]]:
    """The (log L)/d at which the oracle's best risk is half of gamma^2; Bayes' for large d."""
    from scipy.optimize import brentq

    def excess(share: float) -> float:
        return best_oracle(task_of(d, share * d, gamma))[1] - HALF

    width = 1.5 / math.sqrt(d)  # the informative score varies by gamma, and h is sqrt(d/2)
    share = brentq(excess, 0.25 - width, 0.25 + width, xtol=1e-3)
    return [{"d": d, "gamma": gamma, "oracle": share, "bayes": bayes_boundary(gamma)}]


def bayes_boundary(gamma: float) -> float:
    """KL(N(h k*, gamma^2 I) | N(0, I)) / d: up to so large a (log L)/d the tokens differ enough."""
    return 0.25 + (gamma**2 - 1) / 2 - math.log(gamma)


def training(
    d: int, gamma: float, log_L: float, runs: int, steps: int, seed: int, learn_lam: bool = False
) -> list[dict[str, Any]]:
    """PGD from the sphere: medians over runs, risks in units of gamma^2."""
    from slr.dynamics.reduced import pgd
    from slr.overlaps import start_on_sphere
    from slr.risks import excess_risk

    task = task_of(d, log_L, gamma)
    step_size = step_size_of(task, rule(task))
    lam = 1 / math.sqrt(d) if learn_lam else rule(task)
    log_every = min(LOG_EVERY, steps // 4)
    path = pgd(
        task, start_on_sphere(task, runs, np.random.default_rng(seed)), lam=lam,
        step_size=step_size, n_steps=steps, log_every=log_every, gate="softmax",
        learn_lam=learn_lam,
    )  # fmt: skip
    row = min(PAPER_STEPS, steps) // log_every
    early, late = (
        excess_risk(task, path.overlaps.at((..., at)), path.lam[:, at], "softmax")
        for at in (row, -1)
    )
    return [
        {
            "d": d, "gamma": gamma, "log_L": log_L, "share": log_L / d, "steps": steps,
            "training": "lambda learned" if learn_lam else "lambda constant",
            "lam": float(np.median(path.lam[:, -1])), "step_size": step_size, "runs": runs,
            "early_risk": float(np.median(early)) / gamma**2,
            "risk": float(np.median(late)) / gamma**2,
            "aligned": float(path.aligned().mean()),
            "elsewhere": float(np.mean(abs(path.final.eta) > HALF)),
            "steps_to_align": float(np.median(path.steps_to_align())),
            "steps_to_learn": float(np.median(_steps_to_learn(path))),
        }
    ]  # fmt: skip


def _steps_to_learn(path: Any) -> Any:
    """The first logged step with a risk below half of gamma^2, or infinity, per run."""
    learned = path.excess_risk < HALF * path.task.gamma**2
    return np.where(learned.any(axis=1), path.step[learned.argmax(axis=1)], math.inf)


def warm_starts(d: int, gamma: float, share: float, seed: int) -> list[dict[str, Any]]:
    """PGD at lambda = sqrt(2 log L) from starts of several kappa, with v random or at v*.

    Where v is random, the risk is the median of three runs.
    """
    from slr.dynamics.reduced import pgd
    from slr.overlaps import Overlaps, start_on_sphere
    from slr.risks import excess_risk

    task = task_of(d, share * d, gamma)
    lam, each = math.sqrt(2 * math.log(task.L)), 3
    starts = start_on_sphere(task, each * len(WARM_KAPPAS), np.random.default_rng(seed))
    rows = []
    for name, start in (
        ("random", lifted(starts, np.repeat(WARM_KAPPAS, each))),
        ("v*", Overlaps(np.array(WARM_KAPPAS), 1.0, 0.0, 0.0, 0.0)),
    ):
        path = pgd(
            task, start, lam=lam, step_size=step_size_of(task, lam), n_steps=PAPER_STEPS,
            log_every=PAPER_STEPS, gate="softmax",
        )  # fmt: skip
        risks = excess_risk(task, path.final, lam, "softmax").reshape(len(WARM_KAPPAS), -1)
        medians = zip(WARM_KAPPAS, np.median(risks, axis=1) / gamma**2, strict=True)
        setting = {"d": d, "gamma": gamma, "share": share, "v": name}
        rows += [setting | {"kappa": kappa, "risk": float(risk)} for kappa, risk in medians]
    return rows


def lifted(start: "Overlaps", kappa: Any) -> "Overlaps":
    """The same starts, with k turned towards k* (or away) until it has the given kappa."""
    from slr.overlaps import Overlaps

    shrink = np.sqrt((1 - kappa**2) / (1 - start.kappa**2))
    rho = kappa * start.theta + shrink * (start.rho - start.kappa * start.theta)
    return Overlaps(kappa, start.nu, start.theta, shrink * start.eta, rho)


def against_d(d: int, runs: int, seed: int) -> list[dict[str, Any]]:
    """Times to align of the gradient flow, and times over the stability limit, for both gates."""
    from slr.dynamics.scaling import flow_times_to_align
    from slr.dynamics.stability import predicted_stability_limit

    task = task_of(d, math.log(L_AGAINST_D), math.sqrt(0.5))
    rows = []
    for name, gate, lam in (
        ("erf", "erf", 2 / math.sqrt(d)),
        ("softmax", "softmax", 2 / math.sqrt(d)),
        ("softmax, larger lambda", "softmax", rule(task)),
    ):
        times = flow_times_to_align(task, runs, np.random.default_rng(seed), lam, gate)  # type: ignore[arg-type]
        aligned = times[np.isfinite(times)]
        low, middle, high = (
            np.percentile(aligned, [2.5, 50, 97.5]) if len(aligned) else [np.nan] * 3
        )
        limit = predicted_stability_limit(task, lam, gate)  # type: ignore[arg-type]
        row = {"d": d, "curve": name, "lam": lam, "aligned": len(aligned) / runs, "time": middle}
        rows.append(row | {"low": low, "high": high, "limit": limit, "steps": middle / limit})
    return rows


# ---- what follows from the tables


def growth(table: pd.DataFrame) -> pd.DataFrame:
    """Exponents x of median steps to learn ~ L^x, over the lengths that are learned."""
    rows = []
    for (d, gamma, name), cells in table.groupby(["d", "gamma", "training"]):
        found = cells[np.isfinite(cells["steps_to_learn"])]
        if len(found) > 2:
            log_steps = np.log(found["steps_to_learn"])
            exponent = np.polyfit(found["log_L"], log_steps, 1)[0]
            row = {"d": d, "gamma": gamma, "training": name, "exponent": exponent}
            rows.append(row | {"longest": found["log_L"].max(), "lengths": len(found)})
    columns = ["d", "gamma", "training", "exponent", "longest", "lengths"]
    return pd.DataFrame(rows, columns=columns)


def limits(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The longest sequences that are learned, beside the boundary of the oracle: log L each."""
    rows = []
    table = tables["training"].query("training == 'lambda constant'")
    for (d, gamma), cells in table.groupby(["d", "gamma"]):
        place = tables["boundary"].query("d == @d and gamma == @gamma").iloc[0]
        longest = {
            name: cells[cells[name] < HALF]["log_L"].max() for name in ("early_risk", "risk")
        }
        row = {"d": d, "gamma": gamma, "oracle": place["oracle"] * d, "bayes": place["bayes"] * d}
        rows.append(row | {"early": longest["early_risk"], "late": longest["risk"]})
    return pd.DataFrame(rows)


def warm_boundary(table: pd.DataFrame) -> pd.DataFrame:
    """The largest (log L)/d that is learned from each start; 0 if none is."""
    learned = table.assign(share=table["share"].where(table["risk"] < HALF, 0.0))
    return learned.groupby(["d", "v", "kappa"], as_index=False)["share"].max()


def findings(tables: Tables) -> Iterator[Finding]:
    places, largest = tables["boundary"], tables["boundary"]["d"].max()
    far = (places[places["d"] == largest]["oracle"] - 0.25).abs().max()
    yield Finding(
        text=f"At d = {largest} the best softmax keeps half of the signal up to a length whose "
        "(log L)/d is within {} of 1/4, at every gamma.",
        value=far,
        form=".3f",
        required="within 0.02",
        holds=bool(far < 0.02),
    )
    most = tables["limits"].query("d == d.max()")["late"].fillna(0).max()
    yield Finding(
        text="The longest sequence that PGD learns from random starts in "
        f"{tables['training']['steps'].max():,} steps at d = {largest} has log L = {{}}, where the "
        f"oracle reaches {largest / 4:.0f}.",
        value=most,
        form=".1f",
        required="below d/20",
        holds=bool(most < largest / 20),
    )
    rates = tables["growth"].query("gamma <= 1 and training == 'lambda constant'")["exponent"]
    yield Finding(
        text="Median steps to learn grow with the length like L^x, where x is at least {} and at "
        f"most {rates.max():.2f} over all d and all gamma up to 1.",
        value=rates.min(),
        required="between 0.7 and 1.5",
        holds=bool(rates.min() > 0.7 and rates.max() < 1.5),
        why="x falls as gamma grows, and at gamma = 1 and d = 1000 it is just below",
    )
    warm = warm_boundary(tables["warm"]).query("d == d.max() and kappa >= 0.4")
    wide = warm.pivot_table(index="kappa", columns="v", values="share")
    error = abs(wide["random"] - wide.index.to_numpy() ** 2 / 4).max()
    yield Finding(
        text="From a start whose k has the cosine kappa with k*, PGD learns lengths up to "
        "(log L)/d = kappa^2/4 within {}, for kappa of 0.4 to 1 and a random v at "
        f"d = {largest}.",
        value=error,
        form=".3f",
        required="within 0.04",
        holds=bool(error <= 0.04),
        why="lengths were tried 0.02 d apart, so that two of them were allowed, and v has to be "
        "learned as well",
    )


def says(tables: Tables) -> Said:
    ends, rates, flows = tables["limits"], tables["growth"], tables["against_d"]
    steps = tables["training"]["steps"].max()
    shown = pd.DataFrame(
        {
            "d": ends["d"],
            "gamma": ends["gamma"].map("{:g}".format),
            "oracle": ends["oracle"].map("{:.1f}".format),
            "Bayes, large d": ends["bayes"].map("{:.1f}".format),
            f"PGD, {min(PAPER_STEPS, steps):,} steps": ends["early"].map(_longest),
            f"PGD, {steps:,} steps": ends["late"].map(_longest),
        }
    ).set_index("d")
    slopes = "; ".join(
        f"{row.exponent:.2f} (d = {row.d}, gamma = {row.gamma:g}, {row.training})"
        for row in rates.itertuples()
    )
    warm = warm_boundary(tables["warm"])
    starts = [
        f"d = {row.d}, v {'random' if row.v == 'random' else '= v*'}" for row in warm.itertuples()
    ]
    named = warm.assign(start=starts)
    wide = pivoted(named, [f"{share:.2f}" for share in warm["share"]], "kappa", "start")
    wide["kappa^2/4"] = [f"{kappa**2 / 4:.3f}" for kappa in wide.index]
    texts = [f"{row.time:.1f} ({row.aligned:.0%})" for row in flows.itertuples()]
    in_time = pivoted(flows, texts, "d", "curve").sort_index()
    return [
        "log L of the longest sequence with a risk below half of gamma^2: of the oracle at its "
        "best lambda (d/4 for large d), of Bayes for large d, who also sees the norms of tokens, "
        "and of PGD from the sphere (the longest of the lengths that were tried):",
        shown,
        f"Exponents x of median steps to learn ~ L^x: {slopes or 'too few lengths'}.",
        _where_runs_end(tables["training"]),
        "Largest (log L)/d that PGD at lambda = sqrt(2 log L) learns from a start with a given "
        f"kappa, gamma = {SHOWN_GAMMA:g} (lengths are 0.02 d apart):",
        wide,
        f"Time to align of the gradient flow at L = {L_AGAINST_D}, median of the runs that align, "
        "and their share:",
        in_time.rename(index="{:.0e}".format),
    ]


def _where_runs_end(table: pd.DataFrame) -> str:
    """A sentence on the setting in which most runs end with k near v*."""
    worst = table.loc[table["elsewhere"].idxmax()]
    return (
        "Not all runs that fail are slow: others end at a minimum of the risk with k nearer to v* "
        f"than to k* (|eta| above {HALF:g}), at most {worst['elsewhere']:.0%} of the runs "
        f"(d = {worst['d']}, gamma = {worst['gamma']:g}, L = {math.exp(worst['log_L']):.3g}, "
        f"median risk {worst['risk']:.2f} gamma^2)."
    )


def _longest(log_L: float) -> str:
    return f"{log_L:.1f}" if log_L == log_L else "none"


STUDY = slr_study(
    __name__,
    "Softmax attention in long sequences",
    "Median final risk of softmax PGD over (log L)/d and gamma, with the lengths that the oracle "
    "and Bayes reach; the oracle's risk against length; the lengths that PGD learns from warm "
    "starts; steps to learn against L; time to align against d for softmax and erf.",
)
