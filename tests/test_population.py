"""Which attention reaches Bayes: simulation against closed forms, and softmax against Bayes."""

import itertools
import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from slr import (
    EXPERIMENTS,
    Task,
    bayes_excess_risk,
    best_oracle_lam,
    oracle_excess_risk,
    predict,
    run_experiment,
    sample_batch,
    sample_truth,
)
from slr.attentions.best import best_attention, sample_scores
from slr.predictor import Gate
from slr.task import FloatArray, Truth
from slr.yardsticks import (
    bayes_logits,
    bayes_weights,
    inclusion_probabilities,
    sample_tokens,
)


def bayes_predict(task: Task, truth: Truth, X: FloatArray) -> FloatArray:
    """E[Y|X], shape (n,) for X of shape (n, L, d)."""
    p = bayes_weights(task, X @ truth.k_star, np.sum(X**2, axis=2))
    return np.asarray(np.sum(p * (X @ truth.v_star), axis=1))


@pytest.mark.parametrize("d", [2, 20, 80])
def test_softmax_attention_is_the_bayes_predictor_at_gamma_one(d: int) -> None:
    rng = np.random.default_rng(0)
    task = Task(d=d, L=7, gamma=1.0)
    truth = sample_truth(task, rng)
    X, _, _ = sample_batch(task, truth, 500, rng)
    attention = predict(X, truth.k_star, truth.v_star, task.signal, gate="softmax")
    np.testing.assert_allclose(attention, bayes_predict(task, truth, X), atol=1e-10)
    # The control: at another gamma the length of a token matters too.
    other = Task(d=d, L=7, gamma=0.7)
    sharper = predict(X, truth.k_star, truth.v_star, task.signal / 0.7**2, gate="softmax")
    assert abs(sharper - bayes_predict(other, truth, X)).max() > 1e-3


def test_bayes_weights_are_posterior_probabilities() -> None:
    """Of J0 among sequences drawn alike: calibrated, in standard errors."""
    rng = np.random.default_rng(1)
    task = Task(d=3, L=4, gamma=0.6)
    truth = sample_truth(task, rng)
    X, _, location = sample_batch(task, truth, 100_000, rng)
    weights = bayes_weights(task, X @ truth.k_star, (X**2).sum(axis=2))
    hits = np.arange(task.L) == location[:, None]
    for low in np.arange(0, 1, 0.2):
        chosen = (weights >= low) & (weights < low + 0.2)
        stderr = 0.5 / math.sqrt(chosen.sum())
        assert abs(hits[chosen].mean() - weights[chosen].mean()) < 4 * stderr


def test_softmax_reaches_bayes_and_linear_does_not() -> None:
    task, rng = Task(d=20, L=10, gamma=1.0), np.random.default_rng(0)
    bayes = bayes_excess_risk(task, 50_000, rng)
    softmax = best_attention(task, "softmax", 50_000, rng).excess_risk
    linear = best_attention(task, "linear", 50_000, rng).excess_risk
    error = math.hypot(bayes.stderr, softmax.stderr)
    assert abs(softmax.value - bayes.value) < 4 * error
    assert linear.value > bayes.value + 20 * error


@pytest.mark.parametrize(("d", "gamma"), [(20, 1.0), (80, 0.7)])
def test_simulated_risks_are_the_closed_forms(d: int, gamma: float) -> None:
    task, rng = Task(d=d, L=6, gamma=gamma), np.random.default_rng(0)
    g2, n, h2 = gamma**2, task.L - 1, d / 2
    exact: dict[Gate, float] = {
        # E[Y S] and E[S^2] of S = sum_l (X_l.k*) (X_l.v*), and of the mean of all tokens
        "linear": g2 - (g2**2 * h2) / (g2 * (h2 + g2) + n),
        "uniform": g2 - g2**2 / (g2 + n),
    }
    for gate, value in exact.items():
        found = best_attention(task, gate, 50_000, rng).excess_risk
        assert abs(found.value - value) < 4 * found.stderr + 1e-4 * value
    # The paper's predictor, whose v has length 1: slr/erf_risk.py.
    lam = best_oracle_lam(task)
    found = best_attention(task, "erf", 50_000, rng, scale=1.0).excess_risk
    assert abs(found.value - oracle_excess_risk(task, lam)) < 4 * found.stderr
    wrong = float(oracle_excess_risk(task, lam / 3))
    assert abs(found.value - wrong) > 4 * found.stderr


def test_a_threshold_helps_a_sigmoid() -> None:
    task = Task(d=40, L=10, gamma=1.0)
    plain = best_attention(task, "sigmoid", 20_000, np.random.default_rng(0))
    fitted = best_attention(task, "sigmoid", 20_000, np.random.default_rng(0), fit_threshold=True)
    assert fitted.excess_risk.value < plain.excess_risk.value / 4
    assert 0 < fitted.threshold < task.signal
    assert fitted.mass > 0.8 > plain.mass


def test_scores_have_their_law() -> None:
    task = Task(d=50, L=5, gamma=0.6)
    scores = sample_scores(task, 50_000, np.random.default_rng(0), n_informative=2)
    mean, std = scores.mean(axis=0), scores.std(axis=0)
    limit = 5 / math.sqrt(50_000)
    np.testing.assert_allclose(mean, [task.signal] * 2 + [0] * 3, atol=limit)
    np.testing.assert_allclose(std, [0.6] * 2 + [1] * 3, atol=limit)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 1}, "n_samples must be at least 2"),
        ({"n_informative": 9}, "n_informative must be in 1 .. 5"),
        ({"gate": "cosine"}, "gate must be one of"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"gate": "erf", "n_samples": 100, "rng": np.random.default_rng(0)}
    with pytest.raises(ValueError, match=message):
        best_attention(task=Task(d=9, L=5, gamma=1.0), **(usual | options))


# ---- several locations


def test_inclusion_probabilities_are_sums_over_sets() -> None:
    logits = 2 * np.random.default_rng(0).standard_normal((5, 6))
    for size in (1, 2, 3, 6):
        sets = [list(s) for s in itertools.combinations(range(6), size)]
        weights = np.array([np.exp(logits[:, s].sum(axis=1)) for s in sets])  # (sets, n)
        expected = np.zeros((5, 6))
        for s, weight in zip(sets, weights / weights.sum(axis=0), strict=True):
            expected[:, s] += weight[:, None]
        found = inclusion_probabilities(logits, size)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        np.testing.assert_allclose(found.sum(axis=1), size)
    far = inclusion_probabilities(1000 * logits, 2)  # beyond the range of exp
    assert np.isfinite(far).all()


def test_one_location_is_the_case_of_the_paper() -> None:
    task = Task(d=6, L=5, gamma=0.8)
    tokens = sample_tokens(task, 1000, np.random.default_rng(0))
    logits = bayes_logits(task, tokens.along_k, tokens.squared_norm)
    weights = bayes_weights(task, tokens.along_k, tokens.squared_norm)
    np.testing.assert_allclose(inclusion_probabilities(logits, 1), weights, rtol=1e-9)


def test_when_all_tokens_matter_uniform_attention_is_exact() -> None:
    task, rng = Task(d=6, L=4, gamma=0.8), np.random.default_rng(0)
    uniform = best_attention(task, "uniform", 1000, rng, n_informative=4)
    assert uniform.excess_risk.value == pytest.approx(0, abs=1e-12)
    assert uniform.mass == pytest.approx(1)
    bayes = bayes_excess_risk(task, 1000, n_informative=4, rng=rng)
    assert bayes.value == pytest.approx(0, abs=1e-12)


def test_no_attention_beats_bayes_with_several_locations() -> None:
    task, rng = Task(d=12, L=6, gamma=1.0), np.random.default_rng(0)
    bayes = bayes_excess_risk(task, 50_000, n_informative=2, rng=rng)
    risks = {}
    for gate, fit_threshold in (("softmax", False), ("sigmoid", True), ("erf", False)):
        found = best_attention(
            task,
            gate,  # type: ignore[arg-type]
            50_000,
            rng,
            fit_threshold=fit_threshold,
            n_informative=2,
        )
        assert found.excess_risk.value > bayes.value - 4 * math.hypot(
            bayes.stderr, found.excess_risk.stderr
        )
        risks[gate] = found.excess_risk.value
    assert risks["softmax"] < risks["erf"]


def test_the_noise_of_labels_does_not_move_pgd_and_does_move_sgd() -> None:
    quiet = replace(EXPERIMENTS["sgd-schedule"], runs=2, n_steps=200, log_every=200)
    loud = replace(quiet, noise_std=3.0)
    optimisers: dict[Literal["pgd", "sgd"], bool] = {"pgd": True, "sgd": False}
    for optimiser, same in optimisers.items():
        experiments = [replace(experiment, optimiser=optimiser) for experiment in (quiet, loud)]
        ends = [run_experiment(experiment).final.kappa for experiment in experiments]
        assert (ends[0] == ends[1]).all() == same
