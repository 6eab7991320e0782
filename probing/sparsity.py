"""Token-wise sparsity: how much of the summary's attention goes to the one word that matters.

The functions take ``States`` with attention, one row per token. All measures are per layer and
head, over all tokens of a sentence; special tokens have their own measure, since [CLS] and [SEP]
can be attention sinks.
"""

import numpy as np
import pandas as pd

from probing.arrays import BoolArray, FloatArray
from probing.states.tokens import States

SLACK = 0.05  # of the sum of attention in bfloat16
MEASURES = (
    "mass",  # on the informative word
    "mass_special",  # on [CLS] and [SEP]
    "top1",  # is the largest weight on the informative word?
    "entropy",  # in nats
    "effective_tokens",  # exp(entropy): 1 if one token has all the attention
    "tokens_95",  # how many tokens hold 95% of the mass
    "gini",  # 0 for uniform weights, towards 1 for one token
)


def attention_mass(states: States) -> FloatArray:
    """Attention mass on the informative word, shape (sentences, layers, heads).

    >>> attention_mass(summary_attention(model, tokenizer, dataset["test"])).mean(axis=0)
    """
    return _mass_on(states.tokens.informative, _weights(states), states)


def _mass_on(mask: BoolArray, weights: FloatArray, states: States) -> FloatArray:
    return np.add.reduceat(weights * mask[:, None, None], states.tokens.offsets[:-1])


def _weights(states: States) -> FloatArray:
    if states.attention is None:
        raise ValueError("the states hold no attention; extract them with attention=True")
    if not np.logical_or.reduceat(states.tokens.informative, states.tokens.offsets[:-1]).all():
        raise ValueError("a sentence has no informative token, so no attention on it")
    return np.asarray(states.attention, dtype=np.float64)


def sparsity_by_sentence(states: States, *, uniform: bool = False) -> dict[str, FloatArray]:
    """All measures by name, shape (sentences, layers, heads); ``uniform``: of equal weights."""
    tokens, weights = states.tokens, _weights(states)
    if uniform:
        lengths = np.repeat(tokens.lengths, tokens.lengths)
        weights = np.broadcast_to(1 / lengths[:, None, None], weights.shape)
    if np.abs(np.add.reduceat(weights, tokens.offsets[:-1]) - 1).max() > SLACK:
        raise ValueError("attention does not sum to 1: give the states with their special tokens")
    measures = {name: np.empty((len(tokens), *weights.shape[1:])) for name in MEASURES}
    measures["mass"] = _mass_on(tokens.informative, weights, states)
    measures["mass_special"] = _mass_on(tokens.special, weights, states)
    for which, rows in tokens.by_length():
        length = rows.shape[1]
        block = weights[rows]  # (sentences, tokens, layers, heads)
        top = block.argmax(axis=1)
        sentences = np.arange(len(rows))[:, None, None]
        measures["top1"][which] = tokens.informative[rows][sentences, top]
        entropy = -np.sum(block * np.log(np.maximum(block, 1e-300)), axis=1)
        measures["entropy"][which] = entropy
        measures["effective_tokens"][which] = np.exp(entropy)
        ordered = -np.sort(-block, axis=1)
        measures["tokens_95"][which] = 1 + np.sum(np.cumsum(ordered, axis=1) < 0.95 - 1e-9, axis=1)
        ranks = np.arange(length, 0, -1)[None, :, None, None]  # of the ascending order
        measures["gini"][which] = (
            2 * np.sum(ranks * ordered, axis=1) / np.sum(ordered, axis=1) - length - 1
        ) / length
    return measures


def sparsity_table(states: States, *, uniform: bool = False) -> pd.DataFrame:
    """Means of all measures over sentences, one row per layer and head (both counted from 1).

    >>> states = extract(model, tokenizer, dataset["test"], positions=(), attention=True)
    >>> sparsity_table(states)[["layer", "head", "mass"]]
    """
    measures = sparsity_by_sentence(states, uniform=uniform)
    return pd.DataFrame(
        {"layer": layer + 1, "head": head + 1}
        | {name: float(values[:, layer, head].mean()) for name, values in measures.items()}
        for layer, head in np.ndindex(measures["mass"].shape[1:])
    )


def reading_layer(states: States) -> int:
    """The layer (from 1) whose heads have most attention on the informative word, on average."""
    return int(attention_mass(states).mean(axis=(0, 2)).argmax()) + 1
