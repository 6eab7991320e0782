"""What is held out for testing, if the sentences name no splits."""

from collections.abc import Sequence

import numpy as np

from data_gen.quoting import quoted

TEST_SHARE = 5  # one in five words (or sentences) is for testing
FEWEST = 2  # sentences of a label: one to learn from, one to test


def held_out(words: Sequence[str], labels: Sequence[int]) -> tuple[list[bool], str]:
    """Whether each sentence is for testing, and what was split, in words.

    A fifth of the informative words of each label is held out or, if a label has too few of them,
    a fifth of its sentences: so that both splits have every label in its share.
    """
    tested = _by_word(words, labels)
    if tested is not None:
        new = len({word for word, is_tested in zip(words, tested, strict=True) if is_tested})
        what = f"{new} of {len(set(words))} informative words"
    else:
        tested = _by_sentence(labels)
        what = f"a fifth of the sentences of each label (fewer than {TEST_SHARE} words per label)"
    return tested, f"no column split: test has {what}, {sum(tested)} of {len(tested)} sentences"


def _by_word(words: Sequence[str], labels: Sequence[int]) -> list[bool] | None:
    """None if a label has too few words, or if a split would be without a label."""
    rng = np.random.default_rng(0)
    pairs = set(zip(words, labels, strict=True))
    new: set[str] = set()
    for label in sorted(set(labels)):
        carriers = sorted(word for word, y in pairs if y == label)
        if len(carriers) < TEST_SHARE:
            return None
        n_new = len(carriers) // TEST_SHARE
        new |= {str(word) for word in rng.permutation(carriers)[:n_new]}
    tested = [word in new for word in words]
    if len(set(zip(tested, labels, strict=True))) < 2 * len(set(labels)):
        return None  # words that carry several labels
    return tested


def _by_sentence(labels: Sequence[int]) -> list[bool]:
    rng = np.random.default_rng(0)
    tested = np.zeros(len(labels), bool)
    for label in sorted(set(labels)):
        rows = np.flatnonzero(np.array(labels) == label)
        tested[rng.permutation(rows)[: max(1, len(rows) // TEST_SHARE)]] = True
    return tested.tolist()


def too_few(names: Sequence[str], labels: Sequence[int]) -> str:
    """Which label has too few sentences to be split, or nothing."""
    counts = np.bincount(labels, minlength=len(names))
    if counts.min() >= FEWEST:
        return ""
    rare = f"the label {quoted(names[int(counts.argmin())])} has one sentence"
    return f"{rare}; give at least {FEWEST} per label, or a column 'split'"
