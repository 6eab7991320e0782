"""The causal tests: which directions, at which tokens and layers, carry the prediction?

Edits (directions, means, LEACE) are fitted to training sentences; their effects are measured on
other sentences.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from probing.arrays import FloatArray
from probing.circuits.directions import (
    StateDirections,
    first_component,
    informative_states,
    state_directions,
    word_states,
)
from probing.circuits.heads import random_directions
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
from probing.progress import Progress
from probing.sparsity import attention_mass
from probing.states.anatomy import anatomy_of, read_by
from probing.states.editing import edited
from probing.states.extraction import read
from probing.states.readout import Readout
from probing.states.tokens import States, Tokens
from probing.statistics import accuracy_columns

TESTS = ("erase value", "erase location", "reflect", "steer", "ablate head", "read only")
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
    readout: Readout | None = None  # of a model without a classifier

    def __post_init__(self) -> None:
        for name in ("train", "test"):
            tokens = read_by(self.model, getattr(self, name))
            if not np.isin(tokens.labels, (0, 1)).all():
                raise ValueError(f"the labels of {name} must be 0 and 1")
            object.__setattr__(self, name, tokens)

    def run(self, edit: AbstractContextManager[Any] | None = None) -> States:
        """Attention and logits of the test sentences, under an edit."""
        with edit or nullcontext():
            return read(self.model, self.test, self.readout, states=False)


@dataclass(frozen=True)
class CausalTest:
    """One edit at one site: a row of the table without its effects."""

    test: str
    name: str
    site: str
    edit: Edit
    dose: float = float("nan")  # of steering


def effects(trial: Trial, before: States, after: States, layer: int) -> dict[str, float]:
    """Accuracy with its interval, changed predictions, shift, and attention mass at ``layer``.

    The shift is the mean move of the logit towards the other label, in distances between the mean
    logits of the two labels before the edit: 1 if sentences of one label look like the other's.
    """
    predicted, positive = after.logits > 0, trial.test.labels == 1
    correct = predicted == positive
    distance = before.logits[positive].mean() - before.logits[~positive].mean()
    away = np.where(positive, -1.0, 1.0) * (after.logits - before.logits)
    return accuracy_columns(correct, trial.test.words) | {
        "flips": float(np.mean(predicted != (before.logits > 0))),
        "shift": float(away.mean() / distance) if distance else float("nan"),
        "attention_mass": float(attention_mass(after)[:, layer - 1].mean()),
    }


def causal_table(
    trial: Trial,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    tests: Collection[str] = TESTS,
    n_random: int = 5,
    doses: Sequence[float] = DOSES,
    seed: int = 0,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """All causal tests, one row each: test, edit, site, layer, dose, and the effects.

    Parameters
    ----------
    trial
        The model, with training and test sentences.
    layers
        Layers whose states are edited (0 is the embeddings); by default all.
    heads
        Layers (from 1) whose heads are ablated, one by one and all together, and in which the
        summary's attention is moved; by default all.
    tests
        Which of ``TESTS`` to run.
    n_random
        Number of random directions of each kind, over which each random control is averaged:
        "random" is isotropic, "random (states)" has the covariance of the words' states. The mean
        of several has no interval.
    doses
        Lengths of steering, in distances between the two labels along v_hat.
    seed
        Seed of the random directions.
    progress
        ``progress(done, total)`` counts runs of the model.

    >>> causal_table(Trial(model, train, test), layers=[0])[["test", "edit", "site", "flips"]]
    """
    if isinstance(tests, str) or {*tests} - {*TESTS}:
        raise ValueError(f"tests is a list of names among {', '.join(TESTS)}, not {tests!r}")
    trained, before = read(trial.model, trial.train, trial.readout), trial.run()
    watched, _ = reading_head(trained)
    n_layers = anatomy_of(trial.model).n_layers
    erasing = {"erase value", "erase location"} & {*tests}
    runs: list[tuple[dict[str, Any], AbstractContextManager[Any]]] = []
    for layer in range(n_layers + 1) if layers is None else layers:
        directions, words = state_directions(trained, layer), word_states(trained, layer)
        rng = np.random.default_rng([seed, layer])
        draw = partial(random_directions, words.shape[1], n_random, rng)
        random = {"random": draw(), "random (states)": draw(words)}
        erasures = _erasures(trial, trained, directions, layer, random) if erasing else ()
        for test in (*erasures, *_turns(trial, trained, directions, layer, random, doses)):
            if test.test not in tests:
                continue
            row = {"test": test.test, "edit": test.name, "site": test.site, "layer": layer}
            edit = edited(trial.model, layer, test.edit, trial.test.site(test.site))
            runs.append((row | {"dose": test.dose}, edit))
    for layer in range(1, n_layers + 1) if heads is None else heads:
        runs += [run for run in _head_tests(trial, layer) if run[0]["test"] in tests]
    measured = partial(effects, trial, before, layer=watched)
    keys = ["test", "edit", "site", "layer", "dose"]  # tests of heads alone have no dose
    unedited = dict.fromkeys(keys, float("nan")) | {"test": "none", "edit": "none"}
    rows: list[dict[str, Any]] = [unedited | measured(before)]
    for done, (row, context) in enumerate(runs, 1):
        rows.append(row | measured(trial.run(context)))
        if progress:
            progress(done, len(runs))
    # The effects of several random directions are averaged; a mean of ends is not an interval.
    groups = pd.DataFrame(rows).groupby(keys, sort=False, dropna=False)
    table = groups.mean().astype({"words": int})
    table.loc[groups.size() > 1, ["low", "high"]] = np.nan
    return table.reset_index()


def _erasures(
    trial: Trial,
    trained: States,
    directions: StateDirections,
    layer: int,
    random: dict[str, FloatArray],
) -> Iterator[CausalTest]:
    """Edits that erase the label (at the informative token, the distractor and the summary) or the
    location (at all words).

    A direction of small variance is easily missed, so there are two more controls at the
    informative token: the first principal component of all words, and that of what is left of them
    without v_hat.
    """
    labels, states = trial.train.labels, informative_states(trained, layer)
    words, v_hat = word_states(trained, layer), directions.v_hat
    by_name = {"mean difference": directions.v_difference, "LEACE": None}
    by_name |= {"probe direction": v_hat, **random}
    by_name |= {"standardised probe": directions.v_standardised}
    large = {"first component": first_component(words)}
    large["first component across v_hat"] = first_component(words - np.outer(words @ v_hat, v_hat))
    isotropic = {"random": random["random"]}
    here_only = {*large, *random} - {*isotropic}
    by_name |= large
    for site in ("informative", "distractor", "summary"):
        if not bool(trial.test.site(site).any()):
            continue
        if site == "summary":  # directions there; those above are of the informative word
            states = trained.at(layer)[trial.train.summary].astype(float)
            positive, negative = (states[labels == label].mean(0) for label in (1, 0))
            by_name = {"mean difference": positive - negative, "LEACE": None, **isotropic}
            if np.linalg.norm(positive - negative) < 1e-8:
                continue  # at the embeddings [CLS] does not depend on the label
        for name, edit in _erasers(by_name, states, labels):
            if name not in here_only or site == "informative":
                yield CausalTest("erase value", name, site, edit)
    by_name = {"mean difference": directions.k_difference, "LEACE": None}
    by_name |= {"probe direction": directions.k_hat, **random}
    informative = trained.tokens.words_only().informative
    for name, edit in _erasers(by_name, words, informative):
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
            yield name, Erase(direction, float(middle @ direction))


def _turns(
    trial: Trial,
    trained: States,
    directions: StateDirections,
    layer: int,
    random: dict[str, FloatArray],
    doses: Sequence[float],
) -> Iterator[CausalTest]:
    """Edits that reflect and steer the informative token along v_hat and random directions."""
    mean = informative_states(trained, layer).mean(0)
    # For each informative token, the distance to the other label.
    labels = np.repeat(trial.test.labels, trial.test.lengths)[trial.test.informative]
    away = np.where(labels == 1, -1.0, 1.0) * directions.v_distance
    if trial.test.distractor.any():  # the control: another word, edited in the same way
        edit = Reflect(directions.v_hat, directions.v_middle)
        yield CausalTest("reflect", "v_hat", "distractor", edit)
    controls = [(name, axis) for name, axes in random.items() for axis in axes]
    for name, axis in (("v_hat", directions.v_hat), *controls):
        middle = directions.v_middle if name == "v_hat" else float(mean @ axis)
        yield CausalTest("reflect", name, "informative", Reflect(axis, middle))
        for dose in doses:
            yield CausalTest("steer", name, "informative", Steer(axis, dose * away), dose)


def _head_tests(
    trial: Trial, layer: int
) -> Iterator[tuple[dict[str, Any], AbstractContextManager[None]]]:
    """Edits that ablate heads, one by one and all, or set what the summary token reads."""
    pairs = [(layer, head + 1) for head in range(anatomy_of(trial.model).n_heads)]
    silenced = {f"head {pair[1]}": [pair] for pair in pairs} | {"all heads": pairs}
    row = {"site": "summary", "layer": layer}
    for name, which in silenced.items():
        yield {"test": "ablate head", "edit": name} | row, without_heads(trial.model, which)
    for site in ("informative", "distractor"):
        if bool(trial.test.site(site).any(1).all()):
            moved = reading_only(trial.model, layer, trial.test, site)
            yield {"test": "read only", "edit": site} | row, moved
