"""Which attention can reach Bayes: the best excess risk of each gate against d, L and gamma."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from studies.rendering import errors_against
from studies.study import Figure, Result, Said, SlrOptions, Tables, progress_bar, slr_study

if TYPE_CHECKING:
    from slr.task import Task

THRESHOLD = ", threshold"  # suffix of the name of an attention with a threshold
ATTENTIONS = (  # in the order in which they are drawn
    "softmax", f"sigmoid{THRESHOLD}", f"relu{THRESHOLD}", "relu", f"linear{THRESHOLD}", "linear",
    "erf", "sigmoid",
)  # fmt: skip
Options = SlrOptions  # it has no others


def run(options: Options) -> Result:
    from slr.task import Task

    n_samples = 500 if options.smoke else 50_000
    points = 2 if options.smoke else 9  # odd: gamma = 1 is one of them
    base = Task(d=20, L=10, gamma=1.0)
    axes: dict[str, list[Any]] = {
        "d": sorted({round(x) for x in np.geomspace(2, 48, points)}),  # beyond, softmax never errs
        "L": sorted({round(x) for x in np.geomspace(2, 100, points)}),
        "gamma": [float(x) for x in np.geomspace(0.5, 2, points)],
    }
    total = sum(len(values) for values in axes.values())
    *rngs, identity_rng = np.random.default_rng(options.seed).spawn(total + 1)
    streams = iter(rngs)
    rows = []
    with progress_bar("activations", total) as progress:
        for axis, values in axes.items():
            for value in values:
                task = replace(base, **{axis: value})
                rows += [{"axis": axis, **row} for row in _rows(task, n_samples, next(streams))]
                progress(1)
    gaps = [{"d": d, "gap": identity_gap(replace(base, d=d), identity_rng)} for d in axes["d"]]
    tables = {"activations": pd.DataFrame(rows), "identity": pd.DataFrame(gaps)}
    caption = (
        rf"best over $\lambda$, scale of $v$ (and threshold), at $k^\star, v^\star$: $d={base.d}$,"
        rf" $L={base.L}$, $\gamma={base.gamma:g}$ but for the axis; softmax and Bayes by"
        f" {n_samples:,} samples (bars: 2 standard errors), the others exact"
    )
    return Result(tables, {"activations": plot_activations(tables["activations"], caption)})


def _rows(task: "Task", n_samples: int, rng: Any) -> list[dict[str, Any]]:
    """One row per attention, and one for Bayes; ``above`` is the excess risk above Bayes."""
    from slr.attentions.best import softmax_and_bayes

    setting: dict[str, Any] = {"d": task.d, "L": task.L, "gamma": task.gamma}
    softmax, bayes, above = softmax_and_bayes(task, n_samples, rng)
    rows = [setting | {"attention": "bayes", "excess_risk": bayes.value, "stderr": bayes.stderr}]
    for label in ATTENTIONS:
        best = softmax if label == "softmax" else best_of(label, task, n_samples, rng)
        risk = best.excess_risk
        row = setting | {"attention": label, "excess_risk": risk.value, "stderr": risk.stderr}
        paired = label == "softmax"  # against the others, which are exact, only Bayes has an error
        row["above"] = above.value if paired else risk.value - bayes.value
        row["above_stderr"] = above.stderr if paired else bayes.stderr
        rows.append(row | {"lam": best.lam, "threshold": best.threshold, "scale": best.scale})
    return rows


def best_of(label: str, task: "Task", n_samples: int, rng: Any, n_informative: int = 1) -> Any:
    """The attention of this name with its best parameters."""
    from slr.attentions.best import best_attention

    gate: Any = label.removesuffix(THRESHOLD)
    options = {"fit_threshold": label != gate, "n_informative": n_informative}
    return best_attention(task, gate, n_samples, rng, **options)


def identity_gap(task: "Task", rng: Any, n: int = 2000) -> float:
    """Largest difference of softmax(sqrt(d/2) X.k*) and P(l informative | X), over n sequences.

    The posterior is computed from the two densities of a token; at gamma = 1 both are the same.
    """
    from scipy.special import softmax

    from slr.yardsticks import sample_tokens

    along_k, squared_norm = sample_tokens(task, n, rng)
    h, g2 = task.signal, task.gamma**2
    squared_distance = squared_norm - 2 * h * along_k + h**2  # |X - h k*|^2
    log_ratio = squared_norm / 2 - squared_distance / (2 * g2) - task.d * np.log(task.gamma)
    posterior = softmax(log_ratio, axis=1)
    return float(np.abs(softmax(h * along_k, axis=1) - posterior).max())


def plot_activations(table: Any, caption: str) -> Figure:
    """Best excess risk of each attention, and Bayes, against d, L and gamma.

    ``table`` has axis ("d", "L" or "gamma"), these three, attention, excess_risk and stderr.
    """
    from slr.figures import BLACK, COLOURS, MARKERS, journal_style, panels

    gates = ("softmax", "sigmoid", "relu", "linear", "erf")
    colours = dict(zip(gates, COLOURS, strict=False))
    axes_shown: dict[str, tuple[str, list[float]]] = {  # label and ticks
        "d": ("$d$", [2, 5, 10, 20, 50]),
        "L": ("$L$", [2, 5, 10, 20, 50, 100]),
        "gamma": (r"$\gamma$", [0.5, 0.7, 1, 1.4, 2]),
    }
    with journal_style():
        figure, axes = panels(1, 3, (10.0, 3.5))
        for ax, (axis, (label, ticks)) in zip(axes, axes_shown.items(), strict=True):
            rows = table[table["axis"] == axis]
            for marker, name in zip(MARKERS, ATTENTIONS, strict=True):
                best = rows[rows["attention"] == name]
                ax.errorbar(
                    best[axis], best["excess_risk"], 2 * best["stderr"], fmt=marker,
                    ls="--" if name.endswith(THRESHOLD) else "-", lw=1.1, label=name,
                    color=colours[name.removesuffix(THRESHOLD)],
                    ms=7 if name == "erf" else 3.5, zorder=1.5 if name == "erf" else 2,  # below
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
            *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5,
            columnspacing=1.2, handlelength=2.4,
        )  # fmt: skip
        figure.suptitle(caption, fontsize=8)
        return figure


def says(tables: Tables) -> Said:
    rows = tables["activations"].query("axis == 'd'")
    first = rows.iloc[0]
    return [
        "The lowest excess risk of each attention at the true directions, with two standard errors "
        f"where it is simulated (L = {first['L']}, gamma = {first['gamma']:g}):",
        errors_against(rows, "d", "excess_risk"),
    ]


STUDY = slr_study(
    __name__,
    "Other attentions",
    "The lowest excess risk that each attention can reach, and that of Bayes, against d, L and "
    "gamma.",
)
