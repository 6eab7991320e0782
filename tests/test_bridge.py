"""Theory beside practice: the paper's predictor on real states, and curves of learning."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted import planted_model
from safetensors.torch import save_file
from scipy.special import erf

from probing.circuits.idealised import idealised_table
from probing.circuits.learning import first_above, learning_curve, snapshots
from probing.models.pretrained import untrained_like
from probing.sentences import draw_by_word
from probing.states.extraction import read
from probing.states.tokens import tokenise
from slr.attentions.best import expected_attention_mass
from slr.task import Task, sample_batch, sample_truth
from studies.making import make
from studies.practice import bridge
from studies.practice.bridge import QUANTITIES, order_of_learning, start_and_end, theory_curves


@pytest.fixture(scope="module")
def planted(sentiment: Any) -> Any:
    model, tokenizer = planted_model(sentiment["train"]["text"][:])
    parts = {
        name: tokenise(tokenizer, sentiment[name].select(draw_by_word(sentiment[name], 240)))
        for name in ("train", "test")
    }
    return model, parts


def test_the_papers_predictor_works_on_planted_states_and_its_gates_differ(planted: Any) -> None:
    model, parts = planted
    states = {name: read(model, tokens) for name, tokens in parts.items()}
    table = idealised_table(states["train"], {"test": states["test"]}).set_index(["gate", "source"])
    for source in ("probes", "fitted"):
        one_sided = table.loc[("one-sided", source)]
        assert one_sided["accuracy"] >= 0.99
        assert one_sided["attention_mass"] >= 0.95
        # Two-sided, tokens below the threshold weigh -1: it may classify, but is not sparse.
        assert table.loc[("erf", source)]["attention_mass"] < 0.5
    # The control: states of a model in which nothing marks the informative word for new words.
    other = untrained_like(model)
    states = {name: read(other, tokens) for name, tokens in parts.items()}
    control = idealised_table(states["train"], {"test": states["test"]}).set_index(
        ["gate", "source"]
    )
    assert (control["attention_mass"] < 0.9).all()


def test_the_theorys_attention_mass_is_that_of_sampled_sequences() -> None:
    task, lam, kappa = Task(d=40, L=6, gamma=0.7), 0.6, 0.8
    rng = np.random.default_rng(0)
    truth = sample_truth(task, rng)
    other = rng.standard_normal(task.d)
    other -= (other @ truth.k_star) * truth.k_star
    k = kappa * truth.k_star + np.sqrt(1 - kappa**2) * other / np.linalg.norm(other)
    batch = sample_batch(task, truth, 40_000, rng)
    weights = np.abs(erf(lam * batch.X @ k))
    shares = weights[np.arange(len(weights)), batch.location] / weights.sum(1)
    error = shares.std() / np.sqrt(len(shares))
    ours = expected_attention_mass(task, np.array(kappa), np.array(lam), n=40_000)
    assert abs(float(ours) - shares.mean()) < 5 * error
    # Without alignment the informative token is one of L, but for its other spread.
    blind = expected_attention_mass(
        Task(d=40, L=6, gamma=1.0), np.array(0.0), np.array(lam), n=40_000
    )
    assert float(blind) == pytest.approx(1 / 6, abs=0.01)


def test_first_above_is_where_a_curve_stays() -> None:
    table = pd.DataFrame({"step": [0, 1, 2, 3], "x": [0.1, -0.95, 0.5, -0.99]})
    assert first_above(table, "x", 0.9) == 3
    assert first_above(table, "x", 0.05) == 0
    assert first_above(table, "x", 0.995) == np.inf


def test_a_learning_curve_goes_from_nothing_to_the_planted_directions(
    planted: Any, tmp_path: Path
) -> None:
    model, parts = planted
    save_file(untrained_like(model).state_dict(), tmp_path / "step-000000.safetensors")
    save_file(model.state_dict(), tmp_path / "step-000010.safetensors")
    start, end = learning_curve(model, tmp_path, parts["train"], parts["test"]).to_dict("records")
    assert (start["step"], end["step"]) == (0, 10)
    assert start["attention_mass"] < 0.2 < 0.95 < end["attention_mass"]
    assert start["error"] > 0.2
    assert end["error"] == 0
    assert min(end["kappa"], end["nu"]) > 0.8
    with pytest.raises(ValueError, match="--snapshots"):
        snapshots(tmp_path / "nothing")


def test_start_end_and_order_are_read_off_curves() -> None:
    rows = [
        {"seed": seed, "step": step, "kappa": kappa, "nu": nu, "rho": seed}
        for seed in (0, 1)
        for step, kappa, nu in ((0, 0.1, -0.1), (10, 0.2, -0.95), (20, 0.95, -0.99))
    ]
    table = pd.DataFrame(rows)
    for column in QUANTITIES:
        if column not in table:
            table[column] = 0.5
    ends = start_and_end(table, "seed").set_index(["quantity", "when"])
    assert ends.loc[("kappa", "start"), "median"] == 0.1
    assert ends.loc[("nu", "end"), "median"] == 0.99, "signs do not matter"
    assert ends.loc[("rho", "end"), ["lowest", "median", "highest"]].tolist() == [0, 0.5, 1]
    assert order_of_learning(table, "seed")[["k", "v"]].to_numpy().tolist() == [[1.0, 0.5]] * 2


def test_the_theory_has_the_columns_of_practice_and_learns_v_first() -> None:
    table = theory_curves(n_logged=20)
    assert set(QUANTITIES) <= set(table.columns)
    order = order_of_learning(table, "run")
    found = order[np.isfinite(order["k"])]
    assert len(found) > 20
    assert (found["v"] < found["k"]).all()
    last = table[table["step"] == table["step"].max()]
    assert last["relative_error"].between(0, 0.3).all()


def test_bad_options_are_one_line_and_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--seeds"):
        make(bridge.STUDY, bridge.Options(seeds=0, output=tmp_path / "x"))
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_a_trained_model_meets_every_claim(tmp_path: Path, capsys: Any) -> None:
    """The whole study on one seed; five are in results/bridge."""
    options = bridge.Options(seeds=1, output=tmp_path / "bridge")
    folder = make(bridge.STUDY, options)
    tables = {path.stem: pd.read_parquet(path) for path in folder.glob("*.parquet")}
    directions = tables["directions"].query("model == 'tiny'").set_index("trained")
    assert directions.loc[True, "kappa"] >= 0.7
    assert directions.loc[True, "nu"] >= 0.85
    assert directions.loc[True, "kappa_null_95"] < 0.4
    assert abs(directions.loc[False, "kappa"]) < 0.6, "the control: untrained"
    ideal = tables["idealised"].query("gate == 'one-sided' and source == 'fitted'")
    assert ideal.set_index("split").loc["test", "accuracy"] >= 0.99
    assert ideal.set_index("split").loc["test", "attention_mass"] >= 0.95
    causal = tables["causal"].query("model == 'tiny' and split == 'test' and layer == 0")
    causal = causal[causal["test"].isin(["erase value", "reflect"])]
    at = causal.set_index(["test", "edit", "site"])
    for edit in ("mean difference", "LEACE"):
        assert at.loc[("erase value", edit, "informative"), "accuracy"] <= 0.6
        assert at.loc[("erase value", edit, "distractor"), "accuracy"] >= 0.98
    assert at.loc[("erase value", "random", "informative"), "accuracy"] >= 0.98
    assert at.loc[("reflect", "v_hat", "informative"), "flips"] >= 0.95
    assert at.loc[("reflect", "random", "informative"), "flips"] <= 0.05
