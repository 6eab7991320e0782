"""Sentences, and patterns: a pattern is a sequence of slots and an indexed list of sentences.

Sentence i is found by writing i in mixed radix, one digit per slot, the last slot varying
fastest. Nothing is enumerated, so a pattern of 10^12 sentences costs no more than one of ten.
"""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple, overload

# Neighbouring slots are merged into one table of ready-made fragments as long as the table
# stays this small: three table look-ups then make a sentence of a 10^9-sentence pattern.
MAX_FRAGMENTS = 1024
ROLES = ("informative", "distractor", "neutral")
"""What a word of a sentence can be."""
INFORMATIVE, DISTRACTOR, NEUTRAL = ROLES


# A named tuple, because making a frozen dataclass would take half of the 4 us per sentence.
class Sentence(NamedTuple):
    """A sentence and what the grammar knows about it.

    Always: ``" ".join(words) == text``, ``roles[location] == "informative"``, and
    ``text[span[0]:span[1]]`` is ``words[location]`` without the punctuation behind it.
    """

    text: str
    label: int  # index into the spec's labels; for "sentiment" 0 = negative, 1 = positive
    words: tuple[str, ...]
    roles: tuple[str, ...]  # one of ROLES per word
    location: int  # index of the informative word in words (J0 in the paper)
    span: tuple[int, int]  # its character offsets in text
    pattern: str


@dataclass(frozen=True)
class Element:
    """One place of a pattern: the word groups that may stand there.

    A choice is a tuple of words: empty for "nothing here", longer for "Good evening,".
    ``labels`` holds the label of each choice of the informative element, and is None elsewhere.
    ``suffix`` is the punctuation that every choice ends with, such as "." in "nice.".
    """

    choices: tuple[tuple[str, ...], ...]
    role: str = NEUTRAL
    labels: tuple[int, ...] | None = None
    suffix: str = ""

    @cached_property
    def words(self) -> frozenset[str]:
        """The choices of one word."""
        return frozenset(choice[0] for choice in self.choices if len(choice) == 1)

    @cached_property
    def phrases(self) -> list[tuple[str, ...]]:
        """The choices of several words, sorted, so that those with a common beginning adjoin."""
        return sorted(choice for choice in self.choices if len(choice) > 1)

    @cached_property
    def may_be_empty(self) -> bool:
        return () in self.choices

    @cached_property
    def longest(self) -> int:
        """The most characters of a choice, with a space behind each word."""
        return max(sum(len(word) + 1 for word in choice) for choice in self.choices)


class Fragment(NamedTuple):
    """Consecutive elements of a pattern, with one choice made for each."""

    text: str  # every word followed by a space
    words: tuple[str, ...]
    roles: tuple[str, ...]
    label: int | None  # None without the informative word: what follows then means nothing
    location: int
    start: int
    end: int


class Sentences(Sequence[Sentence]):
    """A sequence that makes its sentences on demand, at the same cost for any index and length."""

    @property
    @abstractmethod
    def n_sentences(self) -> int:
        """The number of sentences, a Python integer of any size (``len`` stops at 2^63)."""

    @abstractmethod
    def sentence(self, index: int) -> Sentence:
        """Sentence ``index``, which must lie in 0 .. n_sentences - 1 (indexing checks that)."""

    def __len__(self) -> int:
        return self.n_sentences

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sentence]: ...
    def __getitem__(self, index: int | slice) -> Sentence | list[Sentence]:
        indices = range(self.n_sentences)[index]
        return (
            self.sentence(indices) if isinstance(indices, int) else [*map(self.sentence, indices)]
        )

    def __iter__(self) -> Iterator[Sentence]:
        return map(self.sentence, range(self.n_sentences))


@dataclass(frozen=True)
class Pattern(Sentences):
    """All sentences of one structure: one choice from each element, in order."""

    name: str
    elements: tuple[Element, ...]

    def __post_init__(self) -> None:
        if sum(element.role == INFORMATIVE for element in self.elements) != 1:
            raise ValueError(f"pattern {self.name!r} needs exactly one informative element")

    @cached_property
    def n_sentences(self) -> int:
        return math.prod(len(element.choices) for element in self.elements)

    @cached_property
    def informative(self) -> Element:
        return next(element for element in self.elements if element.role == INFORMATIVE)

    @property
    def longest(self) -> int:
        """The most characters of a sentence."""
        return sum(element.longest for element in self.elements) - 1

    def label_counts(self, n_labels: int) -> list[int]:
        """Number of sentences of each label, counted without making any."""
        labels = self.informative.labels or ()
        counts = Counter(labels)
        return [self.n_sentences // len(labels) * counts[label] for label in range(n_labels)]

    def sentence(self, index: int) -> Sentence:
        text, words, roles = "", (), ()  # type: str, tuple[str, ...], tuple[str, ...]
        for table, radix in self._tables:
            digit, index = divmod(index, radix)
            more_text, more_words, more_roles, new_label, offset, start, end = table[digit]
            if new_label is not None:
                label, location = new_label, len(words) + offset
                span = (len(text) + start, len(text) + end)
            text += more_text
            words += more_words
            roles += more_roles
        return Sentence(text[:-1], label, words, roles, location, span, self.name)

    @cached_property
    def _tables(self) -> list[tuple[list[Fragment], int]]:
        """Fragment tables, most significant digit first, each with the product of later sizes."""
        groups: list[list[Element]] = []
        size = 0
        for element in self.elements:
            size *= len(element.choices)
            if not 0 < size <= MAX_FRAGMENTS:
                groups.append([])
                size = len(element.choices)
            groups[-1].append(element)
        tables = [_fragments(group) for group in groups]
        return [(table, math.prod(map(len, tables[i + 1 :]))) for i, table in enumerate(tables)]


def _fragments(elements: list[Element]) -> list[Fragment]:
    """Every combination of choices of these elements, the last varying fastest."""
    table = []
    for choices in product(*(range(len(element.choices)) for element in elements)):
        words, roles = list[str](), list[str]()
        label, location, start, end = None, 0, 0, 0
        for element, choice in zip(elements, choices, strict=True):
            chosen = element.choices[choice]
            if element.labels is not None:
                label, location = element.labels[choice], len(words)
                start = sum(map(len, words)) + len(words)  # a space behind each word
                end = start + len(chosen[0]) - len(element.suffix)
            words += chosen
            roles += [element.role] * len(chosen)
        text = "".join(word + " " for word in words)
        table.append(Fragment(text, tuple(words), tuple(roles), label, location, start, end))
    return table
