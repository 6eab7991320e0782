"""Token-wise sparsity: how much of [CLS]'s attention goes to the one word that matters.

Attention is ragged: the tokens of all sentences one after the other, with ``offsets``, as
probing/states/extraction.py gives it. All measures are per layer and head, over all tokens of a
sentence; special tokens are reported apart, since [CLS] and [SEP] can be sinks.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from probing.states.extraction import Activations

FloatArray = np.ndarray
MEASURES = (
    "mass",  # on the informative word
    "mass_special",  # on [CLS] and [SEP]
    "top1",  # is the largest weight on the informative word?
    "entropy",  # in nats
    "effective_tokens",  # exp(entropy): 1 if one token has it all
    "tokens_95",  # how many tokens hold 95% of the mass
    "gini",  # 0 for uniform weights, towards 1 for one token
)


def sparsity_by_sentence(
    activations: Activations, *, uniform: bool = False
) -> dict[str, FloatArray]:
    """Each measure as an array (sentences, layers, heads); ``uniform`` puts equal weights."""
    if activations.attention is None:
        raise ValueError("the activations hold no attention; extract them with attention=True")
    offsets, informative = activations.offsets, activations.informative
    lengths = np.diff(offsets)
    weights = np.asarray(activations.attention, dtype=np.float64)
    if uniform:
        weights = np.broadcast_to(1 / np.repeat(lengths, lengths)[:, None, None], weights.shape)
    found = {name: np.empty((len(lengths), *weights.shape[1:])) for name in MEASURES}
    found["mass"] = np.add.reduceat(weights * informative[:, None, None], offsets[:-1])
    special = activations.special[:, None, None]
    found["mass_special"] = np.add.reduceat(weights * special, offsets[:-1])
    for length in np.unique(lengths):  # sentences of one length are a rectangular array
        which = np.flatnonzero(lengths == length)
        rows = offsets[which][:, None] + np.arange(length)
        block = weights[rows]  # (sentences, tokens, layers, heads)
        top = block.argmax(axis=1)
        found["top1"][which] = np.take_along_axis(
            informative[rows][:, :, None, None], top[:, None], 1
        )[:, 0]
        entropy = -np.sum(block * np.log(np.maximum(block, 1e-300)), axis=1)
        found["entropy"][which] = entropy
        found["effective_tokens"][which] = np.exp(entropy)
        ordered = -np.sort(-block, axis=1)
        found["tokens_95"][which] = 1 + np.sum(np.cumsum(ordered, axis=1) < 0.95 - 1e-9, axis=1)
        ranks = np.arange(length, 0, -1)[None, :, None, None]  # of the ascending order
        found["gini"][which] = (
            2 * np.sum(ranks * ordered, axis=1) / np.sum(ordered, axis=1) - length - 1
        ) / length
    return found


def sparsity_table(activations: Activations, *, uniform: bool = False) -> pd.DataFrame:
    """Means over sentences, one row a layer and head (both counted from 1)."""
    found = sparsity_by_sentence(activations, uniform=uniform)
    _, n_layers, n_heads = found["mass"].shape
    return pd.DataFrame(
        [
            {"layer": layer + 1, "head": head + 1}
            | {name: float(values[:, layer, head].mean()) for name, values in found.items()}
            for layer in range(n_layers)
            for head in range(n_heads)
        ]
    )


def reading_layer(activations: Activations) -> int:
    """The layer (counted from 1) whose heads look most at the informative word, on these sentences.

    To be chosen on training sentences, and then used on others.
    """
    mass = sparsity_by_sentence(activations)["mass"].mean(axis=(0, 2))
    return int(mass.argmax()) + 1


def attention_mass(activations: Activations, layer: int) -> FloatArray:
    """Per sentence, the mass on the informative word, a mean over the heads of one layer."""
    return sparsity_by_sentence(activations)["mass"][:, layer - 1].mean(axis=1)
