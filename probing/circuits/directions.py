"""Directions in a model's states, and the five overlaps of the theory between them and its weights.

notation: k_hat, v_hat from linear probes on the states that a layer reads stand for k*, v*; the key
and value direction of a head (probing/circuits/heads.py) stand for k, v. All at unit length:
  kappa = k . k*, nu = v . v*, theta = v . k*, eta = k . v*, rho = k . v
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from probing.circuits.heads import cosine, head_directions, null_cosines
from probing.probes.linear import LinearProbe, LocationProbe
from probing.probes.logistic import FloatArray, unit
from probing.states.batch import Readout, Run, TokenBatch, run_batch

C = 1.0  # the probes' penalty, in the raw space of the states, where cosines are taken too


@dataclass(frozen=True)
class StateDirections:
    """Of one layer's states: where to look and what to read, and differences of means."""

    k_hat: FloatArray  # of a location probe
    v_hat: FloatArray  # of a value probe
    k_difference: FloatArray  # mean informative token minus mean of the others
    v_difference: FloatArray  # mean informative token of label 1 minus that of label 0
    v_standardised: FloatArray  # of a value probe on standardised states, as probes mostly are
    v_middle: float  # along v_hat, half-way between the two labels
    v_distance: float  # along v_hat, from one label to the other


def state_directions(run: Run, batch: TokenBatch, layer: int) -> StateDirections:
    """Of the states at one layer (0 is the embeddings).

    The probes are not standardised: weights act on raw states, and a direction found in other
    units has another cosine with them.
    """
    states = run.states[layer][batch.content].numpy().astype(float)
    offsets = np.append(0, np.cumsum(batch.content.sum(1).numpy()))
    marked = batch.informative[batch.content].numpy()
    read = informative_states(run, batch, layer)
    where = LocationProbe(C=C, standardize=False).fit(states, offsets, marked)
    what = LinearProbe(C=C, standardize=False).fit(read, batch.labels)
    usual = LinearProbe(C=C).fit(read, batch.labels)
    one, other = (read[batch.labels == label].mean(0) for label in (1, 0))
    along = [float(mean @ what.direction_) for mean in (one, other)]
    return StateDirections(
        k_hat=where.direction_,
        v_hat=what.direction_,
        k_difference=unit(states[marked].mean(0) - states[~marked].mean(0)),
        v_difference=unit(one - other),
        v_standardised=usual.direction_,
        v_middle=sum(along) / 2,
        v_distance=along[0] - along[1],
    )


def informative_states(run: Run, batch: TokenBatch, layer: int) -> FloatArray:
    """Mean over the tokens of the informative word, shape (n, d)."""
    weights = batch.informative.float()
    sums = torch.einsum("nt,ntd->nd", weights, run.states[layer])
    return np.asarray(sums / weights.sum(1, keepdim=True), dtype=float)


def overlaps(key: FloatArray, value: FloatArray, k_hat: FloatArray, v_hat: FloatArray) -> Any:
    """The five of the theory, and the distance to its invariant manifold."""
    five = {
        "kappa": cosine(key, k_hat),
        "nu": cosine(value, v_hat),
        "theta": cosine(value, k_hat),
        "eta": cosine(key, v_hat),
        "rho": cosine(key, value),
    }
    distance = np.sqrt(five["theta"] ** 2 + five["eta"] ** 2 + five["rho"] ** 2)
    return five | {"distance_to_manifold": float(distance)}


def directions_table(
    model: Any,
    batch: TokenBatch,
    *,
    readout: Readout | None = None,
    n_null: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """One row a head: overlaps of its weights with the probes' directions, and the null's 95%.

    ``batch`` holds training sentences; ``readout`` as for run_batch.
    """
    run = run_batch(model, batch, readout)
    rng = np.random.default_rng(seed)
    layers: dict[int, StateDirections] = {}
    rows = []
    for head in head_directions(model, batch, readout):
        if head.layer not in layers:  # a head reads the states of the layer below
            layers[head.layer] = state_directions(run, batch, head.layer - 1)
        at = layers[head.layer]
        null = {
            f"{name}_null_95": float(np.quantile(null_cosines(direction, n_null, rng), 0.95))
            for name, direction in (("kappa", at.k_hat), ("nu", at.v_hat))
        }
        mass = run.attention[head.layer - 1][:, head.head - 1] * batch.informative
        five = overlaps(head.key, head.value, at.k_hat, at.v_hat)
        probes = {
            "cosine_of_probes": cosine(at.k_hat, at.v_hat),
            "attention_mass": float(mass.sum(1).mean()),
        }
        rows.append({"layer": head.layer, "head": head.head} | five | null | probes)
    return pd.DataFrame(rows)


def mean_readout(model: Any, batch: TokenBatch) -> Readout:
    """For a model without a classifier: a linear probe on the mean of its last token states."""

    def pooled(states: torch.Tensor, content: torch.Tensor) -> torch.Tensor:
        weights = content.float()
        return torch.einsum("nt,ntd->nd", weights, states) / weights.sum(1, keepdim=True)

    run = run_batch(model, batch, lambda states, content: states[:, 0, 0])
    probe = LinearProbe(C=0.01).fit(pooled(run.states[-1], batch.content).numpy(), batch.labels)
    coef = torch.as_tensor(probe.coef_, dtype=torch.float32)
    return lambda states, content: pooled(states, content) @ coef + probe.intercept_
