"""Minimum description length by online coding (Voita and Titov, 2020): what do labels cost in bits?

Sender and receiver both hold the states. Labels are sent in blocks, each coded by probes fitted to
the blocks before it, the first by a uniform code: a probe that needs few sentences has a short one.

Neither side knows the right penalty, so the code is a Bayesian mixture over CODE_GRID: at most
log2(4) = 2 bits longer than that of the best penalty in hindsight, and hardly longer than the
uniform code when there is nothing to learn, where a single weak penalty would bet and lose.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probing.arrays import BoolArray, FloatArray, IntArray
from probing.probes.location import check_tokens
from probing.probes.logistic import (
    Fitted,
    check_states,
    check_two_labels,
    logistic_path,
    logit_of,
    moments,
    one_blas_thread,
)
from probing.states.tokens import Tokens

FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)  # theirs
CODE_GRID: tuple[float, ...] = (1e-4, 1e-2, 1.0, 100.0)
TOLERANCE = 3e-4  # of the fits: ten times tighter ones change a code by some tenths of a percent


@dataclass(frozen=True)
class Code:
    """The length of a message: all labels, block after block."""

    block_bits: tuple[float, ...]
    uniform_bits: float  # what the labels cost without looking at the states

    @property
    def bits(self) -> float:
        return sum(self.block_bits)


def fraction_blocks(n: int, rng: np.random.Generator) -> list[IntArray]:
    """Rows in a random order, cut at FRACTIONS; cuts that coincide are one."""
    ends = sorted({math.ceil(fraction * n) for fraction in FRACTIONS})
    return np.split(rng.permutation(n), ends[:-1])


def word_blocks(words: Any, rng: np.random.Generator, y: Any = None) -> list[IntArray]:
    """The rows of one word after those of another: each block is about a word not seen before.

    In a random order of rows a probe that has memorised words gets a short code; here only one that
    knows what words of a label have in common does. The first block has one word of each label,
    without which there is nothing to fit, so that n words are compressed by n / 2 at most; the
    others follow at random (an order that alternated labels would tell them). Without y (for a
    location, which any one word shows) the first block has one word.
    """
    words = np.asarray(words)
    y = np.zeros(len(words)) if y is None else np.asarray(y)
    firsts = [rng.choice(np.unique(words[y == label])) for label in np.unique(y)]
    others = rng.permutation([word for word in np.unique(words) if word not in firsts])
    first = np.flatnonzero(np.isin(words, firsts))
    return [first, *(np.flatnonzero(words == word) for word in others)]


def online_code(
    blocks: Sequence[IntArray],
    uniform_bits: FloatArray,
    bits_of: Callable[[IntArray, IntArray], FloatArray | None],
    n_probes: int,
) -> Code:
    """The mixture code. ``bits_of(seen, block)`` is what each row of the block costs under each
    probe fitted to the rows seen, (n_probes, rows), or None if none can be fitted yet.
    """
    totals, sent, seen = np.zeros(n_probes), [0.0], np.empty(0, dtype=np.intp)
    for block in blocks:
        bits = bits_of(seen, block) if len(seen) else None
        totals = totals + (uniform_bits[block].sum() if bits is None else bits.sum(axis=1))
        sent.append(float(math.log2(n_probes) - np.logaddexp2.reduce(-totals)))
        seen = np.concatenate([seen, block])
    return Code(tuple(np.diff(sent).tolist()), float(uniform_bits[seen].sum()))


@one_blas_thread
def label_code(
    X: Any, y: Any, blocks: Sequence[IntArray], *, grid: Sequence[float] = CODE_GRID
) -> Code:
    """The code of a binary label, one per state: a row costs 1 bit without the states."""
    X = _standardised(check_states(X))
    _, positive = check_two_labels(y, len(X))

    def bits_of(seen: IntArray, block: IntArray) -> FloatArray | None:
        if len(np.unique(positive[seen])) < 2:
            return None
        sign = np.where(positive[block], 1, -1)
        logits = logit_path(X[seen], positive[seen], X[block], grid)
        return np.asarray(np.logaddexp(0, -sign * logits) / math.log(2))

    return online_code(blocks, np.ones(len(X)), bits_of, len(grid))


@one_blas_thread
def location_code(
    X: Any, tokens: Tokens, blocks: Sequence[IntArray], *, grid: Sequence[float] = CODE_GRID
) -> Code:
    """The code of the informative word's place: log2(n) bits for n tokens without the states.

    The location probe gives each token a logit. Given that exactly one token is informative, the
    softmax of the logits says which, and a word has the sum over its tokens.
    """
    X, informative = _standardised(check_tokens(X, tokens, located=True)), tokens.informative
    own = np.add.reduceat(informative.astype(float), tokens.offsets[:-1])

    def bits_of(seen: IntArray, block: IntArray) -> FloatArray | None:
        rows, new = tokens.rows(seen), tokens.rows(block)
        is_it = informative[rows]
        if is_it.all():
            return None
        logits = logit_path(X[rows], is_it, X[new], grid)
        there = np.where(informative[new], logits, -np.inf)
        starts = tokens.take(block).offsets[:-1]
        masses = [np.logaddexp.reduceat(part, starts, axis=1) for part in (logits, there)]
        return np.asarray((masses[0] - masses[1]) / math.log(2))

    return online_code(blocks, np.log2(tokens.lengths / own), bits_of, len(grid))


def _standardised(X: FloatArray) -> FloatArray:
    """Standardised by all states, which the receiver has from the start.

    By those of the rows seen, coordinates in which the first two nearly agree would be magnified.
    """
    mean, scale = moments(X, np.ones(len(X)))
    return np.asarray(((X - mean) / scale).astype(X.dtype))


def logit_path(
    X: FloatArray, positive: BoolArray, new: FloatArray, grid: Sequence[float]
) -> FloatArray:
    """Logits of new states under LinearProbe(C=C, standardize=False) fitted to X, for each C.

    Both labels weigh the same: that two words of one came before one of the other tells nothing of
    the next.
    """
    share = positive.mean()
    weight = np.where(positive, 1 / (2 * share), 1 / (2 * (1 - share)))
    path = logistic_path(X, positive, weight, grid, standardize=False, tol=TOLERANCE)
    fits = [(fitted.coef, fitted.intercept) for fitted in path]
    coefs, intercepts = (np.stack(part) for part in zip(*fits, strict=True))
    return logit_of(new, Fitted(coefs, intercepts)).T  # (n_C, n_new)
