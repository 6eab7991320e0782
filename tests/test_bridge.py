"""Theory beside practice: the paper's predictor on real states, and curves of learning."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted import planted_model
from planted_states import sentences
from safetensors.torch import save_file
from scipy.special import erf

from probing.circuits.idealised import fitted, from_probes, idealised_table, judge
from probing.circuits.learning import (
    first_above,
    learning_curve,
    order_of_learning,
    snapshots,
    which_first,
)
from probing.models.pretrained import untrained_like
from probing.sentences import draw_by_word
from probing.states.extraction import read
from probing.states.tokens import States, tokenise
from slr.attentions.best import expected_attention_mass
from slr.gates.softmax import attention_mass
from slr.predictor import GATES
from slr.task import Task, sample_batch, sample_truth
from studies.making import make
from studies.practice import beside, bridge, figure1
from studies.practice.beside import (
    COMPARED,
    ERF,
    ERRORS,
    LEARNED,
    NEXT,
    QUANTITIES,
    SOFTMAX_PGD,
    SOFTMAX_SGD,
    THEORIES,
    at_equal_error,
    nearness_table,
    order_table,
    start_and_end,
    theory_curves,
)
from studies.practice.bridge import kind_of, transformers


@pytest.fixture(scope="module")
def planted(sentiment: Any) -> Any:
    model, tokenizer = planted_model(sentiment["train"]["text"][:])
    parts = {
        name: tokenise(tokenizer, sentiment[name].select(draw_by_word(sentiment[name], 240)))
        for name in ("train", "test")
    }
    return model, parts


def test_a_predictor_with_planted_directions_works_and_its_gates_differ(planted: Any) -> None:
    model, parts = planted
    states = {name: read(model, tokens) for name, tokens in parts.items()}
    table = idealised_table(states["train"], {"test": states["test"]}).set_index(["gate", "source"])
    one_sided = table.loc[("one-sided", "probes")]
    assert one_sided["accuracy"] >= 0.99
    assert one_sided["attention_mass"] >= 0.95
    for source in ("probes", "fitted"):
        # Two-sided, tokens below the threshold weigh -1: it may classify, but is not sparse.
        assert table.loc[("erf", source)]["attention_mass"] < 0.5
    # The control: states of a model in which nothing marks the informative word for new words.
    other = untrained_like(model)
    states = {name: read(other, tokens) for name, tokens in parts.items()}
    control = idealised_table(states["train"], {"test": states["test"]}).set_index(
        ["gate", "source"]
    )
    assert (control["attention_mass"] < 0.9).all()


def planted_sentences(n: int, seed: int) -> States:
    X, tokens = sentences(n, seed)
    return States(tokens, {(0, "tokens"): X})


def test_labels_alone_say_where_to_look_if_only_one_token_tells_the_label() -> None:
    """The positive control: every sentence has another distractor, so no other k will do."""
    train, test = planted_sentences(600, 0), planted_sentences(300, 1)
    correct, mass = judge(fitted(train, 0, "one-sided"), test, 0)
    assert correct.mean() > 0.9
    assert mass.mean() > 0.8
    blind = np.mean(1 / test.tokens.lengths)
    assert blind < 0.3, "the control: equal attention"


def test_a_predictor_fitted_to_labels_does_not_see_the_location(planted: Any) -> None:
    model, parts = planted
    states = read(model, parts["train"])
    elsewhere = replace(states.tokens, informative=states.tokens.distractor)
    moved = replace(states, tokens=elsewhere)
    for gate in GATES:
        ours, other = fitted(states, 0, gate), fitted(moved, 0, gate)
        for name in ("k", "v", "centre", "lam", "threshold"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(other, name))
    # The control: probes do see it.
    ours, other = from_probes(states, 0, "erf"), from_probes(moved, 0, "erf")
    assert not np.allclose(ours.k, other.k)


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
    for name in ("kappa", "nu"):
        assert start[f"{name}_first"] == start[name], "directions of the first snapshot"
        assert end[f"{name}_last"] == end[name]
        assert end[f"{name}_first"] != end[name]
    with pytest.raises(ValueError, match="--snapshots"):
        snapshots(tmp_path / "nothing")


def test_start_end_and_order_are_read_off_curves() -> None:
    rows = [
        {"seed": seed, "step": step, "kappa": kappa, "nu": nu, "rho": seed}
        for seed in range(6)
        for step, kappa, nu in ((0, 0.1, -0.1), (10, 0.2, -0.95), (20, 0.95, -0.99))
    ]
    table = pd.DataFrame(rows)
    for column in QUANTITIES:
        if column not in table:
            table[column] = 0.5
    ends = start_and_end(table, "seed").set_index(["quantity", "when"])
    assert ends.loc[("kappa", "start"), "median"] == 0.1
    assert ends.loc[("nu", "end"), "median"] == 0.99, "signs do not matter"
    assert ends.loc[("rho", "end"), ["low", "median", "high"]].tolist() == [0, 2.5, 5]
    order = order_of_learning(table, "seed", LEARNED)
    assert order[["k", "v"]].to_numpy().tolist() == [[1.0, 0.5]] * 6
    assert (
        order_of_learning(table, "seed", 0.97)[["k", "v"]].to_numpy().tolist()
        == [[np.inf, 1.0]] * 6
    )


def test_seeds_in_which_v_is_first_are_counted_and_all_others_count_against_it() -> None:
    order = pd.DataFrame({"v": [0.1, 0.2, 0.5, 0.3, np.inf], "k": [0.4, np.inf, 0.5, 0.2, np.inf]})
    counted = which_first(order)
    assert counted["n"] == 5
    assert counted["v_first"] == 2, "once because k never aligns"
    assert (counted["k_first"], counted["together"], counted["neither"]) == (1, 1, 1)
    assert (counted["v_learned"], counted["k_learned"]) == (4, 3)
    assert counted["share"] == 0.4
    every = which_first(pd.DataFrame({"v": [0.1] * 5, "k": [0.2] * 5}))
    assert every["p_value"] == pytest.approx(1 / 2**5)
    assert every["low"] == pytest.approx(0.025 ** (1 / 5)), "Clopper and Pearson's"
    assert every["high"] == 1


def test_the_order_is_counted_by_model_directions_and_level() -> None:
    steps = {"step": [0, 10, 20], "kappa": [0.1, 0.6, 0.96], "nu": [0.1, 0.92, 0.97]}
    practice = pd.DataFrame(steps | {"seed": 0})
    for when in ("first", "last"):
        practice[f"kappa_{when}"], practice[f"nu_{when}"] = practice["nu"], practice["kappa"]
    theory = pd.DataFrame(steps | {"run": 0, "theory": ERF})
    table = order_table({"ours": practice}, theory).set_index(["model", "directions", "level"])
    assert table.loc[("ours", "of each snapshot", 0.9), "v_first"] == 1
    assert table.loc[("ours", "of each snapshot", 0.5), "together"] == 1
    assert table.loc[("ours", "of the last snapshot", 0.9), "k_first"] == 1
    assert table.loc[("theory (PGD)", "k*, v*", 0.9), ["v", "k"]].tolist() == [0.5, 1.0]


def curves_of(by: str, shift: float = 0.0, runs: int = 4, lowest: float = 0.05) -> pd.DataFrame:
    """Runs whose quantities are functions of the error, which falls at a pace of their own."""
    rng, parts = np.random.default_rng(runs), []
    for run in range(runs):
        error = np.sort(np.append(rng.uniform(lowest, 1, 30), [lowest, 1.0]))[::-1]
        part = pd.DataFrame({by: run, "step": np.arange(32), "relative_error": error})
        parts.append(part.assign(kappa=-error / 2, nu=1 - error, attention_mass=0.3 + shift))
    return pd.concat(parts)


def test_quantities_are_read_where_the_error_first_crosses_a_level() -> None:
    readings = at_equal_error(curves_of("seed"), "seed")
    assert readings.shape == (4, len(ERRORS), len(COMPARED))
    np.testing.assert_allclose(readings[0, :, 0], np.array(ERRORS) / 2)  # absolute values
    np.testing.assert_allclose(readings[..., 1], 1 - np.array(ERRORS) + np.zeros((4, 1)))
    late = at_equal_error(curves_of("seed"), "seed", NEXT)
    assert (late[..., 1] > readings[..., 1]).all(), "the next step has a smaller error"
    curve = pd.DataFrame({"run": 0, "step": range(4), "relative_error": [9.0, 0.5, 0.95, 0.15]})
    curve = curve.assign(kappa=range(4), nu=0.0, attention_mass=0.0)
    (kappa,) = at_equal_error(curve, "run", NEXT)[..., 0]
    assert kappa[:4].tolist() == [1] * 4, "the lowest error so far counts"
    assert kappa[4:8].tolist() == [3] * 4
    assert np.isnan(kappa[-1]), "never reached"


def test_nearness_of_a_curve_to_itself_is_0_and_to_a_shifted_one_the_shift() -> None:
    curves = {"ours": curves_of("seed"), "same": curves_of("seed", runs=7)}
    curves |= {"shifted": curves_of("seed", shift=0.25), "stops": curves_of("seed", lowest=0.35)}
    against = {name: at_equal_error(table, "seed") for name, table in curves.items()}
    table = nearness_table(against, ["ours"]).set_index(["beside", "quantity"])
    np.testing.assert_allclose(table.loc["same", ["rms", "low", "high"]], 0, atol=1e-12)
    shifted = table.loc[("shifted", "attention_mass"), ["rms", "low", "high"]].astype(float)
    np.testing.assert_allclose(shifted, 0.25)
    np.testing.assert_allclose(table.loc[("shifted", "nu"), "rms"], 0, atol=1e-12)
    assert set(table["n_errors"]) == {6}, "those that all models reach: 0.9 to 0.4"
    assert set(table["lowest_error"]) == {0.4}
    del against["stops"]
    assert set(nearness_table(against, ["ours"])["lowest_error"]) == {0.1}
    never = {"ours": against["ours"], "never": np.full_like(against["ours"], np.nan)}
    with pytest.raises(ValueError, match="not all models reach"):
        nearness_table(never, ["ours"])


@pytest.mark.parametrize(("high", "holds"), [(0.19, True), (0.21, False)])
def test_softmax_is_nearer_if_its_interval_is_below_that_of_erf(high: float, holds: bool) -> None:
    cells = {ERF: (0.3, 0.2, 0.4), SOFTMAX_PGD: (0.1, 0.05, high), SOFTMAX_SGD: (0.1, 0.05, 0.1)}
    nearness = pd.DataFrame(
        {"model": "ours", "beside": name, "quantity": "attention_mass"}
        | {"reading": reading, "rms": rms, "low": low, "high": end * factor}
        for reading, factor in ((beside.INTERPOLATED, 1), (NEXT, 9))
        for name, (rms, low, end) in cells.items()
    )
    finding = beside.nearness_finding(nearness)
    assert finding.holds == holds
    assert finding.high == high, "the worse of two"


def test_the_models_are_those_of_figure_1(tmp_path: Path) -> None:
    models = transformers(bridge.Options(seeds=3, output=tmp_path / "bridge"))
    names = {each.output.name: each for each in models}
    assert set(names) == {
        *("tiny-0", "tiny-1", "tiny-2"),
        *("tiny-glove-0", "tiny-glove-1", "tiny-glove-2", "small-0", "small-1"),
    }
    figure = figure1.transformers(figure1.Options(seeds=2, output=tmp_path / "figure1"))
    assert figure["tiny"]["tiny-1"] == names["tiny-1"], "made once for both"
    assert names["tiny-2"].snapshots
    assert {kind_of(each) for each in models} == {"tiny", "tiny-glove", "small"}


@pytest.fixture(scope="module")
def softmax_curves() -> pd.DataFrame:
    return theory_curves(SOFTMAX_PGD, n_logged=20)


def test_softmax_has_the_columns_of_erf_and_its_own_attention(softmax_curves: pd.DataFrame) -> None:
    assert set(QUANTITIES) | {"aligned", "theory"} <= set(softmax_curves.columns)
    assert softmax_curves["aligned"].all()
    task = Task(d=400, L=10, gamma=np.sqrt(1 / 2))
    last = softmax_curves[softmax_curves["step"] == softmax_curves["step"].max()]
    expected = attention_mass(task, last["kappa"].to_numpy(), last["lam"].to_numpy())
    np.testing.assert_array_equal(last["attention_mass"], expected)
    assert (last["attention_mass"] > 0.95).all()
    assert (last["lam"] > 0.2).all(), "learned, from 0.1"
    assert last["relative_error"].between(-0.01, 0.01).all()


def test_the_comparison_has_all_theories_and_transformers(
    softmax_curves: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same(name: str) -> pd.DataFrame:
        return softmax_curves.assign(theory=name)

    monkeypatch.setattr(beside, "theory_curves", same)
    monkeypatch.setattr(beside, "LAMS", {True: (0.1,), False: ()})
    practice = softmax_curves[softmax_curves["run"] < 4].rename(columns={"run": "seed"})
    for name in ("kappa", "nu"):
        practice[f"{name}_first"] = practice[f"{name}_last"] = practice[name]
    tables = beside.comparison({"ours": practice, "other": practice})
    names = ["ours", "other", *THEORIES]
    for table in ("theory_practice", "order", "against_error"):
        assert list(tables[table]["model"].unique()) == names
    assert list(tables["theory"]["theory"].unique()) == list(THEORIES)
    near = tables["nearness"].query("model == 'ours'").groupby("beside", sort=False)["rms"]
    assert list(near.groups) == ["other", *THEORIES]
    assert near.get_group("other").max() == 0
    order, predicted, _ = beside.findings(tables["order"], tables["nearness"])
    assert "erf theory: 0 of 30 runs" in order.sentence, "as planted: softmax in all places"
    assert predicted.verdict == "missed"
    (row,) = tables["order_by_lam"].to_dict("records")
    assert row["k_first"] > 20, "k is turned before v, as lam is learned"


def test_the_theory_has_the_columns_of_practice_and_learns_v_first() -> None:
    table = theory_curves(n_logged=20)
    assert set(QUANTITIES) <= set(table.columns)
    order = order_of_learning(table, "run", LEARNED)
    found = order[np.isfinite(order["k"])]
    assert len(found) > 20
    assert (found["v"] < found["k"]).all()
    last = table[table["step"] == table["step"].max()]
    assert last["relative_error"].between(0, 0.3).all()


def test_bad_options_are_one_line_and_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--seeds"):
        make(bridge.STUDY, bridge.Options(seeds=0, output=tmp_path / "x"))
    assert not (tmp_path / "x").exists()
