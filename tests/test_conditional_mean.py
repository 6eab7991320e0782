"""Attention as conditional-mean estimation: planted functions, exact identities, known rates."""

import numpy as np
import pytest

from slr.attentions.conditional_mean import (
    Contexts,
    LatentTask,
    best_beta,
    fit_slope,
    kernel_attention,
    learn_attention,
    sample_contexts,
    softmax_attention,
    squared_errors,
)
from slr.task import FloatArray

TASK = LatentTask()


def contexts(n: int = 20, L: int = 40, task: LatentTask = TASK, seed: int = 0) -> Contexts:
    return sample_contexts(task, n, L, 8, np.random.default_rng(seed))


def test_softmax_attention_is_nadaraya_watson_with_a_gaussian_kernel() -> None:
    c, beta = contexts(), 7.0
    distance = np.linalg.norm(c.queries[:, :, None] - c.keys[:, None], axis=3)
    kernel = np.exp(-(distance**2) * beta / 2)
    expected = (kernel * c.values[:, None]).sum(axis=2) / kernel.sum(axis=2)
    np.testing.assert_allclose(softmax_attention(c, beta), expected, rtol=1e-10)
    np.testing.assert_allclose(softmax_attention(c, beta * np.eye(3)), expected, rtol=1e-10)


def test_a_planted_constant_is_read_exactly_and_another_function_is_not() -> None:
    c = contexts()
    flat = c._replace(values=np.full_like(c.values, 2.5), target=np.full_like(c.target, 2.5))
    assert squared_errors(softmax_attention(flat, 5.0), flat).max() < 1e-20
    assert squared_errors(softmax_attention(c, 5.0), c).min() > 1e-4


def test_kernel_attention_recovers_a_planted_function_of_its_space() -> None:
    """Without noise f = sum_l c_l g(., k_l) is found exactly, by definition of the solution."""
    c = contexts(L=6)

    def g(points: FloatArray) -> FloatArray:
        return np.asarray(np.exp(2.0 * (points @ c.keys.transpose(0, 2, 1) - 1)))

    weights = np.random.default_rng(1).standard_normal((20, 6, 1))
    planted = c._replace(
        values=(g(c.keys) @ weights)[:, :, 0], target=(g(c.queries) @ weights)[:, :, 0]
    )
    assert squared_errors(kernel_attention(planted, 2.0, 1e-13), planted).max() < 1e-8
    assert squared_errors(kernel_attention(planted, 2.0, 1.0), planted).mean() > 1e-3


def test_with_all_its_ridge_kernel_attention_forgets() -> None:
    assert abs(kernel_attention(contexts(), 2.0, 1e9)).max() < 1e-5


def test_f_has_the_covariance_of_the_kernel() -> None:
    """So that kernel attention at the true precision is the Bayes estimate: the best."""
    c = sample_contexts(TASK, 40_000, 1, 2, np.random.default_rng(0))
    products = c.target[:, 0] * c.target[:, 1]
    cosine = (c.queries[:, 0] * c.queries[:, 1]).sum(axis=1)
    differences = products - np.exp(TASK.precision * (cosine - 1))
    assert abs(differences.mean()) < 4 * differences.std() / 200
    many = contexts(n=400)
    at = {
        (p, r): squared_errors(kernel_attention(many, p, r), many).mean()
        for p in (0.5, TASK.precision, 8.0)
        for r in (0.01, TASK.noise_std**2, 1.0)
    }
    assert min(at, key=lambda key: at[key]) == (TASK.precision, TASK.noise_std**2)


def test_noise_is_that_of_the_task() -> None:
    exact = LatentTask(noise_std=0.0)
    loud, quiet = contexts(n=2000), contexts(n=2000, task=exact)
    noise = loud.values - quiet.values  # the same seed, so the same latents
    assert noise.std() == pytest.approx(TASK.noise_std, rel=0.02)


def test_a_planted_slope_is_found_and_its_interval_covers_it() -> None:
    lengths = [8, 16, 32, 64]
    covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        errors = [L**-0.75 * rng.exponential(size=200) for L in lengths]
        slope = fit_slope(lengths, errors, rng, n_boot=300)
        covered += slope.low < -0.75 < slope.high
        assert slope.value == pytest.approx(-0.75, abs=0.25)
    assert 33 <= covered <= 40  # 38 expected, with a standard deviation of 1.4


def test_more_tokens_want_a_sharper_softmax() -> None:
    grid = np.geomspace(1, 300, 15)
    assert best_beta(contexts(n=200, L=128), grid) > 2 * best_beta(contexts(n=200, L=8), grid)


def test_learning_finds_what_is_best() -> None:
    found = learn_attention(TASK, 16, np.random.default_rng(0), n_steps=200)
    assert found.precision == pytest.approx(TASK.precision, rel=0.3)
    assert found.ridge == pytest.approx(TASK.noise_std**2, rel=0.6)
    c = contexts(n=1000, L=16, seed=1)
    learned = squared_errors(softmax_attention(c, found.metric), c).mean()
    grid = np.geomspace(1, 300, 30)
    best = squared_errors(softmax_attention(c, best_beta(c, grid)), c).mean()
    start = squared_errors(softmax_attention(c, 1.0), c).mean()
    assert learned < 1.05 * best < start / 1.5


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="d_key must be at least 2"):
        LatentTask(d_key=1)
    with pytest.raises(ValueError, match="noise_std must be at least 0"):
        LatentTask(noise_std=-1.0)
