"""Longer sequences than those of training: theory against simulation, and the study of models."""

import math
from dataclasses import replace

import numpy as np
import pytest

from slr.attentions.best import best_attention, softmax_and_bayes
from slr.attentions.length import Setting, sign_agreement, tuned, uniform_sign_agreement
from slr.predictor import predict
from slr.task import Task, sample_batch, sample_truth
from slr.yardsticks import bayes_weights, sample_tokens

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
    lengths = [1, 2, 10, 1000]
    curve = sign_agreement(TASK, Setting("uniform"), lengths, 3, rng)
    for L, found in zip(lengths, curve, strict=True):
        assert found.value == pytest.approx(uniform_sign_agreement(replace(TASK, L=L)), abs=1e-7)
        assert found.stderr < 1e-7, "it does not depend on the scores"
    far = replace(TASK, L=10**8)
    rate = TASK.gamma / (math.pi * math.sqrt(far.L))
    assert uniform_sign_agreement(far) - 0.5 == pytest.approx(rate, rel=1e-3)


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
    assert tuned(TASK, "erf", rng) == Setting("erf", pytest.approx(best.lam))


def test_a_length_below_one_is_refused(rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        sign_agreement(TASK, Setting("uniform"), [3, 0], 10, rng)
