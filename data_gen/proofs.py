"""Whether two patterns share a sentence, decided on the patterns without making sentences.

A pattern is a small automaton that reads words, and two patterns share a sentence iff their
product automaton reaches its end. Its states are pairs of places, so the answer for two patterns
of 10^12 sentences is immediate, and comes with a shared sentence as witness.

All words of a slot lead to one place, and phrases with a common beginning are read together: so
thousands of entries cost no more than one.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby, product
from typing import NamedTuple

from data_gen.patterns import Pattern

MOST_STEPS = 1_200_000  # of all comparisons of a spec: about five seconds


class TooManyStepsError(Exception):
    """The comparison of patterns would take too long."""


class Work:
    """The number of steps that comparisons took, which is bounded."""

    def __init__(self, most: float = float("inf")) -> None:
        self.most = most
        self.steps = 0

    def spend(self, steps: int) -> None:
        self.steps += steps
        self.check(0)

    def check(self, ahead: int) -> None:
        """Fail at once if so many steps ahead are too many."""
        if self.steps + ahead > self.most:
            raise TooManyStepsError


class Place(NamedTuple):
    """The position of a reader in a pattern: before an element, or within phrases of it.

    Within phrases: those from number ``first`` to ``end``, of which ``read`` words were read.
    """

    element: int
    first: int = 0
    end: int = 0
    read: int = 0


Step = tuple["Said", Place, Place]  # what two readers read, and where they are then
State = tuple[Place, Place, bool]  # of two readers, and whether they ever were apart
Said = str | tuple[frozenset[str], frozenset[str]]  # words, or any word that is in both sets


class Next(NamedTuple):
    """What a reader may read next, with the places to which it leads."""

    rest: tuple[str, ...]  # the rest of a phrase that no other shares, which must follow
    words: list[tuple[frozenset[str], Place]]  # sets of words that are whole entries
    phrases: dict[str, list[Place]]  # words that begin or continue phrases


class Reader:
    """A reader of the sentences of a pattern, word by word."""

    def __init__(self, pattern: Pattern, work: Work | None = None) -> None:
        self.work = work or Work()
        self.elements = [element for element in pattern.elements if element.choices != ((),)]
        needed = [i for i, element in enumerate(self.elements) if () not in element.choices]
        self._may_end_from = needed[-1] + 1
        self._next: dict[Place, Next] = {}

    def may_end(self, place: Place) -> bool:
        return not place.read and place.element >= self._may_end_from

    def first_words(self) -> frozenset[str]:
        """The words with which sentences can begin."""
        first = self.next(Place(0))
        sets = [words for words, _ in first.words]
        # The set of a slot is returned as it is: patterns that begin with it share it.
        alone = len(sets) == 1 and not first.phrases
        return sets[0] if alone else frozenset().union(*sets, first.phrases)

    def next(self, place: Place) -> Next:
        if place not in self._next:
            self._next[place] = self._within_phrases(place) if place.read else self._from(place)
        return self._next[place]

    def skip(self, place: Place, n: int) -> Place:
        """The place n words further on in a phrase that no other shares."""
        (further,) = self._entered(place._replace(read=place.read + n))
        return further

    def _within_phrases(self, place: Place) -> Next:
        alone = place.end - place.first == 1
        phrase = self.elements[place.element].phrases[place.first]
        return Next(phrase[place.read :] if alone else (), [], dict(self._continued(place)))

    def _from(self, place: Place) -> Next:
        """What comes next: the elements up to the first that cannot be empty."""
        words, phrases = list[tuple[frozenset[str], Place]](), dict[str, list[Place]]()
        for i, element in enumerate(self.elements[place.element :], place.element):
            if element.words:
                words.append((element.words, Place(i + 1)))
            for word, places in self._continued(Place(i, 0, len(element.phrases))):
                phrases.setdefault(word, []).extend(places)
            if not element.may_be_empty:
                break
        return Next((), words, phrases)

    def _continued(self, place: Place) -> Iterator[tuple[str, list[Place]]]:
        """The next words of these phrases, with the places to which they lead."""
        phrases, first = self.elements[place.element].phrases, place.first
        among = phrases[place.first : place.end]
        self.work.spend(len(among))
        for word, group in groupby(among, key=lambda phrase: phrase[place.read]):
            end = first + sum(1 for _ in group)
            yield word, self._entered(Place(place.element, first, end, place.read + 1))
            first = end

    def _entered(self, place: Place) -> list[Place]:
        """The place, and that behind the phrase which ends here (the first: they are sorted)."""
        element, first, end, read = place
        if len(self.elements[element].phrases[first]) > read:
            return [place]
        behind = [Place(element + 1)]
        return behind if first + 1 == end else [*behind, Place(element, first + 1, end, read)]


def common_sentence(a: Reader, b: Reader, work: Work) -> str | None:
    """Search the product of a and b for a sentence that both read, in two ways if a is b.

    Two readings are apart once they have stood in different places. The places after each word
    determine the choices, so two ways through one pattern differ in some place.
    """
    start: State = (Place(0), Place(0), a is not b)
    came_from: dict[State, tuple[State, Said]] = {}
    stack = [start]
    while stack:
        work.spend(1)
        state = place_a, place_b, apart = stack.pop()
        if apart and a.may_end(place_a) and b.may_end(place_b):
            words = []
            while state != start:
                state, said = came_from[state]
                words.append(said if isinstance(said, str) else min(said[0] & said[1]))
            return " ".join(reversed(words))
        next_a, next_b = a.next(place_a), b.next(place_b)
        if next_a.rest and next_b.rest:  # one way to go, and readings that are apart stay apart
            n = min(len(next_a.rest), len(next_b.rest))
            if next_a.rest[:n] != next_b.rest[:n]:
                continue
            both = " ".join(next_a.rest[:n])
            steps: Iterable[Step] = [(both, a.skip(place_a, n), b.skip(place_b, n))]
        else:
            steps = _steps(next_a, next_b, work)
        for said, to_a, to_b in steps:
            following = (to_a, to_b, apart or to_a != to_b)
            if following not in came_from:
                came_from[following] = (state, said)
                stack.append(following)
    return None


def _steps(a: Next, b: Next, work: Work) -> Iterator[Step]:
    """All that both may read next; words that lead to the same places count as one."""
    for some, to_a in a.words:
        for others, to_b in b.words:
            if some is others or not some.isdisjoint(others):
                yield (some, others), to_a, to_b
            else:
                work.spend(min(len(some), len(others)) // 100)
        for word in b.phrases:
            if word in some:
                yield from ((word, to_a, to_b) for to_b in b.phrases[word])
    for words, to_b in b.words:
        for word in a.phrases:
            if word in words:
                yield from ((word, to_a, to_b) for to_a in a.phrases[word])
    if a.phrases and b.phrases:
        work.spend((len(a.phrases) + len(b.phrases)) // 2)
        for word in sorted(a.phrases.keys() & b.phrases.keys()):  # the same witness every time
            yield from ((word, *to) for to in product(a.phrases[word], b.phrases[word]))
