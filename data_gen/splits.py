"""A split: patterns one after the other, indexed as one sequence, in order or shuffled."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain

from data_gen.patterns import Pattern, Sentence, Sentences
from data_gen.permutation import shuffled


@dataclass(frozen=True)
class Split(Sentences):
    """The sentences of one split."""

    name: str
    patterns: tuple[Pattern, ...]
    isolates: str = ""  # what a score on this split measures; on the dataset card
    extended: bool = False  # built only when asked for
    allow_repeats: bool = False  # a sentence may occur twice (as-released data)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(pattern.n_sentences for pattern in self.patterns))

    @property
    def n_sentences(self) -> int:
        return self._ends[-1]

    def label_counts(self, n_labels: int) -> list[int]:
        counts = [pattern.label_counts(n_labels) for pattern in self.patterns]
        return [sum(column) for column in zip(*counts, strict=True)]

    def sentence(self, index: int) -> Sentence:
        which = bisect_right(self._ends, index)
        pattern = self.patterns[which]
        return pattern.sentence(index - self._ends[which] + pattern.n_sentences)

    def __iter__(self) -> Iterator[Sentence]:
        return chain.from_iterable(self.patterns)

    def iter_shard(self, shard: int, n_shards: int, seed: int | None = None) -> Iterator[Sentence]:
        """Sentences shard, shard + n_shards, ... of the split, shuffled if there is a seed.

        The shards of one seed share no sentence and together hold all of them. Memory is
        constant: the order is computed, not stored.
        """
        positions = range(shard, self.n_sentences, n_shards)
        order = positions if seed is None else shuffled(positions, self.n_sentences, seed)
        return map(self.sentence, order)
