"""Attention as an estimate of E[value | key]: its error against the number of tokens L."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.findings import Finding, of_row
from studies.rendering import errors_against, intervals, number
from studies.study import Result, Said, SlrOptions, Tables, progress_bar, slr_study
from studies.theory.figures.conditional_mean import ALIKE, plot_conditional_mean

if TYPE_CHECKING:
    from slr.attentions.conditional_mean import LatentTask
    from slr.attentions.objectives import Learned

Options = SlrOptions  # it has no others
KEY_SHIFT, QUERY_SHIFT = 1.0, -2.0  # in the control of the objectives: queries where keys are rare
RARE = "where keys are rare"
LENGTH = 16  # of contexts in the study of the statistic


def run(options: Options) -> Result:
    """Errors of softmax and kernel attention against L, what they keep, and what they learn."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from slr.attentions.conditional_mean import LatentTask

    task = LatentTask()
    learned_at = {8: 20} if options.smoke else {8: 2000, 32: 1000, 128: 500}  # contexts by length
    learn_rng, test_rng, boot_rng, part_rng = np.random.default_rng(options.seed).spawn(4)
    with threadpool_limits(1, user_api="blas"):  # the same bits on any number of cores
        objectives, learned = learn(task, learned_at, options.smoke, learn_rng)
        errors = measure(task, learned, options.smoke, test_rng)
        kept = what_is_kept(task, options.smoke, part_rng)
    tables = {"objectives": objectives} | kept | rates(errors, boot_rng)
    caption = (
        rf"keys on the sphere of $R^{task.d_key}$, noise {task.noise_std:g}; latents and noise are"
        " integrated out, bars: 2 standard errors over keys and queries"
    )
    figure = plot_conditional_mean(tables, list(learned_at), caption)
    return Result(tables, {"conditional-mean": figure})


def learn(
    task: "LatentTask", learned_at: dict[int, int], smoke: bool, rng: Any
) -> "tuple[pd.DataFrame, dict[int, Learned]]":
    """Both objectives at all lengths, and where queries do not have the law of the keys."""
    from slr.attentions.conditional_mean_errors import Trials
    from slr.attentions.objectives import learn_attention

    middle = sorted(learned_at)[len(learned_at) // 2]
    cases: list[tuple[str, Any, float | None, int]]
    cases = [(ALIKE, task, None, L) for L in learned_at]
    cases.append((RARE, replace(task, key_shift=KEY_SHIFT), QUERY_SHIFT, middle))
    rows, learned = [], {}
    with progress_bar("learning", 2 * len(cases)) as progress:
        for queries, own, shift, L in cases:
            trials = Trials.draw(own, 20 if smoke else 100, L, 32, rng, query_shift=shift)
            for objective in ("supervised", "self-supervised"):
                found = learn_attention(
                    own, L, rng, n_contexts=learned_at[L], objective=objective, query_shift=shift
                )
                row = {"queries": queries, "L": L, "objective": objective, "beta": found.beta}
                row |= {"precision": found.precision, "ridge": found.ridge}
                for kind, weights in found.weights(trials.keys, trials.queries).items():
                    row[f"{kind}_error"] = trials.errors(weights).mean()
                rows.append(row)
                if objective == "supervised" and shift is None:
                    learned[L] = found
                progress(1)
    return pd.DataFrame(rows), learned


def measure(
    task: "LatentTask", learned: "dict[int, Learned]", smoke: bool, rng: Any
) -> dict[tuple[str, int], Any]:
    """Errors per draw of keys and queries, of the best attentions and of the learned ones."""
    from slr.attentions.conditional_mean import kernel_weights, softmax_weights
    from slr.attentions.conditional_mean_errors import Trials

    lengths = [8, 16] if smoke else [8, 16, 32, 64, 128, 256, 512]
    longer = [32] if smoke else [512, 1024, 2048, 4096]  # for softmax alone, on fewer keys
    errors: dict[tuple[str, int], Any] = {}
    trials = Trials.draw(task, 10 if smoke else 60, lengths[-1], 32, rng)
    long_trials = Trials.draw(task, 4 if smoke else 12, longer[-1], 32, rng)
    with progress_bar("testing", len(lengths) + len(longer)) as progress:
        for L in lengths:
            here = trials.first(L)
            keys, queries = here.keys, here.queries
            weights = {
                "softmax, best": softmax_weights(keys, queries, here.best_beta()),
                "kernel": kernel_weights(keys, queries, task.precision, task.noise_std**2),
            }
            for at, found in learned.items():
                for kind, own in found.weights(keys, queries).items():
                    weights[f"{kind}, learned at {at}"] = own
            errors |= {(label, L): here.errors(a) for label, a in weights.items()}
            progress(1)
        for L in longer:
            here = long_trials.first(L)
            softmax = softmax_weights(here.keys, here.queries, here.best_beta())
            errors["softmax, long", L] = here.errors(softmax)
            progress(1)
    return errors


def rates(errors: dict[tuple[str, int], Any], rng: Any) -> dict[str, pd.DataFrame]:
    """Mean errors, their slopes from L = 32 on, and the local slopes of the best softmax."""
    from slr.attentions.conditional_mean_errors import fit_slope

    rows = [
        {"attention": label, "L": L, "error": x.mean(), "stderr": x.std(ddof=1) / len(x) ** 0.5}
        for (label, L), x in errors.items()
    ]
    slopes, local = [], []
    for label in ("softmax, best", "kernel", "softmax, long"):
        lengths = [L for name, L in errors if name == label]
        fitted = [L for L in lengths if L >= 32] or lengths  # shorter ones cannot tell f_z from 0
        if label != "softmax, long":
            slope = fit_slope(fitted, np.array([errors[label, L] for L in fitted]), rng)
            slopes.append({"attention": label, "fitted_from": fitted[0], **slope._asdict()})
        for pair in itertools.pairwise(lengths):
            slope = fit_slope(pair, np.array([errors[label, L] for L in pair]), rng)
            local.append({"attention": label, "from": pair[0], "to": pair[1], **slope._asdict()})
    tables = {"errors": rows, "slopes": slopes, "local_slopes": local}
    return {name: pd.DataFrame(table) for name, table in tables.items()}


def what_is_kept(task: "LatentTask", smoke: bool, rng: Any) -> dict[str, pd.DataFrame]:
    """Kernel attention and its statistic; what further features of the tokens add to attention."""
    from slr.attentions import sufficiency as s

    differences = s.statistic_differences(task, 2 if smoke else 10, LENGTH, rng)
    errors = s.partial_errors(task, 4 if smoke else 50, LENGTH, rng)
    further = s.further_correlations(task, 200 if smoke else 60_000, LENGTH, rng)
    columns = {"difference": differences, "error": errors}
    return {
        "statistic": pd.DataFrame(columns).rename_axis("kept").reset_index(),
        "sufficiency": pd.DataFrame(
            {"beyond": name, "correlation": found.value, "stderr": found.stderr}
            for name, found in further.items()
        ),
    }


def findings(tables: Tables) -> Iterator[Finding]:
    slopes = tables["slopes"].set_index("attention")
    softmax, kernel = slopes.loc["softmax, best"], slopes.loc["kernel"]
    yield Finding(
        text="The error of the best softmax attention as a conditional mean falls with the number "
        f"of tokens L like L^{{}} at the lengths tried (it must tend to -2/3), that of kernel "
        f"attention like L^{kernel['value']:.2f} [{kernel['low']:.2f}, {kernel['high']:.2f}].",
        **of_row(softmax, "value"),
    )


def says(tables: Tables) -> Said:
    slopes, local = tables["slopes"], tables["local_slopes"].query("attention != 'kernel'")
    text = "; ".join(
        map(" ".join, zip(slopes["attention"], intervals(slopes, "value"), strict=True))
    )
    shown = local.assign(slope=intervals(local, "value")).set_index(["from", "to"])[["slope"]]
    errors = tables["errors"].query("attention != 'softmax, long'")
    parts = tables["statistic"].set_index("kept")
    beyond = tables["sufficiency"].set_index("beyond").map("{:.4f}".format)
    return [
        f"Slope of the log error in log L, from L = {slopes['fitted_from'].iloc[0]} on: {text}.",
        "Local slopes of softmax attention at its best beta; Nadaraya-Watson on the sphere tends "
        "to -2/3:",
        shown,
        "Mean squared error, with two standard errors:",
        errors_against(errors, "L", "error"),
        "Kernel attention from the statistic S = sum phi(k) phi(k)^T, t = sum phi(k) value alone "
        "(largest difference from kernel attention), and the error without parts of it:",
        pd.DataFrame(
            {
                "difference": [f"{x:.0e}" if x == x else "" for x in parts["difference"]],
                "error": [number(x, 4) for x in parts["error"]],
            },
            index=parts.index,
        ),
        "Correlation of what attention leaves of the target with what further features of the "
        "tokens (mean value, nearest key, softmax attentions) make of it, on held-out contexts:",
        beyond,
        "Learned from targets at queries (supervised) and from hidden tokens (self-supervised): "
        "sharpness of the softmax, precision and ridge of the kernel (true values 2 and 0.09), "
        "test errors:",
        tables["objectives"].set_index(["queries", "L", "objective"]).map("{:.3f}".format),
    ]


STUDY = slr_study(
    __name__,
    "Attention as a conditional mean",
    "(a) Error against the number of tokens, with fitted slopes; (b, c) error at all lengths of "
    "softmax and kernel attention learned at one length; (d) error of attention that learned from "
    "hidden tokens relative to supervised.",
)
