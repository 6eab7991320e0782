"""Pooling of the tokens of each sentence into its logits, with the gradient of this step.

A head weighs tokens by a softmax of their scores, or takes the token of the highest value; logits
are sums over heads. Softmax weights dilute one decisive token as texts grow, a maximum does not.

notation: H heads, J logits (one or one per label), T tokens of n sentences, which lie one behind
the other and begin at the offsets
"""

from typing import Literal, NamedTuple, Self

import numpy as np

from probing.arrays import FloatArray, IntArray

Pooling = Literal["softmax", "max"]


class Heads(NamedTuple):
    """The shape of several heads; their directions are the rows of one matrix, keys first.

    >>> Heads(n_heads=4, n_logits=3).n_rows
    16
    """

    n_heads: int = 1
    n_logits: int = 1
    pooling: Pooling = "softmax"

    @property
    def n_keys(self) -> int:
        return 0 if self.pooling == "max" else self.n_heads

    @property
    def n_rows(self) -> int:
        return self.n_keys + self.n_heads * self.n_logits


class Pooled(NamedTuple):
    """The states of all tokens, read by heads.

    >>> pooled = Pooled.of(directions @ states.T, Heads(n_heads=2), offsets)
    >>> pooled.logits.shape  # (1, sentences), without the intercept
    """

    weights: FloatArray  # (H, J, T), or (H, 1, T) for softmax; the sum over a sentence is 1
    values: FloatArray  # (H, J, T)
    read: FloatArray  # (H, J, n): the weighted values of each sentence
    offsets: IntArray

    @classmethod
    def of(cls, products: FloatArray, heads: Heads, offsets: IntArray) -> Self:
        """Read tokens whose products with the rows of ``heads`` are given, shape (n_rows, T)."""
        values = products[heads.n_keys :].reshape(heads.n_heads, heads.n_logits, -1)
        if heads.pooling == "max":
            weights = ragged_maximum(values, offsets)
        else:
            weights = ragged_softmax(products[: heads.n_keys], offsets)[:, None]
        return cls(weights, values, ragged_sum(weights * values, offsets), offsets)

    @property
    def logits(self) -> FloatArray:
        """The sums over heads, shape (J, n)."""
        return np.asarray(self.read.sum(axis=0))

    def attention(self, labels: IntArray) -> FloatArray:
        """The mean weight of each token over heads, shape (T,).

        Where each label has weights of its own, they are those for the label of the sentence, (n,).
        """
        tokens = np.arange(self.weights.shape[-1])
        is_shared = self.weights.shape[1] == 1
        rows = 0 if is_shared else np.repeat(labels, np.diff(self.offsets))
        return np.asarray(self.weights[:, rows, tokens].mean(axis=0))

    def pulled(self, slope: FloatArray, heads: Heads) -> FloatArray:
        """The gradient in the products, from that in the logits, ``slope`` (J, n)."""
        lengths, n_tokens = np.diff(self.offsets), self.values.shape[-1]
        # d read / d value_l = weight_l;  d read / d score_l = weight_l (value_l - read)
        along = np.repeat(slope, lengths, axis=-1) * self.weights
        values = along.reshape(-1, n_tokens)
        if heads.pooling == "max":
            return values
        scores = (along * (self.values - np.repeat(self.read, lengths, axis=-1))).sum(axis=1)
        return np.concatenate([scores, values])


def ragged_sum(values: FloatArray, offsets: IntArray) -> FloatArray:
    """Sums over the tokens of each sentence, shape (..., n) from (..., T)."""
    return np.asarray(np.add.reduceat(values, offsets[:-1], axis=-1))


def ragged_softmax(scores: FloatArray, offsets: IntArray) -> FloatArray:
    """Softmax over the tokens of each sentence, of the shape of ``scores`` (..., T)."""
    lengths = np.diff(offsets)
    highest = np.maximum.reduceat(scores, offsets[:-1], axis=-1)
    raised = np.exp(scores - np.repeat(highest, lengths, axis=-1))
    return np.asarray(raised / np.repeat(ragged_sum(raised, offsets), lengths, axis=-1))


def ragged_maximum(values: FloatArray, offsets: IntArray) -> FloatArray:
    """1 at the highest token of each sentence (of equal ones the first), 0 elsewhere."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    highest = np.repeat(np.maximum.reduceat(values, starts, axis=-1), lengths, axis=-1)
    is_highest = values == highest
    before = np.cumsum(is_highest, axis=-1) - is_highest  # highest tokens before each token
    is_first = before == np.repeat(before[..., starts], lengths, axis=-1)
    return np.asarray(is_highest & is_first, dtype=float)
