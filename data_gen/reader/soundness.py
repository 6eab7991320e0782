"""A sound spec: every split is balanced, and no sentence arises twice."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain

from data_gen.patterns import Pattern
from data_gen.proofs import MOST_STEPS, Reader, TooManyStepsError, Work, common_sentence
from data_gen.quoting import listed, quoted, spaced
from data_gen.reader.shapes import Shapes
from data_gen.splits import Split


def check_balance(shapes: Shapes, splits: dict[str, Split], labels: tuple[str, ...]) -> None:
    for split in splits.values():
        counts = split.label_counts(len(labels))
        if len(set(counts)) != 1:
            numbers = zip(labels, counts, strict=True)
            counted = listed((f"{count} {label}" for label, count in numbers), 4)
            choices = [pattern.informative.choices for pattern in split.patterns]
            words = listed(dict.fromkeys(choice[0] for choice in chain(*choices)))
            problem = f"is not balanced: {counted}; give each label equally many of the words"
            raise shapes.fail(f"splits.{split.name}", f"{problem} {words}")


def check_repeats(shapes: Shapes, splits: dict[str, Split]) -> None:
    """Fail if a sentence arises twice: in one pattern, in two patterns or in two splits."""
    try:
        _check_repeats(shapes, splits, Work(MOST_STEPS))
    except TooManyStepsError:
        n = sum(len(split.patterns) for split in splits.values())
        most = f"more than the limit of {spaced(MOST_STEPS)} steps"
        problem = f"to look for repeated sentences in {spaced(n)} patterns takes {most}"
        hint = "use fewer patterns, or let patterns begin with different words"
        raise shapes.fail("splits", f"{problem}; {hint}") from None


def _check_repeats(shapes: Shapes, splits: dict[str, Split], work: Work) -> None:
    patterns = [(split, pattern) for split in splits.values() for pattern in split.patterns]
    readers = [Reader(pattern, work) for _, pattern in patterns]
    pairs = pairs_that_may_meet([reader.first_words() for reader in readers], work)
    for (split, pattern), reader in zip(patterns, readers, strict=True):
        if not split.allow_repeats and (sentence := common_sentence(reader, reader, work)):
            problem = f"{quoted(pattern.name)} generates {quoted(sentence)} in two ways"
            raise shapes.fail(f"splits.{split.name}.patterns", problem)
    for i, j in pairs:
        (first, a), (second, b) = patterns[i], patterns[j]
        if first is second and first.allow_repeats:
            continue
        if sentence := common_sentence(readers[i], readers[j], work):
            raise _repeated(shapes, (first, a), (second, b), quoted(sentence))


def _repeated(
    shapes: Shapes, one: tuple[Split, Pattern], other: tuple[Split, Pattern], sentence: str
) -> ValueError:
    (first, a), (second, b) = one, other
    if first is second:
        both = f"{quoted(a.name, 30)} and {quoted(b.name, 30)} both generate {sentence}"
        return shapes.fail(f"splits.{first.name}.patterns", both)
    both = f"{listed([first.name])} ({listed([a.name])}) and {listed([second.name])}"
    return shapes.fail("splits", f"{both} ({listed([b.name])}) share {sentence}")


def pairs_that_may_meet(
    first_words: Sequence[frozenset[str]], work: Work
) -> Iterator[tuple[int, int]]:
    """The pairs of patterns whose sentences can begin with the same word, in order.

    Too many of them are noticed at once, before the first is compared.
    """
    members: dict[frozenset[str], list[int]] = {}
    for i, words in enumerate(first_words):
        members.setdefault(words, []).append(i)
    sets_with: dict[str, list[frozenset[str]]] = {}
    for words in members:
        work.spend(1 + len(words) // 10)
        for word in words:
            sets_with.setdefault(word, []).append(words)
    met: dict[frozenset[str], list[int]] = {}  # by the first words of a pattern
    n_pairs = 0
    for words in members:
        work.spend(sum(len(sets_with[word]) for word in words) // 10)
        sets = dict.fromkeys(chain.from_iterable(sets_with[word] for word in words))
        met[words] = sorted(chain.from_iterable(members[each] for each in sets))
        n_pairs += len(met[words]) * len(members[words])
        work.check(n_pairs // 2)  # each pair is met from both sides
    return (
        (i, j)
        for i, words in enumerate(first_words)
        for j in met[words][bisect_right(met[words], i) :]
    )
