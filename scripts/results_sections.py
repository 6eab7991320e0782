"""What each result says on the page of results: paragraphs and tables from a folder of results."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_directory import read_json

if TYPE_CHECKING:
    import pandas as pd


def markdown(table: "pd.DataFrame") -> str:
    """A table with its index as first columns. Pipes would break it."""
    flat = table.reset_index()
    rows = [list(map(str, flat.columns)), ["---"] * len(flat.columns)]
    rows += [[str(value) for value in row] for row in flat.astype(object).to_numpy().tolist()]
    return "\n".join("| " + " | ".join(x.replace("|", "/") for x in row) + " |" for row in rows)


def interval(value: float, low: float, high: float, digits: int = 2) -> str:
    """As 0.98 [0.97, 0.99], or without an interval where there is none."""
    if low != low:  # not a number
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def spread(values: Any, digits: int = 2) -> str:
    """Mean and range over repetitions."""
    return f"{values.mean():.{digits}f} ({values.min():.{digits}f} to {values.max():.{digits}f})"


def dataset(folder: Path) -> list[str]:
    import pandas as pd

    splits = read_json(folder / "manifest.json")["splits"]
    rows = {
        name: {
            "sentences": split["rows"],
            "different ones": split["distinct"],
            "share of [UNK]": f"{split['unknown_share']:.2f}",
            "what it isolates": split["isolates"],
        }
        for name, split in splits.items()
    }
    return [markdown(pd.DataFrame(rows).T.rename_axis("split"))]


def models(folder: Path) -> list[str]:
    import pandas as pd

    paths = sorted(folder.glob("tiny-[0-9]*/metrics.parquet"))
    table = pd.concat([pd.read_parquet(path) for path in paths])
    groups = table.groupby("split", sort=False)
    shown = pd.DataFrame(
        {
            "accuracy": groups["accuracy"].agg(spread),
            "attention on the informative word": groups["attention_mass"].agg(spread),
        }
    )
    return [
        "One layer, one head, 32 dimensions, trained from scratch on the training split: "
        f"mean (range) over {len(paths)} training seeds. Where the adjectives are new they are all "
        "[UNK] to it, and 0.50 is what can be had.",
        markdown(shown),
    ]


def figure1(folder: Path) -> list[str]:
    import pandas as pd

    from probing.figures import SERIES, SPLIT_NAMES

    bars = pd.read_parquet(folder / "bars.parquet")
    texts = [interval(*row) for row in bars[["accuracy", "low", "high"]].to_numpy()]
    wide = bars.assign(text=texts).pivot_table(
        index="series", columns="split", values="text", aggfunc="first", sort=False
    )
    wide = wide[list(SPLIT_NAMES)].rename(columns=SPLIT_NAMES)
    wide.index = pd.Index([SERIES[name][0] for name in wide.index], name="accuracy")
    sparsity = pd.read_parquet(folder / "sparsity.parquet")
    test = sparsity[sparsity["split"] == "test"].set_index("model")
    shown = test[["mass", "top1", "effective_tokens"]].map("{:.2f}".format)
    shown.columns = ["attention on the informative word", "ranks first", "effective tokens"]
    return [
        markdown(wide),
        "Token-wise sparsity on the test split (training seed 0; `uniform` is equal attention):",
        markdown(shown),
    ]


def directions(folder: Path) -> list[str]:
    import pandas as pd

    table = pd.read_parquet(folder / "directions.parquet")
    heads = table.sort_values("attention_mass").groupby(["model", "trained", "seed"]).last()
    groups = heads.abs().groupby(["model", "trained"])
    names = {"kappa": "cos(key, k_hat)", "nu": "cos(value, v_hat)", "rho": "cos(key, value)"}
    shown = pd.DataFrame({label: groups[name].agg(spread) for name, label in names.items()})
    shown["random, 95%"] = groups[["kappa_null_95", "nu_null_95"]].mean().max(axis=1).round(2)
    causal = pd.read_parquet(folder / "causal.parquet")
    causal = causal[
        (causal["model"] == "tiny") & (causal["split"] == "test") & (causal["layer"] == 0)
    ]
    causal = causal[causal["dose"].isna() | (causal["dose"] == 1.0)]
    tests = causal.groupby(["test", "edit", "site"], sort=False)
    effects = pd.DataFrame(
        {
            "accuracy": tests["accuracy"].agg(spread),
            "changed predictions": tests["flips"].agg(spread),
            "attention on the informative word": tests["attention_mass"].agg(spread),
        }
    )
    return [
        "Absolute cosines between directions in the weights (of the head with most attention on "
        "the informative word) and those of linear probes on the states it reads: mean (range) "
        "over training seeds.",
        markdown(shown),
        "Edits of the embeddings' output in the 1-layer model, test split (steering by one "
        "distance between the labels): mean (range) over training seeds.",
        markdown(effects),
    ]


def experiment(folder: Path) -> list[str]:
    import pandas as pd

    table = pd.read_parquet(folder / "trajectory.parquet")
    end = table[table["step"] == table["step"].max()]
    both = end[["kappa", "nu"]].abs().min(axis=1)
    swapped = (end["eta"].abs() > 0.9) & (end["kappa"].abs() < 0.1)
    risk = end["excess_risk"]
    return [
        f"{(both > 0.9).sum()} of {len(end)} runs align (|kappa|, |nu| > 0.9) "
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
        f"{lam.min():.2g} and decays from {decay.min():.2g} to {decay.max():.2g}."
    ]


def yardsticks(folder: Path) -> list[str]:
    import pandas as pd

    table = pd.read_parquet(folder / "against_d.parquet")
    shown = table.iloc[[0, len(table) // 2, -1]]
    shown = shown.set_index("d")[["zero", "linear", "oracle", "bayes", "bayes_stderr"]]
    return ["Excess risks at three dimensions:", markdown(shown.map("{:.4f}".format))]


def nothing(_: Path) -> list[str]:
    """The figure says it."""
    return []
