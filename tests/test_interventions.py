"""Edits do what they say, leave nothing behind, and act where the truth was planted."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from planted import V, planted_model
from small_models import D_MODEL, N_LAYERS, bert, byte_level, gpt2

from probing.circuits.causal import CausalTest, Trial, causal_table
from probing.circuits.directions import informative_states
from probing.circuits.heads import random_directions
from probing.circuits.interventions import (
    Erase,
    Leace,
    Reflect,
    Steer,
    reading_only,
    without_heads,
)
from probing.probes.linear import LinearProbe
from probing.sentences import draw_by_word
from probing.states.editing import edited
from probing.states.extraction import extract, read
from probing.states.recording import recorded
from probing.states.tokens import tokenise


@pytest.fixture(scope="module")
def trial(sentiment: Any) -> Trial:
    model, tokenizer = planted_model(sentiment["train"]["text"][:])
    train, test = (
        tokenise(tokenizer, sentiment[name].select(draw_by_word(sentiment[name], 240)))
        for name in ("train", "test")
    )
    return Trial(model, train, test)


@pytest.fixture(scope="module")
def table(trial: Trial) -> pd.DataFrame:
    return causal_table(trial)


def hooks_of(model: Any) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()
    )


def row(table: pd.DataFrame, **where: Any) -> Any:
    for column, value in where.items():
        table = table[table[column] == value]
    assert len(table) == 1
    return table.iloc[0]


# ---- edits of states


def test_at_and_middle_are_values_of_the_direction_as_given() -> None:
    """So ``mean @ axis`` means the same for an axis of any length, and the rest stays."""
    rng = np.random.default_rng(0)
    states = torch.tensor(rng.standard_normal((5, 4)), dtype=torch.float32)
    axis = torch.tensor([2.0, -4.0, 1.0, 2.0])  # of length 5
    erased, mirrored = Erase(axis, 0.7)(states), Reflect(axis, 0.7)(states)
    assert (erased @ axis).numpy() == pytest.approx(0.7, abs=1e-5)
    assert (mirrored @ axis).numpy() == pytest.approx(1.4 - (states @ axis).numpy(), abs=1e-5)
    for after in (erased, mirrored):
        moves = (after - states) / axis  # along the axis alone
        assert moves.numpy() == pytest.approx(moves[:, :1].expand(5, 4).numpy(), abs=1e-6)


def test_a_random_axis_at_the_mean_flips_as_little_when_it_is_long(trial: Trial) -> None:
    """A mirror off the mean moves the states a long way, along any axis."""
    before = read(trial.model, trial.train)
    mean = informative_states(before, 0).mean(0)
    axes = random_directions(len(mean), 5, np.random.default_rng(0))
    for axis in (*axes, *10 * axes):
        edit = Reflect(axis, mean @ axis)
        with edited(trial.model, 0, edit, trial.train.site("informative")):
            after = read(trial.model, trial.train, states=False).logits
        assert np.mean((after > 0) != (before.logits > 0)) <= 0.05


def test_a_reflection_is_its_own_inverse_and_steering_adds() -> None:
    states = torch.randn((5, 4), generator=torch.Generator().manual_seed(0))
    edit = Reflect(np.array([1.0, 0, 0, 0]), 0.5)
    assert edit(states)[:, 0].numpy() == pytest.approx(1 - states[:, 0].numpy(), abs=1e-6)
    assert edit(edit(states)).numpy() == pytest.approx(states.numpy(), abs=1e-6)
    moved = Steer(np.array([0, 2.0, 0, 0]), np.arange(5.0))(states) - states
    assert moved[:, 1].numpy() == pytest.approx(np.arange(5.0), abs=1e-5)
    assert moved[:, [0, 2, 3]].abs().max() < 1e-6


def test_after_leace_no_linear_probe_finds_the_concept() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X = rng.standard_normal((400, 6)) @ rng.standard_normal((6, 6))
    X[:, 2] += 3 * y
    before = LinearProbe(C=1.0).fit(X, y).score(X, y)
    Z = Leace.fit(X, y)(torch.tensor(X)).numpy()
    # Equal class means: the best linear predictor of the concept is a constant.
    assert Z[y == 1].mean(0) == pytest.approx(Z[y == 0].mean(0), abs=1e-8)
    after = LinearProbe(C=1.0).fit(Z, y).score(Z, y)
    assert before > 0.9
    assert after < 0.6


def test_an_edit_is_a_value_that_can_be_printed_compared_and_moved() -> None:
    u = np.array([3.0, 4.0])
    assert Erase(u, 0.5) == Erase(2 * u, 1.0) != Erase(u, 0.6)
    assert Erase(u, 0.5) != Reflect(u, 0.5)
    assert str(Erase(u, 0.5)) == "Erase(at=0.1)"
    test = CausalTest("steer", "v_hat", "informative", Steer(u, np.ones(3)), dose=1.0)
    assert test == CausalTest("steer", "v_hat", "informative", Steer(u, np.ones(3)), dose=1.0)
    states = torch.randn((3, 2), generator=torch.Generator().manual_seed(0))
    X, y = np.random.default_rng(0).standard_normal((50, 2)), np.arange(50) % 2
    assert Leace.fit(X, y) == Leace.fit(X, y) != Leace.fit(X + 1, y)
    for edit in (Erase(u, 0.5), Reflect(u, 0.5), Steer(u, np.ones(3)), Leace.fit(X, y)):
        exact = edit(states.double())
        assert exact.dtype == torch.float64
        assert edit(states).numpy() == pytest.approx(exact.numpy(), abs=1e-6)
        assert edit.to(states) == edit.to(states.double()).to(states)


# ---- in a model


@pytest.mark.parametrize("build", [bert, gpt2])
def test_edits_work_in_every_architecture(build: Any, sentiment: Any) -> None:
    """At the layer and the tokens they name, not below, and the doctor's way: at every token."""
    tokenizer = byte_level(sentiment["train"]["text"][:])
    rows = sentiment["test"][:8]
    tokens, model = tokenise(tokenizer, rows), build(len(tokenizer))
    plain = extract(model, tokenizer, rows, positions=["tokens"]).stacked()
    shift = torch.linspace(-1, 2, D_MODEL)
    own, padded = tokens.informative, tokens.padded()
    with recorded(model) as record:
        for layer in range(N_LAYERS + 1):
            changes = []
            for mask in (tokens.site("informative"), None):  # without a mask: every token
                with edited(model, layer, lambda states: states + shift, mask):
                    states = record(**padded.inputs).states
                below = padded.ragged(states[layer - 1]).numpy()
                assert layer == 0 or below == pytest.approx(plain[:, layer - 1], abs=1e-4)
                changes.append(padded.ragged(states[layer]).numpy() - plain[:, layer])
            assert np.abs(changes[0][~own]).max() < 1e-4
            for change in (changes[0][own], changes[1]):
                assert np.abs(change).max(axis=1).min() > 0.1
                assert change == pytest.approx(np.tile(shift, (len(change), 1)), abs=1e-4)


def test_an_edit_shows_in_the_captured_state_and_is_gone_afterwards(trial: Trial) -> None:
    before, hooks = read(trial.model, trial.test), hooks_of(trial.model)
    for layer in (0, 1):
        with edited(trial.model, layer, lambda states: states + 1, trial.test.site("informative")):
            during = read(trial.model, trial.test)
        change = during.at(layer) - before.at(layer)
        assert change[trial.test.informative] == pytest.approx(1, abs=1e-5)
        assert np.abs(change[~trial.test.informative]).max() < 1e-5
    assert hooks_of(trial.model) == hooks
    assert (read(trial.model, trial.test).logits == before.logits).all()


def test_hooks_are_removed_when_the_block_fails(trial: Trial) -> None:
    hooks = hooks_of(trial.model)
    mask = trial.test.site("informative")
    contexts = [
        edited(trial.model, 0, lambda states: states, mask),
        without_heads(trial.model, [(1, 1)]),
        reading_only(trial.model, 1, trial.test, "informative"),
    ]
    for context in contexts:
        with pytest.raises(RuntimeError, match="on purpose"), context:
            assert hooks_of(trial.model) > hooks
            raise RuntimeError("on purpose")
        assert hooks_of(trial.model) == hooks


def test_layers_and_heads_that_are_not_there_are_refused(trial: Trial) -> None:
    mask = trial.test.site("informative")
    with pytest.raises(ValueError, match="between 0 and 1"), edited(trial.model, 2, abs, mask):
        pass
    with pytest.raises(ValueError, match="heads 1 to 1"), without_heads(trial.model, [(1, 2)]):
        pass
    moved = reading_only(trial.model, 0, trial.test, "informative")
    with pytest.raises(ValueError, match="between 1 and 1"), moved:
        pass


def test_what_cls_reads_can_be_moved_by_hand(trial: Trial) -> None:
    """[CLS] told to read the distractor says what the distractor says."""
    tokens = trial.test
    distractor_states = read(trial.model, tokens).at(0)[tokens.distractor]
    with reading_only(trial.model, 1, tokens, "distractor"):
        logits = read(trial.model, tokens).logits
    assert ((logits > 0) == (distractor_states[:, V] > 0)).all()


# ---- the causal table, on planted truth: each effect with its control


@pytest.mark.parametrize("edit", ["mean difference", "LEACE", "probe direction"])
def test_erasing_the_value_at_the_informative_token_alone_takes_the_prediction(
    table: pd.DataFrame, edit: str
) -> None:
    where = {"test": "erase value", "layer": 0}
    assert row(table, **where, edit=edit, site="informative")["accuracy"] <= 0.6
    for control in ("random", "first component across v_hat"):
        assert row(table, **where, edit=control, site="informative")["accuracy"] >= 0.98
    assert row(table, **where, edit=edit, site="distractor")["accuracy"] == 1
    late = row(table, test="erase value", layer=1, edit=edit, site="informative")
    assert late["accuracy"] == 1, "[CLS] has read it already"


def test_edits_that_are_not_asked_for_are_not_made(trial: Trial) -> None:
    table = causal_table(trial, tests=("reflect",), layers=[0], heads=[])
    assert set(table["test"]) == {"none", "reflect"}


def test_erasing_the_label_at_cls_works_only_after_it_was_read(table: pd.DataFrame) -> None:
    late = row(table, test="erase value", layer=1, edit="LEACE", site="summary")
    assert late["accuracy"] <= 0.6
    early = table[(table["site"] == "summary") & (table["layer"] == 0)]
    assert len(early) == 0, "below the first layer there is nothing to erase"


def test_erasing_the_mark_spreads_attention(table: pd.DataFrame) -> None:
    where = {"test": "erase location", "layer": 0, "site": "all words"}
    whole = row(table, test="none")["attention_mass"]
    assert whole > 0.95
    assert row(table, **where, edit="LEACE")["attention_mass"] < 0.3
    assert row(table, **where, edit="mean difference")["attention_mass"] < 0.3
    assert row(table, **where, edit="random")["attention_mass"] > 0.9


def test_reflection_and_steering_turn_the_prediction_along_v_alone(table: pd.DataFrame) -> None:
    where = {"site": "informative", "layer": 0}
    assert row(table, **where, test="reflect", edit="v_hat")["flips"] >= 0.95
    assert row(table, **where, test="reflect", edit="random")["flips"] <= 0.05
    steered = table[(table["test"] == "steer") & (table["layer"] == 0)]
    doses = steered[steered["edit"] == "v_hat"].sort_values("dose")["flips"].to_numpy()
    assert doses[0] == 0
    assert (np.diff(doses) >= 0).all()
    assert doses[-1] == 1
    assert row(steered, edit="random", dose=1.0)["flips"] <= 0.05


def test_without_its_head_the_model_guesses(table: pd.DataFrame) -> None:
    assert row(table, test="ablate head", edit="head 1")["accuracy"] == 0.5
    assert row(table, test="read only", edit="informative")["accuracy"] == 1
    assert row(table, test="read only", edit="distractor")["accuracy"] < 0.7
