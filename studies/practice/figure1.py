"""Make Figure 1: token-wise sparsity and internal linear representations.

The study draws small Transformers (from scratch, with corpus vectors, and with the swapped corpus
as control) and probes of MiniLM and SmolLM2 beside the published bars of BERT. Models and probes
are read from folders next to the output (`models`, `probes`, `probes-smollm2`); missing ones are
made first. The output is the figure (PNG, PDF) and every number in it as tables.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from studies.practice import probes, transformer
from studies.rendering import intervals, pivoted, spreads
from studies.study import IDENTITY, PROTOTYPE, Claim, Need, Result, Said, Tables, study
from studies.study import Options as StudyOptions

SHADED = (("train", 100), ("train", 9_000), ("test", 300), ("test", 4_000), ("ood_structure", 50))


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    output: Path = Path("results/figure1")
    """Folder for the figure and its tables."""
    seeds: int = 5
    """Number of training seeds of the Transformer from scratch (corpus vectors use seed 0)."""
    smoke: bool = False
    """Probe MiniLM at two layers on few sentences, without controls or SmolLM2: a quick check."""

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"--seeds must be at least 1, not {self.seeds}")


def transformers(options: Options) -> dict[str, transformer.Options]:
    """The options of the models whose accuracy is drawn, by name."""
    folder = options.output.parent / "models"
    models = transformer.tiny_models(folder, options.seeds)
    corpus = transformer.Options(embeddings="corpus", output=folder / "tiny-corpus")
    models["tiny-corpus"] = corpus
    models["tiny-swap"] = replace(corpus, control="swapped", output=folder / "tiny-swap")
    return models


def probes_of(options: Options) -> dict[str, probes.Options]:
    """The options of the probes of pretrained models, by the model's name."""
    folder = options.output.parent
    minilm = probes.Options(output=folder / "probes")
    if options.smoke:
        return {"minilm": replace(minilm, layers=(1, 2), max_rows=96, no_controls=True)}
    return {"minilm": minilm, "smollm2": replace(probes.SMOLLM2, output=folder / "probes-smollm2")}


def needs(options: Options) -> list[Need]:
    models = [(transformer.STUDY, each) for each in transformers(options).values()]
    studies = {"minilm": probes.STUDY, "smollm2": probes.SMOLLM2_STUDY}
    return [*models, *((studies[name], each) for name, each in probes_of(options).items())]


def run(options: Options) -> Result:
    from studies.practice.figures.figure1 import plot_figure1

    models = model_metrics(options)
    probed = {name: Tables(each.output) for name, each in probes_of(options).items()}
    parts = [pretrained_bars(name, tables) for name, tables in probed.items()]
    bars = pd.concat([transformer_bars(models), *parts], ignore_index=True)
    plane = probed["minilm"]["plane"]
    sparsity, sentences = sparsity_part(options)
    return Result(
        {"bars": bars, "models": models, "sparsity": sparsity, "plane": plane},
        {"figure1": plot_figure1(sentences, sparsity, bars, plane)},
    )


def model_metrics(options: Options) -> pd.DataFrame:
    """The metrics of every model on every split, with the columns series and seed."""
    return pd.concat(
        [
            Tables(each.output)["metrics"].assign(
                series=name if each.embeddings == "corpus" else each.preset, seed=each.seed
            )
            for name, each in transformers(options).items()
        ],
        ignore_index=True,
    )


def transformer_bars(models: pd.DataFrame) -> pd.DataFrame:
    """Published bars, and ours: means over training seeds of accuracies and interval ends."""
    from studies.practice.figures.figure1 import PUBLISHED

    published = [
        {"series": "bert-published", "split": split, "accuracy": value}
        for split, value in PUBLISHED.items()
    ]
    table = models[models["split"].isin(PUBLISHED)].copy()
    ends = ["accuracy_low", "accuracy_high"]
    table.loc[table["unknown_words"], ends] = float("nan")  # 0.5 by construction: no interval
    bars = table.groupby(["series", "split"], sort=False).agg(
        accuracy=("accuracy", "mean"),
        low=("accuracy_low", "mean"),
        high=("accuracy_high", "mean"),
        lowest_seed=("accuracy", "min"),
        highest_seed=("accuracy", "max"),
        seeds=("accuracy", "size"),
    )
    return pd.concat([pd.DataFrame(published), bars.reset_index()], ignore_index=True)


def pretrained_bars(name: str, tables: Tables) -> pd.DataFrame:
    """Bars of one model: means over layers, as in the paper; the reader at its chosen layer."""
    from probing.probes.by_layer import chosen_layers

    table, means = (probes.true_labels(tables[key]) for key in ("probes", "means"))
    means = means[means["probe"].isin(["summary", "mean", "head"])]
    recipe = chosen_layers(table[table["probe"] == "reader"])
    bars = pd.concat([means, recipe], ignore_index=True)
    bars["series"] = f"{name}-" + bars["probe"]
    return bars[["series", "split", "accuracy", "low", "high"]]


def sparsity_part(options: Options) -> tuple[pd.DataFrame, list[Any]]:
    """Sparsity of the first model and of an untrained one, and views of the shaded sentences."""
    from data_gen import build_dataset
    from probing.evaluation import compare_sparsity, summary_attention
    from probing.models.pretrained import load_model, untrained_like
    from probing.models.training import one_torch_thread
    from probing.states.views import sentence_views

    folder = transformers(options)["tiny-0"].output
    model, tokenizer = load_model(str(folder), head="classifier")
    dataset = build_dataset()
    models = {"trained": model, "untrained": untrained_like(model)}
    sentences = []
    with one_torch_thread():
        sparsity = compare_sparsity(models, tokenizer, dataset)
        for split, i in SHADED:
            rows = dataset[split].select([i])
            (view,) = sentence_views(summary_attention(model, tokenizer, rows), rows)
            sentences.append(view.words_only())
    return sparsity, sentences


def claims(tables: Tables) -> Iterator[Claim]:
    bars = tables["bars"].set_index(["series", "split"])

    def bar(
        name: str,
        series: str,
        split: str,
        least: float,
        paper: str = "",
        origin: str = PROTOTYPE,
    ) -> Claim:
        row = bars.loc[(series, split)]
        interval = f"[{row['low']:.3f}, {row['high']:.3f}]"
        if paper:
            paper = f"{paper} {bars.loc[('bert-published', split)]['accuracy']:.2f}"
        text = f"{name}, {split}"
        return Claim.at_least(
            text, row["accuracy"], least, interval=interval, paper=paper, origin=origin
        )

    for split in ("test", "ood_structure"):
        yield bar("1-layer Transformer from scratch", "tiny", split, 0.99)
    chance = bars.loc[("tiny", "ood_tokens")]["accuracy"]
    yield Claim(
        claim="... on new adjectives, ood_tokens",
        required="0.500: its tokenizer maps all of them to [UNK]",
        origin=IDENTITY,
        measured=f"{chance:.3f}",
        passed=bool(chance == 0.5),
    )
    yield bar("... with corpus vectors", "tiny-corpus", "ood_tokens", 0.99)
    swapped = bars.loc[("tiny-swap", "ood_tokens")]["accuracy"]
    text = "... with the swapped corpus (control), ood_tokens"
    yield Claim.at_most(text, swapped, 0.01, origin=PROTOTYPE)
    for split, least in (("test", 0.85), ("ood_tokens", 0.75)):
        yield bar("MiniLM [CLS], mean over layers", "minilm-summary", split, least, "BERT")
    goals = {"test": 0.95, "ood_structure": 0.95, "ood_tokens": 0.85, "ood_structure_tokens": 0.85}
    for series, model, origin in (
        ("minilm", "MiniLM", PROTOTYPE),
        ("smollm2", "SmolLM2", "that of MiniLM"),
    ):
        for split, least in goals.items():
            name = f"{model}, locate with k and read with v"
            yield bar(name, f"{series}-reader", split, least, "BERT's [CLS]", origin)
    mass = tables["sparsity"].groupby(["model", "split"])["mass"].mean()
    for split in ("test", "ood_structure"):
        yield Claim(
            claim=f"attention on the informative word, {split}",
            paper="one token matters, and attention finds it (token-wise sparsity)",
            required="at least 0.95, untrained below 0.12",
            origin=PROTOTYPE,
            measured=f"{mass['trained', split]:.3f} (untrained {mass['untrained', split]:.3f})",
            passed=bool(mass["trained", split] >= 0.95 and mass["untrained", split] < 0.12),
        )


def says(tables: Tables) -> Said:
    from studies.practice.figures.figure1 import PUBLISHED, SERIES, SPLIT_NAMES

    bars = tables["bars"]
    gaps = bars["accuracy"] - bars["split"].map(PUBLISHED)
    texts = [
        text + ("" if series == "bert-published" else f" ({gap:+.2f})")
        for series, text, gap in zip(bars["series"], intervals(bars), gaps, strict=True)
    ]
    wide = pivoted(bars, texts, "series", "split")
    wide = wide[[name for name in SPLIT_NAMES if name in wide]].rename(columns=SPLIT_NAMES)
    wide.index = pd.Index([SERIES[name].label for name in wide.index], name="accuracy")
    test = tables["sparsity"].query("split == 'test'").set_index("model")
    sparsity = test[["mass", "top1", "effective_tokens"]].map("{:.2f}".format)
    sparsity.columns = ["attention on the informative word", "ranks first", "effective tokens"]
    tiny = tables["models"].query("series == 'tiny'")
    names = {"accuracy": "accuracy", "attention_mass": "attention on the informative word"}
    return [
        "Accuracy by split: the published bars of BERT first, then ours, with 95% intervals and, "
        "in round brackets, the difference from the published bar of the same split. A Transformer "
        "from scratch with a word-level vocabulary cannot do better than 0.5 on new adjectives: "
        "all of them are the same [UNK]. The swapped corpus is a control: it puts new adjectives "
        "in contexts of the opposite sentiment, so accuracy should fall to 0.",
        wide,
        "Token-wise sparsity on the test split (training seed 0; `uniform` is equal attention):",
        sparsity,
        "The Transformer from scratch (one layer, one head, 32 dimensions), mean (range) over "
        f"{tiny['seed'].nunique()} training seeds:",
        spreads(tiny.groupby("split", sort=False), names),
    ]


STUDY = study(
    __name__,
    "Figure 1",
    "python scripts/figure1.py",
    figure1="Token-wise sparsity and internal linear representations. (a) Attention of "
    "[CLS] in a trained one-layer Transformer. (b) Its mass on the informative word, beside "
    "the untrained model and uniform attention. (c) Accuracy by split: the published bars of "
    "BERT, probes of MiniLM and SmolLM2, small Transformers; lines are 95% intervals. (d) Tokens "
    "in MiniLM along the directions of a location probe and a value probe.",
)
