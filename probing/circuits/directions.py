"""Directions in a model's states, and the five overlaps of the theory between them and its weights.

notation: k_hat, v_hat from linear probes on the states that a layer reads stand for k*, v*; the key
and value direction of a head (probing/circuits/heads.py) stand for k, v. All have unit length:
  kappa = k . k*, nu = v . v*, theta = v . k*, eta = k . v*, rho = k . v
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from probing.arrays import FloatArray, cosine, unit
from probing.circuits.heads import Head, abs_cosines, head_directions, random_directions
from probing.probes.linear import LinearProbe
from probing.probes.location import LocationProbe
from probing.sparsity import attention_mass
from probing.states.extraction import read
from probing.states.readout import Readout
from probing.states.tokens import States, Tokens
from slr.overlaps import Overlaps, distance_to_manifold

C = 1.0  # the probes' penalty, in the raw space of the states, as the cosines


@dataclass(frozen=True)
class StateDirections:
    """Unit directions (d,) of location (k) and value (v) in the states of one layer."""

    k_hat: FloatArray  # of a location probe
    v_hat: FloatArray  # of a value probe
    k_difference: FloatArray  # mean informative token minus mean of the others
    v_difference: FloatArray  # mean informative token of label 1 minus that of label 0
    v_standardised: FloatArray  # of a value probe on standardised states, the usual kind of probe
    v_middle: float  # coordinate along v_hat half-way between the means of the two labels
    v_distance: float  # along v_hat, from the mean of label 0 to that of label 1
    v_share: float  # of the variance of informative tokens, along v_hat


def state_directions(states: States, layer: int) -> StateDirections:
    """The directions of one layer (0 is the embeddings), from labelled training sentences.

    The probes are not standardised: weights act on raw states, and cosines depend on the units.

    >>> directions = state_directions(read(model, tokenise(tokenizer, some)), layer=0)
    >>> directions.k_hat @ directions.v_hat
    """
    X, tokens = word_states(states, layer), states.tokens.words_only()
    informative, labels = informative_states(states, layer), tokens.labels
    if set(np.unique(labels)) != {0, 1}:
        raise ValueError(f"the labels must be 0 and 1, not {np.unique(labels).tolist()}")
    location = LocationProbe(C=C, standardize=False).fit(X, tokens)
    value = LinearProbe(C=C, standardize=False).fit(informative, labels)
    standardised = LinearProbe(C=C).fit(informative, labels)
    positive, negative = (informative[labels == label].mean(0) for label in (1, 0))
    along = [float(mean @ value.direction_) for mean in (positive, negative)]
    mask = tokens.informative
    return StateDirections(
        k_hat=location.direction_,
        v_hat=value.direction_,
        k_difference=unit(X[mask].mean(0) - X[~mask].mean(0)),
        v_difference=unit(positive - negative),
        v_standardised=standardised.direction_,
        v_middle=sum(along) / 2,
        v_distance=along[0] - along[1],
        v_share=float(np.var(informative @ value.direction_) / np.var(informative, axis=0).sum()),
    )


def first_component(states: FloatArray) -> FloatArray:
    """The direction (d,) along which states (n, d) vary most."""
    return np.asarray(np.linalg.eigh(np.cov(states, rowvar=False))[1][:, -1])


def word_states(states: States, layer: int) -> FloatArray:
    """The states of all tokens but special ones, in double precision, shape (n_tokens, d)."""
    return np.asarray(states.at(layer)[~states.tokens.special], dtype=float)


def informative_states(states: States, layer: int) -> FloatArray:
    """Mean states over the tokens of the informative word, shape (sentences, d)."""
    mask, starts = states.tokens.informative, states.tokens.offsets[:-1]
    sums = np.add.reduceat(states.at(layer) * mask[:, None], starts)
    return np.asarray(sums / np.add.reduceat(mask, starts, dtype=sums.dtype)[:, None], dtype=float)


def head_overlaps(head: Head, directions: StateDirections) -> Overlaps:
    """The five overlaps of a head's directions with those of the states that the head reads."""
    k, v, k_star, v_star = head.key, head.value, directions.k_hat, directions.v_hat
    pairs = (k, k_star), (v, v_star), (v, k_star), (k, v_star), (k, v)
    return Overlaps(*(cosine(a, b) for a, b in pairs))


def overlap_columns(overlaps: Overlaps) -> dict[str, float]:
    """The five overlaps, and the distance to the invariant manifold, as columns of a table."""
    return overlaps._asdict() | {"distance_to_manifold": float(distance_to_manifold(overlaps))}


def directions_table(
    model: Any,
    tokens: Tokens,
    *,
    readout: Readout | None = None,
    layers: Collection[int] | None = None,
    n_null: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Overlaps of each head's weights with the probes' directions, one row per head.

    Parameters
    ----------
    model
        An encoder or decoder: a classifier, unless a readout is given.
    tokens
        Tokens of labelled training sentences.
    readout
        Replaces the classifier's head, as in ``read``.
    layers
        Layers of states (0 is the embeddings) that the heads read; by default all.
    n_null
        Number of random directions, isotropic (null) and with the covariance of the states
        (covariance_null), of whose |cosine| the 95% quantile is reported.
    seed
        Seed of the random directions.

    >>> tokens = tokenise(tokenizer, dataset["train"].select(range(480)))
    >>> directions_table(model, tokens)[["layer", "head", "kappa", "nu"]]
    """
    states = read(model, tokens, readout)
    if unknown := {*(layers or ())} - {*states.layers}:
        raise ValueError(f"no layer {min(unknown)}; layers are 0 to {states.layers[-1]}")
    mass = attention_mass(states).mean(axis=0)  # (layers, heads)
    below = cache(partial(state_directions, states))
    nulls = cache(partial(_nulls, states, below, n_null, seed))
    rows = []
    for head in head_directions(model, tokens, readout):
        if layers is not None and head.layer - 1 not in layers:
            continue
        directions = below(head.layer - 1)  # a head reads the states of the layer below
        measures = {
            "cosine_of_probes": cosine(directions.k_hat, directions.v_hat),
            "v_share": directions.v_share,
            "attention_mass": float(mass[head.layer - 1, head.head - 1]),
        }
        overlaps = overlap_columns(head_overlaps(head, directions))
        null = nulls(head.layer - 1)
        rows.append({"layer": head.layer, "head": head.head} | overlaps | null | measures)
    return pd.DataFrame(rows)


def _nulls(
    states: States, below: Callable[[int], StateDirections], n: int, seed: int, layer: int
) -> dict[str, float]:
    """The 95% quantiles of |cosine| of the probes' directions with two kinds of random ones."""
    rng = np.random.default_rng([seed, layer])
    words, directions = word_states(states, layer), below(layer)
    axes = {"kappa": directions.k_hat, "nu": directions.v_hat}
    quantiles = {}
    for kind, drawn_as in (("null", None), ("covariance_null", words)):
        random = random_directions(words.shape[1], n, rng, drawn_as)
        for name, axis in axes.items():
            quantiles[f"{name}_{kind}_95"] = float(np.quantile(abs_cosines(axis, random), 0.95))
    return quantiles
