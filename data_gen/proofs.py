"""Whether two patterns share a sentence, decided on the patterns without making sentences.

A pattern is a small automaton that reads words, and two patterns share a sentence iff their
product automaton reaches its end. Its states are pairs of places, so the answer for two patterns
of 10^12 sentences is immediate, and comes with a shared sentence as witness.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache, partial
from itertools import product

from data_gen.patterns import Pattern

# The position of a reader in a pattern: the next element, and the rest of the current choice.
Place = tuple[int, tuple[str, ...]]
Places = dict[str, set[Place]]  # by the word that leads there
START: Place = (0, ())


def shared_sentence(a: Pattern, b: Pattern) -> str | None:
    """A sentence that both patterns generate, or None if there is none."""
    return _common_sentence(a, b, apart=True)


def repeated_sentence(pattern: Pattern) -> str | None:
    """A sentence that one pattern generates in two ways, or None if there is none."""
    # The places after each word determine the choices, so two ways differ in some place.
    return _common_sentence(pattern, pattern, apart=False)


def _common_sentence(a: Pattern, b: Pattern, *, apart: bool) -> str | None:
    """Search the product of a and b for a sentence whose two readings are apart at the end.

    Two readings are apart once they have stood in different places.
    """
    places_of_a, places_of_b = (cache(partial(_next_places, pattern)) for pattern in (a, b))
    start = (START, START, apart)
    came_from: dict[tuple[Place, Place, bool], tuple[tuple[Place, Place, bool], str]] = {}
    stack = [start]
    while stack:
        state = place_a, place_b, apart = stack.pop()
        if apart and _may_end(a, place_a) and _may_end(b, place_b):
            words = []
            while state != start:
                state, word = came_from[state]
                words.append(word)
            return " ".join(reversed(words))
        if place_a[1] and place_b[1]:
            steps = _steps_within_choices(place_a, place_b)
        else:
            steps = _steps(places_of_a(place_a), places_of_b(place_b))
        for word, to_a, to_b in steps:
            following = (to_a, to_b, apart or to_a != to_b)
            if following not in came_from:
                came_from[following] = (state, word)
                stack.append(following)
    return None


def _steps(next_a: Places, next_b: Places) -> Iterator[tuple[str, Place, Place]]:
    """Every word that both may read next, with the places that it leads to."""
    for word in sorted(next_a.keys() & next_b.keys()):  # the same witness every time
        for to_a, to_b in product(sorted(next_a[word]), sorted(next_b[word])):
            yield word, to_a, to_b


def _steps_within_choices(a: Place, b: Place) -> Iterator[tuple[str, Place, Place]]:
    """One step to the end of the shorter choice, if both say the same until then.

    There is one way to go, and readings that stand apart stay apart: so nothing is left out, and
    long choices, such as whole sentences, cost no more than words.
    """
    (first_a, rest_a), (first_b, rest_b) = a, b
    n = min(len(rest_a), len(rest_b))
    if rest_a[:n] == rest_b[:n]:
        yield " ".join(rest_a[:n]), (first_a, rest_a[n:]), (first_b, rest_b[n:])


def _next_places(pattern: Pattern, place: Place) -> Places:
    """The places that reading each possible next word leads to."""
    first, rest = place
    if rest:
        return {rest[0]: {(first, rest[1:])}}
    places: Places = defaultdict(set)
    for i in range(first, len(pattern.elements)):
        choices = pattern.elements[i].choices
        for choice in choices:
            if choice:
                places[choice[0]].add((i + 1, choice[1:]))
        if () not in choices:  # this element cannot be empty
            break
    return places


def _may_end(pattern: Pattern, place: Place) -> bool:
    first, rest = place
    return not rest and all(() in element.choices for element in pattern.elements[first:])
