"""Token-wise sparsity of a model: how much does it look at, and depend on, the word that decides?

The study measures the attention of the summary token ([CLS] of an encoder, the last token of a
decoder) for every layer and head: mass on the informative word, top-1 rate, entropy, effective
number of tokens, tokens for 95% of the mass, Gini, beside an untrained model and uniform attention.
For a classifier it also measures what predictions depend on: shares of occlusion and of gradient x
input, and how often a swapped word changes the prediction.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from studies.bounds import Count, Seed
from studies.study import Options as StudyOptions
from studies.study import Result, Said, Tables, counter, study
from studies.subject import Subject

COLUMNS = {  # column of the table: its name in the summary
    "mass": "its mass",
    "top1": "word first",
    "effective_tokens": "effective tokens",
}
MODELS = ("trained", "untrained", "uniform")  # in this order


@dataclass(frozen=True, kw_only=True)
class Options(Subject, StudyOptions):
    model: str = "results/transformer"
    """A folder (of train_transformer.py, say), a .gguf file, minilm, smollm2, or a hub name."""
    seed: Seed = 0
    """Seed of the untrained model."""
    max_rows: Count = 1000
    """Largest number of sentences per split, drawn at random."""
    output: Path = Path("results/sparsity")
    """Folder for the tables."""


def run(options: Options) -> Result:
    from probing.evaluation import compare_dependence, compare_sparsity
    from probing.models.pretrained import untrained_like

    model, tokenizer, classifies = options.load_whole()
    dataset = options.read_data()
    options.check_data(model, tokenizer, dataset, classifies=classifies)
    models = {"trained": model, "untrained": untrained_like(model, options.seed)}
    with counter("attention", "split") as progress:
        limits: dict[str, Any] = {"max_sentences": options.max_rows, "progress": progress}
        sparsity = compare_sparsity(models, tokenizer, dataset, **limits)
    tables = {"sparsity": sparsity}
    if classifies:
        with counter("dependence", "split") as progress:
            tables["dependence"] = compare_dependence(models, tokenizer, dataset, progress=progress)
    return Result(tables)


def says(tables: Tables) -> Said:
    table = tables["sparsity"]
    split = "test" if "test" in set(table["split"]) else "train"
    heads = table[table["split"] == split].sort_values("mass", ascending=False)
    heads = heads[(heads["model"] != "uniform") | (heads["layer"] == 1)]  # all alike
    heads = heads.assign(model=pd.Categorical(heads["model"], MODELS))
    by_layer = heads.groupby(["model", "layer"], observed=True)
    shown = by_layer[["head", *COLUMNS]].first().rename(columns=COLUMNS)
    shown.insert(1, "mean of all heads", by_layer["mass"].mean())
    said: Said = [
        f"Attention of the summary token ([CLS]; a decoder's last token) on the {split} split, for "
        "the head of each layer with most attention on the informative word. sparsity.parquet has "
        "all heads, measures and splits.",
        shown.round(3),
    ]
    if "dependence" in tables:
        depends = tables["dependence"].round(3).set_index(["model", "split"])
        depends.columns = depends.columns.str.replace("_", " ")
        said += ["What predictions depend on:", depends]
    return said


STUDY = study(__name__, "Attention by layer and head", "python scripts/sparsity.py")
