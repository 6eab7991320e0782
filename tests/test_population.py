"""Which attention reaches Bayes: closed forms against simulation, and softmax against Bayes."""

import itertools
import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from slr import (
    EXPERIMENTS,
    Task,
    bayes_excess_risk,
    best_oracle_lam,
    linear_attention_excess_risk,
    oracle_excess_risk,
    predict,
    run_experiment,
    sample_batch,
    sample_truth,
)
from slr.attentions.best import best_attention, sample_scores, softmax_and_bayes
from slr.attentions.gate_moments import moments
from slr.gates.softmax import attention_mass
from slr.predictor import Gate, activate
from slr.task import FloatArray, Truth
from slr.yardsticks import (
    bayes_at_most,
    bayes_logits,
    bayes_weights,
    inclusion_probabilities,
    oracle_rate,
    sample_tokens,
)
from studies.theory.activations import identity_gap


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


def test_softmax_reaches_bayes_at_gamma_one_and_not_at_another() -> None:
    rng = np.random.default_rng(0)
    found = softmax_and_bayes(Task(d=20, L=10, gamma=1.0), 5000, rng)
    assert found.above.value < 1e-10
    assert found.softmax.lam == pytest.approx(math.sqrt(10), rel=1e-4)
    assert found.softmax.scale == pytest.approx(1, rel=1e-4)
    assert identity_gap(Task(d=20, L=10, gamma=1.0), rng) < 1e-10
    other = softmax_and_bayes(Task(d=20, L=10, gamma=0.7), 20_000, rng)
    assert other.above.value > 10 * other.above.stderr > 0
    assert identity_gap(Task(d=20, L=10, gamma=0.7), rng) > 0.1


def sample_whole_tokens(
    task: Task, n: int, rng: np.random.Generator, n_informative: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """X.k*, X.v* and |X|^2 of tokens in R^d, with k* and v* the first two axes."""
    X = rng.standard_normal((n, task.L, task.d))
    X[:, :n_informative] *= task.gamma
    X[:, :n_informative, 0] += task.signal
    return X[:, :, 0], X[:, :, 1], np.sum(X**2, axis=2)


@pytest.mark.parametrize(("gamma", "n_informative"), [(1.0, 1), (0.7, 1), (1.3, 3)])
def test_paired_risks_are_those_of_whole_predictions(gamma: float, n_informative: int) -> None:
    """The losses of softmax and Bayes as they are defined, without anything integrated out."""
    task, rng, R = Task(d=8, L=5, gamma=gamma), np.random.default_rng(0), n_informative
    found = softmax_and_bayes(task, 50_000, rng, R)
    u, v, squared_norm = sample_whole_tokens(task, 200_000, rng, R)
    y = v[:, :R].mean(axis=1)
    a = found.softmax.scale * activate(found.softmax.lam * u, "softmax")
    p = bayes_weights(task, u, squared_norm, R) / R
    losses = {name: (y - np.sum(w * v, axis=1)) ** 2 for name, w in (("softmax", a), ("bayes", p))}
    losses["above"] = losses["softmax"] - losses["bayes"]
    paired = {"softmax": found.softmax.excess_risk, "bayes": found.bayes, "above": found.above}
    for name, loss in losses.items():
        stderr = math.hypot(loss.std() / math.sqrt(len(loss)), paired[name].stderr)
        assert abs(loss.mean() - paired[name].value) < 4 * stderr + 1e-12
    # What the pairing is for: the same number of samples has a far smaller error.
    assert found.bayes.stderr * math.sqrt(50_000) < 0.7 * losses["bayes"].std()


COMPONENT_WISE: tuple[Gate, ...] = ("erf", "one-sided", "sigmoid", "tanh", "relu", "linear")


@pytest.mark.parametrize("gate", COMPONENT_WISE)
@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.3), (-1.2, 2.0), (4.0, 9.0)])
def test_moments_of_a_gate_are_those_of_samples(gate: Gate, mean: float, std: float) -> None:
    x = mean + std * np.random.default_rng(0).standard_normal(400_000)
    weights = activate(x, gate)
    for power, moment in enumerate(moments(gate, mean, std), start=1):
        sample = weights**power
        assert abs(sample.mean() - moment) < 4 * sample.std() / math.sqrt(len(x))


@pytest.mark.parametrize("gate", COMPONENT_WISE)
def test_moments_of_a_gate_have_converged(gate: Gate) -> None:
    """Against a rule with a hundred times the points, up to the std that the module names for tanh.

    relu has a kink, where that rule itself has an error of 1e-9.
    """
    z = np.linspace(-9, 9, 80_001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    for mean, std in ((0.7, 1.0), (-10.0, 15.0)):
        weights = activate(mean + std * z, gate)
        expected = [np.sum(weights * density), np.sum(weights**2 * density)]
        np.testing.assert_allclose(moments(gate, mean, std), expected, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize(("d", "gamma"), [(20, 1.0), (80, 0.7), (6, 1.5)])
def test_best_risks_are_the_closed_forms(d: int, gamma: float) -> None:
    task, rng = Task(d=d, L=6, gamma=gamma), np.random.default_rng(0)
    g2, n, h2 = gamma**2, task.L - 1, d / 2
    # The best c (b + X.k*) has b = (g^4 + n)/(n h); its risk is g^2 m/(g^2 + m).
    m = (g2**2 + n) * n / (n * h2 + g2**2 + n)
    exact: list[tuple[Gate, bool, float]] = [
        # E[Y S] and E[S^2] of S = sum_l (X_l.k*) (X_l.v*), and of the mean of all tokens
        ("linear", False, g2 - (g2**2 * h2) / (g2 * (h2 + g2) + n)),
        ("uniform", False, g2 - g2**2 / (g2 + n)),
        ("linear", True, g2 * m / (g2 + m)),
    ]
    for gate, fit_threshold, value in exact:
        found = best_attention(task, gate, 1000, rng, fit_threshold=fit_threshold)
        assert found.excess_risk.stderr == 0
        assert found.excess_risk.value == pytest.approx(value, rel=1e-9)
    assert found.threshold == pytest.approx(-(g2**2 + n) / (n * math.sqrt(h2)), rel=1e-4)
    # The paper's predictor, whose v has length 1: slr/gates/erf.py.
    erf = best_attention(task, "erf", 1000, rng, scale=1.0)
    assert erf.excess_risk.value == pytest.approx(oracle_excess_risk(task, best_oracle_lam(task)))


@pytest.mark.parametrize(("d", "L", "gamma"), [(20, 5, 0.7), (400, 10, 1.0), (60, 200, 1.6)])
def test_linear_attention_is_the_best_of_its_kind(d: int, L: int, gamma: float) -> None:
    """The closed form against a search over scale and threshold; at gamma = 1, the literature's."""
    task, rng = Task(d, L, gamma), np.random.default_rng(0)
    for affine in (False, True):
        found = best_attention(task, "linear", 200, rng, fit_threshold=affine).excess_risk.value
        exact = linear_attention_excess_risk(task, affine=affine)
        assert exact == pytest.approx(found, rel=1e-6)
        if gamma == 1:
            by_hand = {False: L / (d / 2 + L), True: L * (L - 1) / ((L - 1) * d / 2 + L * L)}
            assert exact == pytest.approx(by_hand[affine], rel=1e-12)


def test_the_exact_softmax_is_the_simulated_one_and_bayes_at_gamma_one() -> None:
    """The best lam is sqrt(d/2) at gamma = 1; elsewhere no lam near the best is better."""
    task, rng = Task(30, 50, 1.0), np.random.default_rng(0)
    lam = best_oracle_lam(task, "softmax")
    assert lam == pytest.approx(task.signal, rel=1e-4)
    bayes = bayes_excess_risk(task, 40_000, rng)
    assert abs(oracle_excess_risk(task, lam, "softmax") - bayes.value) < 4 * bayes.stderr
    other = Task(30, 50, 0.6)
    best = best_attention(other, "softmax", 40_000, rng, scale=1.0)
    exact = oracle_excess_risk(other, best.lam, "softmax")
    assert abs(exact - best.excess_risk.value) < 4 * best.excess_risk.stderr
    assert abs(attention_mass(other, 1.0, best.lam) - best.mass) < 0.01
    lam = best_oracle_lam(other, "softmax")
    risks = oracle_excess_risk(other, lam * np.array([0.8, 1.0, 1.25]), "softmax")
    assert risks.argmin() == 1


def test_linear_risks_at_gamma_one_are_those_of_the_literature() -> None:
    """arXiv 2509.21936 means the affine one, c (1 + X.k)."""
    for d, L in ((2, 2), (20, 10), (48, 100)):
        task, rng, nu = Task(d=d, L=L, gamma=1.0), np.random.default_rng(0), d / 2
        linear = best_attention(task, "linear", 1000, rng)
        affine = best_attention(task, "linear", 1000, rng, fit_threshold=True)
        assert linear.excess_risk.value == pytest.approx(L / (nu + L))
        expected = L * (L - 1) / ((L - 1) * nu + L**2)
        assert affine.excess_risk.value == pytest.approx(expected)


@pytest.mark.parametrize(("gamma", "n_informative"), [(1.0, 1), (0.6, 3)])
@pytest.mark.parametrize(("gate", "fit_threshold"), [("sigmoid", True), ("relu", True)])
def test_exact_risks_are_those_of_simulated_predictions(
    gate: Gate, fit_threshold: bool, gamma: float, n_informative: int
) -> None:
    task, rng, R = Task(d=10, L=6, gamma=gamma), np.random.default_rng(0), n_informative
    found = best_attention(task, gate, 10, rng, fit_threshold=fit_threshold, n_informative=R)
    u, v, _ = sample_whole_tokens(task, 400_000, rng, R)
    a = found.scale * activate(found.lam * (u - found.threshold), gate)
    losses = (v[:, :R].mean(axis=1) - np.sum(a * v, axis=1)) ** 2
    stderr = losses.std() / math.sqrt(len(losses))
    assert abs(losses.mean() - found.excess_risk.value) < 4 * stderr
    wrong = (v[:, :R].mean(axis=1) - 1.3 * np.sum(a * v, axis=1)) ** 2
    assert abs(wrong.mean() - found.excess_risk.value) > 4 * stderr


def test_the_best_component_wise_gate_at_gamma_one_is_a_sigmoid() -> None:
    """The risk is least, score by score, at a = P(informative | own token), which is a sigmoid."""
    task, rng = Task(d=20, L=10, gamma=1.0), np.random.default_rng(0)
    found = best_attention(task, "sigmoid", 1000, rng, fit_threshold=True)
    h = task.signal
    assert found.lam == pytest.approx(h, rel=1e-4)
    assert found.threshold == pytest.approx(h / 2 + math.log(9) / h, rel=1e-4)
    assert found.scale == pytest.approx(1, rel=1e-4)
    for gate in COMPONENT_WISE:
        other = best_attention(task, gate, 1000, rng, fit_threshold=True)
        assert other.excess_risk.value > found.excess_risk.value - 1e-12


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
        ({"n_samples": 1}, "n_samples must be an integer of at least 2"),
        ({"n_informative": 9}, "n_informative must be an integer of at least 1 and at most 5"),
        ({"gate": "cosine"}, "gate must be one of"),
        ({"gate": "softmax", "n_samples": 1}, "n_samples must be an integer of at least 2"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"gate": "erf", "n_samples": 100, "rng": np.random.default_rng(0)}
    with pytest.raises(ValueError, match=message):
        best_attention(task=Task(d=9, L=5, gamma=1.0), **(usual | options))


# ---- yardsticks without simulation


@pytest.mark.parametrize("L", [1, 2, 30])
def test_the_bound_of_bayes_is_its_formula_and_above_bayes(L: int) -> None:
    rng = np.random.default_rng(0)
    task = Task(d=5, L=L, gamma=0.7)
    bound, bayes = (f(task, 100_000, rng) for f in (bayes_at_most, bayes_excess_risk))
    assert bound.value >= bayes.value - 4 * math.hypot(bound.stderr, bayes.stderr)
    assert bayes_at_most(replace(task, d=200), 1000, rng).value < 1e-9
    # E[(X_1.v*)^2 n/(w_1 + n)], with w the ratio of the two Gaussian densities in R^5
    mean = task.signal * np.eye(5)[0]
    X = mean + task.gamma * rng.standard_normal((100_000, 5))
    informative = multivariate_normal(mean, task.gamma**2)
    w = np.exp(informative.logpdf(X) - multivariate_normal(np.zeros(5)).logpdf(X))
    terms = X[:, 1] ** 2 * (L - 1) / (w + L - 1)
    stderr = math.hypot(terms.std() / math.sqrt(len(terms)), bound.stderr)
    assert abs(terms.mean() - bound.value) <= 4 * stderr


def test_the_best_oracle_falls_at_the_rate_predicted() -> None:
    """(L/d) log(d/L), so risk d/L is not a constant: the logarithm grows from 14 to 23."""
    errors, plain = [], []
    for d in (10**4, 10**8, 10**12):
        task = Task(d=d, L=100, gamma=0.7)
        risk = oracle_excess_risk(task, best_oracle_lam(task))
        errors.append(abs(oracle_rate(task) / risk - 1))
        plain.append(risk * d / task.L)
    assert errors[0] > 3 * errors[1] > 0
    assert errors[2] < 0.02
    assert plain[2] > 1.5 * plain[1] > 1.5 * plain[0] > 0


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
