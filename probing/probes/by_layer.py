"""All probes of one model on one dataset, in one tidy table.

Columns: probe (cls, mean, value, location, reader, head), layer, split, accuracy (for location:
share of sentences whose informative token ranks first), its 95% interval, C, and the
cross-validation score on the training split by which C, and then a layer, is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed  # type: ignore[import-untyped]

from probing.probes.head import SingleLocationHead
from probing.probes.linear import LinearProbe, LocationProbe, shuffled_labels
from probing.probes.locate_and_read import LocateAndRead
from probing.sentences import draw, informative_words
from probing.states.extraction import Activations, extract
from probing.states.ragged import keep_tokens
from probing.statistics import cluster_bootstrap

if TYPE_CHECKING:
    from datasets import DatasetDict

POOLED = {"cls": "cls", "mean": "mean", "value": "informative"}  # probe: position of its states
TOKEN_PROBES = ("location", "reader", "head")
PROBES = (*POOLED, *TOKEN_PROBES)
HEAD_SENTENCES = 600  # the head is fitted 22 times a layer
PAPER_C = 1.0  # of the released notebook: scikit-learn's default


@dataclass(frozen=True)
class SplitStates:
    """One split: what the probes see of it and what they are to find."""

    pooled: dict[str, np.ndarray]  # by position: (sentences, n_layers + 1, d_model)
    tokens: Activations  # all tokens of the sentences ``drawn``
    drawn: np.ndarray
    labels: np.ndarray
    words: np.ndarray  # the informative word of each sentence: what folds go by
    clusters: tuple[np.ndarray, np.ndarray]  # words and patterns, as numbers: for the intervals


def read_splits(
    model: Any,
    tokenizer: Any,
    dataset: DatasetDict,
    *,
    probes: Sequence[str] = PROBES,
    max_token_sentences: int = 1200,
    progress: Callable[[str], object] | None = None,
) -> dict[str, SplitStates]:
    """Run the model over every split, each sentence once. Token states are kept of a part only."""
    positions = tuple(POOLED[probe] for probe in probes if probe in POOLED)
    with_tokens = (*positions, "tokens") if set(probes) & set(TOKEN_PROBES) else positions
    found = {}
    for name, split in dataset.items():
        rows = split[:]
        words = np.array(informative_words(split))

        def run(part: np.ndarray, wanted: Sequence[str], rows: Any = rows) -> Activations:
            texts, spans = ([rows[key][i] for i in part] for key in ("text", "span"))
            return extract(model, tokenizer, texts, spans, positions=wanted)

        drawn = draw(len(split), max_token_sentences)
        tokens = run(drawn, with_tokens)
        pooled = {position: tokens.states.pop(position) for position in positions}
        others = np.setdiff1d(np.arange(len(split)), drawn)
        if positions and len(others):
            order = np.argsort(np.concatenate([drawn, others]))
            rest = run(others, positions).states
            pooled = {key: np.concatenate([pooled[key], rest[key]])[order] for key in positions}
        found[name] = SplitStates(
            pooled=pooled,
            tokens=tokens,
            drawn=drawn,
            labels=np.array(rows["label"]),
            words=words,
            clusters=(_numbers(words), _numbers(np.array(rows["pattern"]))),
        )
        if progress:
            progress(name)
    return found


def _numbers(labels: np.ndarray) -> np.ndarray:
    return np.asarray(np.unique(labels, return_inverse=True)[1])


class LayerStates(NamedTuple):
    """One split at one layer, special tokens left out."""

    pooled: dict[str, np.ndarray]
    tokens: np.ndarray
    offsets: np.ndarray
    informative: np.ndarray
    labels: np.ndarray
    words: np.ndarray
    drawn: np.ndarray


def at_layer(split: SplitStates, layer: int, probe: str) -> LayerStates:
    """What one probe needs of it, no more: this is what goes to another process."""
    rows, offsets = keep_tokens(split.tokens.offsets, ~split.tokens.special)
    pooled = {POOLED[probe]: split.pooled[POOLED[probe]][:, layer]} if probe in POOLED else {}
    of_tokens = np.empty((0, 0)) if pooled else split.tokens.states["tokens"][rows, layer]
    return LayerStates(
        pooled=pooled,
        tokens=of_tokens,
        offsets=offsets,
        informative=split.tokens.informative[rows],
        labels=split.labels,
        words=split.words,
        drawn=split.drawn,
    )


def probe_states(
    states: dict[str, SplitStates],
    *,
    probes: Sequence[str] = PROBES,
    layers: Sequence[int] | None = None,
    C: float | None = None,
    standardize: bool = True,
    shuffled: bool = False,
    seed: int = 0,
    n_jobs: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Fit on the training split, score on all. ``shuffled`` permutes the labels over adjectives.

    C None is chosen by cross-validation, probe by probe. ``progress(done, of)`` counts the fits,
    which ``n_jobs`` processes share.
    """
    rng = np.random.default_rng(seed)
    train = states["train"]
    labels = shuffled_labels(train.labels, train.words, rng) if shuffled else train.labels
    chosen = layers if layers is not None else range(n_states(train))
    options = {"C": C, "standardize": standardize, "seed": seed}
    # The head takes longest: first, so that no process is left alone with one at the end.
    pairs = sorted(
        ((probe, layer) for probe in probes for layer in chosen), key=lambda pair: pair[0] != "head"
    )
    jobs = (
        delayed(_probe_layer)(
            probe,
            {name: at_layer(split, layer, probe) for name, split in states.items()},
            labels,
            options,
        )
        for probe, layer in pairs
    )
    found = {}
    results = Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch=n_jobs)(jobs)
    for pair, result in zip(pairs, results, strict=True):
        found[pair] = result
        if progress:
            progress(len(found), len(pairs))
    rows = [
        {"probe": probe, "layer": layer, "split": name, **_interval(split, result, name, seed)}
        for probe in probes
        for layer in chosen
        for name, split in states.items()
        for result in [found[probe, layer]]
    ]
    return pd.DataFrame(rows)


class Probed(NamedTuple):
    correct: dict[str, np.ndarray]  # by split: was each sentence judged right?
    rows: dict[str, Any]  # by split: which sentences those are
    C: float
    cv_score: float


def _interval(split: SplitStates, result: Probed, name: str, seed: int) -> dict[str, float]:
    judged = result.rows[name]
    clusters = tuple(codes[judged] for codes in split.clusters)
    interval = cluster_bootstrap(result.correct[name], clusters, rng=np.random.default_rng(seed))
    return {
        "accuracy": interval.value,
        "low": interval.low,
        "high": interval.high,
        "C": result.C,
        "cv_score": result.cv_score,
    }


def n_states(split: SplitStates) -> int:
    states = {**split.pooled, **split.tokens.states}
    return int(next(iter(states.values())).shape[1])


def _probe_layer(
    probe: str, states: dict[str, LayerStates], labels: np.ndarray, options: dict[str, Any]
) -> Probed:
    if probe in POOLED:
        fitted, judge = _fit_pooled(states["train"], labels, POOLED[probe], **options)
    else:
        fitted, judge = FITS[probe](states["train"], labels, **options)
    pooled = probe in POOLED
    scores = fitted.cv_scores_
    if scores is None:
        cv_score = np.nan
    else:  # the reader has one score a fold, the others one for each C
        cv_score = float(np.mean(scores) if probe == "reader" else np.max(scores))
    return Probed(
        correct={name: judge(split) for name, split in states.items()},
        rows={name: slice(None) if pooled else split.drawn for name, split in states.items()},
        C=fitted.C_,
        cv_score=cv_score,
    )


def _fit_pooled(
    train: LayerStates, labels: np.ndarray, position: str, *, C: Any, standardize: bool, seed: int
) -> Any:
    probe = LinearProbe(C=C, standardize=standardize)
    probe.fit(train.pooled[position], labels, train.words)
    return probe, lambda split: probe.predict(split.pooled[position]) == split.labels


def _fit_location(
    train: LayerStates, labels: np.ndarray, *, C: Any, standardize: bool, seed: int
) -> Any:
    probe = LocationProbe(C=C, standardize=standardize, random_state=seed)
    probe.fit(train.tokens, train.offsets, train.informative, train.words[train.drawn])
    return probe, lambda split: probe.ranks(split.tokens, split.offsets, split.informative) == 1


def _fit_reader(
    train: LayerStates, labels: np.ndarray, *, C: Any, standardize: bool, seed: int
) -> Any:
    reader = LocateAndRead(C=C, random_state=seed)
    y, words = labels[train.drawn], train.words[train.drawn]
    reader.fit(train.tokens, train.offsets, train.informative, y, words)
    return (
        reader,
        lambda split: reader.predict(split.tokens, split.offsets) == split.labels[split.drawn],
    )


def _fit_head(
    train: LayerStates, labels: np.ndarray, *, C: Any, standardize: bool, seed: int
) -> Any:
    head = SingleLocationHead(C=C, random_state=seed, max_sentences=HEAD_SENTENCES)
    head.fit(train.tokens, train.offsets, labels[train.drawn], train.words[train.drawn])
    return (
        head,
        lambda split: head.predict(split.tokens, split.offsets) == split.labels[split.drawn],
    )


FITS: dict[str, Callable[..., Any]] = {
    "location": _fit_location,
    "reader": _fit_reader,
    "head": _fit_head,
}


def layer_means(table: pd.DataFrame) -> pd.DataFrame:
    """The paper's summary: means over layers 1 .. n, the embeddings left out unless alone."""
    above = table[(table["layer"] > 0) | (table["layer"].max() == 0)]
    return (
        above.groupby(["probe", "split"], sort=False)[["accuracy", "low", "high"]]
        .mean()
        .reset_index()
    )


def chosen_layers(table: pd.DataFrame) -> pd.DataFrame:
    """Each probe at the layer with the best cross-validation score, on training adjectives alone.

    Ties go to the lowest layer above the embeddings, which are taken only if alone.
    """
    above = table[(table["layer"] > 0) | (table["layer"].max() == 0)]
    above = above[above["split"] == "train"]
    best = (
        above.sort_values(["cv_score", "layer"], ascending=[False, True]).groupby("probe").first()
    )
    keys = {(probe, row["layer"]) for probe, row in best.iterrows()}
    return table[[key in keys for key in zip(table["probe"], table["layer"], strict=True)]]


def token_plane(
    states: dict[str, SplitStates], split: str, layer: int, roles: Sequence[str], *, seed: int = 0
) -> pd.DataFrame:
    """The paper's Figure 2 from real states: tokens of ``split`` along k_hat and v_hat.

    Both directions are fitted to the training split; coordinates are distances from the probes'
    own decision planes. ``roles`` has one entry for each token, special ones included.
    """
    train, shown = (at_layer(states[name], layer, "reader") for name in ("train", split))
    reader, _ = _fit_reader(train, train.labels, C=None, standardize=True, seed=seed)
    kept = ~states[split].tokens.special
    owner = np.repeat(shown.drawn, np.diff(shown.offsets))

    def distance(probe: Any) -> np.ndarray:
        return np.asarray(probe.decision_function(shown.tokens) / np.linalg.norm(probe.coef_))

    return pd.DataFrame(
        {
            "k": distance(reader.location_),
            "v": distance(reader.value_),
            "role": np.array(roles)[kept],
            "label": shown.labels[owner],
            "sentence": owner,
            "layer": layer,
            "cosine": float(reader.k_hat_ @ reader.v_hat_),
        }
    )
