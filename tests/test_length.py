"""Longer sequences than those of training: theory against simulation, and the study of models."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from architectures import family_model
from scipy.stats import binomtest, ttest_1samp

from data_gen import build_tokenizer
from slr.attentions.best import best_attention, softmax_and_bayes
from slr.attentions.length import Setting, sign_agreement, tuned
from slr.predictor import predict
from slr.task import Task, sample_batch, sample_truth
from slr.yardsticks import bayes_weights, sample_tokens
from studies.practice import length
from studies.rendering import as_text
from studies.study import Tables

TASK = Task(d=12, L=6, gamma=0.7)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    "setting",
    [Setting("uniform"), Setting("softmax", 0.4), Setting("softmax", 3), Setting("erf", 0.3)],
)
def test_signs_agree_as_often_as_in_sampled_sequences(
    setting: Setting, rng: np.random.Generator
) -> None:
    n = 60_000
    for L in (2, 6, 25):
        task = replace(TASK, L=L)
        (found,) = sign_agreement(TASK, setting, [L], 20_000, rng)
        truth = sample_truth(task, rng)
        X, y, _ = sample_batch(task, truth, n, rng)
        read = predict(X, truth.k_star, truth.v_star, setting.lam, gate=setting.gate)
        share = float(np.mean(np.sign(read) == np.sign(y)))
        error = math.hypot(found.stderr, math.sqrt(share * (1 - share) / n))
        assert abs(found.value - share) < 4 * error


def test_uniform_attention_has_a_closed_form(rng: np.random.Generator) -> None:
    """The mean of L tokens, read along v*, has the correlation gamma / sqrt(gamma^2 + L - 1)."""
    lengths = [1, 2, 10, 1000]
    curve = sign_agreement(TASK, Setting("uniform"), lengths, 3, rng)
    for L, found in zip(lengths, curve, strict=True):
        correlation = TASK.gamma / math.sqrt(TASK.gamma**2 + L - 1)
        assert found.value == pytest.approx(0.5 + math.asin(correlation) / math.pi, abs=1e-7)
        assert found.stderr < 1e-7, "it does not depend on the scores"


@pytest.mark.parametrize("gate", ["uniform", "softmax", "erf"])
def test_longer_is_never_better_and_one_token_is_always_read(
    gate: str, rng: np.random.Generator
) -> None:
    setting = tuned(Task(400, 10, 0.7), gate, rng)  # type: ignore[arg-type]
    curve = sign_agreement(Task(400, 10, 0.7), setting, [1, 2, 5, 30, 300], 500, rng)
    values = [found.value for found in curve]
    assert values[0] == pytest.approx(1, abs=1e-7)
    assert values == sorted(values, reverse=True)


def test_a_softmax_holds_until_the_length_of_the_theory(rng: np.random.Generator) -> None:
    """The mean of sum_l (a_l/a_1)^2 is (L-1) exp(-2 lam h + 2 lam^2 (1 + gamma^2))."""
    task, lam = Task(400, 10, math.sqrt(0.5)), 0.2
    bound = math.exp(2 * lam * task.signal - 2 * lam**2 * (1 + task.gamma**2))
    near, far = (int(bound * factor) for factor in (0.01, 100))
    curve = sign_agreement(task, Setting("softmax", lam), [near, far], 300, rng)
    assert curve[0].value > 0.95
    assert curve[1].value < 0.55


def test_softmax_is_tuned_to_bayes(rng: np.random.Generator) -> None:
    """At gamma = 1 its weights are those of Bayes; at another, its risk is nearly the best one."""
    task = Task(10, 8, 1.0)
    tokens = sample_tokens(task, 50, rng)
    lam = tuned(task, "softmax", rng).lam
    scores = np.exp(lam * tokens.along_k)
    weights = bayes_weights(task, tokens.along_k, tokens.squared_norm)
    assert np.allclose(scores / scores.sum(1, keepdims=True), weights)
    other = Task(40, 10, math.sqrt(0.5))
    best = softmax_and_bayes(other, 20_000, rng, scale=1.0).softmax
    curve = sign_agreement(other, Setting("softmax", best.lam), [10], 20_000, rng)
    ours = sign_agreement(other, tuned(other, "softmax", rng), [10], 20_000, rng)
    assert abs(curve[0].value - ours[0].value) < 0.002


def test_erf_is_tuned_to_the_oracle(rng: np.random.Generator) -> None:
    best = best_attention(TASK, "erf", 200, rng, scale=1.0)
    setting = tuned(TASK, "erf", rng)
    assert setting.gate == "erf"
    assert setting.lam == pytest.approx(best.lam)


def test_a_length_below_one_is_refused(rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        sign_agreement(TASK, Setting("uniform"), [3, 0], 10, rng)


# ---- the study


FEW = length.Options(train=64, sentences=128, samples=50, models=("minilm",))


@pytest.fixture(scope="module")
def texts(wide: Any, one_thread: None) -> pd.DataFrame:
    """The outcomes of a small decoder with random weights."""
    known = [text for name in ("train", "test", "ood_long_4") for text in wide[name]["text"][:]]
    tokenizer = build_tokenizer(known, ends=False)
    model = family_model("llama", len(tokenizer))
    model.config.max_position_embeddings = 512  # rotary: there is no table to end
    layers = {"mean": 1, "summary": 2, "head": 1, "reader": 2, "value": 0}
    return length.texts_of(model, tokenizer, wide, layers, FEW).assign(model="minilm")


def test_every_probe_judges_the_same_texts_of_every_length(texts: pd.DataFrame) -> None:
    assert texts.groupby(["fitted", "probe"]).size().unique().tolist() == [5 * 128]
    texts = texts[texts["fitted"] == "short"]
    counts = texts.groupby(["probe", "fillers", "side"]).size()
    assert set(counts.loc[:, 0]) == {128}
    assert set(counts.loc[:, 2:]) == {64}
    assert set(counts.index.get_level_values("side")) == {"none", "before", "behind"}
    assert (texts.groupby(["probe", "fillers"])["word"].value_counts() == 2).all()
    means = texts.groupby("fillers")["tokens"].mean()
    assert means.is_monotonic_increasing
    per_filler = (means.loc[16] - means.loc[0]) / 16
    assert per_filler == pytest.approx(float(means.loc[8] - means.loc[0]) / 8, rel=0.02)


def test_where_a_probe_looks_is_measured_only_if_it_looks_somewhere(texts: pd.DataFrame) -> None:
    by_probe = texts.groupby("probe")[["correct", "located", "mass"]]
    seen = by_probe.count() > 0
    assert seen.loc[["mean", "summary", "value"], ["located", "mass"]].to_numpy().sum() == 0
    assert seen.loc["reader"].tolist() == [True, True, False]
    assert seen.loc["head"].all()
    assert texts["mass"].dropna().between(0, 1 + 1e-6).all()


def test_accuracies_are_means_over_texts_and_losses_their_differences(texts: pd.DataFrame) -> None:
    longer = texts[texts["fitted"] == "with fillers"]
    table = length.by_length(longer).set_index(["probe", "fillers", "side"])["accuracy"]
    long = longer[(longer["probe"] == "head") & (longer["fillers"] == 16)]
    assert table["head", 16, "both"] == pytest.approx(long["correct"].mean())
    behind = long[long["side"] == "behind"]
    assert table["head", 16, "behind"] == pytest.approx(behind["correct"].mean())
    lost = length.losses(longer).set_index("probe")
    for probe in ("mean", "summary", "head", "reader", "value"):
        expected = table[probe, 2, "both"] - table[probe, 16, "both"]
        assert lost.loc[probe, "lost"] == pytest.approx(expected)
        more = lost.loc["mean", "lost"] - lost.loc[probe, "lost"]
        assert lost.loc[probe, "mean_more"] == pytest.approx(more)
        assert (
            lost.loc[probe, "lost_low"] <= lost.loc[probe, "lost"] <= lost.loc[probe, "lost_high"]
        )


def test_a_place_that_is_given_is_read_where_the_word_stands(texts: pd.DataFrame) -> None:
    """At the embeddings the state of a word does not depend on the text around it."""
    told = texts[texts["probe"] == "value"]
    by_word = told.groupby(["fitted", "word"])["correct"]
    assert (by_word.nunique() == 1).all()
    assert told["correct"].mean() > 0.7, "64 words in 32 dimensions, penalised"


def test_a_logit_above_zero_is_label_one(texts: pd.DataFrame) -> None:
    assert (((texts["logit"] > 0) == (texts["label"] == 1)) == (texts["correct"] == 1)).all()


def test_the_interval_of_a_mean_over_words_is_students() -> None:
    values = pd.Series(np.random.default_rng(0).normal(0.3, 0.2, 64))
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    found = length.student("lost", values)
    assert (found["lost_low"], found["lost_high"]) == pytest.approx(tuple(expected))
    same = length.student("lost", pd.Series(np.zeros(64)))
    exact = binomtest(0, 64).proportion_ci(0.95).high
    assert same["lost_high"] == pytest.approx(exact) == -same["lost_low"]


def planted(reader_lost: float, mean_lost: float) -> pd.DataFrame:
    """Outcomes of probes that lose these shares, word by word, from no fillers to the most."""
    rng, rows = np.random.default_rng(0), []
    lost = {"mean": mean_lost, "summary": 0.2, "head": 0.1, "reader": reader_lost}
    for probe, share in lost.items():
        for fillers in length.FILLERS:
            for word in range(64):
                right = rng.random(4) < 0.95 - share * fillers / 16
                sides = ["before", "behind"] * 2 if fillers else ["none"] * 4
                row = {"probe": probe, "layer": 1, "fillers": fillers, "word": word}
                row |= {"tokens": 14 + 26 * fillers, "located": 0.5, "mass": 0.1}
                row |= {"label": word % 2, "logit": 0.0}
                rows += [
                    row | {"side": side, "correct": float(x)}
                    for x, side in zip(right, sides, strict=True)
                ]
    short = pd.DataFrame(rows).assign(model="smollm2", fitted="short")
    return pd.concat([short, short.assign(fitted="with fillers")], ignore_index=True)


@pytest.mark.parametrize(
    ("reader_lost", "mean_lost", "words", "passed"),
    [
        (0.0, 0.4, "loses more than", [True, True, True]),
        (0.4, 0.0, "loses less than", [False, False, False]),
        (0.3, 0.3, "loses not distinguishably more or less than", [True, False, False]),
    ],
)
def test_the_sentence_and_the_findings_follow_the_numbers(
    reader_lost: float, mean_lost: float, words: str, passed: list[bool], tmp_path: Path
) -> None:
    outcomes = planted(reader_lost, mean_lost)
    tables = {
        "lengths": length.by_length(outcomes),
        "losses": length.losses(outcomes),
        "theory": length.theory(FEW),
    }
    for name, table in tables.items():
        table.to_parquet(tmp_path / f"{name}.parquet")
    said = length.says(Tables(tmp_path))
    assert said[0].startswith("**SmolLM2.** Fitted to short sentences, from 14 to 430 tokens")
    assert "sentences with 2 fillers, from 66 to 430 tokens" in said[0]
    assert said[0].count(words) == 2
    assert "0 (14 tokens)" in as_text(said)
    assert [finding.holds for finding in length.findings(Tables(tmp_path))] == passed


def test_the_study_reads_layers_from_the_probes_that_it_needs(tmp_path: Path) -> None:
    options = replace(FEW, output=tmp_path / "length", models=("minilm", "smollm2"))
    needs = length.needs(options)
    assert [each.output.name for _, each in needs] == ["probes-wide", "probes-wide-smollm2"]
    rows = [("mean", 1, 0.9), ("mean", 2, 0.8), ("reader", 1, 0.7), ("reader", 2, 0.8)]
    table = pd.DataFrame(rows, columns=["probe", "layer", "cv_score"])
    table = table.assign(split="train", model="trained", control="none")
    layers = length.layers_of(table)
    assert (layers["mean"], layers["reader"], layers["head"]) == (1, 2, 2)
    assert set(layers) <= set(length.PROBES)


@pytest.mark.parametrize("wrong", [{"models": ()}, {"train": 1}, {"sentences": 0}, {"seed": -1}])
def test_options_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="--"):
        replace(FEW, **wrong)
