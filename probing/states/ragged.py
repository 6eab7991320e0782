"""Ragged tokens: states (total_tokens, d), sentence i owning rows offsets[i]:offsets[i + 1]."""

from __future__ import annotations

from typing import Any

import numpy as np

from probing.probes.logistic import BoolArray, FloatArray, IntArray, check_states


def take_sentences(offsets: IntArray, sentences: IntArray) -> tuple[IntArray, IntArray]:
    """Rows of the tokens of some sentences, and the offsets among those rows."""
    lengths = np.diff(offsets)[sentences]
    inner = np.append(0, np.cumsum(lengths))
    rows = np.arange(inner[-1]) + np.repeat(offsets[sentences] - inner[:-1], lengths)
    return rows, inner


def keep_tokens(offsets: Any, mask: Any) -> tuple[IntArray, IntArray]:
    """Rows of the tokens where mask is True (no special ones, say), and the offsets among them."""
    offsets, mask = np.asarray(offsets), np.asarray(mask, dtype=bool)
    if mask.shape != (offsets[-1],):
        raise ValueError(f"mask must have one entry for each of {offsets[-1]} tokens")
    inner = np.append(0, np.cumsum(mask))[offsets]
    if (np.diff(inner) == 0).any():
        raise ValueError("mask leaves a sentence without a token")
    return np.flatnonzero(mask), inner


def informative_ranks(scores: FloatArray, offsets: IntArray, informative: BoolArray) -> IntArray:
    starts = offsets[:-1]
    best = np.maximum.reduceat(np.where(informative, scores, -np.inf), starts)
    ahead = ~informative & (scores >= np.repeat(best, np.diff(offsets)))
    return np.asarray(1 + np.add.reduceat(ahead.astype(np.intp), starts))


def check_offsets(offsets: Any, n_tokens: int) -> IntArray:
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or len(offsets) < 2 or not np.issubdtype(offsets.dtype, np.integer):
        raise ValueError("offsets must be n + 1 integers")
    if offsets[0] != 0 or offsets[-1] != n_tokens or (np.diff(offsets) < 1).any():
        raise ValueError(
            f"offsets must rise from 0 to the number of tokens, {n_tokens}, with no empty sentence"
        )
    return offsets.astype(np.intp)


def check_tokens(
    states: Any, offsets: Any, informative: Any, mask: Any
) -> tuple[FloatArray, IntArray, BoolArray]:
    states = check_states(states)
    offsets, informative = check_offsets(offsets, len(states)), np.asarray(informative, dtype=bool)
    if informative.shape != (len(states),):
        raise ValueError(f"informative must have one entry for each of {len(states)} tokens")
    if mask is not None:
        rows, offsets = keep_tokens(offsets, mask)
        states, informative = states[rows], informative[rows]
    if not np.logical_or.reduceat(informative, offsets[:-1]).all():
        raise ValueError("a sentence has no informative token (left, if there is a mask)")
    return states, offsets, informative


def ragged_softmax(scores: FloatArray, offsets: IntArray) -> FloatArray:
    """Softmax over the tokens of each sentence, shape (total_tokens,)."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    raised = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), lengths))
    return np.asarray(raised / np.repeat(np.add.reduceat(raised, starts), lengths))
