"""How well a classifier does on each split, and how much it looks at the word that matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from probing.attribution import dependence, logit_differences
from probing.sentences import draw, informative_words
from probing.sparsity import attention_mass, reading_layer, sparsity_table
from probing.states.extraction import Activations, extract
from probing.statistics import cluster_bootstrap

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

N_FOR_LAYER = 500  # training sentences on which the layer that reads the word is found


def cls_attention(model: Any, tokenizer: Any, split: Dataset) -> Activations:
    rows = split[:]
    return extract(model, tokenizer, rows["text"], rows["span"], positions=(), attention=True)


def evaluate(model: Any, tokenizer: Any, dataset: DatasetDict, *, seed: int = 0) -> pd.DataFrame:
    """One row a split: accuracy and attention mass on the informative word, with 95% intervals.

    Intervals resample informative words and patterns, not rows: templated sentences are far
    from independent.
    """
    train = dataset["train"]
    some = train.select(draw(len(train), N_FOR_LAYER))
    layer = reading_layer(cls_attention(model, tokenizer, some))
    rows = []
    for (name, split), rng in zip(
        dataset.items(), np.random.default_rng(seed).spawn(len(dataset)), strict=True
    ):
        clusters = (np.array(informative_words(split)), np.array(split["pattern"][:]))
        predicted = logit_differences(model, tokenizer, split["text"][:]) > 0
        correct = predicted == np.array(split["label"][:], dtype=bool)
        mass = attention_mass(cls_attention(model, tokenizer, split), layer)
        row: dict[str, Any] = {"split": name, "rows": len(split), "layer": layer}
        for measure, values in (("accuracy", correct.astype(float)), ("attention_mass", mass)):
            interval = cluster_bootstrap(values, clusters, rng=rng)
            row |= {
                measure: interval.value,
                f"{measure}_low": interval.low,
                f"{measure}_high": interval.high,
            }
        rows.append(row)
    return pd.DataFrame(rows)


def compare_sparsity(
    models: dict[str, Any], tokenizer: Any, dataset: DatasetDict, *, at_most: int = 1000
) -> pd.DataFrame:
    """Every measure of attention by model, split, layer and head, beside uniform attention."""
    rows = []
    for split, data in dataset.items():
        part = data.select(draw(len(data), at_most))
        for name, model in models.items():
            attention = cls_attention(model, tokenizer, part)
            rows.append(sparsity_table(attention).assign(model=name, split=split))
        uniform = sparsity_table(attention, uniform=True)
        rows.append(uniform.assign(model="uniform", split=split))
    table = pd.concat(rows, ignore_index=True)
    first = ["model", "split", "layer", "head"]
    return table[[*first, *(name for name in table.columns if name not in first)]]


def compare_dependence(
    models: dict[str, Any], tokenizer: Any, dataset: DatasetDict, *, at_most: int = 500
) -> pd.DataFrame:
    """What the predictions of classifiers depend on, by model and split."""
    rows = []
    for split, data in dataset.items():
        part = [data[int(i)] for i in draw(len(data), at_most)]
        for name, model in models.items():
            rows.append({"model": name, "split": split, **dependence(model, tokenizer, part)})
    return pd.DataFrame(rows)
