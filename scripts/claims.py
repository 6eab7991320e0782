"""The claims: what the paper says, what our results say, and whether that passes.

Every number is read from the files under results/, none is typed in.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Claim:
    claim: str
    paper: str  # what the paper says, or what we set out to show
    measured: str
    interval: str
    passed: bool
    command: str


def read_claims(results: Path) -> list[Claim]:
    """Of every stage whose results are there."""
    found = []
    for folder, judge in STAGES.items():
        if (results / folder / "files.json").is_file():
            found += list(judge(results / folder))
    return found


def as_rows(claims: list[Claim]) -> list[dict[str, Any]]:
    return [asdict(claim) for claim in claims]


def as_text(claims: list[Claim]) -> str:
    lines = [
        f"{'pass' if one.passed else 'MISS'}  {one.claim}: {one.measured}"
        f"{' ' + one.interval if one.interval else ''}  (to show: {one.paper})"
        for one in claims
    ]
    passed = sum(one.passed for one in claims)
    return "\n".join([*lines, f"{passed} of {len(claims)} claims pass"])


def _table(folder: Path, name: str) -> "pd.DataFrame":
    import pandas as pd

    return pd.read_parquet(folder / f"{name}.parquet")


def _figure1(folder: Path) -> Iterator[Claim]:
    command = "python scripts/figure1.py"
    bars = _table(folder, "bars").set_index(["series", "split"])

    def bar(series: str, split: str, least: float, says: str, name: str) -> Claim:
        row = bars.loc[(series, split)]
        return Claim(
            f"{name}, {split}",
            f"{says} at least {least:.2f}",
            f"{row['accuracy']:.3f}",
            f"[{row['low']:.3f}, {row['high']:.3f}]",
            bool(row["accuracy"] >= least),
            command,
        )

    for split in ("test", "ood_structure"):
        yield bar("tiny", split, 0.99, "a 1-layer Transformer solves it:", "1-layer Transformer")
    chance = bars.loc[("tiny", "ood_tokens")]["accuracy"]
    yield Claim(
        "1-layer Transformer, ood_tokens",
        "0.50 by construction (new adjectives are one [UNK])",
        f"{chance:.3f}",
        "",
        bool(chance == 0.5),
        command,
    )
    yield bar("tiny-corpus", "ood_tokens", 0.99, "corpus vectors:", "... with corpus vectors")
    swapped = bars.loc[("tiny-swap", "ood_tokens")]["accuracy"]
    yield Claim(
        "... with the swapped corpus (control), ood_tokens",
        "at most 0.01",
        f"{swapped:.3f}",
        "",
        bool(swapped <= 0.01),
        command,
    )
    published = {"test": 0.95, "ood_tokens": 0.64}
    for split, least in (("test", 0.85), ("ood_tokens", 0.75)):
        says = f"BERT {published[split]:.2f} (published); MiniLM"
        yield bar("minilm-cls", split, least, says, "MiniLM [CLS], mean over layers")
    goals = {"test": 0.95, "ood_structure": 0.95, "ood_tokens": 0.85, "ood_structure_tokens": 0.85}
    for split, least in goals.items():
        yield bar(
            "minilm-reader", split, least, "recipe chosen on training words:", "MiniLM recipe"
        )
    mass = _table(folder, "sparsity").groupby(["model", "split"])["mass"].mean()
    for split in ("test", "ood_structure"):
        yield Claim(
            f"attention on the informative word, {split}",
            "token-wise sparsity: at least 0.95 (untrained about 0.08)",
            f"{mass['trained', split]:.3f} (untrained {mass['untrained', split]:.3f})",
            "",
            bool(mass["trained", split] >= 0.95 and mass["untrained", split] < 0.12),
            command,
        )


def _probes(folder: Path) -> Iterator[Claim]:
    table = _table(folder, "probes")
    rows = table[(table["model"] == "trained") & (table["control"] == "none")]
    rows = rows[(rows["probe"] == "value") & (rows["layer"] > 0)]
    least = rows.groupby("split")["accuracy"].mean()
    yield Claim(
        "MiniLM value probe, lowest of all splits (mean over layers)",
        "v* is linear: at least 0.99",
        f"{least.min():.3f}",
        "",
        bool(least.min() >= 0.99),
        "python scripts/probe.py",
    )


def _bridge(folder: Path) -> Iterator[Claim]:
    command = "python scripts/bridge.py"

    def over_seeds(values: "pd.Series", claim: str, least: float, most: float = 2.0) -> Claim:
        says = f"at least {least:g}" if most > 1 else f"at most {most:g}"
        return Claim(
            claim,
            says,
            f"{values.mean():.3f}",
            f"[{values.min():.3f}, {values.max():.3f}] over {len(values)} seeds",
            bool(values.min() >= least and values.max() <= most),
            command,
        )

    directions = _table(folder, "directions").query("model == 'tiny' and trained")
    null = directions[["kappa_null_95", "nu_null_95"]].mean()
    yield over_seeds(
        directions["kappa"],
        f"cosine of k in the weights and k_hat (random: {null['kappa_null_95']:.2f})",
        0.7,
    )
    yield over_seeds(
        directions["nu"],
        f"cosine of v in the weights and v_hat (random: {null['nu_null_95']:.2f})",
        0.85,
    )
    ideal = _table(folder, "idealised").query("split == 'test'")
    ideal = ideal.query("gate == 'one-sided' and source == 'fitted'")
    yield over_seeds(ideal["accuracy"], "the paper's predictor (one-sided) on real states", 0.99)
    yield over_seeds(ideal["attention_mass"], "... its attention on the informative word", 0.95)
    causal = _table(folder, "causal").query("model == 'tiny' and split == 'test' and layer == 0")

    def effect(test: str, edit: str, site: str, column: str) -> "pd.Series":
        rows = causal[(causal["test"] == test) & (causal["edit"] == edit)]
        return rows[rows["site"] == site][column]

    for edit in ("mean difference", "LEACE"):
        erased = effect("erase value", edit, "informative", "accuracy")
        yield over_seeds(erased, f"accuracy, value erased ({edit})", 0.0, 0.6)
        elsewhere = effect("erase value", edit, "distractor", "accuracy")
        yield over_seeds(elsewhere, f"... the same at the distractor ({edit})", 0.98)
    random = effect("erase value", "random", "informative", "accuracy")
    yield over_seeds(random, "... a random direction instead", 0.98)
    turned = effect("reflect", "v_hat", "informative", "flips")
    yield over_seeds(turned, "predictions turned by reflection along v_hat", 0.95)
    nothing = effect("reflect", "random", "informative", "flips")
    yield over_seeds(nothing, "... along a random direction", 0.0, 0.05)
    order = _table(folder, "order").groupby("model")[["v", "k"]].median()
    for model, row in order.iterrows():
        yield Claim(
            f"{model}: v is learned before k (share of training after which each stays aligned)",
            "v first",
            f"v {row['v']:.3f}, k {row['k']:.3f}",
            "",
            bool(row["v"] < row["k"]),
            command,
        )


def _schedule(least: float) -> Callable[[Path], Iterator[Claim]]:
    def judge(folder: Path) -> Iterator[Claim]:
        table = _table(folder, "trajectory")
        last = table[table["step"] == table["step"].max()]
        aligned = ((last["kappa"].abs() > 0.95) & (last["nu"].abs() > 0.95)).sum()
        yield Claim(
            f"{folder.name}: runs that find k* and v*",
            "all runs",
            f"{aligned} of {len(last)}",
            "",
            bool(aligned >= least * len(last)),
            f"python scripts/run_slr.py {folder.name}",
        )

    return judge


def _layer(folder: Path) -> Iterator[Claim]:
    table = _table(folder, "layer")
    rows = table[table["step"] == table["step"].max()]
    risk, mass = rows["excess_risk"], rows["mass"]
    for values, claim, says, passed in (
        (risk, "softmax attention layer: excess risk", "at most 0.005", risk.max() <= 0.005),
        (mass, "... its attention on the informative token", "at least 0.98", mass.min() >= 0.98),
    ):
        yield Claim(
            claim,
            says,
            f"{values.median():.4f}",
            f"[{values.min():.4f}, {values.max():.4f}] over {len(values)} runs",
            bool(passed),
            "python scripts/run_slr.py layer",
        )


STAGES: dict[str, Callable[[Path], Iterator[Claim]]] = {
    "figure1": _figure1,
    "probes": _probes,
    "bridge": _bridge,
    "slr/pgd-schedule": _schedule(1.0),
    "slr/sgd-schedule": _schedule(1.0),
    "slr/pgd-manifold": _schedule(1.0),
    "slr/layer": _layer,
}
