"""A split: patterns one after the other, indexed as one sequence, in order or shuffled.

A split may be a sample of its patterns, with equally many sentences per pattern and informative
word: then it is as balanced as the whole, and what is proved of the whole holds for the sample.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, chain

from data_gen.patterns import Pattern, Sentence, Sentences
from data_gen.permutation import shuffled


@dataclass(frozen=True)
class Sample(Sentences):
    """Sentences of a pattern drawn without replacement, equally many for each informative word."""

    pattern: Pattern
    per_word: int
    seed: int

    @property
    def n_sentences(self) -> int:
        return self.per_word * len(self.pattern.informative.choices)

    def sentence(self, index: int) -> Sentence:
        which, word = divmod(index, len(self._drawn))
        return self.pattern.sentence(self._drawn[word][which])

    @cached_property
    def _drawn(self) -> list[list[int]]:
        """The indices of the sentences drawn for each informative word."""
        elements = self.pattern.elements
        place = elements.index(self.pattern.informative)
        behind = math.prod(len(element.choices) for element in elements[place + 1 :])
        n_words = len(self.pattern.informative.choices)
        n = self.pattern.n_sentences // n_words

        def index(number: int, word: int) -> int:
            """The index in the pattern of a sentence with this word, numbered without it."""
            before, rest = divmod(number, behind)
            return (before * n_words + word) * behind + rest

        return [
            [index(i, word) for i in shuffled(range(self.per_word), n, self.seed * n_words + word)]
            for word in range(n_words)
        ]


@dataclass(frozen=True)
class Split(Sentences):
    """The sentences of one split."""

    name: str
    patterns: tuple[Pattern, ...]
    isolates: str = ""  # what a score on this split measures; on the dataset card
    extended: bool = False  # built only when asked for
    allow_repeats: bool = False  # a sentence may occur twice (as-released data)
    sample: int = 0  # number of sentences drawn; 0: all

    @cached_property
    def parts(self) -> tuple[Sentences, ...]:
        """The patterns, or samples of them."""
        if not self.sample:
            return self.patterns
        cells = sum(len(pattern.informative.choices) for pattern in self.patterns)
        per_word = self.sample // cells
        return tuple(Sample(pattern, per_word, i) for i, pattern in enumerate(self.patterns))

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(part.n_sentences for part in self.parts))

    @property
    def n_sentences(self) -> int:
        return self._ends[-1]

    @property
    def longest(self) -> int:
        """The most characters of a sentence."""
        return max(pattern.longest for pattern in self.patterns)

    def label_counts(self, n_labels: int) -> list[int]:
        whole = [pattern.label_counts(n_labels) for pattern in self.patterns]
        sizes = zip(self.patterns, self.parts, strict=True)
        shares = [Fraction(part.n_sentences, pattern.n_sentences) for pattern, part in sizes]
        return [
            int(sum(count * share for count, share in zip(column, shares, strict=True)))
            for column in zip(*whole, strict=True)
        ]

    def sentence(self, index: int) -> Sentence:
        which = bisect_right(self._ends, index)
        part = self.parts[which]
        return part.sentence(index - self._ends[which] + part.n_sentences)

    def __iter__(self) -> Iterator[Sentence]:
        return chain.from_iterable(self.parts)

    def iter_shard(self, shard: int, n_shards: int, seed: int | None = None) -> Iterator[Sentence]:
        """Sentences shard, shard + n_shards, ... of the split, shuffled if there is a seed.

        The shards of one seed share no sentence and together hold all of them. Memory is
        constant: the order is computed, not stored.
        """
        positions = range(shard, self.n_sentences, n_shards)
        order = positions if seed is None else shuffled(positions, self.n_sentences, seed)
        return map(self.sentence, order)
