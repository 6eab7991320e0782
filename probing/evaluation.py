"""Accuracy of a classifier on each split, and its attention on the informative word."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from probing.attribution import dependence
from probing.probes.logistic import label_of
from probing.progress import Progress
from probing.sentences import columns_of, draw
from probing.sparsity import attention_mass, reading_layer, sparsity_table
from probing.states.extraction import extract
from probing.states.tokens import States, unknown
from probing.statistics import word_interval

if TYPE_CHECKING:
    from datasets import DatasetDict

N_FOR_LAYER = 500  # training sentences that decide which layer reads the informative word


def summary_attention(model: Any, tokenizer: Any, rows: Any) -> States:
    """The attention of [CLS] (the last token of a decoder) to all tokens, without hidden states.

    >>> summary_attention(model, tokenizer, dataset["test"]).attention.shape
    """
    return extract(model, tokenizer, rows, positions=(), attention=True)


def evaluate(model: Any, tokenizer: Any, dataset: "DatasetDict") -> pd.DataFrame:
    """One row per split: accuracy and attention mass on the informative word, with 95% intervals.

    Intervals are over informative words (``word_interval``), of which there are ``words``. Where
    the tokenizer knows none of them, ``unknown_words`` is True: in the same context [UNK] always
    gets the same label, so with balanced labels the accuracy is 0.5 by construction.

    The last token of a decoder may be the informative word itself: its attention to itself counts
    as mass, but the word reaches the prediction without attention as well. ``word_is_summary`` is
    the share of such sentences, ``attention_mass_elsewhere`` the mass in all others (nan if there
    are none). Required: a classifier, and a split "train".

    >>> model, tokenizer = load_model("results/transformer", head="classifier")
    >>> evaluate(model, tokenizer, build_dataset())[["split", "accuracy", "attention_mass"]]
    """
    train = dataset["train"]
    drawn = train.select(draw(len(train), N_FOR_LAYER))
    layer = reading_layer(summary_attention(model, tokenizer, drawn))
    table: list[dict[str, Any]] = []
    for name, split in dataset.items():
        rows = columns_of(split)
        states = extract(model, tokenizer, rows, positions=(), attention=True, logits=True)
        if not np.isin(states.tokens.labels, range(model.config.num_labels)).all():
            raise ValueError(f"{name}: labels must be numbers below {model.config.num_labels}")
        tokens, mass = states.tokens, attention_mass(states)[:, layer - 1].mean(axis=1)
        values = {"accuracy": label_of(states.logits) == tokens.labels, "attention_mass": mass}
        elsewhere = ~tokens.informative[tokens.summary]
        table.append({"split": name, "rows": len(split), "words": len(np.unique(tokens.words))})
        new = unknown(tokenizer, tokens.ids[tokens.informative])
        table[-1] |= {"unknown_words": bool(new.all()), "layer": layer}
        table[-1]["word_is_summary"] = float(1 - elsewhere.mean())
        apart = float(mass[elsewhere].mean()) if elsewhere.any() else float("nan")
        table[-1]["attention_mass_elsewhere"] = apart
        for measure, per_sentence in values.items():
            interval = word_interval(per_sentence, tokens.words)
            ends = {f"{measure}_low": interval.low, f"{measure}_high": interval.high}
            table[-1] |= {measure: interval.value, **ends}
    return pd.DataFrame(table)


def compare_sparsity(
    models: dict[str, Any],
    tokenizer: Any,
    dataset: "DatasetDict",
    *,
    max_sentences: int = 1000,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Every measure of attention by model, split, layer and head, beside uniform attention.

    At most ``max_sentences`` of each split are read; ``progress(done, total)`` counts splits.

    >>> compare_sparsity({"trained": model, "untrained": untrained_like(model)}, tokenizer, dataset)
    """
    tables = {}
    for done, (split, data) in enumerate(dataset.items(), 1):
        rows = columns_of(data.select(draw(len(data), max_sentences)))
        for name, model in models.items():
            states = summary_attention(model, tokenizer, rows)
            tables[name, split] = sparsity_table(states)
        tables["uniform", split] = sparsity_table(states, uniform=True)
        if progress:
            progress(done, len(dataset))
    return pd.concat(tables, names=["model", "split"]).droplevel(2).reset_index()


def compare_dependence(
    models: dict[str, Any],
    tokenizer: Any,
    dataset: "DatasetDict",
    *,
    max_sentences: int = 500,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Dependence of the predictions of classifiers on words, one row per model and split.

    At most ``max_sentences`` of each split are read; ``progress(done, total)`` counts splits.
    """
    table = []
    for done, (split, data) in enumerate(dataset.items(), 1):
        rows = [data[int(i)] for i in draw(len(data), max_sentences)]
        for name, model in models.items():
            table.append({"model": name, "split": split, **dependence(model, tokenizer, rows)})
        if progress:
            progress(done, len(dataset))
    return pd.DataFrame(table)
