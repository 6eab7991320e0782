"""Attention as conditional-mean estimation: planted functions, exact identities, known rates."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from slr.attentions.conditional_mean import (
    Contexts,
    LatentTask,
    attend,
    kernel,
    kernel_weights,
    parts,
    sample_contexts,
    softmax_weights,
)
from slr.attentions.conditional_mean_errors import TAIL, Trials, features, fit_slope
from slr.attentions.objectives import Objective, kernel_loss, learn_attention, softmax_loss
from slr.attentions.sufficiency import (
    Statistic,
    further_correlation,
    further_features,
    partial_weights,
    split_tokens,
)
from slr.task import FloatArray

TASK = LatentTask()
RIDGE = TASK.noise_std**2


def contexts(n: int = 20, L: int = 40, task: LatentTask = TASK, seed: int = 0) -> Contexts:
    return sample_contexts(task, n, L, 8, np.random.default_rng(seed))


def trials(n: int = 100, L: int = 40, seed: int = 0) -> Trials:
    return Trials.draw(TASK, n, L, 8, np.random.default_rng(seed))


def softmax(c: Contexts, metric: float | FloatArray) -> FloatArray:
    return attend(softmax_weights(c.keys, c.queries, metric), c)


def kernel_ridge(c: Contexts, precision: float, ridge: float) -> FloatArray:
    return attend(kernel_weights(c.keys, c.queries, precision, ridge), c)


def squared_errors(estimates: FloatArray, c: Contexts) -> FloatArray:
    return np.asarray(np.mean((estimates - c.target) ** 2, axis=1))


# ---- two attentions


def test_softmax_attention_is_nadaraya_watson_with_a_gaussian_kernel() -> None:
    c, beta = contexts(), 7.0
    distance = np.linalg.norm(c.queries[:, :, None] - c.keys[:, None], axis=3)
    gaussian = np.exp(-(distance**2) * beta / 2)
    expected = (gaussian * c.values[:, None]).sum(axis=2) / gaussian.sum(axis=2)
    np.testing.assert_allclose(softmax(c, beta), expected, rtol=1e-10)
    np.testing.assert_allclose(softmax(c, beta * np.eye(3)), expected, rtol=1e-10)


def test_a_planted_constant_is_read_exactly_and_another_function_is_not() -> None:
    c = contexts()
    flat = c._replace(values=np.full_like(c.values, 2.5), target=np.full_like(c.target, 2.5))
    assert squared_errors(softmax(flat, 5.0), flat).max() < 1e-20
    assert squared_errors(softmax(c, 5.0), c).min() > 1e-4


def test_kernel_attention_recovers_a_planted_function_of_its_space() -> None:
    """Without noise f = sum_l c_l g(., k_l) is found exactly, by definition of the solution."""
    c = contexts(L=6)
    weights = np.random.default_rng(1).standard_normal((20, 6, 1))
    planted = c._replace(
        values=(kernel(c.keys, c.keys, 2.0) @ weights)[:, :, 0],
        target=(kernel(c.queries, c.keys, 2.0) @ weights)[:, :, 0],
    )
    assert squared_errors(kernel_ridge(planted, 2.0, 1e-13), planted).max() < 1e-8
    assert squared_errors(kernel_ridge(planted, 2.0, 1.0), planted).mean() > 1e-3


def test_with_all_its_ridge_kernel_attention_forgets() -> None:
    assert abs(kernel_ridge(contexts(), 2.0, 1e9)).max() < 1e-5


def test_parts_of_the_contexts_are_put_together_again() -> None:
    c = contexts(n=700)
    assert len(parts(700, 40)) == 2
    weights = kernel_weights(c.keys, c.queries, 2.0, RIDGE)
    alone = kernel_weights(c.keys[650:651], c.queries[650:651], 2.0, RIDGE)
    np.testing.assert_allclose(weights[650:651], alone, rtol=1e-9)


# ---- latents, noise and errors


def test_f_has_the_covariance_of_the_kernel() -> None:
    c = sample_contexts(TASK, 40_000, 1, 2, np.random.default_rng(0))
    products = c.target[:, 0] * c.target[:, 1]
    cosine = (c.queries[:, 0] * c.queries[:, 1]).sum(axis=1)
    differences = products - np.exp(TASK.precision * (cosine - 1))
    assert abs(differences.mean()) < 4 * differences.std() / 200


def test_noise_is_that_of_the_task() -> None:
    exact = LatentTask(noise_std=0.0)
    loud, quiet = contexts(n=2000), contexts(n=2000, task=exact)
    noise = loud.values - quiet.values  # the same seed, so the same latents
    assert noise.std() == pytest.approx(TASK.noise_std, rel=0.02)


def test_keys_and_queries_have_their_shifts() -> None:
    task, rng = LatentTask(key_shift=2.0), np.random.default_rng(0)
    c = sample_contexts(task, 500, 4, 4, rng, query_shift=0.0)
    assert c.keys[:, :, 0].mean() > 0.7
    assert abs(c.queries[:, :, 0].mean()) < 4 * math.sqrt(1 / 3 / 2000)
    np.testing.assert_allclose(np.linalg.norm(c.keys, axis=2), 1)
    alike = sample_contexts(task, 500, 4, 4, rng)
    assert alike.queries[:, :, 0].mean() > 0.7


@pytest.mark.parametrize("precision", [0.5, 2.0, 5.0])
def test_features_have_the_kernel_as_their_inner_product(precision: float) -> None:
    c = contexts(n=2, L=10)
    phi = features(c.keys, precision)
    np.testing.assert_allclose(phi @ phi.mT, kernel(c.keys, c.keys, precision), atol=TAIL)
    fewer = features(c.keys, precision, degree=1)
    assert fewer.shape[-1] == 4
    assert abs(fewer @ fewer.mT - kernel(c.keys, c.keys, precision)).max() > 0.01


@pytest.mark.parametrize("kind", ["softmax", "kernel", "any"])
def test_expected_errors_are_those_of_drawn_latents(kind: str) -> None:
    t, rng = trials(n=1, L=10), np.random.default_rng(1)
    weights = {
        "softmax": softmax_weights(t.keys, t.queries, 5.0),
        "kernel": kernel_weights(t.keys, t.queries, 1.0, 0.2),
        "any": rng.standard_normal((1, 8, 10)),
    }[kind]
    points = np.concatenate([t.keys, t.queries], axis=1)[0]
    f = rng.multivariate_normal(np.zeros(18), kernel(points, points, TASK.precision), 100_000)
    values = f[:, :10] + TASK.noise_std * rng.standard_normal((100_000, 10))
    losses = np.mean((values @ weights[0].T - f[:, 10:]) ** 2, axis=1)
    stderr = losses.std() / math.sqrt(len(losses))
    assert abs(losses.mean() - t.errors(weights)[0]) < 4 * stderr
    louder = t._replace(task=replace(TASK, noise_std=0.6))
    assert abs(losses.mean() - louder.errors(weights)[0]) > 4 * stderr


def test_kernel_attention_with_the_true_kernel_and_noise_is_bayes() -> None:
    """Its error is the posterior variance of f(q), and no other weights have a smaller one."""
    t = trials(n=5)
    best = kernel_weights(t.keys, t.queries, TASK.precision, RIDGE)
    reading = kernel(t.queries, t.keys, TASK.precision)
    variance = 1 - np.sum(best * reading, axis=2).mean(axis=1)
    np.testing.assert_allclose(t.errors(best), variance, atol=1e-5)
    for scale in (1e-3, 1e-1):
        other = best + scale * np.random.default_rng(0).standard_normal(best.shape)
        assert (t.errors(other) > t.errors(best)).all()
    for precision, ridge in ((1.0, RIDGE), (4.0, RIDGE), (2.0, 0.01), (2.0, 1.0)):
        wrong = kernel_weights(t.keys, t.queries, precision, ridge)
        assert (t.errors(wrong) > t.errors(best)).all()


def test_more_tokens_want_a_sharper_softmax_and_the_best_is_found() -> None:
    long = trials(L=128)
    best = long.best_beta()
    assert best > 2 * long.first(8).best_beta()
    errors = [
        long.errors(softmax_weights(long.keys, long.queries, x * best)).mean()
        for x in (0.8, 1, 1.25)
    ]
    assert errors[1] == min(errors)


def test_a_planted_slope_is_found_and_its_interval_covers_it() -> None:
    lengths = [8, 16, 32, 64]
    covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        errors = np.array([L**-0.75 * rng.exponential(size=200) for L in lengths])
        slope = fit_slope(lengths, errors, rng, n_boot=300)
        covered += slope.low < -0.75 < slope.high
        assert slope.value == pytest.approx(-0.75, abs=0.25)
    assert 33 <= covered <= 40  # 38 expected, with a standard deviation of 1.4


def test_contexts_that_are_shared_between_lengths_make_slopes_exact() -> None:
    rng = np.random.default_rng(0)
    errors = np.outer([8**-0.75, 64**-0.75], rng.exponential(size=50))
    slope = fit_slope([8, 64], errors, rng)
    assert slope.low == pytest.approx(-0.75) == pytest.approx(slope.high)


# ---- what is sufficient


def test_kernel_attention_is_a_function_of_the_statistic() -> None:
    c = contexts(n=4, L=12)
    expected = kernel_ridge(c, TASK.precision, RIDGE)
    statistic = Statistic.of(c, TASK.precision)
    np.testing.assert_allclose(
        statistic.read(c.queries, TASK.precision, RIDGE), expected, atol=1e-5
    )
    wrong = statistic._replace(t=1.1 * statistic.t)
    assert abs(wrong.read(c.queries, TASK.precision, RIDGE) - expected).max() > 0.01


def test_tokens_with_the_same_statistic_are_read_alike() -> None:
    c = contexts(n=4, L=12)
    same, moved = split_tokens(c, np.random.default_rng(1))
    assert abs(same.values - moved.values).min() > 1e-4
    for ours, theirs in zip(Statistic.of(same, 2.0), Statistic.of(moved, 2.0), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    np.testing.assert_allclose(
        kernel_ridge(same, 2.0, RIDGE), kernel_ridge(moved, 2.0, RIDGE), atol=1e-10
    )
    # The control: one value of the two moves alone, and so does the statistic.
    one = same.values + np.where(np.arange(24) % 2, 0, moved.values - same.values)
    other = same._replace(values=one)
    assert abs(kernel_ridge(same, 2.0, RIDGE) - kernel_ridge(other, 2.0, RIDGE)).max() > 0.01


def test_each_part_of_the_statistic_is_needed() -> None:
    t = trials(n=5, L=16)
    whole = partial_weights(t, RIDGE)
    np.testing.assert_allclose(
        whole, kernel_weights(t.keys, t.queries, TASK.precision, RIDGE), atol=1e-5
    )
    phi = features(trials(n=1, L=5000, seed=1).keys[0], TASK.precision)
    mean_S = 16 / len(phi) * phi.T @ phi
    for without in (partial_weights(t, RIDGE, degree=1), partial_weights(t, RIDGE, S=mean_S)):
        assert t.errors(without).mean() > 1.5 * t.errors(whole).mean()


def test_further_features_add_to_softmax_attention_and_not_to_bayes() -> None:
    c = sample_contexts(TASK, 20_000, 8, 1, np.random.default_rng(0))
    soft = softmax_weights(c.keys, c.queries, 4.0)
    extra = further_features(c, [soft])
    bayes = kernel_ridge(c, TASK.precision, RIDGE)[:, 0]
    found = further_correlation(c.target[:, 0], bayes, extra)
    assert abs(found.value) < 4 * found.stderr
    control = further_correlation(c.target[:, 0], attend(soft, c)[:, 0], extra)
    assert control.value > 4 * control.stderr
    planted = further_correlation(c.target[:, 0], bayes, np.c_[extra, c.target[:, 0]])
    assert planted.value == pytest.approx(1, abs=0.01)


# ---- what is learned


@pytest.mark.parametrize(
    ("loss", "x"),
    [(kernel_loss, [0.3, -1.2]), (softmax_loss, np.arange(9.0) - 3)],
    ids=["kernel", "softmax"],
)
def test_gradients_have_a_remainder_of_second_order(
    loss: Callable[[Contexts, FloatArray, FloatArray], tuple[float, FloatArray]], x: FloatArray
) -> None:
    c, start = contexts(n=30, L=9), np.array(x)
    direction = np.random.default_rng(0).standard_normal(len(start))
    value, gradient = loss(c, c.target, start)
    steps = 10.0 ** np.array([-2.0, -2.5, -3.0])
    remainders = [
        abs(loss(c, c.target, start + h * direction)[0] - value - h * gradient @ direction)
        for h in steps
    ]
    slope = np.polyfit(np.log(steps), np.log(remainders), 1)[0]
    assert slope == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("objective", ["supervised", "self-supervised"])
def test_both_objectives_find_what_is_best(objective: Objective) -> None:
    rng = np.random.default_rng(0)
    found = learn_attention(TASK, 16, rng, n_contexts=2000, objective=objective)
    assert found.precision == pytest.approx(TASK.precision, rel=0.15)
    assert found.ridge == pytest.approx(RIDGE, rel=0.3)
    t = trials(n=400, L=16, seed=1)
    learned = t.errors(softmax_weights(t.keys, t.queries, found.metric)).mean()
    best = t.errors(softmax_weights(t.keys, t.queries, t.best_beta())).mean()
    start = t.errors(softmax_weights(t.keys, t.queries, 1.0)).mean()
    assert learned < 1.02 * best < start / 1.5
    assert found.beta == pytest.approx(t.best_beta(), rel=0.1)


def test_queries_from_elsewhere_teach_softmax_another_sharpness() -> None:
    """Kernel attention has the right model and learns it from either."""
    task, rng = LatentTask(key_shift=1.0), np.random.default_rng(0)
    far, near = (
        learn_attention(task, 16, rng, n_contexts=1000, objective=objective, query_shift=-2.0)
        for objective in ("supervised", "self-supervised")
    )
    assert near.beta > 1.5 * far.beta
    assert near.precision == pytest.approx(far.precision, rel=0.2)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="d_key must be at least 2"):
        LatentTask(d_key=1)
    with pytest.raises(ValueError, match="noise_std must be at least 0"):
        LatentTask(noise_std=-1.0)
    with pytest.raises(ValueError, match="precision must be positive"):
        LatentTask(precision=0.0)
