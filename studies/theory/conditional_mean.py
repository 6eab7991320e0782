"""Attention as an estimate of E[value | key]: its error against the number of tokens L."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from studies.rendering import errors_against, intervals
from studies.study import Claim, Figure, Result, Said, SlrOptions, Tables, progress_bar, slr_study


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    full: bool = False
    """Use 400 latents per length and 1500 steps of learning, instead of 80 and 300."""


def run(options: Options) -> Result:
    """Errors of softmax and kernel attention against L, at their best and learned at one length."""
    from slr.attentions.conditional_mean import LatentTask, fit_slope, learn_attention

    task = LatentTask()
    lengths = [8, 16] if options.smoke else [8, 16, 32, 64, 128, 256, 512]
    learned_at = [8] if options.smoke else [8, 32, 128]
    n_contexts = 10 if options.smoke else 400 if options.full else 80
    n_steps = 5 if options.smoke else 1500 if options.full else 300
    learn_rng, test_rng, boot_rng = np.random.default_rng(options.seed).spawn(3)
    learned = {}
    with progress_bar("learning", len(learned_at) * n_steps) as progress:
        for L, rng in zip(learned_at, learn_rng.spawn(len(learned_at)), strict=True):
            learned[L] = learn_attention(task, L, rng, n_steps=n_steps, progress=progress)
    with progress_bar("testing", len(lengths)) as progress:
        errors: dict[tuple[str, int], Any] = {}
        for L in lengths:
            errors |= _errors_at(task, L, n_contexts, learned, test_rng)
            progress(1)
    fitted = lengths[len(lengths) // 3 :]  # the first lengths are too short to tell f_z from 0
    slopes = {
        label: fit_slope(fitted, [errors[label, L] for L in fitted], boot_rng)
        for label in ("softmax, best", "kernel")
    }
    rows = [
        {"attention": label, "L": L, "error": x.mean(), "stderr": x.std(ddof=1) / len(x) ** 0.5}
        for (label, L), x in errors.items()
    ]
    parameters = [
        {"L": L, "beta": np.trace(x.metric) / task.d_key, "precision": x.precision}
        | {"ridge": x.ridge}
        for L, x in learned.items()
    ]
    tables = {"errors": pd.DataFrame(rows), "learned": pd.DataFrame(parameters)}
    tables["slopes"] = pd.DataFrame([{"attention": key} | s._asdict() for key, s in slopes.items()])
    few = "" if options.full else " (400 and 1500 with --full)"
    caption = (
        rf"keys on the sphere of $R^{task.d_key}$, noise {task.noise_std:g}; "
        f"{n_contexts} latents per length, {n_steps} steps of learning{few}; bars: 2 standard"
        " errors"
    )
    figure = plot_conditional_mean(tables["errors"], learned_at, slopes, fitted, caption)
    return Result(tables, {"conditional-mean": figure})


def _errors_at(
    task: Any, L: int, n_contexts: int, learned: dict[int, Any], rng: Any
) -> dict[tuple[str, int], Any]:
    """Errors per context at length L, of the best attentions there and of the learned ones."""
    from slr.attentions import conditional_mean as c

    tuning = c.sample_contexts(task, 2 * n_contexts, L, 16, rng)
    beta = c.best_beta(tuning, np.geomspace(1, 300, 30))
    contexts = c.sample_contexts(task, n_contexts, L, 32, rng)
    estimates = {
        "softmax, best": c.softmax_attention(contexts, beta),
        "kernel": c.kernel_attention(contexts, task.precision, task.noise_std**2),
    }
    for n, x in learned.items():  # n tokens in training
        estimates[f"softmax, learned at {n}"] = c.softmax_attention(contexts, x.metric)
        estimates[f"kernel, learned at {n}"] = c.kernel_attention(contexts, x.precision, x.ridge)
    return {(label, L): c.squared_errors(x, contexts) for label, x in estimates.items()}


def plot_conditional_mean(
    table: Any,
    learned_at: Sequence[int],
    slopes: Mapping[str, Any],
    fitted: Sequence[int],
    caption: str,
) -> Figure:
    """Error against L on log axes: with fitted slopes, and for attention learned at one length.

    ``table`` has attention, L, error and stderr. ``slopes`` are those of the two attentions that
    are best at each length, fitted to the lengths ``fitted``.
    """
    from slr.figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, journal_style, panels

    with journal_style():
        figure, (best, softmax, kernel) = panels(1, 3, (10.0, 3.6))
        for (label, slope), colour, marker in zip(slopes.items(), (BLUE, GREEN), "os", strict=True):
            words = f"{label}\nslope {slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]"
            _draw_errors(best, table, label, colour, marker, words, ls="")
            rows = table[(table["attention"] == label) & table["L"].isin(fitted)]
            x = np.log(rows["L"].to_numpy(float))
            height = np.log(rows["error"].to_numpy(float)).mean()
            line = np.exp(height + slope.value * (x - x.mean()))
            best.plot(np.exp(x), line, color=colour, lw=1.0)
        best.set_title("best at each $L$")
        kinds = ((softmax, "softmax", "softmax, best"), (kernel, "kernel", "kernel"))
        for ax, kind, reference in kinds:
            for L, colour, marker in zip(learned_at, (ORANGE, RED, PURPLE), "^vD", strict=False):
                label = f"{kind}, learned at {L}"
                _draw_errors(ax, table, label, colour, marker, f"learned at $L={L}$", ls="-")
            words = "best at each $L$" if kind == "softmax" else "true kernel and noise"
            _draw_errors(ax, table, reference, BLACK, "", words, ls=":")
            ax.set_title(f"{kind} attention, learned at one $L$")
        bottom = table["error"].min() / 2
        for ax in (best, softmax, kernel):
            ax.set(xscale="log", yscale="log", xlabel="number of tokens $L$", ylim=(bottom, 1))
            ax.legend(loc="lower left", fontsize=7)
        best.set_ylabel("squared error of $E[$value$|$key$, z]$")
        figure.suptitle(caption, fontsize=8)
        return figure


def _draw_errors(
    ax: Any, table: Any, name: str, colour: str, marker: str, label: str, *, ls: str
) -> None:
    rows = table[table["attention"] == name].sort_values("L")
    ax.errorbar(
        rows["L"], rows["error"], 2 * rows["stderr"], color=colour, marker=marker, ls=ls, ms=4,
        lw=1.2, label=label,
    )  # fmt: skip


def claims(tables: Tables) -> Iterator[Claim]:
    for row in tables["slopes"].itertuples():
        yield Claim(
            claim=f"slope of log error in log L, {row.attention}",
            paper="the error falls with the number of tokens (arXiv 2212.14852)",
            required="interval below 0",
            measured=f"{row.value:.2f}",
            interval=f"[{row.low:.2f}, {row.high:.2f}]",
            passed=bool(row.high < 0),
        )


def says(tables: Tables) -> Said:
    slopes = tables["slopes"]
    text = "; ".join(
        map(" ".join, zip(slopes["attention"], intervals(slopes, "value"), strict=True))
    )
    return [
        f"Slope of the log error in log L: {text}.",
        "Mean squared error, with two standard errors:",
        errors_against(tables["errors"], "L", "error"),
        "Parameters learned at each length: sharpness of the softmax, precision and ridge of the "
        "kernel (true values 2 and 0.09):",
        tables["learned"].set_index("L").map("{:.3f}".format),
    ]


STUDY = slr_study(
    __name__,
    "Attention as a conditional mean",
    "(a) Error against the number of tokens, with fitted slopes; (b, c) error at all lengths of "
    "softmax and kernel attention learned at one length.",
)
