"""Probe any Hugging Face encoder or decoder: where is the word that decides, and what does it say?

Fits linear probes on the hidden states of every layer (on [CLS] as in the paper, on the mean of the
tokens, on the informative token), a location probe, both together (locate, then read) and a
single-location head, all on the training split, and scores them on every split, beside an
untrained model and shuffled labels.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from studies.practice.subject import Subject, model_name
from studies.rendering import intervals, pivoted
from studies.study import Claim, Result, Said, Tables, counter, study
from studies.study import Options as StudyOptions

N_SHUFFLES = 3
CONTROL_ROWS = 1000  # of each split are enough for an untrained model ...
CONTROL_TOKEN_SENTENCES = 500  # ... and of these, for probes that see every token
Probe = Literal["cls", "mean", "value", "location", "reader", "head"]


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, Subject):
    position: tuple[Probe, ...] = ("cls", "mean", "value", "location", "reader", "head")
    """Which probes; cls, mean and value differ in where they read."""
    layers: tuple[int, ...] = ()
    """Only these layers (0 is the embeddings); all by default."""
    protocol: Literal["ours", "paper"] = "ours"
    """paper: as-released data, [CLS], all rows, scikit-learn's default C, mean over layers."""
    controls: bool = True
    """Leave out the controls: an untrained model of the same architecture, and shuffled labels."""
    max_rows: int = 0
    """At most this many sentences of each split, drawn at random; 0 takes all."""
    jobs: int = os.cpu_count() or 1
    """Processes that share the fits; results do not depend on it."""
    output: Path = Path("results/probes")
    """Folder for the tables."""


def run(options: Options) -> Result:
    check(options)

    from data_gen import read_data
    from probing.models.pretrained import load_model, untrained_like
    from probing.sentences import at_most

    dataset = read_data("sentiment-as-released" if options.protocol == "paper" else options.data)
    check_words(options.data, dataset)
    if options.max_rows:
        dataset = at_most(dataset, options.max_rows)
    model, tokenizer = load_model(options.model)
    options.check_layers(options.layers, model)
    table, plane = probed(options, model, tokenizer, dataset)
    parts = [table.assign(model="trained")]
    if options.controls:
        untrained, part = untrained_like(model, options.seed), at_most(dataset, CONTROL_ROWS)
        control, _ = probed(options, untrained, tokenizer, part, name="untrained")
        parts.append(control.assign(model="untrained"))
    tables = {"probes": pd.concat(parts, ignore_index=True)}
    return Result(tables if plane is None else tables | {"plane": plane})


def check(options: Options) -> None:
    if options.max_rows < 0 or options.jobs < 1 or options.seed < 0:
        raise ValueError("--max-rows and --seed must be at least 0, --jobs at least 1")
    if not options.position:
        raise ValueError("--position needs at least one probe")
    paper = options.protocol == "paper"
    if paper and (options.data, options.position) != (Options.data, Options.position):
        raise ValueError(
            "--protocol paper has its own data and probe; leave out --data, --position"
        )


def check_words(data: str, dataset: Any) -> None:
    """C and the layer are chosen on held-out words, of which each label needs some."""
    from probing.sentences import informative_words

    train = dataset["train"]
    seen = set(train["text"][:])
    for name, split in dataset.items():
        if name != "train" and (repeated := sum(text in seen for text in split["text"][:])):
            print(f"note: {repeated} of {len(split)} sentences of {name} are in train, too")
    words: dict[str, set[str]] = {}
    for label, word in zip(train["label"][:], informative_words(train), strict=True):
        words.setdefault(train.features["label"].int2str(label), set()).add(word)
    for label, its in words.items():
        if len(its) < 2:
            raise ValueError(
                f"{data}: the training split has only one informative word for {label!r}; probes "
                "are chosen on words held out, so give at least two for each label"
            )


def probed(
    options: Options, model: Any, tokenizer: Any, dataset: Any, *, name: str = "trained"
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """The table of one model, for the trained one with shuffled labels below and a plane beside."""
    from probing.probes.by_layer import PAPER_C, chosen_layers, probe_states, token_plane
    from probing.probes.splits import read_splits

    paper = options.protocol == "paper"
    probes = ("cls",) if paper else options.position
    few = {} if name == "trained" else {"max_token_sentences": CONTROL_TOKEN_SENTENCES}
    with counter(f"{name}: reading", "split") as progress:
        states = read_splits(model, tokenizer, dataset, probes=probes, progress=progress, **few)

    def table_of(probes: Any, **settings: Any) -> pd.DataFrame:
        settings = {"seed": options.seed, "jobs": options.jobs} | settings
        with counter(f"{name}: probing", "fit") as progress:
            layers = options.layers or None
            return probe_states(states, probes=probes, layers=layers, progress=progress, **settings)

    table = table_of(probes, C=PAPER_C if paper else None, standardize=not paper)
    table = table.assign(control="none")
    if name != "trained":
        return table, None
    tables, plane = [table], None
    if options.controls:
        tables.append(shuffled(table_of, probes, options.seed).assign(control="shuffled labels"))
    if "reader" in probes and "test" in states:
        best = chosen_layers(table[table["probe"] == "reader"])
        plane = token_plane(states, "test", int(best["layer"].iloc[0]), seed=options.seed)
    return pd.concat(tables, ignore_index=True), plane


def shuffled(table_of: Any, probes: Any, seed: int) -> pd.DataFrame:
    """Means over draws of the labels; a location has no label that could be shuffled.

    The C of a shuffled task means nothing: fixed, so that the control is cheap.
    """
    asked = [probe for probe in probes if probe != "location"]
    draws = [table_of(asked, C=0.01, shuffled=True, seed=seed + i) for i in range(N_SHUFFLES)]
    keys = ["probe", "layer", "split"]
    return pd.concat(draws).groupby(keys, sort=False).mean().reset_index()


def true_labels(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the trained model's probes on the true labels."""
    return table[(table["model"] == "trained") & (table["control"] == "none")]


def claims(tables: Tables) -> Iterator[Claim]:
    rows = true_labels(tables["probes"])
    rows = rows[(rows["probe"] == "value") & (rows["layer"] > 0)]
    yield Claim.at_least(
        "MiniLM value probe, lowest of all splits (mean over layers)",
        rows.groupby("split")["accuracy"].mean().min(),
        0.99,
        paper="the value is read by a linear direction v*",
    )


def says(tables: Tables) -> Said:
    from probing.probes.by_layer import chosen_layers, layer_means

    table, name = tables["probes"], model_name(tables)
    parts = []
    for (model, control), rows in table.groupby(["model", "control"], sort=False):
        words = [name if model == "trained" else "untrained", control.replace("none", "")]
        parts.append(layer_means(rows).assign(model=", ".join(filter(None, words))))
    rows = true_labels(table)
    if "reader" in set(rows["probe"]) and rows["cv_score"].notna().any():
        recipe = chosen_layers(rows[rows["probe"] == "reader"])
        layer = recipe["layer"].iloc[0]
        parts.append(recipe.assign(model=f"{name}, layer {layer}: the recipe"))
    shown = pd.concat(parts)
    above = sorted({int(layer) for layer in rows["layer"]} - {0}) or [0]
    return [
        f"Accuracy, mean over layers {above[0]} to {above[-1]} with the mean ends of its intervals "
        "(of `location`: share of sentences whose informative token ranks first). The recipe is "
        "`reader` at the layer that cross-validation over training words chose.",
        pivoted(shown, intervals(shown), ["model", "probe"], "split"),
    ]


STUDY = study(__name__, "Probes by layer", "python scripts/probe.py")
