"""How many training words does a probe need? Accuracy on new words against words seen in training.

The number of sentences is the same for every number of words, so that only the words differ. All
sentences are of the training split: those whose informative word is among the words drawn, half of
them of each label. Distractors may be other words.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from probing.arrays import IntArray
from probing.probes.by_layer import probe_layer
from probing.probes.splits import SplitStates
from probing.progress import Progress, in_processes
from probing.states.tokens import Tokens
from probing.statistics import accuracy_columns

SIZES = (6, 12, 24, 48)
PROBES = ("value", "location", "reader", "head", "summary")


def word_curve(
    states: dict[str, SplitStates],
    layer: int,
    *,
    probes: Sequence[str] = PROBES,
    sizes: Sequence[int] = SIZES,
    n_draws: int = 3,
    seed: int = 0,
    jobs: int = 1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Accuracy by probe, number of training words, draw of words and split, one row each.

    Parameters
    ----------
    states
        The states by split, from ``read_splits`` for the same ``probes``.
    layer
        The layer to probe.
    probes
        Names of probes.
    sizes
        Numbers of training words, even; larger ones than the training split has are left out.
    n_draws
        Number of draws of words for each size; those of a smaller size are among a larger one's.
    seed
        Seed of the draws.
    jobs
        Number of processes that share the fits.
    cluster
        Address of a Dask scheduler whose workers fit instead, as for ``fit_probes``.
    progress
        ``progress(done, total)`` counts fits.

    >>> word_curve(read_splits(model, tokenizer, build_dataset("sentiment-wide")), layer=4)
    """
    train = states["train"].of("reader").tokens
    orders = [_order(train, rng) for rng in np.random.default_rng(seed).spawn(n_draws)]
    sizes = [size for size in sizes if size <= len(orders[0])]
    if not sizes:
        raise ValueError(f"the training split has {len(orders[0])} words: fewer than any size")
    # The sentences that the fewest words have, for each probe's states.
    rooms = {
        probe: min(
            len(_sentences(states["train"].of(probe).tokens, order[: sizes[0]], None))
            for order in orders
        )
        for probe in probes
    }

    def arguments(key: tuple[str, int, int]) -> Iterable[Any]:
        probe, size, draw = key
        splits = {name: split.at(layer, probe) for name, split in states.items()}
        X, tokens = splits.pop("train")
        chosen = _sentences(tokens, orders[draw][:size], rooms[probe])
        rows = tokens.rows(chosen)
        return probe, (X[rows], tokens.take(chosen)), splits, None, True, seed

    keys = list(product(probes, sizes, range(n_draws)))
    shared: dict[str, Any] = {"jobs": jobs, "cluster": cluster, "progress": progress}
    probed = in_processes(probe_layer, arguments, keys, **shared)
    table = []
    for (probe, size, draw), fitted in probed.items():
        for name, correct in fitted.correct.items():
            words = states[name].of(probe).tokens.words
            row = {"probe": probe, "training_words": size, "draw": draw, "split": name}
            sentences = {"sentences": rooms[probe], "layer": layer, "C": fitted.C}
            table.append(row | sentences | accuracy_columns(correct, words))
    return pd.DataFrame(table)


def _order(tokens: Tokens, rng: np.random.Generator) -> list[Any]:
    """The training words in a random order in which the two labels alternate."""
    words, first = np.unique(tokens.words, return_index=True)
    labels = tokens.labels[first]
    sides = [rng.permutation(words[labels == label]) for label in np.unique(labels)]
    return [word for pair in zip(*sides, strict=False) for word in pair]


def _sentences(tokens: Tokens, words: Sequence[Any], most: int | None) -> IntArray:
    """Sentences with these informative words: word after word in turn, ``most`` at most."""
    by_word = [np.flatnonzero(tokens.words == word) for word in words]
    longest = max(len(rows) for rows in by_word)
    in_turn = [rows[i] for i in range(longest) for rows in by_word if i < len(rows)]
    return np.sort(np.array(in_turn[:most]))


def curve_means(curve: pd.DataFrame) -> pd.DataFrame:
    """Mean, lowest and highest accuracy over draws by probe, number of words and split."""
    groups = curve.groupby(["probe", "training_words", "split"], sort=False)["accuracy"]
    return groups.agg(["mean", "min", "max"]).reset_index()
