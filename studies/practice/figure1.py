"""Make Figure 1: token-wise sparsity and internal linear representations.

The study draws small Transformers (of one and of two layers, from scratch and with word vectors,
each with its control) beside probes of pretrained models, on the published and on the wide data.
The published bars of BERT are in the studies of the paper's protocol. Models and probes are read
from folders next to the output (`models`, `probes`, `probes-wide`, ...); missing ones are made
first. The output is the figure (PNG, PDF) and every number in it as tables.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from studies.bounds import Trainings
from studies.findings import Finding, median, of_row
from studies.practice import probed, transformer
from studies.practice.probed import LEAST, WIDE, WIDEST, Probed
from studies.practice.probes import PUBLISHED
from studies.rendering import interval, intervals, pivoted
from studies.study import Need, Result, Said, Tables, study
from studies.study import Options as StudyOptions
from studies.subject import MODEL_NAMES

SHADED = (  # sentences of panel a: a split and a row, the word at many places
    ("test", 300),
    ("test", 4_000),
    ("ood_structure", 50),
    ("ood_no_distractor", 1_000),
    ("ood_position", 4_000),
)
SHOWN = "pair-0"  # the model of panel a
PAIR_SEEDS = 6  # with sentences in random order and in order; a model takes a quarter of a minute
WIDE_SEEDS = 3  # a model takes half a minute
PROBES = ("summary", "mean", "head", "reader")  # the last is told the place in training
MASS_OF = {  # series in the table models: name in the table sparsity
    "tiny": "1 layer",
    "pair": "2 layers",
    "pair-in-order": "2 layers, sentences in order",
}
KNOWN_WORDS = (  # the splits whose adjectives a model from scratch has seen
    "test",
    "ood_structure",
    "ood_greeting",
    "ood_no_distractor",
    "ood_position",
)


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    output: Path = Path("results/figure1")
    """Folder for the figure and its tables."""
    seeds: Trainings = 20
    """Number of training seeds; of 2-layer models at most 6, and on the wide data at most 3."""
    smoke: bool = False
    """Probe MiniLM at two layers on few sentences, without controls or SmolLM2: a quick check."""


# ---- what is drawn


def transformers(options: Options) -> dict[str, dict[str, transformer.Options]]:
    """The options of the models on the published data whose accuracy is drawn, by series."""
    folder, n = options.output.parent / "models", options.seeds
    pairs = min(n, PAIR_SEEDS)
    one = transformer.Options(embeddings="corpus", output=folder / "tiny-corpus")
    swapped = replace(one, control="swapped", output=folder / "tiny-swap")
    glove: dict[str, Any] = {"embeddings": "glove"}
    return {
        "tiny": transformer.tiny_models(folder, n),
        "tiny-glove": transformer.tiny_models(folder, n, **glove),
        "tiny-glove-shuffled": transformer.tiny_models(folder, 1, **glove, control="shuffled"),
        "tiny-corpus": {"tiny-corpus": one},
        "tiny-swap": {"tiny-swap": swapped},
        "pair": transformer.pair_models(folder, pairs),
        "pair-in-order": transformer.pair_models(folder, pairs, "pair-in-order", shuffle=False),
    }


def wide_transformers(options: Options) -> dict[str, dict[str, transformer.Options]]:
    """The options of the models on the wide data, by series; none for a quick check."""
    if options.smoke:
        return {}
    folder, n = options.output.parent / "models", min(options.seeds, WIDE_SEEDS)
    wide: dict[str, Any] = {"spec": WIDE}
    glove: dict[str, Any] = {**wide, "embeddings": "glove"}
    # Vectors without meaning take longer: after 4 epochs the training split is not learned.
    models, shuffled = transformer.pair_models, {**glove, "control": "shuffled", "epochs": 8}
    return {
        "pair": models(folder, 1, "pair-wide", **wide),
        "pair-glove": models(folder, n, "pair-wide-glove", **glove),
        "pair-glove-shuffled": models(folder, 1, "pair-wide-glove-shuffled", **shuffled),
    }


def probes_of(options: Options) -> dict[str, Probed]:
    """The studies of pretrained models, by folder."""
    if options.smoke:
        one = probed.PROBED["probes"]
        few = replace(one.options, layers=(1, 2), max_rows=96, no_controls=True)
        return {"probes": replace(one, options=few)}
    return probed.available()


def needs(options: Options) -> list[Need]:
    series = [*transformers(options).values(), *wide_transformers(options).values()]
    models = [(transformer.STUDY, each) for group in series for each in group.values()]
    results = options.output.parent
    studies = [(each.study, each.under(results)) for each in probes_of(options).values()]
    return [*models, *studies]


def run(options: Options) -> Result:
    from studies.practice.figures.figure1 import plot_figure1

    published, wide = transformers(options), wide_transformers(options)
    models = pd.concat(
        [metrics_of(published, "published"), metrics_of(wide, "wide")], ignore_index=True
    )
    folder = options.output.parent
    chosen = {
        name: each for name, each in probes_of(options).items() if each.options.protocol == "ours"
    }
    parts = [probe_dots(each, Tables(folder / name)) for name, each in chosen.items()]
    dots = pd.concat([*parts, transformer_dots(models)], ignore_index=True)
    shown = next(name for name in ("probes-wide", "probes") if name in chosen)
    plane = Tables(folder / shown)["plane"]
    sparsity, sentences = sparsity_part(options, models)
    drawn = dots[dots["data"] == "wide"] if "wide" in set(dots["data"]) else dots
    figure = plot_figure1(sentences, sparsity, drawn, plane)
    tables = {"dots": dots, "models": models, "sparsity": sparsity, "plane": plane}
    tables["chosen"] = pd.concat(
        Tables(folder / name)["chosen"].assign(model=each.options.model, data=each.options.data)
        for name, each in chosen.items()
    )
    return Result(tables, {"figure1": figure})


# ---- its tables


def metrics_of(series: dict[str, dict[str, transformer.Options]], data: str) -> pd.DataFrame:
    """The metrics of every model on every split, with the columns series, seed and data."""
    tables = [
        Tables(each.output)["metrics"].assign(series=name, seed=each.seed, data=data)
        for name, group in series.items()
        for each in group.values()
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def transformer_dots(models: pd.DataFrame) -> pd.DataFrame:
    """Medians over training seeds with their intervals (kind "seeds").

    Too few seeds have no such interval: then the row is that of the median seed, the lower of two,
    with its interval over words.
    """
    from probing.statistics import median_interval

    rows = []
    for (data, series, split), group in models.groupby(["data", "series", "split"], sort=False):
        if split not in PUBLISHED:
            continue
        row: dict[str, Any] = {"data": data, "series": series, "split": split, "seeds": len(group)}
        median, low, high = median_interval(group["accuracy"])
        kind = "seeds"
        one = group.sort_values("accuracy").iloc[(len(group) - 1) // 2]
        if low != low:
            median, low, high = one[["accuracy", "accuracy_low", "accuracy_high"]]
            kind = "interval"
        if one["unknown_words"]:  # chance by construction
            low, high, kind = float("nan"), float("nan"), ""
        row |= {"accuracy": median, "low": low, "high": high, "kind": kind}
        rows.append(row | {"words": int(one["words"])})
    return pd.DataFrame(rows)


def probe_dots(each: Probed, tables: Tables) -> pd.DataFrame:
    """Dots of one model: every probe at the layer of its own cross-validation."""
    dots = tables["chosen"].query("probe in @PROBES")
    data = "wide" if each.options.data == WIDE else "published"
    dots = dots.assign(data=data, kind="interval", series=f"{each.options.model}-" + dots["probe"])
    return dots[["data", "series", "split", "accuracy", "low", "high", "kind", "words", "layer"]]


def sparsity_part(options: Options, models: pd.DataFrame) -> tuple[pd.DataFrame, list[Any]]:
    """Attention on the word by split, and views of the shaded sentences."""
    from data_gen import build_dataset
    from probing.evaluation import compare_sparsity, summary_attention
    from probing.models.pretrained import load_model, untrained_like
    from probing.models.training import one_torch_thread
    from probing.states.views import sentence_views
    from probing.statistics import medians

    model, tokenizer = load_model(
        str(transformers(options)["pair"][SHOWN].output), head="classifier"
    )
    dataset = build_dataset("sentiment", extended=True)
    sentences = []
    with one_torch_thread():
        few = type(dataset)({name: dataset[name] for name in KNOWN_WORDS})
        untrained = compare_sparsity({"untrained": untrained_like(model)}, tokenizer, few)
        for split, i in SHADED:
            rows = dataset[split].select([i])
            (view,) = sentence_views(summary_attention(model, tokenizer, rows), rows)
            sentences.append(view.words_only())
    ours = models[(models["data"] == "published") & models["series"].isin(MASS_OF)]
    ours = ours[ours["split"].isin(KNOWN_WORDS)].assign(model=ours["series"].map(MASS_OF))
    trained = medians(ours, ["model", "split"], ["attention_mass"]).drop(columns="quantity")
    trained = trained.rename(columns={"median": "mass", "n": "seeds"})
    last = untrained.query("model == 'untrained'").groupby(["model", "split"], sort=False)["mass"]
    return pd.concat([trained, last.mean().reset_index()], ignore_index=True), sentences


# ---- what it says


def findings(tables: Tables) -> Iterator[Finding]:
    models = tables["models"]
    published = models[models["data"] == "published"]

    def of(series: str, column: str, *splits: str) -> pd.Series:
        return published[(published["series"] == series) & published["split"].isin(splits)][column]

    two, one = (of(series, "attention_mass", "test") for series in ("pair", "tiny"))
    elsewhere = of("tiny", "attention_mass", "ood_position")
    sparsity = tables["sparsity"].set_index(["model", "split"])["mass"]
    yield Finding(
        text="In a 2-layer Transformer trained from scratch a share of {} of the attention of "
        f"[CLS] is on the word that decides (median over {len(two)} training seeds; untrained "
        f"{sparsity['untrained', 'test']:.2f}).",
        **median(two),
        headline=True,
    )
    yield Finding(
        text="One layer finds the word by its place: at a new place a share of {} of its attention "
        f"is on the word, at a known one {one.median():.2f} (medians over {len(one)} training "
        f"seeds).",
        **median(elsewhere),
    )
    in_order, shuffled = (
        of(series, "attention_mass", "ood_position") for series in ("pair-in-order", "pair")
    )
    yield Finding(
        text="Two layers trained on sentences in order have a share of {} of their attention on a "
        f"word at a new place (median over {len(in_order)} training seeds); trained on sentences "
        f"in random order, for which no place is new, {shuffled.median():.2f}.",
        **median(in_order),
    )
    accuracy = of("pair", "accuracy", *KNOWN_WORDS).min()
    yield Finding(
        text="The 2-layer Transformer from scratch has an accuracy of {} in its worst training "
        f"seed and split, over {len(KNOWN_WORDS)} splits with known adjectives.",
        value=accuracy,
        required="at least 0.99",
        holds=bool(accuracy >= 0.99),
    )
    mass = of("pair", "attention_mass", *KNOWN_WORDS).min()
    yield Finding(
        text="The 2-layer Transformer from scratch has a share of {} of its attention on the word "
        f"in its worst training seed and split, over {len(KNOWN_WORDS)} splits with known "
        "adjectives.",
        value=mass,
        form=".3f",
        required="at least 0.9",
        holds=bool(mass >= 0.9),
        why="in some seeds the word is found less sharply without a distractor, or with the "
        "sentences in the other order",
    )
    yield from word_vector_findings(models)
    wide = tables["chosen"].query("data == @WIDE")
    if len(wide):  # not in a quick check
        yield from wide_findings(wide)


def word_vector_findings(models: pd.DataFrame) -> Iterator[Finding]:
    """New words with real word vectors, and the control."""
    wide = models.query("data == 'wide' and split == 'ood_tokens'")
    glove = wide.query("series == 'pair-glove'")["accuracy"]
    if glove.empty:
        return
    row = wide.query("series == 'pair-glove-shuffled'").iloc[0]
    yield Finding(
        text="With GloVe vectors shuffled among words, a 2-layer Transformer reads {} of sentences "
        f"with 150 new adjectives right; with the vectors in their places {glove.median():.2f} "
        f"(median over {len(glove)} training seeds).",
        **of_row(row, "accuracy", "accuracy"),
        required="at most 0.6",
        holds=bool(row["accuracy_high"] <= 0.6),
    )


def wide_findings(chosen: pd.DataFrame) -> Iterator[Finding]:
    """Pretrained models on many words, every probe at the layer of its own cross-validation."""
    new = chosen.query("split == 'ood_tokens'").set_index(["model", "probe"])
    for model in new.index.unique("model"):
        name, head, last = MODEL_NAMES[model], new.loc[(model, "head")], new.loc[(model, "summary")]
        summary = "last token" if model == "smollm2" else "[CLS]"
        yield Finding(
            text=f"In {name} a single-location head that is told labels alone judges {{}} of "
            f"sentences with {head['words']:.0f} new adjectives right; a probe of its {summary} "
            f"{interval(*last[['accuracy', 'low', 'high']])}, each at the layer of its own "
            "cross-validation.",
            **of_row(head, "accuracy"),
            headline=model == "smollm2",
        )
    new_words = chosen[chosen["split"].isin(["ood_tokens", "ood_structure_tokens"])]
    reader = new_words.query("probe == 'reader'")
    least = [LEAST[row.model][row.split != "ood_tokens"] for row in reader.itertuples()]
    short = reader["accuracy"] - least
    worst = reader.loc[short.idxmin()]
    yield Finding(
        text="Locate-and-read, which is told the place in training, judges {} of sentences with "
        "new adjectives right where it falls short of its requirement most "
        f"({MODEL_NAMES[worst['model']]}, {worst['split']}).",
        **of_row(worst, "accuracy"),
        required="at least 0.95 (0.90 for MiniLM in new structures), with intervals narrower than "
        f"{WIDEST:g}",
        holds=bool((short >= 0).all() and (reader["high"] - reader["low"] < WIDEST).all()),
        why="the requirement came from a prototype with easier sentences; MiniLM reads one token "
        "of adjectives that it splits, and misses places in new structures",
    )
    value = new_words.query("probe == 'value'")
    worst = value.loc[value["low"].idxmin()]
    yield Finding(
        text="Told the place, a linear probe reads {} of new adjectives right where it does worst "
        f"({MODEL_NAMES[worst['model']]}, {worst['split']}).",
        **of_row(worst, "accuracy"),
        required="at least 0.95, at the lower end of the interval",
        holds=bool((value["low"] >= 0.95).all()),
        why="adjectives of several tokens are read at one of them",
    )
    pairs = [
        (new.loc[(model, "reader")], new.loc[(model, "summary")])
        for model in LEAST
        if model in new.index.unique("model")
    ]
    read, pooled = min(pairs, key=lambda pair: pair[0]["low"] - pair[1]["high"])
    yield Finding(
        text="On new adjectives in known structures locate-and-read, which is told the place in "
        "training, is right in {} of sentences, and the summary token in "
        f"{interval(*pooled[['accuracy', 'low', 'high']])}, in the model where they differ least "
        f"({MODEL_NAMES[read.name[0]]}).",
        **of_row(read, "accuracy"),
        required="better, with intervals apart",
        holds=all(told["low"] > summary["high"] for told, summary in pairs),
    )


def says(tables: Tables) -> Said:
    from probing.statistics import medians
    from studies.practice.figures.figure1 import SERIES, SPLIT_NAMES

    dots, said = tables["dots"], []
    for data, rows in dots.groupby("data", sort=False):
        texts = intervals(rows)
        wide = pivoted(rows, texts, "series", "split")
        words = rows.dropna(subset="words").groupby("split")["words"].max()
        names = {
            split: f"{SPLIT_NAMES.get(split, split)} ({words[split]:.0f} words)"
            for split in wide
            if split in words
        }
        wide.index = pd.Index([SERIES[name].label for name in wide.index], name="accuracy")
        said += [DATA_TEXTS[str(data)], wide.rename(columns=names).fillna("")]
    sparsity = tables["sparsity"]
    known = tables["models"].query("data == 'published' and split in @KNOWN_WORDS")
    known = known[known["series"].isin(MASS_OF)].assign(model=known["series"].map(MASS_OF))
    right = medians(known, ["model", "split"], ["accuracy"])
    seeds = sparsity.dropna(subset="seeds").groupby("model", sort=False)["seeds"].max()
    counts = ", ".join(f"{n:.0f} of `{model}`" for model, n in seeds.items())
    return [
        *said,
        "Attention on the informative word by split, for words that the models have seen: medians "
        f"over training seeds ({counts}) with their exact 95% intervals. The models are trained "
        "without dropout: with it attention stays spread out, which was seen on training data, so "
        "that sparsity is in part this choice.",
        pivoted(sparsity, intervals(sparsity, "mass"), "split", "model"),
        "Accuracy of the same models:",
        pivoted(right, intervals(right, "median"), "split", "model"),
        "A layer of attention scores each token by what it is and where it stands. So one layer "
        "cannot tell an adjective of the animal from the same adjective of the city but by its "
        "place, and fails where places are new. A 2-layer model (rotary positions) can first see "
        "what stands around a word; whether it learns to, is a matter of training. `2 layers` is "
        "trained on sentences in random order, with more words hidden: the places of "
        "`ood_position` are not new to it. `2 layers, sentences in order` is the same model, with "
        "the same seeds, trained without this, as the 1-layer model is: to it they are new.",
    ]


DATA_TEXTS = {
    "published": "Accuracy by split on the published data, each probe at the layer of its own "
    "cross-validation on training data; brackets are 95% intervals, of probes over words, of "
    "Transformers from scratch of the median over training seeds (or, of fewer than six seeds, "
    "over words, for the median seed). `Locate and read` and `single-location head` read all "
    "tokens; only the former is told in training which word decides. A Transformer from scratch "
    "cannot do better than 0.5 on new adjectives: all of them are the same [UNK]. The published "
    "bars of BERT are of another protocol, in `Probes by layer: MiniLM, the paper's protocol`.",
    "wide": "The same on the wide data, with 64 training and 150 new adjectives. In the control "
    "GloVe's vectors are shuffled among words.",
}
STUDY = study(
    __name__,
    "Figure 1",
    "python scripts/figure1.py",
    figure1="Token-wise sparsity and internal linear representations. (a) Attention of [CLS] in a "
    "2-layer Transformer from scratch. (b) Attention on the informative word: median over training "
    "seeds with its exact 95% interval, of 1-layer and 2-layer models (these with sentences in "
    "random order in training, where the place of `new position` is not new, and in order) and of "
    "an untrained one. (c) Accuracy by split on the wide data: probes of pretrained models, each "
    "at the layer of its own cross-validation, and small Transformers. (d) Tokens in MiniLM along "
    "the directions of a location probe and a value probe, wide data.",
)
