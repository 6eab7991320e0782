"""The bridge: k* and v* inside the Transformer, next to the idealised model, with causal tests.

The study compares directions in the weights of every head with those of linear probes; applies the
paper's predictor to real states; compares theory and practice during training; and measures what
happens when directions are erased, reflected or steered. Missing models are trained first, in the
folder `models` next to the output.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from studies.practice import transformer
from studies.rendering import pivoted, ranged, spreads
from studies.study import EARLIER, PROTOTYPE, Claim, Need, Result, Said, Tables, study
from studies.study import Options as StudyOptions
from studies.workers import in_parallel

SPLITS = ("test", "ood_structure")  # other splits have adjectives unknown to models from scratch
QUANTITIES = {  # column: its name in tables and figures
    "kappa": "alignment of k, |kappa|",
    "nu": "alignment of v, |nu|",
    "rho": "|rho| = |k . v|",
    "distance_to_manifold": "distance to the manifold",
    "attention_mass": "attention on the informative token",
    "relative_error": "error, from 1 (knows nothing) to 0 (best possible)",
}
LEARNED = 0.9  # alignment above which k or v counts as learned, in theory and practice


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    output: Path = Path("results/bridge")
    """Folder for tables and figures."""
    seeds: int = 5
    """Number of training seeds of the 1-layer model; the 2-layer model has at most two."""
    sentences: int = 480
    """Largest number of sentences per split; directions come from those of the training split."""

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.sentences < 48:
            raise ValueError("--seeds must be at least 1 and --sentences at least 48")


def transformers(options: Options) -> list[transformer.Options]:
    """The options of all Transformers from scratch, tiny ones first."""
    folder = options.output.parent / "models"
    small = [
        transformer.Options(preset="small", seed=seed, output=folder / f"small-{seed}")
        for seed in range(min(2, options.seeds))
    ]
    return [*transformer.tiny_models(folder, options.seeds).values(), *small]


def needs(options: Options) -> list[Need]:
    return [(transformer.STUDY, each) for each in transformers(options)]


def run(options: Options) -> Result:
    from studies.practice.figures.bridge import plot_causal, plot_learning

    tables = practice(options)
    tables["theory"] = theory_curves()
    both = {"Transformer": (tables["learning"], "seed"), "theory (PGD)": (tables["theory"], "run")}
    for key, summary in (("theory_practice", start_and_end), ("order", order_of_learning)):
        parts = [summary(table, by).assign(model=name) for name, (table, by) in both.items()]
        tables[key] = pd.concat(parts)
    figures = {
        "learning": plot_learning(tables["learning"], tables["theory"]),
        "causal": plot_causal(tables["causal"]),
    }
    return Result(tables, figures)


# ---- practice


def practice(options: Options) -> dict[str, pd.DataFrame]:
    """The tables measured on Transformers: directions, idealised, learning and causal."""
    look = functools.partial(look_into, options.sentences)
    parts = in_parallel(look, transformers(options), "looking into models")
    names = {key for tables in parts for key in tables}
    return {
        key: pd.concat([tables[key] for tables in parts if key in tables], ignore_index=True)
        for key in sorted(names)
    }


def look_into(sentences: int, ours: transformer.Options) -> dict[str, pd.DataFrame]:
    """The tables directions and causal of one model and, if it is tiny, idealised and learning."""
    from data_gen import build_dataset
    from probing.circuits.causal import Trial, causal_table
    from probing.circuits.directions import directions_table
    from probing.circuits.idealised import idealised_table
    from probing.circuits.learning import learning_curve
    from probing.models.pretrained import load_model, untrained_like
    from probing.models.training import one_torch_thread
    from probing.sentences import draw_by_word
    from probing.states.extraction import read
    from probing.states.tokens import tokenise

    with one_torch_thread():
        model, tokenizer = load_model(str(ours.output), head="classifier")
        dataset = build_dataset()
        batches = {
            name: tokenise(tokenizer, dataset[name].select(draw_by_word(dataset[name], sentences)))
            for name in ("train", *SPLITS)
        }
        train = batches["train"]
        directions = [
            directions_table(model, train).assign(trained=True),
            directions_table(untrained_like(model, ours.seed), train).assign(trained=False),
        ]
        tables = {"directions": pd.concat(directions)}
        tables["causal"] = pd.concat(
            causal_table(Trial(model, train, batches[split])).assign(split=split)
            for split in SPLITS
        )
        if ours.preset == "tiny":
            runs = {name: read(model, batch) for name, batch in batches.items()}
            tests = {name: runs[name] for name in SPLITS}
            tables["idealised"] = idealised_table(runs["train"], tests)
            curve = learning_curve(model, ours.output / "snapshots", train, batches["test"])
            tables["learning"] = curve.assign(relative_error=curve["error"] / 0.5)  # guessing: 0.5
    return {key: table.assign(model=ours.preset, seed=ours.seed) for key, table in tables.items()}


# ---- theory beside it


def theory_curves(name: str = "pgd-schedule", *, n_logged: int = 60) -> pd.DataFrame:
    """A training of the idealised model, one row per run and step, with the Transformer's columns.

    ``name`` is one of the paper's experiments, from its own starts. relative_error is the excess
    risk above Bayes, relative to that of the zero predictor.
    """
    from slr.attentions.best import expected_attention_mass
    from slr.dynamics.experiment import EXPERIMENTS, published_start, run_experiment
    from slr.yardsticks import bayes_excess_risk, zero_excess_risk

    experiment = EXPERIMENTS[name]
    trajectory = run_experiment(experiment, start=published_start(name))
    task = experiment.task
    bayes = bayes_excess_risk(task, 100_000, np.random.default_rng(0)).value
    zero = zero_excess_risk(task)
    table = trajectory.to_frame()
    # Early steps are closer together, as in the Transformer's snapshots.
    last = len(trajectory.step) - 1
    places = {round(last * (i / (n_logged - 1)) ** 1.5) for i in range(n_logged)}
    table = table[table["step"].isin(trajectory.step[sorted(places)])].reset_index(drop=True)
    table["attention_mass"] = expected_attention_mass(
        task, table["kappa"].to_numpy(), table["lam"].to_numpy()
    )
    table["relative_error"] = (table["excess_risk"] - bayes) / (zero - bayes)
    return table.assign(aligned=table["run"].map(trajectory.outcomes()["aligned"]))


def start_and_end(curves: pd.DataFrame, by: str) -> pd.DataFrame:
    """Median and range over ``by`` of each quantity at the first and the last step."""
    rows = []
    ends = {"start": curves["step"].min(), "end": curves["step"].max()}
    for when, step in ends.items():
        part = curves[curves["step"] == step]
        for column in QUANTITIES:
            values = part[column].abs()
            row = {"quantity": column, "when": when, "median": float(values.median())}
            row |= {"lowest": float(values.min()), "highest": float(values.max())}
            rows.append(row | {"n": part[by].nunique()})
    return pd.DataFrame(rows)


def order_of_learning(curves: pd.DataFrame, by: str) -> pd.DataFrame:
    """Shares of the training after which k and v stay aligned, one row per seed or run."""
    from probing.circuits.learning import first_above

    rows = []
    for key, part in curves.groupby(by):
        last = part["step"].max()
        k, v = (first_above(part, name, LEARNED) / last for name in ("kappa", "nu"))
        rows.append({by: key, "k": k, "v": v})
    return pd.DataFrame(rows)


# ---- what it says


def strongest_heads(directions: pd.DataFrame) -> Any:
    """Absolute cosines of each model's head with most attention on the informative word, grouped
    over training seeds; absolute, since a direction has no sign.
    """
    heads = directions.sort_values("attention_mass").groupby(["model", "trained", "seed"]).last()
    return heads.abs().groupby(["model", "trained"])


def first_layer_effects(causal: pd.DataFrame) -> Any:
    """Edits of the embeddings of the 1-layer model on the test split, grouped over seeds."""
    rows = causal.query("model == 'tiny' and split == 'test' and layer == 0")
    rows = rows[rows["dose"].isna() | (rows["dose"] == 1.0)]
    return rows.groupby(["test", "edit", "site"], sort=False)


def beside(table: pd.DataFrame) -> pd.DataFrame:
    """One row per quantity, one column per model and end of the training."""
    labelled = table.assign(quantity=table["quantity"].map(QUANTITIES))
    texts = [ranged(*row) for row in table[["median", "lowest", "highest"]].to_numpy()]
    wide = pivoted(labelled, texts, "quantity", ["model", "when"])
    wide.columns = [f"{model}, {when}" for model, when in wide.columns]
    return wide


def over_seeds(values: pd.Series) -> str:
    """The range of values over seeds, as text."""
    return f"({values.min():.3f} to {values.max():.3f} over {len(values)} seeds)"


def claims(tables: Tables) -> Iterator[Claim]:
    def at_least(claim: str, values: pd.Series, least: float, paper: str = "") -> Claim:
        words = {"interval": over_seeds(values), "origin": PROTOTYPE, "paper": paper}
        return Claim.at_least(claim, values, least, **words)

    def at_most(claim: str, values: pd.Series, most: float) -> Claim:
        words = {"interval": over_seeds(values), "origin": PROTOTYPE}
        return Claim.at_most(claim, values, most, **words)

    directions = tables["directions"].query("model == 'tiny' and trained")
    for name, least, k in (("kappa", 0.7, "k"), ("nu", 0.85, "v")):
        null = directions[f"{name}_null_95"].mean()
        text = f"cosine of {k} in the weights and {k}_hat (random: {null:.2f})"
        yield at_least(text, directions[name], least, f"training finds {k}*")
    ideal = tables["idealised"].query("split == 'test'")
    ideal = ideal.query("gate == 'one-sided' and source == 'fitted'")
    text = "accuracy of the paper's predictor (one-sided) on real states"
    yield at_least(text, ideal["accuracy"], 0.99)
    yield at_least("... its attention on the informative word", ideal["attention_mass"], 0.95)
    effects = first_layer_effects(tables["causal"])

    def effect(test: str, edit: str, site: str, column: str) -> pd.Series:
        return effects.get_group((test, edit, site))[column]

    for edit in ("mean difference", "LEACE"):
        erased = effect("erase value", edit, "informative", "accuracy")
        yield at_most(f"accuracy, value erased ({edit})", erased, 0.6)
        elsewhere = effect("erase value", edit, "distractor", "accuracy")
        yield at_least(f"... the same at the distractor ({edit})", elsewhere, 0.98)
    random = effect("erase value", "random", "informative", "accuracy")
    yield at_least("... a random direction instead", random, 0.98)
    turned = effect("reflect", "v_hat", "informative", "flips")
    yield at_least("predictions turned by reflection along v_hat", turned, 0.95)
    nothing = effect("reflect", "random", "informative", "flips")
    yield at_most("... along a random direction", nothing, 0.05)
    for model, row in tables["order"].groupby("model")[["v", "k"]].median().iterrows():
        yield Claim(
            claim=f"{model}: shares of training after which v and k stay aligned",
            required="v before k",
            origin=EARLIER,
            measured=f"v {row['v']:.3f}, k {row['k']:.3f}",
            passed=bool(row["v"] < row["k"]),
        )


def says(tables: Tables) -> Said:
    heads = strongest_heads(tables["directions"])
    names = {"kappa": "cos(key, k_hat)", "nu": "cos(value, v_hat)", "rho": "cos(key, value)"}
    cosines = spreads(heads, names)
    null = heads[["kappa_null_95", "nu_null_95"]].mean().max(axis=1)
    cosines["random, 95%"] = null.map("{:.2f}".format)
    columns = {
        "accuracy": "accuracy",
        "flips": "changed predictions",
        "attention_mass": "attention on the informative word",
    }
    effects = spreads(first_layer_effects(tables["causal"]), columns)
    ideal = tables["idealised"].query("split == 'test'").groupby(["gate", "source"])
    predictor = ideal[["accuracy", "attention_mass"]].mean().map("{:.3f}".format)
    return [
        "Absolute cosines between the directions in the weights of the head with most attention on "
        "the informative word and those of linear probes on the states that this head reads: mean "
        "(range) over training seeds.",
        cosines,
        "Effects of edits of the embeddings in the 1-layer model, on the test split (steering is "
        "by one distance between the labels): mean (range) over training seeds.",
        effects,
        "The paper's predictor, with several gates, on the states that the 1-layer model reads; k "
        "and v are fitted to the labels or taken from the probes. Mean over training seeds, test "
        "split.",
        predictor.rename(columns=columns),
        "Theory beside practice, at the start and at the end of training: median (range) over "
        "training seeds, and over runs.",
        beside(tables["theory_practice"]),
    ]


STUDY = study(
    __name__,
    "k* and v* inside the Transformer",
    "python scripts/bridge.py",
    learning="Learning, practice beside theory. Alignment, attention on the informative "
    "token, relative error and distance to the invariant manifold during training: a one-layer "
    "Transformer (left) and projected gradient descent on single-location regression (right).",
    causal="Causal tests on the one-layer Transformer, test split. (a) The direction that tells "
    "the labels apart is erased; (b) the direction that marks the informative token is erased; "
    "(c) the informative token is steered or reflected along v_hat and along random directions; "
    "(d) predictions changed by reflection after each layer, also in deeper models.",
)
