"""Longer texts: neutral sentences, the fillers, before or behind the sentences of a pattern."""

from collections.abc import Sequence
from dataclasses import replace

from data_gen.patterns import Element, Pattern

ENDS = (".", "!", "?")  # of a sentence


def lengthened(pattern: Pattern, fillers: Sequence[Element]) -> tuple[Pattern, Pattern]:
    """The pattern with all fillers before it, and with all of them behind it.

    A sentence that fillers follow must end: a full stop is added where it has no mark at its end.
    """
    *head, last = pattern.elements
    n = len(fillers)
    return (
        Pattern(f"{pattern.name}, {n} before", (*fillers, *pattern.elements)),
        Pattern(f"{pattern.name}, {n} behind", (*head, _ended(last), *fillers)),
    )


def _ended(last: Element) -> Element:
    """The last element of a sentence, with a full stop where it has no mark at its end."""
    if not all(last.choices):
        raise ValueError("its last slot may be empty, so that a full stop would stand alone")
    ended = [choice[-1].endswith(ENDS) for choice in last.choices]
    if all(ended):
        return last
    if any(ended):
        raise ValueError("some entries of its last slot end in a mark and others do not")
    choices = tuple((*choice[:-1], f"{choice[-1]}.") for choice in last.choices)
    return replace(last, choices=choices, suffix=f"{last.suffix}.")
