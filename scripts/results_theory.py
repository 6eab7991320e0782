"""What the results on the idealised model say on the page of results: paragraphs and tables."""

from pathlib import Path
from typing import TYPE_CHECKING

from results_table import interval, markdown, number, spread

if TYPE_CHECKING:
    import pandas as pd


def experiment(folder: Path) -> list[str]:
    import pandas as pd

    import slr

    table = pd.read_parquet(folder / "trajectory.parquet")
    end = table[table["step"] == table["step"].max()]
    both = end[["kappa", "nu"]].abs().min(axis=1)
    level = slr.ALIGNMENT
    swapped = (end["eta"].abs() > 0.9) & (end["kappa"].abs() < 0.1)
    risk = end["excess_risk"]
    return [
        f"{(both > level).sum()} of {len(end)} runs align (|kappa|, |nu| > {level}) "
        f"within {end['step'].max():,} steps, {swapped.sum()} end at the swapped point k = ±v\\*, "
        f"{end['diverged'].sum()} diverge. Excess risk at the end: median {risk.median():.4f} "
        f"({risk.min():.4f} to {risk.max():.4f})."
    ]


def portrait(folder: Path) -> list[str]:
    import pandas as pd

    points = pd.read_parquet(folder / "fixed_points.parquet").round(3)
    return [
        "Fixed points of the flow on the invariant manifold:",
        markdown(points.set_index("kind")),
    ]


def scaling(folder: Path) -> list[str]:
    import pandas as pd

    table = pd.read_parquet(folder / "steps_to_align.parquet")
    texts = [f"{value:,.0f}" for value in table["median"]]
    wide = table.assign(text=texts).pivot_table(
        index="d", columns="curve", values="text", aggfunc="first"
    )
    wide.index = pd.Index([f"{d:g}" for d in wide.index], name="d")
    return [
        "Median steps until the runs align (of the gradient flow: its time over the step size):",
        markdown(wide.fillna("")),
    ]


def success(folder: Path) -> list[str]:
    import pandas as pd

    table = pd.read_parquet(folder / "success.parquet")
    best = table[table["share"] == table["share"].max()]
    lam, decay = best["lam"], best["lam_decay"]
    return [
        f"Of {len(table):,} settings {(table['share'] >= 0.95).sum()} have at least 95% of their "
        f"runs aligned. The best share, {best['share'].iloc[0]:.2f}, is reached for lam from "
        f"{lam.min():.2g} to {lam.max():.2g} and decays from {decay.min():.2g} to "
        f"{decay.max():.2g}."
    ]


def yardsticks(folder: Path) -> list[str]:
    import pandas as pd

    table = pd.read_parquet(folder / "against_d.parquet")
    shown = table.iloc[[0, len(table) // 2, -1]]
    shown = shown.set_index("d")[["zero", "linear", "oracle", "bayes", "bayes_stderr"]]
    return ["Excess risks at three dimensions:", markdown(shown.map("{:.4f}".format))]


def layer(folder: Path) -> list[str]:
    import pandas as pd

    end = last_steps(pd.read_parquet(folder / "layer.parquet"))
    yardsticks = pd.read_parquet(folder / "yardsticks.parquet").iloc[0]
    variants = last_steps(pd.read_parquet(folder / "architectures.parquet"))
    groups = variants.groupby("architecture", sort=False)
    shown = pd.DataFrame(
        {
            "excess risk": groups["excess_risk"].agg(lambda x: spread(x, 3)),
            "attention on the informative token": groups["mass"].agg(spread),
        }
    )
    names = ("zero", "linear", "oracle", "bayes")
    known = ", ".join(f"{name} {yardsticks[name]:.3f}" for name in names)
    return [
        f"A softmax layer after {end['step'].max():,} steps of SGD, mean (range) over {len(end)} "
        f"runs: excess risk {spread(end['excess_risk'], 4)}, attention on the informative token "
        f"{spread(end['mass'], 3)}, cosine of its key direction and k\\* "
        f"{spread(end['key_cosine'])}. To compare with: {known}.",
        f"Without one part or another, after {variants['step'].max():,} steps of Adam, "
        f"{variants['run'].nunique()} runs each:",
        markdown(shown),
    ]


def last_steps(table: "pd.DataFrame") -> "pd.DataFrame":
    return table[table["step"] == table["step"].max()]


def activations(folder: Path) -> list[str]:
    import pandas as pd

    table = pd.read_parquet(folder / "activations.parquet")
    rows = table[table["axis"] == "d"]
    texts = [
        f"{value:.4f} ± {2 * error:.4f}" for value, error in rows[["excess_risk", "stderr"]].values
    ]
    wide = rows.assign(text=texts).pivot_table(
        index="attention", columns="d", values="text", aggfunc="first", sort=False
    )
    chosen = [wide.columns[i] for i in (0, len(wide.columns) // 2, -1)]
    first = rows.iloc[0]
    return [
        "The least excess risk of each attention at the true directions, with two standard errors "
        f"(L = {first['L']}, gamma = {first['gamma']:g}):",
        markdown(wide[chosen].rename(columns=lambda d: f"d = {d}")),
    ]


def conditional_mean(folder: Path) -> list[str]:
    import pandas as pd

    slopes = pd.read_parquet(folder / "slopes.parquet")
    text = "; ".join(
        f"{row.attention} {interval(row.value, row.low, row.high)}" for row in slopes.itertuples()
    )
    errors = pd.read_parquet(folder / "errors.parquet")
    errors["text"] = [f"{row.error:.4f} ± {2 * row.stderr:.4f}" for row in errors.itertuples()]
    lengths = sorted(errors["L"].unique())
    chosen = [lengths[i] for i in (0, len(lengths) // 2, -1)]
    wide = errors.pivot_table(
        index="attention", columns="L", values="text", aggfunc="first", sort=False
    )
    return [
        f"Slope of the log error in log L: {text}.",
        "Mean squared error, with two standard errors:",
        markdown(wide[chosen].rename(columns=lambda L: f"L = {L}")),
    ]


def locations(folder: Path) -> list[str]:
    import pandas as pd

    table = pd.read_parquet(folder / "locations.parquet")
    wide = table.pivot_table(
        index="n_informative", columns="attention", values="relative_risk", sort=False
    )
    wide.index.name = "informative tokens"
    shown = wide.map(lambda risk: number(risk, 4))
    return [
        "Excess risk over that of guessing 0, of the best attentions, of Bayes and of a trained "
        "softmax layer (median over runs):",
        markdown(shown),
    ]


def noise_length(folder: Path) -> list[str]:
    import pandas as pd

    table = pd.read_parquet(folder / "noise_length.parquet")
    table["gamma"] = table["gamma"].map("{:.2f}".format)
    order = list(dict.fromkeys(table["noise"]))
    names = {name: name if name == "PGD" else f"SGD, noise {name}" for name in order}
    wide = table.pivot_table(index=["gamma", "L"], columns="noise", values="excess_risk")
    share = table.pivot_table(index=["gamma", "L"], columns="noise", values="share")
    shown = wide[order].map("{:.3f}".format) + " (" + share[order].map("{:.0%}".format) + ")"
    return [
        "Excess risk at the end, median over runs, and the share of runs that align:",
        markdown(shown.rename(columns=names)),
    ]


def sweep(folder: Path) -> list[str]:
    import pandas as pd

    table = pd.read_parquet(folder / "cells.parquet")
    counts = table.assign(all=table["share_aligned"] == 1).groupby("start")["all"]
    text = "; ".join(f"{start}: {part.sum()} of {len(part)} settings" for start, part in counts)
    return [f"Settings of lam and step size at which every run aligns, from the {text}."]
