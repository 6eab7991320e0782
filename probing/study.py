"""All probes of one model on one dataset, in one tidy table.

Columns: probe (cls, mean, value, location, head), layer, split, accuracy (for location: share of
sentences whose informative token ranks first), its 95% interval, C and the cross-validation score
on the training split by which C was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from probing.activations import Activations, extract
from probing.evaluation import informative_words
from probing.head import SingleLocationHead
from probing.probes import LinearProbe, LocationProbe, keep_tokens, shuffled_labels
from probing.statistics import cluster_bootstrap

if TYPE_CHECKING:
    from datasets import DatasetDict

POOLED = {"cls": "cls", "mean": "mean", "value": "informative"}  # probe: position of its states
PROBES = (*POOLED, "location", "head")
PAPER_C = 1.0  # of the released notebook: scikit-learn's default


@dataclass(frozen=True)
class Penalty:
    """C None is chosen by cross-validation; raw states only where the paper's protocol says so."""

    C: float | None
    standardize: bool


@dataclass(frozen=True)
class SplitStates:
    """One split: what the probes see of it and what they are to find."""

    pooled: Activations  # all sentences, pooled positions
    tokens: Activations  # every n-th sentence, all tokens
    every: int
    labels: np.ndarray
    words: np.ndarray  # the informative word of each sentence: what intervals and folds go by
    patterns: np.ndarray


def read_splits(
    model: Any,
    tokenizer: Any,
    dataset: DatasetDict,
    *,
    probes: Sequence[str] = PROBES,
    max_token_sentences: int = 1500,
    progress: Callable[[str], object] | None = None,
) -> dict[str, SplitStates]:
    """Run the model over every split. Token states are kept of a part of the sentences only."""
    found = {}
    positions = tuple(POOLED[probe] for probe in probes if probe in POOLED)
    for name, split in dataset.items():
        rows = split[:]
        every = max(1, len(split) // max_token_sentences)
        pooled = extract(model, tokenizer, rows["text"], rows["span"], positions=positions)
        token_positions = ("tokens",) if set(probes) & {"location", "head"} else ()
        tokens = extract(
            model,
            tokenizer,
            rows["text"][::every],
            rows["span"][::every],
            positions=token_positions,
        )
        found[name] = SplitStates(
            pooled=pooled,
            tokens=tokens,
            every=every,
            labels=np.array(rows["label"]),
            words=np.array(informative_words(split)),
            patterns=np.array(rows["pattern"]),
        )
        if progress:
            progress(name)
    return found


def probe_states(
    states: dict[str, SplitStates],
    *,
    probes: Sequence[str] = PROBES,
    layers: Sequence[int] | None = None,
    C: float | None = None,
    standardize: bool = True,
    shuffled: bool = False,
    seed: int = 0,
    progress: Callable[[str], object] | None = None,
) -> pd.DataFrame:
    """Fit on the training split, score on all. ``shuffled`` permutes the labels over adjectives."""
    train = states["train"]
    rng = np.random.default_rng(seed)
    labels = shuffled_labels(train.labels, train.words, rng) if shuffled else train.labels
    rows: list[dict[str, Any]] = []
    for probe in probes:
        for layer in layers if layers is not None else range(_n_layers(train)):
            fitted, correct_on = FITS[probe](train, labels, layer, Penalty(C, standardize), seed)
            for name, split in states.items():
                correct, every = correct_on(split)
                clusters = (split.words[::every], split.patterns[::every])
                interval = cluster_bootstrap(correct, clusters, rng=np.random.default_rng(seed))
                scores = fitted.cv_scores_
                rows.append(
                    {
                        "probe": probe,
                        "layer": layer,
                        "split": name,
                        "accuracy": interval.value,
                        "low": interval.low,
                        "high": interval.high,
                        "C": fitted.C_,
                        "cv_score": float(np.max(scores)) if scores is not None else np.nan,
                    }
                )
            if progress:
                progress(f"{probe}, layer {layer}")
    return pd.DataFrame(rows)


def _n_layers(split: SplitStates) -> int:
    states = {**split.pooled.states, **split.tokens.states}
    return int(next(iter(states.values())).shape[1])


def _fit_pooled(position: str) -> Callable[..., Any]:
    def fit(train: SplitStates, labels: Any, layer: int, penalty: Penalty, seed: int) -> Any:
        states = train.pooled.states[position][:, layer]
        probe = LinearProbe(C=penalty.C, standardize=penalty.standardize).fit(
            states, labels, train.words
        )
        return probe, lambda split: (
            probe.predict(split.pooled.states[position][:, layer]) == split.labels,
            1,
        )

    return fit


def _fit_location(train: SplitStates, labels: Any, layer: int, penalty: Penalty, seed: int) -> Any:
    probe = LocationProbe(C=penalty.C, standardize=penalty.standardize, random_state=seed)
    tokens = train.tokens
    words = train.words[:: train.every]
    probe.fit(
        tokens.states["tokens"][:, layer],
        tokens.offsets,
        tokens.informative,
        words,
        mask=~tokens.special,
    )

    def correct_on(split: SplitStates) -> Any:
        t = split.tokens
        states = t.states["tokens"][:, layer]
        ranks = probe.ranks(states, t.offsets, t.informative, mask=~t.special)
        return ranks == 1, split.every

    return probe, correct_on


def _fit_head(train: SplitStates, labels: Any, layer: int, penalty: Penalty, seed: int) -> Any:
    head = SingleLocationHead(C=penalty.C, random_state=seed, max_sentences=1500)

    def words_only(split: SplitStates) -> Any:
        rows, offsets = keep_tokens(split.tokens.offsets, ~split.tokens.special)
        return split.tokens.states["tokens"][rows, layer], offsets

    head.fit(*words_only(train), labels[:: train.every], train.words[:: train.every])

    def correct_on(split: SplitStates) -> Any:
        return head.predict(*words_only(split)) == split.labels[:: split.every], split.every

    return head, correct_on


FITS: dict[str, Callable[..., Any]] = {
    **{probe: _fit_pooled(position) for probe, position in POOLED.items()},
    "location": _fit_location,
    "head": _fit_head,
}


def layer_means(table: pd.DataFrame) -> pd.DataFrame:
    """The paper's summary: means over layers 1 .. n, the embeddings left out."""
    above = table[table["layer"] > 0]
    return (
        above.groupby(["probe", "split"], sort=False)[["accuracy", "low", "high"]]
        .mean()
        .reset_index()
    )


def chosen_layers(table: pd.DataFrame) -> pd.DataFrame:
    """Each probe at the layer with the best cross-validation score, on training adjectives alone.

    Ties go to the lowest layer above the embeddings.
    """
    above = table[(table["layer"] > 0) & (table["split"] == "train")]
    best = (
        above.sort_values(["cv_score", "layer"], ascending=[False, True]).groupby("probe").first()
    )
    keys = {(probe, row["layer"]) for probe, row in best.iterrows()}
    return table[[key in keys for key in zip(table["probe"], table["layer"], strict=True)]]
