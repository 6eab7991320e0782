"""All probes of one model on one dataset, in one tidy table.

Columns: probe (summary, mean, value, location, reader, head, max, heads), layer, split, accuracy
(for location: share of sentences whose informative token ranks first), low and high (ends of its
95% interval over words), words (their number), C, cv_score, the cross-validation score on the
training split that decides C and then the layer, and auroc and tpr (at 1% false positives, for
location of single tokens), as in probing.ranking.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from probing.arrays import BoolArray, FloatArray, IntArray
from probing.probes.head import SingleLocationHead
from probing.probes.linear import LinearProbe, shuffled_labels
from probing.probes.locate_and_read import LocateAndRead
from probing.probes.location import LocationProbe
from probing.probes.splits import DEFAULT_PROBES, HEADS, POOLED, SplitStates, check_probes
from probing.progress import Progress, in_processes
from probing.ranking import Ranking, ranking
from probing.sentences import draw
from probing.states.tokens import Tokens
from probing.statistics import accuracy_columns

HEAD_SENTENCES = 600  # the head is fitted up to 36 times per layer
N_HEADS = 4  # of the probe "heads"
PAPER_C = 1.0  # of the released notebook: scikit-learn's default


class Probed(NamedTuple):
    """A fitted probe of one layer, and the sentences that it classifies correctly."""

    estimator: Any
    correct: dict[str, BoolArray]  # by split, shape (sentences,)
    C: float
    cv_score: float
    rankings: Mapping[str, Ranking] = MappingProxyType({})  # by split


def fit_probes(
    states: dict[str, SplitStates],
    *,
    probes: Sequence[str] = DEFAULT_PROBES,
    layers: Sequence[int] | None = None,
    C: float | None = None,
    standardize: bool = True,
    shuffled: bool = False,
    seed: int = 0,
    jobs: int = 1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> dict[tuple[str, int], Probed]:
    """Probes fitted to the training split and scored on all splits, by (probe, layer).

    Parameters
    ----------
    states
        The states by split, from ``read_splits`` for the same ``probes``.
    probes
        Names of probes.
    layers
        Layers to probe (0 is the embeddings); by default all.
    C
        Inverse strength of the penalty; by default each probe chooses C by cross-validation.
    standardize
        Penalise in units of each coordinate's standard deviation; "reader" and the heads ignore it.
    shuffled
        Permute the training labels over the informative words.
    seed
        Seed of the shuffled labels and of the probes.
    jobs
        Number of processes that share the fits.
    cluster
        Address of a Dask scheduler whose workers fit instead. States in a folder are read by the
        worker, which must see the folder; others are sent.
    progress
        ``progress(done, total)`` counts fits.

    >>> reader = fit_probes(read_splits(model, tokenizer, dataset))["reader", 3].estimator
    >>> reader.k_hat_, reader.v_hat_
    """
    check_probes(probes)
    label_of: dict[str, Any] = {}
    if shuffled:  # over the words of all sentences; token probes see some of the sentences
        train = states["train"].pooled.tokens
        labels = shuffled_labels(train.labels, train.words, np.random.default_rng(seed))
        label_of = dict(zip(train.words.tolist(), labels, strict=True))

    def arguments(pair: tuple[str, int]) -> Iterable[Any]:
        probe, layer = pair
        splits = {name: split.only(layer, probe) for name, split in states.items()}
        return probe, layer, splits, label_of, C, standardize, seed

    pairs = list(product(probes, states["train"].layers if layers is None else layers))
    # A reader has fitted the same location probe already.
    is_shared = standardize and {"reader", "location"} <= set(probes)
    fitted = [pair for pair in pairs if not (is_shared and pair[0] == "location")]
    # Heads take longest, so they come first: else one process would end with a head alone.
    order = sorted(fitted, key=lambda pair: pair[0] not in HEADS)
    shared: dict[str, Any] = {"jobs": jobs, "cluster": cluster, "progress": progress}
    probed = in_processes(probe_stored, arguments, order, **shared)
    if is_shared:
        for probe, layer in pairs:
            if probe == "location":
                splits = {name: split.at(layer, probe) for name, split in states.items()}
                probed[probe, layer] = _scored(probed["reader", layer].estimator.location_, splits)
    return {pair: probed[pair] for pair in pairs}


def probe_cells(
    probed: dict[tuple[str, int], Probed], states: dict[str, SplitStates]
) -> pd.DataFrame:
    """Sentences and correct ones, one row per probe, layer, split, word and pattern.

    >>> cells = probe_cells(fit_probes(states, probes=("reader",)), states)
    >>> cells.query("split == 'test'").groupby("word")[["sentences", "correct"]].sum()
    """
    probes = dict.fromkeys(probe for probe, _ in probed)
    pairs = {
        (probe, name): _pairs(split.of(probe).tokens)
        for probe, (name, split) in product(probes, states.items())
    }
    parts = []
    for ((probe, layer), fitted), name in product(probed.items(), states):
        cells, pair = pairs[probe, name]
        correct = np.bincount(pair, fitted.correct[name], len(cells)).astype(int)
        parts.append(cells.assign(probe=probe, layer=layer, split=name, correct=correct))
    columns = ["probe", "layer", "split", "word", "pattern", "sentences", "correct"]
    return pd.concat(parts, ignore_index=True)[columns]


def _pairs(tokens: Tokens) -> tuple[pd.DataFrame, IntArray]:
    """The pairs of word and pattern with their numbers of sentences, and the pair of a sentence."""
    keys = ["word", "pattern"]
    groups = pd.DataFrame({"word": tokens.words, "pattern": tokens.patterns}).groupby(keys)
    return groups.size().rename("sentences").reset_index(), groups.ngroup().to_numpy()


def probe_table(
    probed: dict[tuple[str, int], Probed], states: dict[str, SplitStates]
) -> pd.DataFrame:
    """Accuracy of fitted probes, one row per probe, layer and split; columns as in the module.

    >>> states = read_splits(model, tokenizer, dataset)
    >>> probe_table(fit_probes(states, probes=("reader",)), states)
    """
    keys, rows = ["probe", "layer", "split"], []
    for key, cells in probe_cells(probed, states).groupby(keys, sort=False):
        probe, layer, split = key
        fitted = probed[probe, layer]
        row = dict(zip(keys, key, strict=True)) | _accuracy(cells)
        row |= {"C": fitted.C, "cv_score": fitted.cv_score}
        rows.append(row | fitted.rankings.get(split, Ranking())._asdict())
    return pd.DataFrame(rows)


def _accuracy(cells: pd.DataFrame, n_layers: int = 1) -> dict[str, float]:
    """Accuracy over cells of one probe and split, each of which stands there once per layer."""
    words = cells.groupby("word")[["sentences", "correct"]].sum()
    shares, weights = words["correct"] / words["sentences"], words["sentences"] / n_layers
    return accuracy_columns(shares, words.index, weights=weights)


def probe_states(states: dict[str, SplitStates], **options: Any) -> pd.DataFrame:
    """The table of probes that are fitted with the options of ``fit_probes`` and not kept.

    >>> states = read_splits(model, tokenizer, dataset)
    >>> probe_states(states, probes=("summary", "reader"), layers=[3])
    """
    return probe_table(fit_probes(states, **options), states)


def probe_stored(
    probe: str, layer: int, states: dict[str, SplitStates], label_of: dict[str, Any], *options: Any
) -> Probed:
    """``probe_layer`` in a worker, which reads the states; ``label_of``: other labels, by word."""
    splits = {name: split.at(layer, probe) for name, split in states.items()}
    X, tokens = splits["train"]
    if label_of:
        tokens = replace(
            tokens, labels=np.array([label_of[word] for word in tokens.words.tolist()])
        )
    return probe_layer(probe, (X, tokens), splits, *options)


def probe_layer(
    probe: str,
    train: tuple[FloatArray, Tokens],
    splits: dict[str, tuple[FloatArray, Tokens]],
    C: float | None,
    standardize: bool,
    seed: int,
) -> Probed:
    """One probe, fitted to ``train`` (states and tokens) and judged on all splits."""
    head = partial(SingleLocationHead, C=C, random_state=seed, max_sentences=HEAD_SENTENCES)
    estimators: dict[str, Any] = {
        "location": LocationProbe(C=C, standardize=standardize, random_state=seed),
        "reader": LocateAndRead(C=C, random_state=seed),
        "head": head(),
        "max": head(pooling="max"),
        "heads": head(n_heads=N_HEADS),
    }
    if probe in POOLED:
        X, tokens = train
        linear = LinearProbe(C=C, standardize=standardize)
        fitted = linear.fit(X, tokens.labels, tokens.words, structures=tokens.patterns)
        correct = {name: fitted.predict(X) == tokens.labels for name, (X, tokens) in splits.items()}
        rankings = {
            name: ranking(fitted.decision_function(X), tokens.labels, fitted.classes_)
            for name, (X, tokens) in splits.items()
        }
    else:
        return _scored(estimators[probe].fit(*train), splits)
    return Probed(fitted, correct, fitted.C_, _cv_score(fitted), rankings)


def _scored(fitted: Any, splits: dict[str, tuple[FloatArray, Tokens]]) -> Probed:
    """A fitted token probe with the sentences that it judges right."""
    correct = {name: fitted.correct(*split) for name, split in splits.items()}
    rankings = {name: fitted.ranking(*split) for name, split in splits.items()}
    return Probed(fitted, correct, fitted.C_, _cv_score(fitted), rankings)


def _cv_score(fitted: Any) -> float:
    """The cross-validation score: the mean over folds of a reader, the best C's of others."""
    if fitted.cv_scores_ is None:
        return float("nan")
    summary = np.mean if isinstance(fitted, LocateAndRead) else np.nanmax
    return float(summary(fitted.cv_scores_))


def layer_means(cells: pd.DataFrame) -> pd.DataFrame:
    """Means over layers as in the paper, without the embeddings (unless they are the only layer).

    ``cells`` are those of ``probe_cells``. The outcome of a sentence is the share of layers at
    which it is right, and the interval is over words, as for a single layer: a mean of the ends of
    each layer's interval would not be an interval of the mean.

    >>> layer_means(probe_cells(fit_probes(states), states))
    """
    _check_one_model(cells, ["probe", "layer", "split", "word", "pattern"])
    rows = []
    for (probe, split), part in _above_embeddings(cells).groupby(["probe", "split"], sort=False):
        accuracy = _accuracy(part, part["layer"].nunique())
        rows.append({"probe": probe, "split": split, **accuracy})
    return pd.DataFrame(rows)


def _check_one_model(table: pd.DataFrame, keys: list[str]) -> None:
    if table.duplicated(keys).any():
        raise ValueError(f"several rows per {', '.join(keys)}: choose one model and control")


def _above_embeddings(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table["layer"] > 0) | (table["layer"].max() == 0)]


def chosen_layers(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of each probe at the layer with its best cross-validation score.

    The score is over training words alone. Ties go to the lowest layer; the embeddings are chosen
    only if they are the only layer.

    >>> chosen_layers(probe_states(states))
    """
    _check_one_model(table, ["probe", "layer", "split"])
    above = _above_embeddings(table).query("split == 'train'")
    ranked = above.sort_values(["cv_score", "layer"], ascending=[False, True])
    best = ranked.groupby("probe")["layer"].first()
    return table[table["layer"] == table["probe"].map(best)]


def token_plane(
    states: dict[str, SplitStates],
    split: str,
    layer: int,
    *,
    reader: LocateAndRead | None = None,
) -> pd.DataFrame:
    """The tokens of ``split`` along k_hat and v_hat, one row per token, as in the paper's Figure 2.

    The directions are those of a ``reader`` of this layer, which is fitted here by default;
    coordinates are signed distances from the decision planes of its two probes.

    >>> token_plane(read_splits(model, tokenizer, dataset), "test", layer=3)[["k", "v", "role"]]
    """
    (X, tokens), train = (states[name].at(layer, "reader") for name in (split, "train"))
    reader = reader or LocateAndRead().fit(*train)
    owner = np.repeat(np.arange(len(tokens)), tokens.lengths)
    drawn = draw(len(states[split].pooled), len(tokens))  # the sentences' rows in the split

    def distance(probe: Any) -> FloatArray:
        return np.asarray(probe.decision_function(X) / np.linalg.norm(probe.coef_))

    roles = np.select(
        [tokens.informative, tokens.distractor], ["informative", "distractor"], "neutral"
    )
    return pd.DataFrame(
        {
            "k": distance(reader.location_),
            "v": distance(reader.value_),
            "role": roles,
            "label": tokens.labels[owner],
            "sentence": drawn[owner],
            "layer": layer,
            "cosine": float(reader.k_hat_ @ reader.v_hat_),
        }
    )
