"""Edits do what they say, leave nothing behind, and act where the truth was planted."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from planted import V, planted_model

from probing.circuits.causal import Bench, causal_table
from probing.circuits.interventions import (
    edited,
    erase,
    leace,
    reading_only,
    reflect,
    steer,
    without_heads,
)
from probing.probes.linear import LinearProbe
from probing.sentences import draw_by_word
from probing.states.batch import prepare, run_batch


@pytest.fixture(scope="module")
def bench(sentiment: Any) -> Bench:
    model, tokenizer = planted_model(sentiment["train"]["text"][:])
    train, test = (
        prepare(tokenizer, sentiment[name].select(draw_by_word(sentiment[name], 240)))
        for name in ("train", "test")
    )
    return Bench(model, train, test)


@pytest.fixture(scope="module")
def table(bench: Bench) -> pd.DataFrame:
    return causal_table(bench)


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


def test_erase_sets_a_coordinate_and_leaves_the_rest() -> None:
    rng = np.random.default_rng(0)
    states = torch.tensor(rng.standard_normal((5, 4)), dtype=torch.float32)
    u = rng.standard_normal(4)
    along = torch.tensor(u / np.linalg.norm(u), dtype=torch.float32)
    after = erase(u, 0.7)(states)
    assert (after @ along).numpy() == pytest.approx(0.7, abs=1e-5)
    rest = states - (states @ along)[:, None] * along
    assert (after - 0.7 * along).numpy() == pytest.approx(rest.numpy(), abs=1e-5)


def test_a_reflection_is_its_own_inverse_and_steering_adds() -> None:
    states = torch.randn((5, 4), generator=torch.Generator().manual_seed(0))
    edit = reflect(np.array([1.0, 0, 0, 0]), 0.5)
    assert edit(states)[:, 0].numpy() == pytest.approx(1 - states[:, 0].numpy(), abs=1e-6)
    assert edit(edit(states)).numpy() == pytest.approx(states.numpy(), abs=1e-6)
    moved = steer(np.array([0, 2.0, 0, 0]), np.arange(5.0))(states) - states
    assert moved[:, 1].numpy() == pytest.approx(np.arange(5.0), abs=1e-5)
    assert moved[:, [0, 2, 3]].abs().max() < 1e-6


def test_after_leace_no_linear_probe_finds_the_concept() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X = rng.standard_normal((400, 6)) @ rng.standard_normal((6, 6))
    X[:, 2] += 3 * y
    before = LinearProbe(C=1.0).fit(X, y).score(X, y)
    Z = leace(X, y)(torch.tensor(X)).numpy()
    # Equal class means: the best linear predictor of the concept is a constant.
    assert Z[y == 1].mean(0) == pytest.approx(Z[y == 0].mean(0), abs=1e-8)
    after = LinearProbe(C=1.0).fit(Z, y).score(Z, y)
    assert before > 0.9
    assert after < 0.6


# ---- in a model


def test_an_edit_shows_in_the_captured_state_and_is_gone_afterwards(bench: Bench) -> None:
    before, hooks = run_batch(bench.model, bench.test), hooks_of(bench.model)
    for layer in (0, 1):
        with edited(bench.model, layer, lambda states: states + 1, bench.test.informative):
            during = run_batch(bench.model, bench.test)
        change = during.states[layer] - before.states[layer]
        assert change[bench.test.informative].numpy() == pytest.approx(1, abs=1e-5)
        assert change[~bench.test.informative].abs().max() < 1e-5
    assert hooks_of(bench.model) == hooks
    assert (run_batch(bench.model, bench.test).logits == before.logits).all()


def test_hooks_are_removed_when_the_block_fails(bench: Bench) -> None:
    hooks = hooks_of(bench.model)
    mask = bench.test.informative
    contexts = [
        edited(bench.model, 0, lambda states: states, mask),
        without_heads(bench.model, [(1, 1)]),
        reading_only(bench.model, 1, mask),
    ]
    for context in contexts:
        with pytest.raises(RuntimeError, match="on purpose"), context:
            assert hooks_of(bench.model) > hooks
            raise RuntimeError("on purpose")
        assert hooks_of(bench.model) == hooks


def test_layers_and_heads_that_are_not_there_are_refused(bench: Bench) -> None:
    mask = bench.test.informative
    with pytest.raises(ValueError, match="between 0 and 1"), edited(bench.model, 2, abs, mask):
        pass
    with pytest.raises(ValueError, match="heads 1 to 1"), without_heads(bench.model, [(1, 2)]):
        pass
    with pytest.raises(ValueError, match="between 1 and 1"), reading_only(bench.model, 0, mask):
        pass


def test_what_cls_reads_can_be_moved_by_hand(bench: Bench) -> None:
    """[CLS] told to read the distractor says what the distractor says."""
    batch = bench.test
    distractor_states = run_batch(bench.model, batch).states[0][batch.distractor]
    with reading_only(bench.model, 1, batch.distractor):
        logits = run_batch(bench.model, batch).logits
    assert ((logits > 0) == (distractor_states[:, V] > 0).numpy()).all()


# ---- the causal table, on planted truth: each effect with its control


@pytest.mark.parametrize("edit", ["mean difference", "LEACE", "probe direction"])
def test_erasing_the_value_at_the_informative_token_alone_takes_the_prediction(
    table: pd.DataFrame, edit: str
) -> None:
    where = {"test": "erase value", "layer": 0}
    assert row(table, **where, edit=edit, site="informative")["accuracy"] <= 0.6
    assert row(table, **where, edit="random", site="informative")["accuracy"] >= 0.98
    assert row(table, **where, edit=edit, site="distractor")["accuracy"] == 1
    late = row(table, test="erase value", layer=1, edit=edit, site="informative")
    assert late["accuracy"] == 1, "[CLS] has read it already"


def test_erasing_the_label_at_cls_works_only_after_it_was_read(table: pd.DataFrame) -> None:
    late = row(table, test="erase value", layer=1, edit="LEACE", site="cls")
    assert late["accuracy"] <= 0.6
    early = table[(table["site"] == "cls") & (table["layer"] == 0)]
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
