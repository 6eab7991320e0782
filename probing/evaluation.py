"""How well a classifier does on each split, and how much it looks at the word that matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from probing.activations import Activations, extract
from probing.attribution import logit_differences
from probing.sparsity import attention_mass, reading_layer
from probing.statistics import cluster_bootstrap

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

N_FOR_LAYER = 500  # training sentences on which the layer that reads the word is found


def informative_words(split: Dataset) -> list[str]:
    return [words[i] for words, i in zip(split["words"][:], split["location"][:], strict=True)]


def cls_attention(model: Any, tokenizer: Any, split: Dataset) -> Activations:
    rows = split[:]
    return extract(model, tokenizer, rows["text"], rows["span"], positions=(), attention=True)


def evaluate(model: Any, tokenizer: Any, dataset: DatasetDict, *, seed: int = 0) -> pd.DataFrame:
    """One row a split: accuracy and attention mass on the informative word, with 95% intervals.

    Intervals resample informative words and patterns, not rows: templated sentences are far
    from independent.
    """
    train = dataset["train"]
    step = max(1, len(train) // N_FOR_LAYER)
    layer = reading_layer(cls_attention(model, tokenizer, train.select(range(0, len(train), step))))
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
