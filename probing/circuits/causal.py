"""The causal tests: which directions, at which tokens and layers, carry the prediction?

Edits (directions, means, LEACE) are fitted to training sentences; their effects are measured on
other sentences.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from probing.arrays import FloatArray
from probing.circuits.directions import (
    StateDirections,
    informative_states,
    state_directions,
    word_states,
)
from probing.circuits.interventions import (
    Edit,
    Erase,
    Leace,
    Reflect,
    Steer,
    reading_only,
    without_heads,
)
from probing.circuits.learning import reading_head
from probing.sparsity import attention_mass
from probing.states.anatomy import attention_layers, blocks_of
from probing.states.extraction import Readout, read
from probing.states.recording import edited
from probing.states.tokens import States, Tokens
from probing.statistics import accuracy_columns

DOSES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class Trial:
    """A model, the training sentences that edits are fitted to, and the test sentences.

    >>> train, test = (tokenise(tokenizer, dataset[name]) for name in ("train", "test"))
    >>> Trial(model, train, test)
    """

    model: Any
    train: Tokens
    test: Tokens
    readout: Readout | None = None

    def run(self, edit: AbstractContextManager[Any] | None = None) -> States:
        """The states of the test sentences, under an edit."""
        with edit or nullcontext():
            return read(self.model, self.test, self.readout)


@dataclass(frozen=True)
class CausalTest:
    """One edit at one site: a row of the table without its effects."""

    test: str
    name: str
    site: str
    edit: Edit
    dose: float = float("nan")  # of steering


def effects(trial: Trial, before: States, after: States, layer: int) -> dict[str, float]:
    """Accuracy with its interval, share of changed predictions, and attention mass at ``layer``."""
    predicted = after.logits > 0
    correct = predicted == (trial.test.labels == 1)
    return accuracy_columns(correct, trial.test.clusters, n_resamples=500) | {
        "flips": float(np.mean(predicted != (before.logits > 0))),
        "attention_mass": float(attention_mass(after)[:, layer - 1].mean()),
    }


def causal_table(
    trial: Trial,
    *,
    layers: Sequence[int] | None = None,
    heads: bool = True,
    n_random: int = 5,
    doses: Sequence[float] = DOSES,
    seed: int = 0,
) -> pd.DataFrame:
    """All causal tests, one row each: test, edit, site, layer, dose, and the effects.

    Parameters
    ----------
    trial
        The model, with training and test sentences. Required: a BERT-like encoder for ``heads``.
    layers
        Layers whose states are edited (0 is the embeddings); by default all.
    heads
        Also ablate heads, one by one and all of a layer, and move the attention of [CLS].
    n_random
        Number of random directions, over which each random control is averaged.
    doses
        Lengths of steering, in distances between the two labels along v_hat.
    seed
        Seed of the random directions.

    >>> causal_table(Trial(model, train, test), layers=[0])[["test", "edit", "site", "flips"]]
    """
    trained, before = read(trial.model, trial.train, trial.readout), trial.run()
    watched, _ = reading_head(trained)
    measured = partial(effects, trial, before, layer=watched)
    rows: list[dict[str, Any]] = [{"test": "none", "edit": "none", **measured(before)}]
    for layer in layers if layers is not None else range(len(blocks_of(trial.model)) + 1):
        directions = state_directions(trained, layer)
        shape = (n_random, len(directions.v_hat))
        random = np.random.default_rng([seed, layer]).standard_normal(shape)
        for test in (
            *_erasures(trial, trained, directions, layer, random),
            *_turns(trial, trained, directions, layer, random, doses),
        ):
            mask = trial.test.site(test.site)
            after = trial.run(edited(trial.model, layer, test.edit, mask))
            row = {"test": test.test, "edit": test.name, "site": test.site, "layer": layer}
            rows.append(row | {"dose": test.dose} | measured(after))
    for row, context in _head_tests(trial) if heads else ():
        rows.append(row | measured(trial.run(context)))
    keys = ["test", "edit", "site", "layer", "dose"]
    # The effects of several random directions are averaged.
    return pd.DataFrame(rows).groupby(keys, sort=False, dropna=False).mean().reset_index()


def _erasures(
    trial: Trial, trained: States, directions: StateDirections, layer: int, random: FloatArray
) -> Iterator[CausalTest]:
    """Edits that erase the label (at the informative token, the distractor and [CLS]) or the
    location (at all words).
    """
    labels, states = trial.train.labels, informative_states(trained, layer)
    by_name = {"mean difference": directions.v_difference, "LEACE": None}
    by_name |= {"probe direction": directions.v_hat, "random": random}
    by_name |= {"standardised probe": directions.v_standardised}
    for site in ("informative", "distractor", "summary"):
        if not bool(trial.test.site(site).any()):
            continue
        if site == "summary":  # directions at [CLS]; those above are of the informative word
            states = trained.at(layer)[trial.train.offsets[:-1]].astype(float)
            positive, negative = (states[labels == label].mean(0) for label in (1, 0))
            by_name = {"mean difference": positive - negative, "LEACE": None, "random": random}
            if np.linalg.norm(positive - negative) < 1e-8:
                continue  # at the embeddings [CLS] does not depend on the label
        for name, edit in _erasers(by_name, states, labels):
            yield CausalTest("erase value", name, site, edit)
    by_name = {"mean difference": directions.k_difference, "LEACE": None}
    by_name |= {"probe direction": directions.k_hat, "random": random}
    informative = trained.tokens.words_only().informative
    for name, edit in _erasers(by_name, word_states(trained, layer), informative):
        yield CausalTest("erase location", name, "all words", edit)


def _erasers(
    by_name: dict[str, FloatArray | None], states: FloatArray, concept: FloatArray
) -> Iterator[tuple[str, Edit]]:
    """Edits that set the coordinate along each direction to its mean; None stands for LEACE."""
    middle = states.mean(0)
    for name, directions in by_name.items():
        if directions is None:
            yield name, Leace.fit(states, concept)
            continue
        for direction in np.atleast_2d(directions):
            yield name, Erase(direction, _along(direction, middle))


def _turns(
    trial: Trial,
    trained: States,
    directions: StateDirections,
    layer: int,
    random: FloatArray,
    doses: Sequence[float],
) -> Iterator[CausalTest]:
    """Edits that reflect and steer the informative token along v_hat and random directions."""
    mean = informative_states(trained, layer).mean(0)
    # For each informative token, the distance to the other label.
    labels = np.repeat(trial.test.labels, trial.test.lengths)[trial.test.informative]
    away = np.where(labels == 1, -1.0, 1.0) * directions.v_distance
    for name, axis in (("v_hat", directions.v_hat), *(("random", u) for u in random)):
        middle = directions.v_middle if name == "v_hat" else _along(axis, mean)
        yield CausalTest("reflect", name, "informative", Reflect(axis, middle))
        for dose in doses:
            yield CausalTest("steer", name, "informative", Steer(axis, dose * away), dose)


def _head_tests(trial: Trial) -> Iterator[tuple[dict[str, Any], AbstractContextManager[None]]]:
    """Edits that ablate heads, one by one and all of a layer, or set the attention of [CLS]."""
    for layer, attention in enumerate(attention_layers(trial.model), start=1):
        pairs = [(layer, head + 1) for head in range(attention.self.num_attention_heads)]
        silenced = {f"head {pair[1]}": [pair] for pair in pairs} | {"all heads": pairs}
        row = {"site": "summary", "layer": layer}
        for name, which in silenced.items():
            yield {"test": "ablate head", "edit": name} | row, without_heads(trial.model, which)
        for site in ("informative", "distractor"):
            mask = trial.test.site(site)
            if bool(mask.any(1).all()):
                moved = reading_only(trial.model, layer, mask)
                yield {"test": "read only", "edit": site} | row, moved


def _along(direction: FloatArray, point: FloatArray) -> float:
    return float(point @ direction / np.linalg.norm(direction))
