"""The causal tests: which directions, at which tokens and layers, carry the prediction?

Everything an edit needs (directions, means, LEACE) comes from training sentences; effects are
those on other sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from probing.circuits.directions import StateDirections, informative_states, state_directions
from probing.circuits.heads import attention_layers
from probing.circuits.interventions import (
    Edit,
    edited,
    erase,
    leace,
    reading_only,
    reflect,
    steer,
    without_heads,
)
from probing.circuits.learning import reading_head
from probing.states.batch import Readout, Run, TokenBatch, run_batch
from probing.statistics import cluster_bootstrap

DOSES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class Bench:
    """A model, the training sentences that edits come from, and those that they are tried on."""

    model: Any
    train: TokenBatch
    test: TokenBatch
    readout: Readout | None = None

    def run(self, edit: AbstractContextManager[Any] | None = None) -> Run:
        with edit or nullcontext():
            return run_batch(self.model, self.test, self.readout)

    def trained(self) -> Run:
        return run_batch(self.model, self.train, self.readout)

    @property
    def n_layers(self) -> int:
        return len(attention_layers(self.model))

    def site(self, name: str, batch: TokenBatch) -> torch.Tensor:
        return {
            "informative": batch.informative,
            "distractor": batch.distractor,
            "cls": batch.cls,
            "all words": batch.content,
        }[name]


def effects(bench: Bench, before: Run, after: Run, layer: int, seed: int = 0) -> dict[str, float]:
    """Accuracy with its interval, changed predictions, attention on the informative word."""
    correct = (after.logits > 0) == (bench.test.labels == 1)
    rng = np.random.default_rng(seed)
    interval = cluster_bootstrap(correct, bench.test.clusters, rng=rng, n_resamples=500)
    return {
        "accuracy": interval.value,
        "low": interval.low,
        "high": interval.high,
        "flips": float(np.mean((after.logits > 0) != (before.logits > 0))),
        "attention_mass": float(after.mass(bench.test.informative, layer).mean()),
    }


def causal_table(
    bench: Bench,
    *,
    layers: list[int] | None = None,
    heads: bool = True,
    n_random: int = 5,
    doses: Sequence[float] = DOSES,
    seed: int = 0,
) -> pd.DataFrame:
    """All tests, one row each: test, edit, site, layer, dose, and the effects.

    ``n_random`` directions make up each random control; ``heads`` also ablates head by head;
    ``doses`` of steering are in distances between the labels.
    """
    trained, before = bench.trained(), bench.run()
    watched, _ = reading_head(trained, bench.train)
    rows = [{"test": "none", "edit": "none", **effects(bench, before, before, watched)}]
    for layer in layers if layers is not None else range(bench.n_layers + 1):
        at = state_directions(trained, bench.train, layer)
        random = np.random.default_rng([seed, layer]).standard_normal((n_random, len(at.v_hat)))
        tests = [
            *_erasures(bench, trained, at, layer, random),
            *_location_erasures(bench, trained, at, layer, random),
            *_turns(bench, trained, at, layer, random, doses),
        ]
        for name, edit, site, dose, change in tests:
            mask = bench.site(site, bench.test)
            after = bench.run(edited(bench.model, layer, change, mask))
            row = {"test": name, "edit": edit, "site": site, "layer": layer, "dose": dose}
            rows.append(row | effects(bench, before, after, watched))
    if heads:
        rows += _head_rows(bench, before, watched)
    table = pd.DataFrame(rows)
    keys = ["test", "edit", "site", "layer", "dose"]
    # Several random directions: their mean effect.
    return table.groupby(keys, sort=False, dropna=False).mean().reset_index()


def _erasures(
    bench: Bench, trained: Run, at: StateDirections, layer: int, random: np.ndarray
) -> list[tuple[str, str, str, float, Edit]]:
    """Erase what tells the labels apart: at the informative token, the distractor, [CLS]."""
    read = informative_states(trained, bench.train, layer)
    centre = read.mean(0)
    tests = []
    for site in ("informative", "distractor", "cls"):
        if not bool(bench.site(site, bench.test).any()):
            continue
        states, concept, middle = read, bench.train.labels, centre
        difference, probe = at.v_difference, at.v_hat
        if site == "cls":  # the label as [CLS] holds it
            states = trained.states[layer][:, 0].numpy().astype(float)
            one, other = (states[concept == label].mean(0) for label in (1, 0))
            difference, middle = one - other, states.mean(0)
            if np.linalg.norm(difference) < 1e-8:
                continue  # below the first layer [CLS] knows nothing: there is nothing to erase
            probe = difference
        edits = {
            "mean difference": [erase(difference, _along(difference, middle))],
            "LEACE": [leace(states, concept)],
            "probe direction": [erase(probe, _along(probe, middle))],
            "random": [erase(u, _along(u, middle)) for u in random],
        }
        if site == "cls":
            del edits["probe direction"]
        else:
            usual = at.v_standardised
            edits["standardised probe"] = [erase(usual, _along(usual, middle))]
        tests += [
            ("erase value", name, site, np.nan, edit)
            for name, several in edits.items()
            for edit in several
        ]
    return tests


def _location_erasures(
    bench: Bench, trained: Run, at: StateDirections, layer: int, random: np.ndarray
) -> list[tuple[str, str, str, float, Edit]]:
    """Erase, at all words, what tells the informative token from the others."""
    states = trained.states[layer][bench.train.content].numpy().astype(float)
    marked = bench.train.informative[bench.train.content].numpy()
    centre = states.mean(0)
    edits = {
        "mean difference": [erase(at.k_difference, _along(at.k_difference, centre))],
        "LEACE": [leace(states, marked)],
        "probe direction": [erase(at.k_hat, _along(at.k_hat, centre))],
        "random": [erase(u, _along(u, centre)) for u in random],
    }
    return [
        ("erase location", name, "all words", np.nan, edit)
        for name, several in edits.items()
        for edit in several
    ]


def _turns(
    bench: Bench,
    trained: Run,
    at: StateDirections,
    layer: int,
    random: np.ndarray,
    doses: Sequence[float],
) -> list[tuple[str, str, str, float, Edit]]:
    """Reflect and steer the informative token along v_hat, and along random directions."""
    read = informative_states(trained, bench.train, layer)
    directions = {"v_hat": [at.v_hat], "random": list(random)}
    # Towards the other label, for each token of the mask.
    owner = np.repeat(bench.test.labels, bench.test.informative.sum(1).numpy())
    away = np.where(owner == 1, -1.0, 1.0)
    tests = []
    for name, several in directions.items():
        for u in several:
            middle = at.v_middle if name == "v_hat" else _along(u, read.mean(0))
            tests.append(("reflect", name, "informative", np.nan, reflect(u, middle)))
            tests += [
                ("steer", name, "informative", dose, steer(u, dose * at.v_distance * away))
                for dose in doses
            ]
    return tests


def _head_rows(bench: Bench, before: Run, watched: int) -> list[dict[str, Any]]:
    rows = []
    layers = attention_layers(bench.model)
    for layer in range(1, len(layers) + 1):
        heads = range(1, layers[layer - 1].attention.self.num_attention_heads + 1)
        contexts: list[tuple[str, str, Any]] = [
            ("ablate head", f"head {head}", without_heads(bench.model, [(layer, head)]))
            for head in heads
        ]
        every = [(layer, head) for head in heads]
        contexts.append(("ablate head", "all heads", without_heads(bench.model, every)))
        for site in ("informative", "distractor"):
            mask = bench.site(site, bench.test)
            if bool(mask.any(1).all()):
                contexts.append(("read only", site, reading_only(bench.model, layer, mask)))
        for test, edit, context in contexts:
            after = bench.run(context)
            row = {"test": test, "edit": edit, "site": "cls", "layer": layer}
            rows.append(row | effects(bench, before, after, watched))
    return rows


def _along(direction: np.ndarray, point: np.ndarray) -> float:
    return float(point @ direction / np.linalg.norm(direction))
