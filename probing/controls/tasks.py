"""Control tasks: what a probe is given to find, in truth and instead of the truth.

Hewitt and Liang (2019) give each word *type* a random label, which can only be memorised.
Here the type of the informative word decides it; for the location, random types or positions are
declared informative, so that each sentence still has its place to find.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from probing.arrays import FloatArray
from probing.controls.description_length import (
    Code,
    fraction_blocks,
    label_code,
    location_code,
    word_blocks,
)
from probing.probes.linear import LinearProbe, shuffled_labels
from probing.probes.location import LocationProbe
from probing.states.tokens import Tokens

# What probes are judged on, by the name of the score. Selectivity goes by sentences like the fitted
# ones: where other words are new too, it is luck which of two tasks survives.
SCORED = {"accuracy": "held_out", "test": "test", "new_words": "ood_tokens"}
FITTED = ("train", "held_out")  # where a control task says what is to be found


def word_assignments(
    words: Any, y: Any, n_draws: int, rng: np.random.Generator
) -> list[dict[Any, Any]]:
    """Random labels of word types, as many of each as in truth: otherwise guessing would help.

    Any labelling may be drawn, as in Hewitt and Liang (2019), the truth and its reverse among them.
    With few words labellings resemble the truth: of six, three per label, one agrees with the truth
    or with its reverse on 4.2 in the mean, so that a probe which reads nothing but the true label
    has a selectivity of 0.3.
    """
    types, first = np.unique(words, return_index=True)
    truth = np.asarray(y)[first]
    if len(np.unique(truth)) != 2 or (truth[np.searchsorted(types, words)] != y).any():
        raise ValueError("a control task needs words of one label each, and two labels")
    return [dict(zip(types, rng.permutation(truth), strict=True)) for _ in range(n_draws)]


def declared_locations(keys: Any, offsets: Any, priority: dict[Any, float]) -> Any:
    """All tokens whose key (type or position) has the highest priority in their sentence.

    Keys without a priority are never declared, unless the sentence has no others.
    """
    ranks = np.array([priority.get(key, -1.0) for key in np.asarray(keys).tolist()])
    highest = np.maximum.reduceat(ranks, offsets[:-1])
    return ranks == np.repeat(highest, np.diff(offsets))


@dataclass(frozen=True)
class Tasks:
    """A task and its controls, for one probe at one layer: states and tokens by split.

    A draw of a task is what is to be found, by split: the tokens with other labels or other
    informative tokens, for those splits in which the task means anything.
    """

    X: dict[str, FloatArray]
    tokens: dict[str, Tokens]
    names: ClassVar[tuple[str, ...]]
    # What the two kinds of task do each in its own way:
    controls: ClassVar[Callable[..., list[dict[str, Tokens]]]]
    fit: ClassVar[Callable[..., Any]]
    accuracy: ClassVar[Callable[..., float]]
    code: ClassVar[Callable[..., Code]]

    def draws(self, task: str, n_draws: int, rng: np.random.Generator) -> list[dict[str, Tokens]]:
        """The truth once, or so many draws of a control."""
        return [self.tokens] if task == "label" else self.controls(task, n_draws, rng)

    def along(self, direction: FloatArray) -> Self:
        """The same tasks with only the coordinate along a direction to see."""
        return replace(self, X={name: X @ direction[:, None] for name, X in self.X.items()})

    def some_of_each_word(self, tokens: Tokens, most: int) -> tuple[FloatArray, Tokens]:
        """The first training sentences of each word."""
        words = tokens.words
        firsts = [np.flatnonzero(words == word)[:most] for word in np.unique(words)]
        some = np.sort(np.concatenate(firsts))
        return self.X["train"][tokens.rows(some)], tokens.take(some)


class LabelTasks(Tasks):
    """Binary labels on one state per sentence."""

    names = ("label", "control task", "shuffled labels")

    def controls(self, task: str, n: int, rng: np.random.Generator) -> list[dict[str, Tokens]]:
        train = self.tokens["train"]
        if task == "shuffled labels":
            labels = [shuffled_labels(train.labels, None, rng) for _ in range(n)]
            return [self.tokens | {"train": replace(train, labels=drawn)} for drawn in labels]
        return [
            {
                name: replace(tokens, labels=np.array([given[word] for word in tokens.words]))
                for name, tokens in self.tokens.items()
                if name in FITTED
            }
            for given in word_assignments(train.words, train.labels, n, rng)
        ]

    def fit(self, draw: dict[str, Tokens], *, C: float | None) -> LinearProbe:
        train = draw["train"]
        return LinearProbe(C=C).fit(self.X["train"], train.labels, train.words)

    def accuracy(self, probe: LinearProbe, split: str, tokens: Tokens) -> float:
        return float(probe.score(self.X[split], tokens.labels))

    def code(self, tokens: Tokens, rng: np.random.Generator, rows_per_word: int = 0) -> Code:
        if not rows_per_word:
            return label_code(self.X["train"], tokens.labels, fraction_blocks(len(tokens), rng))
        X, part = self.some_of_each_word(tokens, rows_per_word)
        return label_code(X, part.labels, word_blocks(part.words, rng, part.labels))


class LocationTasks(Tasks):
    """The place of the informative word among the tokens of each sentence."""

    names = ("label", "control types", "control positions", "shuffled labels")

    def controls(self, task: str, n: int, rng: np.random.Generator) -> list[dict[str, Tokens]]:
        positions = {name: tokens.positions for name, tokens in self.tokens.items()}
        if task == "shuffled labels":
            train = self.tokens["train"]
            places = [np.repeat(rng.integers(train.lengths), train.lengths) for _ in range(n)]
            masks = [positions["train"] == place for place in places]
            return [self.tokens | {"train": replace(train, informative=mask)} for mask in masks]
        types = {name: tokens.ids for name, tokens in self.tokens.items()}
        keys = types if task == "control types" else positions
        known = np.unique(keys["train"])  # an unseen type cannot be memorised
        draws: list[dict[str, Tokens]] = [{} for _ in range(n)]
        for draw in draws:
            priority = dict(zip(known.tolist(), rng.random(len(known)), strict=True))
            for name in FITTED:
                tokens = self.tokens[name]
                declared = declared_locations(keys[name], tokens.offsets, priority)
                draw[name] = replace(tokens, informative=declared)
        return draws

    def fit(self, draw: dict[str, Tokens], *, C: float | None) -> LocationProbe:
        return LocationProbe(C=C).fit(self.X["train"], draw["train"])

    def accuracy(self, probe: LocationProbe, split: str, tokens: Tokens) -> float:
        return probe.score(self.X[split], tokens)

    def code(self, tokens: Tokens, rng: np.random.Generator, rows_per_word: int = 0) -> Code:
        if not rows_per_word:
            return location_code(self.X["train"], tokens, fraction_blocks(len(tokens), rng))
        # Each sentence has several tokens to learn from, so that a third of them will do.
        X, part = self.some_of_each_word(tokens, max(1, rows_per_word // 3))
        return location_code(X, part, word_blocks(part.words, rng))
