"""Directions in weights: by their definition, and in a model where they are known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from planted import K, V, planted_model

from probing.arrays import cosine
from probing.circuits.directions import (
    StateDirections,
    directions_table,
    first_component,
    head_overlaps,
    overlap_columns,
    state_directions,
)
from probing.circuits.heads import Head, abs_cosines, head_directions, random_directions
from probing.circuits.interventions import reading_only
from probing.circuits.readouts import linear_readout
from probing.models.pretrained import untrained_like
from probing.sentences import draw_by_word
from probing.sparsity import attention_mass
from probing.states.anatomy import read_by
from probing.states.extraction import read
from probing.states.tokens import Tokens, tokenise
from slr import Overlaps


@pytest.fixture(scope="module")
def planted(sentiment: Any) -> Any:
    model, tokenizer = planted_model(sentiment["train"]["text"][:])
    parts = {
        name: tokenise(tokenizer, sentiment[name].select(draw_by_word(sentiment[name], 120)))
        for name in ("train", "test")
    }
    return model, parts


def test_the_planted_model_does_what_it_was_planted_for(planted: Any) -> None:
    model, parts = planted
    tokens = parts["test"]
    states = read(model, tokens)
    assert ((states.logits > 0) == (tokens.labels == 1)).all()
    assert attention_mass(states).mean() > 0.95
    distracted = replace(states, tokens=replace(tokens, informative=tokens.distractor))
    assert attention_mass(distracted).mean() < 0.05


def test_masks_mark_the_words_they_name(planted: Any, sentiment: Any) -> None:
    model, parts = planted
    tokens: Tokens = read_by(model, parts["test"])
    informative, distractor = (tokens.site(name) for name in ("informative", "distractor"))
    assert (informative.sum(1) == 1).all(), "one token per word: a word-level tokenizer"
    assert (distractor.sum(1) == 1).all()
    assert not bool((informative & distractor).any())
    assert not bool((tokens.site("summary") & tokens.site("all words")).any())
    assert np.bincount(tokens.labels).tolist() == [60, 60], "every word equally often"


def test_scores_of_tokens_are_products_with_the_key_direction(planted: Any) -> None:
    """Attention is a softmax of x . key / sqrt(size): differences of its logarithm show that."""
    _, parts = planted
    model, tokens = untrained_like(planted[0], seed=3), parts["train"]
    states = read(model, tokens)
    (head,) = head_directions(model, tokens)
    first = tokens.offsets[:-1, None] + np.arange(6)
    scores = states.at(0)[first] @ head.key / np.sqrt(model.config.hidden_size)
    logs = np.log(states.attention[first, 0, 0])
    for a, b in ((1, 2), (3, 5)):  # the first tokens of a sentence are never padding
        assert logs[:, a] - logs[:, b] == pytest.approx(scores[:, a] - scores[:, b], abs=1e-5)


def test_the_value_direction_is_what_reading_a_token_does_to_the_logits(planted: Any) -> None:
    """Where [CLS] reads one token alone, that token acts by its value only: finite differences."""
    _, parts = planted
    model, tokens = untrained_like(planted[0], seed=3), parts["train"]
    with torch.no_grad():  # logits that are large enough to be compared
        model.classifier.weight.mul_(50)
    with reading_only(model, 1, tokens, "informative"):
        (head,) = head_directions(model, tokens)
        rng = np.random.default_rng(0)
        values = model.bert.encoder.layer[0].attention.self.value
        for _ in range(3):
            u = torch.tensor(rng.standard_normal(len(head.value)), dtype=torch.float32)
            moved = []
            for step in (1e-2, -1e-2):
                # x + step u reaches the readout only as W_V (x + step u).
                hook = values.register_forward_hook(
                    lambda module, args, out, s=step, u=u: out + s * (module.weight @ u),
                    prepend=True,
                )
                moved.append(read(model, tokens).logits.mean())
                hook.remove()
            assert (moved[0] - moved[1]) / 2e-2 == pytest.approx(
                float(head.value @ u.numpy()), rel=0.02, abs=1e-4
            )


def test_planted_directions_are_found_in_weights_and_states(planted: Any) -> None:
    model, parts = planted
    table = directions_table(model, parts["train"])
    (row,) = table.to_dict("records")
    assert row["kappa"] > 0.8
    assert row["nu"] > 0.8
    assert row["distance_to_manifold"] < 0.3
    assert row["kappa_null_95"] < 0.4
    at = state_directions(read(model, parts["train"]), 0)
    assert np.argmax(np.abs(at.k_hat)) == K
    assert np.argmax(np.abs(at.v_hat)) == V
    assert row["v_share"] == at.v_share
    assert at.v_share < 0.95, "the planted words differ in their other coordinates, too"
    # The control: weights that nobody planted are no closer than random directions.
    untrained = directions_table(untrained_like(model), parts["train"]).iloc[0]
    assert abs(untrained["kappa"]) < 0.6
    assert abs(untrained["nu"]) < 0.6


def test_an_encoder_without_a_classifier_is_read_by_a_probe(planted: Any) -> None:
    model, parts = planted
    readout = linear_readout(model.bert, parts["train"])
    logits = read(model.bert, parts["test"], readout).logits
    assert np.mean((logits > 0) == (parts["test"].labels == 1)) > 0.9
    assert len(directions_table(model.bert, parts["train"], readout=readout)) == 1


def test_random_cosines_have_the_spread_of_their_dimension() -> None:
    rng = np.random.default_rng(0)
    null = abs_cosines(np.arange(1.0, 65.0), random_directions(64, 20_000, rng))
    # In d dimensions a random cosine has variance 1/d.
    assert np.sqrt((null**2).mean()) == pytest.approx(1 / 8, rel=0.03)
    assert cosine(np.array([1.0, 0]), np.array([1.0, 1])) == pytest.approx(np.sqrt(0.5))
    assert cosine(np.zeros(2), np.ones(2)) == 0


def test_the_first_component_is_where_states_vary_most() -> None:
    rng = np.random.default_rng(0)
    axis = np.array([3.0, 4.0, 0.0]) / 5
    states = rng.standard_normal((500, 1)) * 5 * axis + rng.standard_normal((500, 3)) + 7
    assert abs(first_component(states) @ axis) == pytest.approx(1, abs=0.01)


def test_overlaps_are_those_of_the_theory() -> None:
    e = np.eye(3)

    def overlaps(key: Any, value: Any, k_hat: Any, v_hat: Any) -> Overlaps:
        directions = StateDirections(k_hat, v_hat, k_hat, v_hat, v_hat, 0.0, 1.0, 1.0)
        return head_overlaps(Head(1, 1, key, value), directions)

    found = overlaps(e[0], e[1], e[0], (e[1] + e[2]) / np.sqrt(2))
    assert found.kappa == 1
    assert found.nu == pytest.approx(np.sqrt(0.5))
    assert overlap_columns(found)["distance_to_manifold"] == 0
    swapped = overlaps(e[1], e[0], e[0], e[1])
    assert (swapped.kappa, swapped.eta, swapped.theta) == (0, 1, 1)
    assert overlap_columns(swapped)["distance_to_manifold"] == pytest.approx(np.sqrt(2))
