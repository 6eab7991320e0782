"""The words of a spec: its slots, and the polarity of its informative words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from data_gen.patterns import INFORMATIVE, NEUTRAL, ROLES
from data_gen.quoting import quoted
from data_gen.reader.shapes import Shapes, is_name

MOST_LABELS = 1_000


@dataclass(frozen=True)
class Slot:
    """A place to be filled: its role, and its word lists by vocabulary (training, held_out, ...).

    An entry of a list is one word, several words ("Good evening,") or nothing ("").
    """

    role: str
    words: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Lexicon:
    """The words of a spec: its slots, and the polarity of its informative words."""

    slots: Mapping[str, Slot]
    labels: tuple[str, ...]  # label names, in the order of their numbers
    polarity: Mapping[str, int]  # informative word -> label


class LexiconReader:
    """Reads the tables slots and polarity."""

    def __init__(self, shapes: Shapes, slots: Any, polarity: Any) -> None:
        self.shapes = shapes
        self.labels = tuple(shapes.table("polarity", polarity, most=MOST_LABELS))
        self.label_of = self._label_of(polarity)
        self.tables = shapes.table("slots", slots)

    def lexicon(self) -> Lexicon:
        slots = {name: self._slot(name) for name in self.tables}
        return Lexicon(slots, self.labels, self.label_of)

    def _label_of(self, polarity: dict[str, Any]) -> dict[str, int]:
        """The label of each informative word."""
        if len(self.labels) < 2:
            problem = f"needs at least two labels, has only {quoted(self.labels[0])}"
            raise self.shapes.fail("polarity", problem)
        label_of: dict[str, int] = {}
        for number, label in enumerate(self.labels):
            key = f"polarity.{label}"
            if not re.fullmatch(r"[\w-]+", label):
                raise self.shapes.fail(key, "a label is made of letters, digits, - and _")
            for word in self.shapes.strings(key, polarity[label]):
                if word in label_of:
                    both = f"{quoted(word)} has two polarities, {self.labels[label_of[word]]!r}"
                    raise self.shapes.fail(key, f"{both} as well")
                label_of[word] = number
        return label_of

    def _slot(self, name: str) -> Slot:
        key = f"slots.{name}"
        if not is_name(name):
            raise self.shapes.fail(key, "a slot's name is made of letters, digits and _")
        lists = dict(self.shapes.table(key, self.tables[name]))
        role = lists.pop("role", NEUTRAL)
        if "like" in lists:  # the word lists of another slot
            lists = {**self._lists_like(key, lists.pop("like")), **lists}
        self.shapes.known(f"{key}.role", "role", role, ROLES)
        if not lists:
            problem = 'has no words; give a list such as training = ["red", "blue"]'
            raise self.shapes.fail(key, problem)
        words = {
            vocabulary: self.shapes.strings(f"{key}.{vocabulary}", entries)
            for vocabulary, entries in lists.items()
        }
        if role == INFORMATIVE:
            for vocabulary, entries in words.items():
                self._check_polarity(f"{key}.{vocabulary}", entries)
        return Slot(role, words)

    def _check_polarity(self, key: str, entries: tuple[str, ...]) -> None:
        for word in entries:
            if len(word.split()) != 1:
                problem = f"an informative entry is one word, not {quoted(word)}"
                raise self.shapes.fail(key, problem)
            if word not in self.label_of:
                problem = f"the informative word {quoted(word)} has no polarity"
                raise self.shapes.fail(key, f"{problem}; add it to [polarity]")

    def _lists_like(self, key: str, other: Any) -> dict[str, Any]:
        """The word lists of the slot that ``like`` names, which must have lists of its own."""
        key = f"{key}.like"
        self.shapes.known(key, "slot", self.shapes.string(key, other), self.tables)
        lists = dict(self.shapes.table(f"slots.{other}", self.tables[other]))
        if "like" in lists:
            problem = f"{quoted(other)} takes its words from another slot; name that"
            raise self.shapes.fail(key, problem)
        lists.pop("role", None)
        return lists
