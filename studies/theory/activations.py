"""Which attention can reach Bayes: the best excess risk of each gate against d, L and gamma."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.rendering import errors_against
from studies.study import Claim, Figure, Result, Said, SlrOptions, Tables, progress_bar, slr_study

if TYPE_CHECKING:
    from slr.task import Task


THRESHOLD = ", threshold"  # suffix of the name of an attention with a threshold
ATTENTIONS = (  # in the order in which they are drawn
    "softmax", f"sigmoid{THRESHOLD}", f"relu{THRESHOLD}", "relu", "erf", "linear", "sigmoid",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Options(SlrOptions):
    full: bool = False
    """Draw ten times as many samples (takes minutes)."""


def run(options: Options) -> Result:
    from slr.task import Task

    n_samples = 500 if options.smoke else 500_000 if options.full else 50_000
    points = 2 if options.smoke else 9  # odd: gamma = 1 is one of them
    base = Task(d=20, L=10, gamma=1.0)
    axes: dict[str, list[Any]] = {
        "d": sorted({round(x) for x in np.geomspace(2, 48, points)}),  # beyond, softmax never errs
        "L": sorted({round(x) for x in np.geomspace(2, 100, points)}),
        "gamma": [float(x) for x in np.geomspace(0.5, 2, points)],
    }
    total = sum(len(values) for values in axes.values())
    rngs = iter(np.random.default_rng(options.seed).spawn(total))
    rows = []
    with progress_bar("activations", total) as progress:
        for axis, values in axes.items():
            for value in values:
                task = replace(base, **{axis: value})
                rows += [{"axis": axis, **row} for row in _rows(task, n_samples, next(rngs))]
                progress(1)
    table = pd.DataFrame(rows)
    caption = (
        rf"best over $\lambda$, scale of $v$ (and threshold), at $k^\star, v^\star$: $d={base.d}$,"
        rf" $L={base.L}$, $\gamma={base.gamma:g}$ but for the axis; {n_samples:,} samples,"
        " bars: 2 standard errors"
    )
    return Result({"activations": table}, {"activations": plot_activations(table, caption)})


def _rows(task: "Task", n_samples: int, rng: Any) -> list[dict[str, Any]]:
    """One row per attention, and one for Bayes."""
    from slr.yardsticks import bayes_excess_risk

    setting: dict[str, Any] = {"d": task.d, "L": task.L, "gamma": task.gamma}
    bayes = bayes_excess_risk(task, n_samples, rng)
    rows = [setting | {"attention": "bayes", "excess_risk": bayes.value, "stderr": bayes.stderr}]
    for label in ATTENTIONS:
        best = best_of(label, task, n_samples, rng)
        risk = {"excess_risk": best.excess_risk.value, "stderr": best.excess_risk.stderr}
        optimum = {"lam": best.lam, "threshold": best.threshold, "scale": best.scale}
        rows.append(setting | {"attention": label} | risk | {"mass": best.mass} | optimum)
    return rows


def best_of(label: str, task: "Task", n_samples: int, rng: Any, n_informative: int = 1) -> Any:
    """The attention of this name with its best parameters."""
    from slr.attentions.best import best_attention

    gate: Any = label.removesuffix(THRESHOLD)
    options = {"fit_threshold": label != gate, "n_informative": n_informative}
    return best_attention(task, gate, n_samples, rng, **options)


def above_bayes(table: pd.DataFrame, attention: str) -> pd.Series:
    """The risk of an attention above that of Bayes, in standard errors, by d (gamma = 1)."""
    rows = table[table["axis"] == "d"].set_index(["attention", "d"])
    best, bayes = rows.loc[attention], rows.loc["bayes"]
    error = (best["stderr"] ** 2 + bayes["stderr"] ** 2) ** 0.5
    return (best["excess_risk"] - bayes["excess_risk"]) / error


def plot_activations(table: Any, caption: str) -> Figure:
    """Best excess risk of each attention, and Bayes, against d, L and gamma.

    ``table`` has axis ("d", "L" or "gamma"), these three, attention, excess_risk and stderr.
    """
    from slr.figures import BLACK, COLOURS, GREY, MARKERS, journal_style, panels

    axes_shown: dict[str, tuple[str, list[float]]] = {  # label and ticks
        "d": ("$d$", [2, 5, 10, 20, 50]),
        "L": ("$L$", [2, 5, 10, 20, 50, 100]),
        "gamma": (r"$\gamma$", [0.5, 0.7, 1, 1.4, 2]),
    }
    with journal_style():
        figure, axes = panels(1, 3, (10.0, 3.5))
        for ax, (axis, (label, ticks)) in zip(axes, axes_shown.items(), strict=True):
            rows = table[table["axis"] == axis]
            for colour, marker, name in zip(
                (*COLOURS[:6], GREY), MARKERS, ATTENTIONS, strict=False
            ):
                best = rows[rows["attention"] == name]
                size = 6.5 if name == "erf" else 3.5  # linear lies on top of it
                ax.errorbar(
                    best[axis], best["excess_risk"], 2 * best["stderr"], fmt=marker,
                    ls="--" if name.endswith(THRESHOLD) else "-", color=colour, ms=size, lw=1.1,
                    label=name,
                )  # fmt: skip
            bayes = rows[rows["attention"] == "bayes"]
            ax.errorbar(
                bayes[axis], bayes["excess_risk"], 2 * bayes["stderr"], fmt="o", color=BLACK,
                mfc="none", ms=8, mew=1.2, lw=1.0, label="Bayes",
            )  # fmt: skip
            ax.set(xscale="log", yscale="log", xlabel=label, ylabel="best excess risk")
            ax.set_ylim(1e-3, None)
            ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
            ax.set_xticks([], minor=True)
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=8,
            columnspacing=1.2, handlelength=2.4,
        )  # fmt: skip
        figure.suptitle(caption, fontsize=8)
        return figure


def claims(tables: Tables) -> Iterator[Claim]:
    table = tables["activations"]
    for attention, paper, required, most in (
        ("softmax", "softmax reaches the Bayes risk", "at most 3", True),
        ("linear", "linear attention does not", "more than 3", False),
    ):
        gap = above_bayes(table, attention)
        worst = gap.abs().max() if most else gap.min()
        yield Claim(
            claim=f"excess risk of the best {attention} attention minus Bayes, in standard errors, "
            f"{'largest' if most else 'smallest'} over {len(gap)} dimensions (gamma = 1)",
            paper=f"{paper} (arXiv 2509.21936)",
            required=required,
            measured=f"{worst:.1f}",
            passed=bool(worst <= 3 if most else worst > 3),
        )


def says(tables: Tables) -> Said:
    rows = tables["activations"].query("axis == 'd'")
    first = rows.iloc[0]
    return [
        "The lowest excess risk of each attention at the true directions, with two standard errors "
        f"(L = {first['L']}, gamma = {first['gamma']:g}):",
        errors_against(rows, "d", "excess_risk"),
    ]


STUDY = slr_study(
    __name__,
    "Other attentions",
    "The lowest excess risk that each attention can reach, and that of Bayes, against d, L and "
    "gamma.",
)
