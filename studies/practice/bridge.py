"""The bridge: k* and v* inside the Transformer, next to the idealised model, with causal tests.

The study compares directions in the weights of every head with those of linear probes, in models
from scratch and in models whose word vectors are given and frozen; applies the paper's predictor to
real states; compares theory and practice during training, and which of k and v is learned first;
and measures what happens when directions are erased, reflected or steered. Missing models are
trained first, in the folder `models` next to the output.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from studies.bounds import MOST, Trainings, Within
from studies.practice import beside, transformer
from studies.rendering import interval, medians_said, over_seeds
from studies.study import AUDIT, BEFORE, PROTOTYPE, Claim, Need, Result, Said, Tables, study
from studies.study import Options as StudyOptions
from studies.workers import in_parallel

SPLITS = ("test", "ood_structure")  # other splits have adjectives unknown to models from scratch
KINDS = {  # model in the tables: its name on pages
    "tiny": "1 layer, from scratch",
    "tiny-glove": "1 layer, frozen GloVe vectors",
    "small": "2 layers, from scratch",
}
EDITED: dict[str, dict[str, Any]] = {  # options of causal_table: which edits of each model
    "tiny": {},
    "tiny-glove": {"tests": ("erase value", "reflect"), "layers": (0,), "heads": ()},
    "small": {"tests": ("reflect",)},
}
GATES = {  # the gate of slr: its name on pages
    "erf": "erf, the paper's",
    "one-sided": "one-sided, (1 + erf)/2: ours",
    "softmax": "softmax",
}
SOURCES = {"fitted": "labels alone", "probes": "probes, given the location"}
MEASURES = {  # in the tables causal and effects: name on pages
    "accuracy": "accuracy",
    "flips": "changed predictions",
    "attention_mass": "attention on the informative word",
}
COSINES = {  # in the tables directions and cosines: name on pages
    "kappa": "cos(key, k_hat)",
    "kappa_covariance_null_95": "cos(key, k_hat): random (states)",
    "kappa_null_95": "cos(key, k_hat): random",
    "nu": "cos(value, v_hat)",
    "nu_covariance_null_95": "cos(value, v_hat): random (states)",
    "nu_null_95": "cos(value, v_hat): random",
    "rho": "cos(key, value)",
}
ACROSS = "first component across v_hat"  # an edit of probing/circuits/causal.py


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    output: Path = Path("results/bridge")
    """Folder for tables and figures."""
    seeds: Trainings = 20
    """Number of training seeds of each 1-layer model; the 2-layer model has at most two."""
    sentences: Annotated[int, Within(48, MOST)] = 480
    """Largest number of sentences per split; directions come from those of the training split."""


def transformers(options: Options) -> list[transformer.Options]:
    """The options of all Transformers, those that take longest first."""
    folder = options.output.parent / "models"
    small = transformer.small_models(folder, min(2, options.seeds)).values()
    glove = transformer.tiny_models(folder, options.seeds, embeddings="glove").values()
    return [*small, *glove, *transformer.tiny_models(folder, options.seeds).values()]


def kind_of(ours: transformer.Options) -> str:
    """The name of a model in the tables."""
    return ours.preset if ours.embeddings == "scratch" else f"{ours.preset}-{ours.embeddings}"


def needs(options: Options) -> list[Need]:
    return [(transformer.STUDY, each) for each in transformers(options)]


def run(options: Options) -> Result:
    from studies.practice.figures.bridge import plot_against_error, plot_causal, plot_learning

    tables = practice(options)
    tables |= over_seeds_of(tables)
    curves = {
        KINDS[str(model)]: part.drop(columns="model")
        for model, part in tables["learning"].groupby("model")
    }
    tables |= beside.comparison(curves)
    scratch, frozen = (curves[KINDS[kind]] for kind in ("tiny", "tiny-glove"))
    figures = {
        "learning": plot_learning(scratch, tables["theory"], frozen),
        "error": plot_against_error(tables["against_error"]),
        "causal": plot_causal(tables["causal"]),
    }
    return Result(tables, figures)


# ---- practice


def practice(options: Options) -> dict[str, pd.DataFrame]:
    """The tables measured on Transformers: directions, idealised, learning and causal."""
    look = functools.partial(look_into, options)
    parts = in_parallel(look, transformers(options), "looking into models")
    names = {key for tables in parts for key in tables}
    return {
        key: pd.concat([tables[key] for tables in parts if key in tables], ignore_index=True)
        for key in sorted(names)
    }


def look_into(options: Options, ours: transformer.Options) -> dict[str, pd.DataFrame]:
    """The tables directions and causal of one model and, of some, learning and idealised.

    1-layer models have a curve of learning. Those from scratch are edited in all ways, those with
    frozen vectors are erased and reflected at the embeddings, and the 2-layer model is reflected at
    every layer.
    """
    from safetensors.torch import load_file

    from data_gen import build_dataset
    from probing.circuits.causal import Trial, causal_table
    from probing.circuits.directions import directions_table
    from probing.circuits.idealised import idealised_table
    from probing.circuits.learning import learning_curve, snapshots
    from probing.models.pretrained import load_model, untrained_like
    from probing.models.training import SNAPSHOTS, one_torch_thread
    from probing.sentences import draw_by_word
    from probing.states.extraction import read
    from probing.states.tokens import tokenise

    kind, n = kind_of(ours), options.sentences
    with one_torch_thread():
        model, tokenizer = load_model(str(ours.output), head="classifier")
        dataset = build_dataset()
        train, *tests = (
            tokenise(tokenizer, dataset[name].select(draw_by_word(dataset[name], n)))
            for name in ("train", *SPLITS)
        )
        untrained = untrained_like(model, ours.seed)
        if ours.snapshots:  # its own beginning, which has the given vectors
            first, *_ = snapshots(ours.output / SNAPSHOTS).values()
            untrained.load_state_dict(load_file(first))
        directions = [
            directions_table(model, train).assign(trained=True),
            directions_table(untrained, train).assign(trained=False),
        ]
        causal = causal_table(Trial(model, train, tests[0]), **EDITED[kind])
        tables = {"directions": pd.concat(directions), "causal": causal.assign(split=SPLITS[0])}
        if kind == "tiny":
            states = {name: read(model, each) for name, each in zip(SPLITS, tests, strict=True)}
            tables["idealised"] = idealised_table(read(model, train), states)
        if ours.snapshots:
            curve = learning_curve(model, ours.output / SNAPSHOTS, train, tests[0])
            tables["learning"] = curve.assign(relative_error=curve["error"] / 0.5)  # guessing: 0.5
    return {key: table.assign(model=kind, seed=ours.seed) for key, table in tables.items()}


def over_seeds_of(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Medians over training seeds with their intervals: cosines, effects of edits, predictor."""
    from probing.statistics import medians

    heads, cosines = strongest_heads(tables["directions"]), [*COSINES, "v_share"]
    effects = embeddings_edited(tables["causal"])
    gates = ["split", "gate", "source"]
    return {
        "cosines": medians(heads, ["model", "trained"], cosines),
        "effects": medians(effects, ["model", "test", "edit", "site"], list(MEASURES)),
        "predictor": medians(tables["idealised"], gates, ["accuracy", "attention_mass"]),
    }


def strongest_heads(directions: pd.DataFrame) -> pd.DataFrame:
    """Absolute cosines of each model's head with most attention on the informative word, one row
    per training seed; absolute, since a direction has no sign.
    """
    heads = directions.sort_values("attention_mass").groupby(["model", "trained", "seed"]).last()
    return heads.abs().reset_index()


def embeddings_edited(causal: pd.DataFrame) -> pd.DataFrame:
    """Edits of the embeddings of 1-layer models on the test split, one row per training seed."""
    rows = causal.query("model.str.startswith('tiny') and split == 'test' and layer == 0")
    return rows[rows["dose"].isna() | (rows["dose"] == 1.0)]


# ---- what it says


def first_layer_effects(causal: pd.DataFrame) -> Any:
    """Edits of the embeddings of 1-layer models on the test split, grouped over seeds."""
    return embeddings_edited(causal).groupby(["model", "test", "edit", "site"], sort=False)


def claims(tables: Tables) -> Iterator[Claim]:
    yield from cosine_claims(tables["directions"].query("trained"))
    ideal = tables["idealised"].query("split == 'test'")
    ideal = ideal.query("gate == 'one-sided' and source == 'fitted'")
    text = "one-sided gate, k and v fitted to labels alone: accuracy on the states of the model"
    yield at_least(text, ideal["accuracy"], 0.99)
    yield at_least("... its attention on the informative word", ideal["attention_mass"], 0.95)
    effects = first_layer_effects(tables["causal"])
    for kind, origin in (("tiny", PROTOTYPE), ("tiny-glove", BEFORE)):
        yield from causal_claims(effects, kind, origin)
    yield from beside.claims(tables["order"], tables["nearness"])


def cosine_claims(directions: pd.DataFrame) -> Iterator[Claim]:
    """Cosines against random directions with the covariance of the states, in every seed."""
    for kind in ("tiny", "tiny-glove"):
        rows = directions[directions["model"] == kind]
        for name, k, least, seen in (("kappa", "k", 0.7, "0.80"), ("nu", "v", 0.85, "0.91")):
            text, paper = f"cosine of {k} in the weights and {k}_hat", f"training finds {k}*"
            null = rows[f"{name}_covariance_null_95"]
            yield Claim(
                claim=f"{KINDS[kind]}: {text}",
                paper=paper,
                required=above(null),
                origin=AUDIT,
                measured=f"{rows[name].mean():.3f}",
                interval=over_seeds(rows[name]),
                passed=bool((rows[name] > null).all()),
            )
            if kind == "tiny":
                origin = f"from {seen} of a prototype, two hours after the first probes"
                text = f"... the cosine of {k} against the first version's threshold"
                yield at_least(text, rows[name], least, origin, paper)


def above(null: pd.Series) -> str:
    """The requirement on cosines, one per seed as the quantiles of random ones."""
    return (
        "in every seed above 95% of random directions with the covariance of the states "
        f"({null.min():.2f} to {null.max():.2f})"
    )


def causal_claims(effects: Any, kind: str, origin: str) -> Iterator[Claim]:
    def effect(test: str, edit: str, site: str, column: str) -> pd.Series:
        return effects.get_group((kind, test, edit, site))[column]

    name = KINDS[kind]
    for edit in ("mean difference", "LEACE"):
        erased = effect("erase value", edit, "informative", "accuracy")
        yield at_most(f"{name}: accuracy, value erased ({edit})", erased, 0.6, origin)
        elsewhere = effect("erase value", edit, "distractor", "accuracy")
        yield at_least(f"... the same at the distractor ({edit})", elsewhere, 0.98, origin)
    random = effect("erase value", "random", "informative", "accuracy")
    yield at_least("... a random direction instead", random, 0.98, origin)
    large = effect("erase value", ACROSS, "informative", "accuracy")
    asked = origin if origin == BEFORE else AUDIT
    yield at_least("... the largest component of words across v_hat instead", large, 0.98, asked)
    turned = effect("reflect", "v_hat", "informative", "flips")
    yield at_least(f"{name}: predictions turned by reflection along v_hat", turned, 0.95, origin)
    nothing = effect("reflect", "random", "informative", "flips")
    yield at_most("... along a random direction", nothing, 0.05, origin)


def at_least(
    claim: str, values: pd.Series, least: float, origin: str = PROTOTYPE, paper: str = ""
) -> Claim:
    words = {"interval": over_seeds(values), "origin": origin, "paper": paper}
    return Claim.at_least(claim, values, least, **words)


def at_most(claim: str, values: pd.Series, most: float, origin: str = PROTOTYPE) -> Claim:
    return Claim.at_most(claim, values, most, interval=over_seeds(values), origin=origin)


def says(tables: Tables) -> Said:
    effects = medians_said(tables["effects"], ["model", "test", "edit", "site"], MEASURES)
    ideal = tables["predictor"].query("split == 'test'")
    ideal = ideal.assign(gate=ideal["gate"].map(GATES), source=ideal["source"].map(SOURCES))
    measures = {name: MEASURES[name] for name in ("accuracy", "attention_mass")}
    shares = tables["cosines"].query("quantity == 'v_share' and trained").set_index("model")
    scratch, frozen = (
        interval(*shares.loc[kind, ["median", "low", "high"]]) for kind in ("tiny", "tiny-glove")
    )
    heads = medians_said(tables["cosines"], ["model", "trained"], COSINES)
    for name in ("kappa_null_95", "nu_null_95"):  # depend on the dimension alone
        heads[COSINES[name]] = heads[COSINES[name]].str.split(" ").str[0]
    n = tables["cosines"].set_index(["model", "trained"])["n"]
    return [
        f"Medians over training seeds ({n['tiny', True].max()} of each 1-layer model) with their "
        "exact 95% intervals, by order statistics; fewer than six seeds have none.",
        "Absolute cosines between the directions in the weights of the head with most attention on "
        "the informative word and those of linear probes on the states that this head reads. "
        "Beside them, the 95% quantiles of random directions: of "
        "those with the covariance of the states of words, which is the comparison to make, since "
        "states vary along few directions, and of isotropic ones. Embeddings from scratch are "
        "trained together with the weights, so that the directions are not given but made; GloVe "
        "vectors are frozen (positions are trained).",
        heads.rename(index=KINDS, level="model"),
        "Effects of edits of the embeddings in 1-layer models, on the test split (steering is by "
        "one distance between the labels). From scratch, v_hat "
        f"holds {scratch} of the variance of the informative tokens, so that erasing it leaves "
        f"little that could tell these words apart; of frozen vectors it holds {frozen}. Controls: "
        "random directions, isotropic and with the covariance of the states; the first principal "
        "component of words, which from scratch is close to v_hat in some seeds, and that of what "
        "is left across v_hat; and the same edit at the distractor, which may be the same word, "
        "with the same vector, as an informative one.",
        effects.rename(index=KINDS, level="model"),
        "The predictor of the paper, with its own gate and with others, on the states that the "
        "1-layer model from scratch reads, test split. Fitted to labels alone "
        "it is not told where to look; many k and v then fit the labels of templated sentences, "
        "so that a high accuracy does not make it attend to the informative word. The probes are "
        "told the location of the informative token in training.",
        medians_said(ideal, ["gate", "source"], measures),
        "Theory beside practice, at the start and at the end of training: medians over training "
        "seeds, and over runs of the theory.",
        beside.ends_said(tables["theory_practice"]),
        *beside.nearness_said(tables["nearness"]),
        "Which stays aligned first, v or k, by the level of alignment: counts of training seeds or "
        "runs, the share of all in which v is first with its exact 95% interval, p of the "
        "one-sided sign test, and the median share of the training after which each stays aligned. "
        "Where one never does, the other counts as first. The probes' directions are those of each "
        "snapshot, or those of one: the last, which were not there at the beginning, or the first, "
        "which no training has changed.",
        beside.order_said(tables["order"]),
        *beside.order_by_lam_said(tables["order_by_lam"]),
    ]


STUDY = study(
    __name__,
    "k* and v* inside the Transformer",
    "python scripts/bridge.py",
    learning="Learning, practice beside theory. Alignment, attention on the informative "
    "token, relative error and distance to the invariant manifold during training: one-layer "
    "Transformers from scratch and with frozen GloVe vectors; and single-location regression, "
    "projected gradient descent with the paper's erf and schedule, and gradient descent and SGD "
    "with a softmax whose inverse temperature is learned. Lines are medians over training seeds or "
    "runs (of the theory, over runs that align), bands their exact 95% intervals.",
    error="Learning without a clock: alignment of k and v, and attention on the informative token, "
    "at equal error, which falls from left to right. Lines are medians over training seeds or "
    "runs, the band is the 95% interval of the median of the Transformer from scratch.",
    causal="Causal tests on the one-layer Transformer, test split. (a) The direction that tells "
    "the labels apart is erased; (b) the direction that marks the informative token is erased; "
    "(c) the informative token is steered or reflected along v_hat and along random directions; "
    "(d) predictions changed by reflection after each layer, also in deeper models. Bars, points "
    "and lines are medians over training seeds, with their exact 95% intervals (none for fewer "
    "than six seeds).",
)
