"""The claims on Transformers: Figure 1, probes, the bridge, controls."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from claims import Claim, Judge, table

if TYPE_CHECKING:
    import pandas as pd


def figure1(folder: Path) -> Iterator[Claim]:
    command = "python scripts/figure1.py"
    bars = table(folder, "bars").set_index(["series", "split"])

    def bar(series: str, split: str, least: float, name: str, paper: str = "") -> Claim:
        row = bars.loc[(series, split)]
        return Claim(
            claim=f"{name}, {split}",
            paper=paper,
            target=f"at least {least:.2f}",
            measured=f"{row['accuracy']:.3f}",
            interval=f"[{row['low']:.3f}, {row['high']:.3f}]",
            passed=bool(row["accuracy"] >= least),
            command=command,
        )

    for split in ("test", "ood_structure"):
        yield bar("tiny", split, 0.99, "1-layer Transformer from scratch")
    chance = bars.loc[("tiny", "ood_tokens")]["accuracy"]
    yield Claim(
        claim="... on new adjectives, ood_tokens",
        target="0.500: to it they are all the same [UNK]",
        measured=f"{chance:.3f}",
        passed=bool(chance == 0.5),
        command=command,
    )
    yield bar("tiny-corpus", "ood_tokens", 0.99, "... with corpus vectors")
    swapped = bars.loc[("tiny-swap", "ood_tokens")]["accuracy"]
    yield Claim(
        claim="... with the swapped corpus (control), ood_tokens",
        target="at most 0.01",
        measured=f"{swapped:.3f}",
        passed=bool(swapped <= 0.01),
        command=command,
    )
    for split, least in (("test", 0.85), ("ood_tokens", 0.75)):
        published = bars.loc[("bert-published", split)]["accuracy"]
        paper = f"BERT {published:.2f}"
        yield bar("minilm-cls", split, least, "MiniLM [CLS], mean over layers", paper)
    goals = {"test": 0.95, "ood_structure": 0.95, "ood_tokens": 0.85, "ood_structure_tokens": 0.85}
    for split, least in goals.items():
        published = bars.loc[("bert-published", split)]["accuracy"]
        paper = f"BERT's [CLS] {published:.2f}"
        yield bar("minilm-reader", split, least, "MiniLM, locate with k and read with v", paper)
    mass = table(folder, "sparsity").groupby(["model", "split"])["mass"].mean()
    for split in ("test", "ood_structure"):
        yield Claim(
            claim=f"attention on the informative word, {split}",
            paper="one token matters, and attention finds it (token-wise sparsity)",
            target="at least 0.95, untrained below 0.12",
            measured=f"{mass['trained', split]:.3f} (untrained {mass['untrained', split]:.3f})",
            passed=bool(mass["trained", split] >= 0.95 and mass["untrained", split] < 0.12),
            command=command,
        )


def probes(folder: Path) -> Iterator[Claim]:
    found = table(folder, "probes")
    rows = found[(found["model"] == "trained") & (found["control"] == "none")]
    rows = rows[(rows["probe"] == "value") & (rows["layer"] > 0)]
    least = rows.groupby("split")["accuracy"].mean()
    yield Claim(
        claim="MiniLM value probe, lowest of all splits (mean over layers)",
        paper="the value is read by a linear direction v*",
        target="at least 0.99",
        measured=f"{least.min():.3f}",
        passed=bool(least.min() >= 0.99),
        command="python scripts/probe.py",
    )


def bridge(folder: Path) -> Iterator[Claim]:
    command = "python scripts/bridge.py"

    def over_seeds(
        values: "pd.Series", claim: str, least: float, most: float = 2.0, paper: str = ""
    ) -> Claim:
        return Claim(
            claim=claim,
            paper=paper,
            target=f"at least {least:g}" if most > 1 else f"at most {most:g}",
            measured=f"{values.mean():.3f}",
            interval=f"[{values.min():.3f}, {values.max():.3f}] over {len(values)} seeds",
            passed=bool(values.min() >= least and values.max() <= most),
            command=command,
        )

    directions = table(folder, "directions").query("model == 'tiny' and trained")
    null = directions[["kappa_null_95", "nu_null_95"]].mean()
    yield over_seeds(
        directions["kappa"],
        f"cosine of k in the weights and k_hat (random: {null['kappa_null_95']:.2f})",
        0.7,
        paper="training finds k*",
    )
    yield over_seeds(
        directions["nu"],
        f"cosine of v in the weights and v_hat (random: {null['nu_null_95']:.2f})",
        0.85,
        paper="training finds v*",
    )
    ideal = table(folder, "idealised").query("split == 'test'")
    ideal = ideal.query("gate == 'one-sided' and source == 'fitted'")
    yield over_seeds(
        ideal["accuracy"], "accuracy of the paper's predictor (one-sided) on real states", 0.99
    )
    yield over_seeds(ideal["attention_mass"], "... its attention on the informative word", 0.95)
    causal = table(folder, "causal").query("model == 'tiny' and split == 'test' and layer == 0")

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
    order = table(folder, "order").groupby("model")[["v", "k"]].median()
    for model, row in order.iterrows():
        yield Claim(
            claim=f"{model}: share of training after which v, and k, stay aligned",
            target="v before k",
            measured=f"v {row['v']:.3f}, k {row['k']:.3f}",
            passed=bool(row["v"] < row["k"]),
            command=command,
        )


def controls(folder: Path) -> Iterator[Claim]:
    found = table(folder, "controls").query("model == 'trained' and probe == 'value'")
    label, control = (found[found["task"] == task] for task in ("label", "control task"))
    best = label.sort_values("selectivity").iloc[-1]
    other = control.set_index("layer").loc[best["layer"]]
    yield Claim(
        claim="value probe of the 1-layer Transformer: accuracy less that of control tasks "
        f"({best['accuracy']:.3f} less {other['accuracy']:.3f})",
        target="more than twice the spread of the control tasks",
        measured=f"{best['selectivity']:.3f}",
        interval=f"(spread {other['spread']:.3f})",
        passed=bool(best["selectivity"] > 2 * other["spread"]),
        command="python scripts/controls.py --model results/models/tiny-0",
    )


FIGURE1: dict[str, Judge] = {"figure1": figure1, "probes": probes}
BRIDGE: dict[str, Judge] = {"bridge": bridge}
CONTROLS: dict[str, Judge] = {"controls": controls}
