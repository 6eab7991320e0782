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
from studies.findings import Finding, median
from studies.practice import beside, transformer
from studies.rendering import interval, medians_said
from studies.study import Need, Result, Said, Tables, study
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


def findings(tables: Tables) -> Iterator[Finding]:
    yield from cosine_findings(tables["directions"].query("trained"))
    effects = first_layer_effects(tables["causal"])

    def effect(kind: str, test: str, edit: str, site: str, column: str = "accuracy") -> Any:
        return effects.get_group((kind, test, edit, site))[column]

    erased = effect("tiny", "erase value", "mean difference", "informative")
    random = effect("tiny", "erase value", "random", "informative").median()
    elsewhere = effect("tiny", "erase value", "mean difference", "distractor").median()
    yield Finding(
        text="Erasing v* at the word that decides leaves a 1-layer Transformer an accuracy of {} "
        f"(median over {len(erased)} training seeds; a random direction {random:.2f}, v* at the "
        f"distractor {elsewhere:.2f}).",
        **median(erased),
    )
    glove = functools.partial(effect, "tiny-glove")
    left = max(
        glove("erase value", edit, "informative").max() for edit in ("mean difference", "LEACE")
    )
    yield Finding(
        text="With frozen GloVe vectors, erasing v* at the word leaves an accuracy of {} in the "
        "worst training seed, by the mean difference or LEACE.",
        value=left,
        required="at most 0.60",
        holds=bool(left <= 0.6),
        why="of the variance of frozen vectors v* holds a third, and in some seeds the model reads "
        "what erasing leaves",
    )
    kept = min(
        glove("erase value", edit, site).min()
        for edit, site in (
            ("mean difference", "distractor"), ("LEACE", "distractor"), ("random", "informative"),
            (ACROSS, "informative"),
        )
    )  # fmt: skip
    turned = glove("reflect", "v_hat", "informative", "flips").min()
    nothing = glove("reflect", "random", "informative", "flips").max()
    yield Finding(
        text="With frozen GloVe vectors, edits that should not matter (v* at the distractor, other "
        "directions at the word) leave an accuracy of {} in the worst seed; reflection along v* "
        f"turns {turned:.2f} of the predictions at least, along a random direction {nothing:.2f} "
        "at most.",
        value=kept,
        form=".3f",
        required="at least 0.98; at least 0.95; at most 0.05",
        holds=bool(kept >= 0.98 and turned >= 0.95 and nothing <= 0.05),
        why="in some seeds the model also reads a little along the largest component of the words "
        "across v*",
    )
    yield from beside.findings(tables["order"], tables["nearness"])


def cosine_findings(directions: pd.DataFrame) -> Iterator[Finding]:
    """Cosines beside random directions with the covariance of the states."""
    rows, frozen = (directions[directions["model"] == kind] for kind in ("tiny", "tiny-glove"))
    for name, k in (("kappa", "k"), ("nu", "v")):
        random, other = (x[f"{name}_covariance_null_95"].median() for x in (rows, frozen))
        yield Finding(
            text=f"The direction of {k} in the weights of a 1-layer Transformer has a cosine of "
            f"{{}} with the probe's (median over {len(rows)} training seeds), where 95% of random "
            f"directions with the covariance of the states stay below {random:.2f}; with frozen "
            f"GloVe vectors {frozen[name].median():.2f}, against {other:.2f}.",
            **median(rows[name]),
        )


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
