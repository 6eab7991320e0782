"""The words of a spec: its slots, and the polarity of its informative words."""

from collections.abc import Mapping
from dataclasses import dataclass

from data_gen.patterns import INFORMATIVE, Element


@dataclass(frozen=True)
class Slot:
    """A place to be filled: its role, and its word lists by vocabulary (training, held_out, ...).

    An entry of a list is one word, several words ("Good evening,") or nothing ("").
    """

    name: str
    role: str
    words: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Lexicon:
    slots: Mapping[str, Slot]
    labels: tuple[str, ...]  # label names, in the order of their numbers
    polarity: Mapping[str, int]  # informative word -> label

    def element(self, slot_name: str, vocabulary: str) -> Element:
        """The slot filled from one of its vocabularies, as a place of a pattern."""
        slot = self.slots[slot_name]
        words = slot.words[vocabulary]
        informative = slot.role == INFORMATIVE
        labels = tuple(self.polarity[word] for word in words) if informative else None
        return Element(tuple(tuple(entry.split()) for entry in words), slot.role, labels)
