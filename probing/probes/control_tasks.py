"""Control tasks: what a probe is given to find, in truth and instead of the truth.

Hewitt and Liang (2019) give each word *type* a random label, which can only be learnt by heart.
Here the type of the informative word decides it; for the location, random types or positions are
declared informative, so that each sentence still has its place to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from probing.probes.description_length import (
    Code,
    fraction_blocks,
    label_code,
    location_code,
    word_blocks,
)
from probing.probes.linear import LinearProbe, LocationProbe, shuffled_labels
from probing.probes.logistic import FloatArray, IntArray
from probing.states.ragged import take_sentences

# What probes are judged on, by the name of the score. Selectivity goes by sentences that are like
# the fitted ones: where other words are new too, every probe of [CLS] is off by some constant, and
# it is luck which of two tasks survives that.
SCORED = {"accuracy": "held_out", "test": "test", "new_words": "ood_tokens"}
FITTED = ("train", "held_out")  # where a control task says what is to be found


def word_assignments(
    words: Any, y: Any, n_draws: int, rng: np.random.Generator
) -> list[dict[Any, Any]]:
    """Random labels of word types, as many of each as in truth: at most n_draws, all different.

    Neither the truth nor its reverse is among them, nor two that are each other's reverse: a
    linear probe does not tell them apart. Of six words, three a label, there are nine.
    """
    types, first = np.unique(words, return_index=True)
    truth = np.asarray(y)[first]
    labels = np.unique(truth)
    if len(labels) != 2 or (truth[np.searchsorted(types, words)] != y).any():
        raise ValueError("a control task needs words of one label each, and two labels")

    def key(assigned: Any) -> frozenset[Any]:
        halves = [frozenset(types[assigned == label]) for label in labels]
        return frozenset(halves)

    seen, found = {key(truth)}, []
    for _ in range(200 * n_draws):  # small sets run out; large ones never repeat
        drawn = rng.permutation(truth)
        if key(drawn) not in seen:
            seen.add(key(drawn))
            found.append(dict(zip(types, drawn, strict=True)))
        if len(found) == n_draws:
            break
    if not found:
        raise ValueError(f"{len(types)} words leave no other labels: a control task needs four")
    return found


def declared_locations(keys: Any, offsets: Any, priority: dict[Any, float]) -> Any:
    """The tokens whose key (type or position) has the highest priority in their sentence.

    All tokens of that key, if it occurs twice. Keys without a priority are never declared, unless
    the sentence has no others.
    """
    ranks = np.array([priority.get(key, -1.0) for key in np.asarray(keys).tolist()])
    highest = np.maximum.reduceat(ranks, offsets[:-1])
    return ranks == np.repeat(highest, np.diff(offsets))


class Target(NamedTuple):
    """What a probe is to find: a label for each row, or True at the tokens to locate."""

    train: Any
    scored: dict[str, Any]  # by split, for those in which the task means anything


@dataclass(frozen=True)
class LabelTasks:
    """Binary labels on one state a sentence; each field has an entry a split."""

    X: dict[str, FloatArray]  # (sentences, d)
    y: dict[str, Any]
    words: dict[str, Any]
    names: ClassVar = ("label", "control task", "shuffled labels")

    def targets(self, task: str, n_draws: int, rng: np.random.Generator) -> list[Target]:
        truth = Target(self.y["train"], {name: self.y[name] for name in self.y if name != "train"})
        if task == "label":
            return [truth]
        if task == "shuffled labels":
            draws = range(n_draws)
            return [truth._replace(train=shuffled_labels(truth.train, None, rng)) for _ in draws]
        return [
            _control([np.array([given[word] for word in self.words[name]]) for name in FITTED])
            for given in word_assignments(self.words["train"], truth.train, n_draws, rng)
        ]

    def fit(self, target: Target, *, C: float | None) -> LinearProbe:
        return LinearProbe(C=C).fit(self.X["train"], target.train, self.words["train"])

    def accuracy(self, probe: LinearProbe, split: str, target: Any) -> float:
        return float(probe.score(self.X[split], target))

    def along(self, direction: FloatArray) -> LabelTasks:
        return replace(self, X={name: X @ direction[:, None] for name, X in self.X.items()})

    def code(self, target: Target, rng: np.random.Generator, rows_per_word: int = 0) -> Code:
        X, y, words = self.X["train"], target.train, self.words["train"]
        if not rows_per_word:
            return label_code(X, y, fraction_blocks(len(X), rng))
        some = _rows_of_each(words, rows_per_word)
        return label_code(X[some], y[some], word_blocks(words[some], rng, y[some]))


@dataclass(frozen=True)
class LocationTasks:
    """The place of the informative word among the tokens of each sentence, by split."""

    X: dict[str, FloatArray]  # (tokens, d)
    offsets: dict[str, IntArray]
    informative: dict[str, Any]
    words: dict[str, Any]  # the informative word of each sentence
    types: dict[str, Any]  # (tokens,): token ids
    names: ClassVar = ("label", "control types", "control positions", "shuffled labels")

    def targets(self, task: str, n_draws: int, rng: np.random.Generator) -> list[Target]:
        places = self.informative
        truth = Target(places["train"], {name: places[name] for name in places if name != "train"})
        if task == "label":
            return [truth]
        if task == "shuffled labels":
            draws = range(n_draws)
            return [truth._replace(train=self._any_token(rng)) for _ in draws]
        keys = self.types if task == "control types" else self._positions()
        known = np.unique(keys["train"])  # a type never seen cannot be known by heart
        found = []
        for _ in range(n_draws):
            priority = dict(zip(known.tolist(), rng.random(len(known)), strict=True))
            parts = [declared_locations(keys[s], self.offsets[s], priority) for s in FITTED]
            found.append(_control(parts))
        return found

    def _any_token(self, rng: np.random.Generator) -> Any:
        chosen = np.zeros(len(self.informative["train"]), dtype=bool)
        offsets = self.offsets["train"]
        chosen[offsets[:-1] + rng.integers(np.diff(offsets))] = True
        return chosen

    def _positions(self) -> dict[str, Any]:
        return {
            name: np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
            for name, offsets in self.offsets.items()
        }

    def fit(self, target: Target, *, C: float | None) -> LocationProbe:
        probe = LocationProbe(C=C)
        return probe.fit(self.X["train"], self.offsets["train"], target.train, self.words["train"])

    def accuracy(self, probe: LocationProbe, split: str, target: Any) -> float:
        return probe.score(self.X[split], self.offsets[split], target)

    def along(self, direction: FloatArray) -> LocationTasks:
        return replace(self, X={name: X @ direction[:, None] for name, X in self.X.items()})

    def code(self, target: Target, rng: np.random.Generator, rows_per_word: int = 0) -> Code:
        X, offsets, words = self.X["train"], self.offsets["train"], self.words["train"]
        if not rows_per_word:
            return location_code(X, offsets, target.train, fraction_blocks(len(words), rng))
        # Each sentence has several tokens to learn from, so that a third of them will do.
        some = _rows_of_each(words, max(1, rows_per_word // 3))
        rows, inner = take_sentences(offsets, some)
        return location_code(X[rows], inner, target.train[rows], word_blocks(words[some], rng))


def _control(targets: Sequence[Any]) -> Target:
    return Target(targets[0], dict(zip(FITTED[1:], targets[1:], strict=True)))


def _rows_of_each(words: Any, at_most: int) -> IntArray:
    some = [np.flatnonzero(words == word)[:at_most] for word in np.unique(words)]
    return np.sort(np.concatenate(some))
