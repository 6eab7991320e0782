"""The claims on the idealised model: the paper's experiments and theorems, and what lies beyond."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claims import Claim, Judge, table

if TYPE_CHECKING:
    import pandas as pd


def claim(folder: Path, text: str, **rest: Any) -> Claim:
    return Claim(claim=text, command=f"python scripts/run_slr.py {folder.name}", **rest)


def all_align(folder: Path) -> Iterator[Claim]:
    aligned, runs = runs_aligned(folder)
    yield of_runs(folder, "all runs", "all runs", passed=aligned == runs)


def some_align(folder: Path) -> Iterator[Claim]:
    aligned, runs = runs_aligned(folder)
    paper = "some runs end at other stationary points"
    yield of_runs(folder, paper, "some, not all", passed=0 < aligned < runs)


def of_runs(folder: Path, paper: str, target: str, *, passed: bool) -> Claim:
    aligned, runs = runs_aligned(folder)
    text, measured = f"{folder.name}: runs that find k* and v*", f"{aligned} of {runs}"
    return claim(folder, text, paper=paper, target=target, measured=measured, passed=passed)


def runs_aligned(folder: Path) -> tuple[int, int]:
    from slr import ALIGNMENT

    trajectory = table(folder, "trajectory")
    last = trajectory[trajectory["step"] == trajectory["step"].max()]
    return int((last[["kappa", "nu"]].abs().min(axis=1) > ALIGNMENT).sum()), len(last)


def portrait(folder: Path) -> Iterator[Claim]:
    points = table(folder, "fixed_points").query("kind == 'minimum'")
    minima = sorted((round(one.kappa, 3), round(one.nu, 3)) for one in points.itertuples())
    yield claim(
        folder,
        "minima of the risk on the manifold, (kappa, nu)",
        paper="(1, 1) and (-1, -1), no others (Theorem 5)",
        target="these two",
        measured=" and ".join(f"({kappa:g}, {nu:g})" for kappa, nu in minima),
        passed=minima == [(-1, -1), (1, 1)],
    )


def yardsticks(folder: Path) -> Iterator[Claim]:
    last = table(folder, "against_d").iloc[-1]
    gap = last["oracle"] - last["bayes"]
    yield claim(
        folder,
        f"excess risk of the oracle above that of Bayes, d = {last['d']:.0f}",
        paper="tends to 0 (Corollary 2)",
        target="below 0.001",
        measured=f"{gap:.1e}",
        passed=bool(gap < 0.001),
    )
    last = table(folder, "against_L").iloc[-1]
    share = last["linear"] / last["zero"]
    yield claim(
        folder,
        f"risk of the best linear predictor over that of guessing 0, L = {last['L']:.0f}",
        paper="tends to 1 (Proposition 3)",
        target="above 0.99",
        measured=f"{share:.4f}",
        passed=bool(share > 0.99),
    )


def scaling(folder: Path) -> Iterator[Claim]:
    rows = table(folder, "steps_to_align").query("curve == 'manifold'").sort_values("d")
    first, last = rows.iloc[0], rows.iloc[-1]
    yield claim(
        folder,
        f"runs on the manifold that align, least of {len(rows)} dimensions, "
        f"{first['d']:.0e} to {last['d']:.0e}",
        target="all runs",
        measured=f"{rows['share'].min():.0%}",
        interval=f"(median steps {first['median']:,.0f} to {last['median']:,.0f})",
        passed=bool(rows["share"].min() == 1),
    )
    limits = table(folder, "stability_limits").query("d >= 1000")
    error = (limits["measured"] / limits["predicted"] - 1).abs().max()
    yield claim(
        folder,
        "largest stable step size: measured against predicted, d >= 1000",
        target="within 1%",
        measured=f"within {error:.2%}",
        passed=bool(error < 0.01),
    )


def layer(folder: Path) -> Iterator[Claim]:
    rows = table(folder, "layer")
    rows = rows[rows["step"] == rows["step"].max()]
    oracle = table(folder, "yardsticks")["oracle"].iloc[0]
    risk, mass = rows["excess_risk"], rows["mass"]
    yield claim(
        folder,
        f"softmax attention layer: excess risk (erf oracle: {oracle:.3f})",
        paper="a whole layer solves it too (appendix)",
        target="at most 0.005",
        measured=f"{risk.median():.4f}",
        interval=over_runs(risk),
        passed=bool(risk.max() <= 0.005),
    )
    yield claim(
        folder,
        "... its attention on the informative token",
        target="at least 0.98",
        measured=f"{mass.median():.4f}",
        interval=over_runs(mass),
        passed=bool(mass.min() >= 0.98),
    )


def over_runs(values: "pd.Series") -> str:
    return f"[{values.min():.4f}, {values.max():.4f}] over {len(values)} runs"


def activations(folder: Path) -> Iterator[Claim]:
    rows = table(folder, "activations").query("axis == 'd'")
    wide = rows.pivot_table(index="d", columns="attention", values=["excess_risk", "stderr"])
    bayes = wide.xs("bayes", axis=1, level="attention")

    def standard_errors(attention: str) -> "pd.Series":
        one = wide.xs(attention, axis=1, level="attention")
        error = (one["stderr"] ** 2 + bayes["stderr"] ** 2) ** 0.5
        return (one["excess_risk"] - bayes["excess_risk"]) / error

    for attention, says, target, most in (
        ("softmax", "softmax reaches the Bayes risk", "at most 3", True),
        ("linear", "linear attention does not", "more than 3", False),
    ):
        gap = standard_errors(attention)
        worst = gap.abs().max() if most else gap.min()
        yield claim(
            folder,
            f"best {attention} attention above Bayes, gamma = 1, in standard errors, "
            f"{'most' if most else 'least'} of {len(gap)} dimensions",
            paper=f"{says} (arXiv 2509.21936)",
            target=target,
            measured=f"{worst:.1f}",
            passed=bool(worst <= 3 if most else worst > 3),
        )


def conditional_mean(folder: Path) -> Iterator[Claim]:
    for row in table(folder, "slopes").itertuples():
        yield claim(
            folder,
            f"slope of log error in log L, {row.attention}",
            paper="the error falls with the number of tokens (arXiv 2212.14852)",
            target="interval below 0",
            measured=f"{row.value:.2f}",
            interval=f"[{row.low:.2f}, {row.high:.2f}]",
            passed=bool(row.high < 0),
        )


def locations(folder: Path) -> Iterator[Claim]:
    rows = table(folder, "locations").query("n_informative == 2").set_index("attention")
    softmax, bayes = rows.loc["softmax"], rows.loc["bayes"]
    yield claim(
        folder,
        "two informative tokens: risk of the best softmax attention over that of guessing 0 "
        f"(Bayes: {bayes['relative_risk']:.4f})",
        target="above Bayes: one softmax is for one location",
        measured=f"{softmax['relative_risk']:.4f}",
        interval=f"[{softmax['low']:.4f}, {softmax['high']:.4f}]",
        passed=bool(softmax["low"] > bayes["high"]),
    )


SLR: dict[str, Judge] = {
    "slr/pgd-schedule": all_align,
    "slr/pgd-manifold": all_align,
    "slr/sgd-schedule": all_align,
    "slr/pgd-small-lambda": some_align,
    "slr/portrait": portrait,
    "slr/yardsticks": yardsticks,
    "slr/scaling": scaling,
    "slr/layer": layer,
    "slr/activations": activations,
    "slr/conditional-mean": conditional_mean,
    "slr/locations": locations,
}
