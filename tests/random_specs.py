"""Random grammars for property tests: small enough to enumerate, odd enough to find mistakes."""

from itertools import chain
from typing import Any

from hypothesis import strategies as st

from data_gen.patterns import INFORMATIVE, ROLES, Element, Pattern

# Few words, so that different slots and patterns often produce the same sentence.
WORDS = st.sampled_from(["a", "b", "c"])
CHOICES = st.lists(WORDS, max_size=3).map(tuple)


@st.composite
def elements(draw: st.DrawFn) -> Element:
    choices = draw(st.lists(CHOICES, min_size=1, max_size=3, unique=True))
    return Element(tuple(choices), draw(st.sampled_from(ROLES[1:])))


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """A pattern over three words, with choices of none to three words, often ambiguous."""
    words = draw(st.lists(WORDS, min_size=1, max_size=2, unique=True))
    labels = draw(st.lists(st.integers(0, 1), min_size=len(words), max_size=len(words)))
    informative = Element(tuple((word,) for word in words), INFORMATIVE, tuple(labels))
    around = draw(st.lists(elements(), max_size=4))
    place = draw(st.integers(0, len(around)))
    return Pattern("random", (*around[:place], informative, *around[place:]))


@st.composite
def spec_tables(draw: st.DrawFn) -> dict[str, Any]:
    """A sound spec as a table: random slots, patterns, roles and sizes, in two or three labels.

    Slots that are never empty have punctuation behind them here and there.
    """
    labels = [f"label{i}" for i in range(draw(st.integers(2, 3)))]
    per_label = draw(st.integers(1, 2))
    words = {
        vocabulary: {
            label: [f"{vocabulary}-{label}-{i}" for i in range(per_label)] for label in labels
        }
        for vocabulary in ("training", "held_out")
    }
    slots: dict[str, Any] = {
        "KEY": {"role": INFORMATIVE}
        | {
            vocabulary: draw(st.permutations([word for group in by.values() for word in group]))
            for vocabulary, by in words.items()
        }
    }
    for number in range(draw(st.integers(0, 3))):
        slot: dict[str, Any] = {"role": draw(st.sampled_from(ROLES[1:]))}
        for vocabulary in words:
            size = draw(st.integers(1, 3))
            # Words of its own for every slot: no sentence can arise in two ways.
            entries = [f"{vocabulary}{number}{letter}" for letter in "xyz"[:size]]
            if draw(st.booleans()):
                entries[draw(st.integers(0, size - 1))] += " and\u00e9 more"
            slot[vocabulary] = draw(st.permutations([*entries, *draw(st.sampled_from([[], [""]]))]))
        slots[f"SLOT{number}"] = slot
    marks = {
        name: draw(st.sampled_from(["", ".", ",", "?!"])) if "" not in chain(*lists) else ""
        for name, slot in slots.items()
        if (lists := [entries for key, entries in slot.items() if key != "role"])
    }
    names = draw(st.permutations([f"{{{name}}}{mark}" for name, mark in marks.items()]))
    literals = draw(st.lists(st.sampled_from(["the", "is", "na\u00efve"]), max_size=3))
    first = " ".join([*names, *literals])
    second = " ".join(["second", *literals, *reversed(names)])
    return {
        "polarity": {
            label: words["training"][label] + words["held_out"][label] for label in labels
        },
        "slots": slots,
        "patterns": {"first": first, "second": second},
        "splits": {
            "train": {"patterns": ["first", "second"], "words": "training"},
            "test": {"patterns": ["second", "first"], "words": "held_out"},
        },
    }
