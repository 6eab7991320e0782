"""The softmax gate's exact risk: against simulation, quadrature, limits and identities.

notation: u_1 = h kappa + c is the informative token's score, c ~ N(0, gamma^2); a = softmax(lam u)
          h = sqrt(d/2)  B = sum_{l>1} a_l u_l  Q = sum_{l>1} a_l^2
A warning of any kind, such as an overflow, fails a test of this file.
"""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from softmax_reference import (
    gaussian_rule,
    logistic,
    many_tokens,
    quasi_monte_carlo,
    simulated,
    simulated_scores,
    two_tokens,
)

from slr import (
    ALIGNED,
    Overlaps,
    Task,
    Truth,
    excess_risk,
    lam_gradient,
    risk,
    risk_gradient,
    sample_truth,
)
from slr.task import FloatArray

pytestmark = pytest.mark.filterwarnings("error")

softmax_risk = partial(excess_risk, gate="softmax")
softmax_gradient = partial(risk_gradient, gate="softmax")
softmax_lam_gradient = partial(lam_gradient, gate="softmax")


def random_unit(d: int, rng: np.random.Generator) -> FloatArray:
    x = rng.standard_normal(d)
    return np.asarray(x / np.linalg.norm(x))


def near(direction: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A unit vector at an angle of at most 25 degrees."""
    x = direction + rng.uniform(0, 0.4) * random_unit(len(direction), rng)
    return np.asarray(x / np.linalg.norm(x))


def random_vectors(
    d: int, rng: np.random.Generator, *, close: bool
) -> tuple[FloatArray, FloatArray, Truth]:
    """Unit vectors k and v, near the truth or anywhere, and the truth."""
    truth = sample_truth(Task(d=d, L=1, gamma=1.0), rng)
    if close:
        return near(truth.k_star, rng), near(truth.v_star, rng), truth
    return random_unit(d, rng), random_unit(d, rng), truth


def random_overlaps(rng: np.random.Generator, *, close: bool = False) -> Overlaps:
    """Overlaps of unit vectors in R^4, which unit vectors in any larger space have too."""
    return Overlaps.of(*random_vectors(4, rng, close=close))


# Simulation with vectors

SIZES = [  # (d, L)
    (2, 1), (2, 2), (2, 20), (3, 1), (3, 7), (4, 3), (4, 20), (5, 2), (6, 12), (8, 5),
    (10, 10), (12, 4), (15, 20), (20, 2), (20, 8), (30, 3), (30, 10), (40, 5), (60, 1), (60, 20),
]  # fmt: skip


def standard_errors_from_simulation(trial: int, n_samples: int) -> float:
    rng = np.random.default_rng(trial)
    d, L = SIZES[trial]
    task = Task(d=d, L=L, gamma=float(rng.uniform(0.2, 2)), noise_std=0.3)
    lam = float(np.exp(rng.uniform(math.log(0.05), math.log(3))))
    k, v, truth = random_vectors(d, rng, close=trial % 3 == 2)
    estimate = simulated(task, k, v, truth, lam, n_samples, rng)
    exact = softmax_risk(task, Overlaps.of(k, v, truth), lam)
    return float((estimate.value - exact) / estimate.stderr)


# 20 trials: 4 standard errors are exceeded by chance about once in 800 suites.


@pytest.mark.parametrize("trial", range(len(SIZES)))
def test_exact_risk_matches_simulation(trial: int) -> None:
    assert abs(standard_errors_from_simulation(trial, 100_000)) < 4


def test_the_simulation_test_would_see_a_wrong_formula() -> None:
    """The control: one overlap with the wrong sign is many standard errors away."""
    task, lam = Task(d=4, L=4, gamma=0.8), 1.0
    truth = Truth(np.eye(4)[0], np.eye(4)[1])
    k, v = np.array([0.5, 0.5, 0.5, 0.5]), np.array([0.5, 0.5, 0.5, -0.5])
    estimate = simulated(task, k, v, truth, lam, 100_000, np.random.default_rng(0))
    overlaps = Overlaps.of(k, v, truth)  # all five are 1/2
    for name in Overlaps._fields:
        wrong = softmax_risk(task, overlaps._replace(**{name: -0.5}), lam)
        assert abs(estimate.value - wrong) > 8 * estimate.stderr, name


# Quasi Monte Carlo over the scores

QUASI_SETTINGS = [  # (d, L, gamma, lam)
    (2, 3, 1.0, 0.5), (5, 20, 2.0, 0.1), (8, 6, 0.2, 3.0), (20, 12, 1.5, 1.0), (60, 5, 0.7, 0.2),
    (60, 20, 1.2, 1.5), (100, 3, 0.4, 1.5), (400, 10, 0.7, 1.0), (400, 20, 0.7, 0.1),
    (400, 2, 1.8, 0.3), (400, 15, 0.3, 0.8), (400, 20, 1.0, 0.4),
]  # fmt: skip


@pytest.mark.parametrize("trial", range(len(QUASI_SETTINGS)))
def test_exact_risk_matches_quasi_monte_carlo(trial: int) -> None:
    rng = np.random.default_rng(200 + trial)
    d, L, gamma, lam = QUASI_SETTINGS[trial]
    task = Task(d=d, L=L, gamma=gamma)
    overlaps = Overlaps.of(*random_vectors(d, rng, close=trial % 3 == 2))
    estimate = quasi_monte_carlo(task, overlaps, lam, 2**15, seed=trial, n_scrambles=16)
    exact = float(softmax_risk(task, overlaps, lam))
    assert estimate.stderr < 2.5e-5 * max(estimate.value, 1)  # else it could not judge 1e-4
    assert abs(exact - estimate.value) < 1e-4 * max(estimate.value, 1)
    # Often the points are far better than that. Six standard errors from 16 scrambles are exceeded
    # by chance less than once in 3000 suites.
    assert abs(exact - estimate.value) < 6 * estimate.stderr + 1e-12


# Two tokens: a plain integral over two scores

TWO_TOKENS = [  # (d, gamma, lam)
    (4, 0.5, 0.01), (10, 1.5, 0.01), (6, 1.2, 1.0), (400, 0.7, 1.0), (30, 0.7, 5.0), (2, 2.0, 5.0),
    (10_000, 0.8, 0.05), (10_000, 1.5, 0.02), (10_000, 0.3, 0.1), (400, 0.7, 0.3), (10, 0.2, 2.0),
    (12, 1.0, 10.0),
]  # fmt: skip


@pytest.mark.parametrize(("d", "gamma", "lam"), [*TWO_TOKENS, (400, 0.7, 50.0), (3, 2.0, 50.0)])
def test_the_quadrature_for_two_tokens_has_converged(d: int, gamma: float, lam: float) -> None:
    task = Task(d=d, L=2, gamma=gamma)
    overlaps = random_overlaps(np.random.default_rng(d))
    coarse, fine = (two_tokens(task, overlaps, lam, refinement) for refinement in (1.0, 1.7))
    assert_allclose(coarse, fine, rtol=1e-13)


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize(("d", "gamma", "lam"), TWO_TOKENS)
def test_two_tokens_match_direct_quadrature(d: int, gamma: float, lam: float, close: bool) -> None:
    task = Task(d=d, L=2, gamma=gamma)
    overlaps = random_overlaps(np.random.default_rng(d + 7), close=close)
    assert_allclose(softmax_risk(task, overlaps, lam), two_tokens(task, overlaps, lam), rtol=1e-9)


@pytest.mark.parametrize(("d", "gamma"), [(3, 2.0), (400, 0.7)])
def test_two_tokens_match_direct_quadrature_when_attention_is_sharp(d: int, gamma: float) -> None:
    task, lam = Task(d=d, L=2, gamma=gamma), 50.0
    overlaps = random_overlaps(np.random.default_rng(d + 7))._replace(kappa=0.05)
    assert_allclose(softmax_risk(task, overlaps, lam), two_tokens(task, overlaps, lam), rtol=1e-9)


# Long sequences: the law of large numbers, and simulated scores


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize(
    ("d", "L", "lam"),
    [
        (400, 10**6, 1.0),
        (400, 10**9, 1.0),
        (900, 10**9, 1.0),
        (2000, 10**9, 0.7),
        (10**6, 10**7, 0.03),
        (10**12, 10**9, 4e-5),
    ],
)
def test_a_long_sequence_follows_the_law_of_large_numbers(
    d: int, L: int, lam: float, close: bool
) -> None:
    task = Task(d=d, L=L, gamma=0.8)
    overlaps = random_overlaps(np.random.default_rng(int(math.log(d * L))), close=close)
    limit = many_tokens(task, overlaps, lam)
    correction = (1 + 4 * lam**2) * math.exp(lam**2) / L
    assert_allclose(softmax_risk(task, overlaps, lam), limit, rtol=10 * correction + 1e-11)


def test_a_long_sequence_matches_simulated_scores() -> None:
    L, lam, n_samples = 100, 3.0, 100_000
    rng = np.random.default_rng(L)
    # The informative token competes with all the others together: exp(lam h kappa) is about L E[w].
    task = Task(d=int(2 * (math.log(L) / lam + lam / 2) ** 2 / 0.64), L=L, gamma=0.8)
    overlaps = Overlaps(kappa=0.8, nu=0.5, theta=0.1, eta=0.2, rho=0.3)
    estimate = simulated_scores(task, overlaps, lam, n_samples, rng)
    assert abs(estimate.value - softmax_risk(task, overlaps, lam)) < 4 * estimate.stderr


def test_known_values() -> None:
    # The oracle falls behind as the sequence gets longer; the zero predictor has gamma^2.
    values = {(0.707, 10**6): 0.1577, (0.707, 10**9): 0.4988}  # THEORY.md, section 8
    values |= {(math.sqrt(0.5), 10**6): 0.15775, (math.sqrt(0.5), 10**9): 0.49892}
    for (gamma, L), value in values.items():
        task = Task(d=400, L=L, gamma=gamma)
        digits = 0.5e-4 if gamma == 0.707 else 0.5e-5
        assert abs(softmax_risk(task, ALIGNED, 1.0) - value) < digits, (gamma, L)


# One token, and uniform attention


@pytest.mark.parametrize("d", [4, 400, 10**12])
@pytest.mark.parametrize("L", [1, 2, 10, 10**9])
def test_lam_0_is_uniform_attention(d: int, L: int) -> None:
    rng = np.random.default_rng(L)
    for gamma in (0.2, 0.7, 2.0):
        task, point = Task(d=d, L=L, gamma=gamma), random_overlaps(rng)
        _, nu, theta, _, _ = point
        informative = (task.signal * theta) ** 2 + gamma**2  # second moment of X_J0.v
        expected = gamma**2 - 2 * gamma**2 * nu / L + informative / L**2 + (L - 1) / L**2
        assert_allclose(softmax_risk(task, point, 0.0), expected, rtol=1e-13)
        gradient = softmax_gradient(task, point, 0.0)
        assert_allclose(gradient.nu, -2 * gamma**2 / L, rtol=1e-12)
        scale = 1e-12 * max(1.0, float(expected))
        assert_allclose(gradient.theta, task.d * theta / L**2, rtol=1e-12, atol=scale)
        # Uniform attention does not see k.
        assert_allclose([gradient.kappa, gradient.eta, gradient.rho], 0, atol=scale)


def uniform_lam_gradient(task: Task, overlaps: Overlaps) -> float:
    """The derivative in lam at lam = 0, by the Gaussian moments of the scores u and values V.

    There T = mean(V) changes by T' = mean(u V) - mean(u) mean(V), and R by -2 E[(Y - T) T'].
    """
    kappa, nu, theta, eta, rho = overlaps
    g2, L, n = task.gamma**2, task.L, task.L - 1
    u, V = task.signal * kappa, task.signal * theta  # means of the informative token
    label = g2 * (u * nu + V * eta) * n / L**2
    by_token = (u * (V**2 + g2) + 2 * V * g2 * rho + n * rho * V) / L**2
    by_means = (u * (V**2 + g2 + n) + 2 * V * rho * (g2 + n)) / L**3
    return float(-2 * (label - by_token + by_means))


@pytest.mark.parametrize("d", [4, 400])
@pytest.mark.parametrize("L", [1, 2, 10, 1000, 10**9])
def test_the_risk_leaves_lam_0_along_its_derivative(d: int, L: int) -> None:
    task, point = Task(d=d, L=L, gamma=0.8), random_overlaps(np.random.default_rng(L))
    slope = uniform_lam_gradient(task, point)
    start = float(softmax_risk(task, point, 0.0))
    atol = 1e-11 * max(1.0, start) * (1 + task.signal)  # a loss times a score
    assert_allclose(softmax_lam_gradient(task, point, 0.0), slope, rtol=1e-9, atol=atol)
    for lam in (1e-300, 1e-15, 1e-8, 1e-6, 1e-5):
        # The second derivative is at most of the order of the score's fourth power.
        bound = 10 * (lam * (1 + task.signal) ** 2) ** 2 + 1e-12 * max(1.0, start)
        assert abs(softmax_risk(task, point, lam) - start - lam * slope) < bound, lam


@pytest.mark.parametrize("lam", [0.0, 0.01, 1.0, 5.0])
@pytest.mark.parametrize("d", [4, 400, 10**12])
def test_one_token_is_linear_regression_whatever_lam(d: int, lam: float) -> None:
    rng = np.random.default_rng(int(10 * lam))
    for gamma in (0.2, 0.7, 2.0):
        task, point = Task(d=d, L=1, gamma=gamma), random_overlaps(rng)
        linear = 2 * gamma**2 * (1 - point.nu) + (task.signal * point.theta) ** 2
        for kappa in (point.kappa, -point.kappa, 0.0):
            turned = point._replace(kappa=kappa)
            assert_allclose(softmax_risk(task, turned, lam), linear, rtol=1e-13)
            gradient = softmax_gradient(task, turned, lam)
            assert_allclose(gradient.nu, -2 * gamma**2, rtol=1e-12)
            assert_allclose(gradient.theta, task.d * point.theta, rtol=1e-12)
            # Zero to round-off. Derivatives in kappa and lam are losses times lam h and scores.
            scale = 1e-12 * max(1.0, linear)
            assert_allclose([gradient.eta, gradient.rho], 0, atol=scale)
            assert_allclose(gradient.kappa, 0, atol=scale * (1 + lam * task.signal))
            lam_slope = softmax_lam_gradient(task, turned, lam)
            assert_allclose(lam_slope, 0, atol=scale * (1 + task.signal))


# Partial derivatives

PARTIALS = [  # (d, L, gamma, lam, kappa); the last three have exp(lam h kappa) about L
    (4, 2, 1.5, 0.3, 0.4), (30, 5, 0.7, 1.0, -0.2), (400, 10, 0.7, 0.2, 0.5),
    (12, 20, 1.0, 2.0, 0.3), (10**12, 10, 0.8, 1.5e-6, 0.6), (400, 10**6, 0.7, 1.0, 0.9),
    (400, 10**9, 0.7, 1.4, 0.9), (10**12, 10**9, 1.2, 4e-5, 0.75),
]  # fmt: skip


def partials_setting(trial: int) -> tuple[Task, float, Overlaps]:
    """A task, lam, and overlaps of which theta is such that the mean of X_J0.v is of order 1."""
    rng = np.random.default_rng(trial)
    d, L, gamma, lam, kappa = PARTIALS[trial]
    task = Task(d=d, L=L, gamma=gamma)
    nu, theta, eta, rho = rng.choice([-1, 1], 4) * rng.uniform(0.15, 0.3, 4)
    return task, lam, Overlaps(kappa, nu, theta * 4 / (1 + task.signal), eta, rho)


@pytest.mark.parametrize("trial", range(len(PARTIALS)))
@pytest.mark.parametrize("name", ["nu", "theta", "eta", "rho"])
def test_partials_of_the_quadratic_overlaps_are_central_differences(trial: int, name: str) -> None:
    # The risk is of degree 2 at most in each of the four, so there is no remainder at all.
    task, lam, point = partials_setting(trial)
    middle = getattr(point, name)
    ends = [point._replace(**{name: middle * factor}) for factor in (0.0, 2.0)]
    low, high = (float(softmax_risk(task, end, lam)) for end in ends)
    gradient = softmax_gradient(task, point, lam)
    atol = 1e-12 * max(low, high, 1.0) / abs(middle)
    assert_allclose(getattr(gradient, name), (high - low) / (2 * middle), rtol=1e-10, atol=atol)


@pytest.mark.parametrize("trial", range(len(PARTIALS)))
@pytest.mark.parametrize("along", ["kappa", "lam", "all"])
def test_partials_leave_a_remainder_of_second_order(trial: int, along: str) -> None:
    task, lam, point = partials_setting(trial)
    here = np.array([*point, lam])
    # Steps of order 1 in lam u_1, and in the mean of X_J0.v.
    reach = max(1.0, lam * task.signal)
    scales = np.array([1 / reach, 1, 1 / (1 + task.signal), 1, 1, lam / reach])
    chosen = {"kappa": [0], "lam": [5], "all": range(6)}[along]
    direction = np.zeros(6)
    direction[chosen] = np.random.default_rng(50 + trial).uniform(0.5, 1, len(chosen))
    direction *= scales
    gradient = softmax_gradient(task, point, lam)
    slope = float(np.dot([*gradient, softmax_lam_gradient(task, point, lam)], direction))

    def value(at: FloatArray) -> float:
        return float(softmax_risk(task, Overlaps(*at[:5]), at[5]))

    sizes = np.geomspace(1e-3, 1e-2, 6)
    remainders = [
        abs(value(here + size * direction) - value(here) - size * slope) for size in sizes
    ]
    order = np.polyfit(np.log(sizes), np.log(remainders), 1)[0]
    assert abs(order - 2) < 0.1  # 1 if a partial were wrong


@pytest.mark.parametrize("trial", range(6))
def test_the_erf_gate_has_a_derivative_in_lam_too(trial: int) -> None:
    rng = np.random.default_rng(300 + trial)
    task = Task(
        d=int(rng.integers(4, 500)), L=int(rng.integers(1, 20)), gamma=float(rng.uniform(0.3, 2))
    )
    lam, point = float(rng.uniform(0.05, 1.0)), random_overlaps(rng)
    slope = float(lam_gradient(task, point, lam, gate="erf"))
    assert slope == float(lam_gradient(task, point, lam))  # erf is the default
    sizes = lam * np.geomspace(1e-3, 1e-2, 6) / max(1.0, lam * task.signal)
    start = excess_risk(task, point, lam)
    remainders = [
        abs(excess_risk(task, point, lam + size) - start - size * slope) for size in sizes
    ]
    order = np.polyfit(np.log(sizes), np.log(remainders), 1)[0]
    assert abs(order - 2) < 0.1


def test_the_manifold_is_invariant() -> None:
    # On it the partials in theta, eta and rho vanish, so a gradient step stays on it.
    kappa, nu = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 5))
    zero = np.zeros_like(kappa)
    for d, L, lam in [(400, 10, 0.5), (4, 2, 3.0), (400, 10**9, 1.0), (10**12, 100, 1e-6)]:
        gradient = softmax_gradient(
            Task(d=d, L=L, gamma=0.7), Overlaps(kappa, nu, zero, zero, zero), lam
        )
        assert_allclose([gradient.theta, gradient.eta, gradient.rho], 0, atol=1e-12)


# Identities that hold at any d, L and lam

IDENTITY_SETTINGS = [  # (d, L, gamma, lam, kappa)
    (4, 2, 0.3, 5.0, 0.2), (4, 1, 1.0, 1.0, 0.5), (30, 7, 2.0, 0.4, -0.5), (400, 10, 0.7, 1.0, 0.1),
    (400, 10**6, 0.7, 1.0, 0.9), (400, 10**6, 1.4, 3.0, 0.6), (400, 10**9, 0.7, 1.4, 1.0),
    (10**12, 10**9, 0.7, 4e-5, 0.75), (10**6, 10**12, 0.5, 0.05, 0.8),
]  # fmt: skip


@pytest.mark.parametrize(("d", "L", "gamma", "lam", "kappa"), IDENTITY_SETTINGS)
def test_the_moments_satisfy_steins_identities(
    d: int, L: int, gamma: float, lam: float, kappa: float
) -> None:
    """E[c f(c)] = gamma^2 E[f'(c)], where a_1' = lam a_1 (1 - a_1) and B' = -lam a_1 B."""
    task, x = Task(d=d, L=L, gamma=gamma), 0.5
    g2, atol = gamma**2, 1e-11 * (1 + gamma**2)

    def value(theta: float = 0.0, eta: float = 0.0, rho: float = 0.0) -> float:
        point = Overlaps(kappa, 0.0, theta / task.signal, eta, rho)
        return float(softmax_risk(task, point, lam))

    def cross(first: str, second: str) -> float:
        """The coefficient of a product of two overlaps in the risk."""
        even, odd = value(**{first: x, second: x}), value(**{first: x, second: -x})
        return (even - odd) / (2 * x**2)

    zero = Overlaps(kappa, 0.0, 0.0, 0.0, 0.0)
    gradient = softmax_gradient(task, zero, lam)
    first, second = -gradient.nu / (2 * g2), (value(theta=x) - value()) / x**2  # E[a_1], E[a_1^2]
    assert 0 < first <= 1 + 1e-12
    # The coefficient of eta (h theta) is -2 E[a_1 c].
    assert_allclose(cross("eta", "theta"), -2 * lam * g2 * (first - second), atol=atol, rtol=0)
    # That of (h theta) rho is 2 E[a_1^2 c + a_1 B], that of eta rho 2 E[g2 a_1 - a_1 c^2 - B c].
    expected = lam * g2 * (cross("eta", "theta") + cross("theta", "rho"))
    assert_allclose(cross("eta", "rho"), expected, atol=atol, rtol=0)
    # E[a_1] changes with kappa by h lam E[a_1 (1 - a_1)].
    ends = [softmax_gradient(task, zero._replace(nu=nu), lam).kappa for nu in (x, -x)]
    by_kappa = -(ends[0] - ends[1]) / (4 * x * g2)
    reach = lam * task.signal
    assert_allclose(by_kappa, reach * (first - second), atol=atol * max(1.0, reach), rtol=0)


@pytest.mark.parametrize("lam", [0.0, 1e-6, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("L", [1, 2, 3, 10, 1000, 10**6, 10**9])
def test_tokens_that_k_cannot_tell_apart_have_equal_weights(L: int, lam: float) -> None:
    # At kappa = 0 and gamma = 1 all scores have one law: E[a_1] = 1/L and E[Q] = (L - 1) E[a_1^2].
    task, point = Task(d=400, L=L, gamma=1.0), Overlaps(0.0, 0.0, 0.0, 0.0, 0.0)
    assert_allclose(softmax_gradient(task, point, lam).nu, -2 / L, rtol=1e-10)
    squares = float(softmax_risk(task, point, lam)) - 1  # E[sum_l a_l^2]
    theta = 1.0 / task.signal
    second = float(softmax_gradient(task, point._replace(theta=theta), lam).theta) * theta / 2
    assert_allclose(L * second, squares, rtol=1e-10, atol=1e-12)
    assert 1 / L - 1e-12 <= squares <= 1 + 1e-12


def test_turning_v_and_v_star_around_changes_nothing() -> None:
    task, (kappa, nu, theta, eta, rho) = Task(d=40, L=7, gamma=0.7), (0.3, 0.2, 0.1, -0.3, 0.2)
    assert_allclose(
        softmax_risk(task, Overlaps(kappa, nu, -theta, -eta, -rho), 0.8),
        softmax_risk(task, Overlaps(kappa, nu, theta, eta, rho), 0.8),
        rtol=1e-13,
    )


# Limits

SHARP = [(10**6, 1.0), (400, 50.0), (10**12, 1.0)]  # (d, lam): lam h is 707 or more


@pytest.mark.parametrize(("d", "lam"), SHARP)
@pytest.mark.parametrize("L", [2, 10, 1000])
def test_sharp_attention_to_the_right_token_reads_it(d: int, L: int, lam: float) -> None:
    task = Task(d=d, L=L, gamma=0.7)
    assert_allclose(softmax_risk(task, ALIGNED, lam), 0, atol=1e-12)
    # a_1 = 1, so T = X_J0.v: linear regression on the informative token.
    point = Overlaps(0.9, 0.5, 1 / task.signal, 0.3, -0.2)
    assert_allclose(softmax_risk(task, point, lam), 2 * 0.49 * (1 - 0.5) + 1, rtol=1e-11)
    assert np.isfinite(softmax_gradient(task, point, lam)).all()


@pytest.mark.parametrize(("d", "lam"), SHARP)
def test_attention_that_turns_away_reads_the_noise(d: int, lam: float) -> None:
    # a_1 = 0: the risk is gamma^2 + (1 - rho^2) E[Q] + rho^2 E[B^2], of noise tokens alone.
    g2, away = 0.49, Overlaps(-1.0, 0.6, 0.0, 0.0, 0.5)
    # A single noise token has the weight 1, so Q = 1 and E[B^2] = 1.
    assert_allclose(softmax_risk(Task(d=d, L=2, gamma=0.7), away, lam), g2 + 1, rtol=1e-11)
    # Two have the weights p and 1 - p, where p depends on the difference of two scores, N(0, 2).
    # B is their mean, which is independent of the difference, plus (p - 1/2) difference.
    z, weights = gaussian_rule(10, min(0.05, 0.1 / lam))
    difference = math.sqrt(2) * z
    p = logistic(lam * difference)
    Q = float(weights @ (p**2 + (1 - p) ** 2))
    B2 = 0.5 + float(weights @ ((p - 0.5) * difference) ** 2)
    task = Task(d=d, L=3, gamma=0.7)
    expected = g2 + 0.75 * Q + 0.25 * B2
    assert_allclose(softmax_risk(task, away, lam), expected, rtol=1e-10)
    # Whatever L: the same squares as those of L - 1 tokens that k cannot tell apart.
    for L in (2, 3, 10, 1000, 10**6):
        squares = float(softmax_risk(Task(d=d, L=L, gamma=0.7), away._replace(rho=0.0), lam)) - g2
        alike = Task(d=400, L=L - 1, gamma=1.0)
        indifferent = float(softmax_risk(alike, Overlaps(0.0, 0.0, 0.0, 0.0, 0.0), lam)) - 1
        assert_allclose(squares, indifferent, rtol=1e-9, atol=1e-11)
        assert squares > 0
        assert np.isfinite(softmax_gradient(Task(d=d, L=L, gamma=0.7), away, lam)).all()


# Bounds

EDGES = {"log_d": math.log(1e12), "log_L": math.log(1e9), "gamma": 2.0, "lam": 10.0, "seed": 0}
RANGES = {
    "log_d": st.floats(math.log(4), math.log(1e12)),
    "log_L": st.floats(0, math.log(1e9)),
    "gamma": st.floats(0.2, 2),
    "lam": st.floats(0, 10),
    "seed": st.integers(0, 10**6),
}


def six_points(log_d: float, log_L: float, gamma: float, seed: int) -> tuple[Task, Overlaps]:
    task = Task(d=round(math.exp(log_d)), L=round(math.exp(log_L)), gamma=gamma)
    rng = np.random.default_rng(seed)
    points = [random_overlaps(rng, close=number % 2 == 1) for number in range(6)]
    return task, Overlaps(*np.array(points).T)


@given(**RANGES)
@example(**EDGES)
@example(**(EDGES | {"log_d": math.log(4)}))
@example(**(EDGES | {"log_L": 0.0}))
@example(**(EDGES | {"log_L": math.log(2), "gamma": 0.2}))
@example(**(EDGES | {"log_d": math.log(400), "gamma": 1.0, "lam": 0.0}))
def test_the_risk_lies_between_its_bounds(
    log_d: float, log_L: float, gamma: float, lam: float, seed: int
) -> None:
    task, overlaps = six_points(log_d, log_L, gamma, seed)
    value = softmax_risk(task, overlaps, lam)
    assert value.shape == (6,)
    assert np.isfinite(value).all()
    assert np.isfinite(softmax_gradient(task, overlaps, lam)).all()
    tolerance = 1e-11 * (1 + gamma**2 + (task.signal * overlaps.theta) ** 2)
    assert (value > lower_bound(task, overlaps) - tolerance).all()
    assert (value < upper_bound(task, overlaps) + tolerance).all()


def lower_bound(task: Task, overlaps: Overlaps) -> Any:
    """The smallest variance of Y - T(X) given the scores, over all weights that sum to 1.

    Given a_1 = a, it is smallest when the others have equal weights, Q = (1 - a)^2 / (L - 1). Then
    it is a parabola in a, with its minimum over [0, 1] at a ratio or at an end.
    """
    _, nu, _, eta, rho = overlaps
    g2, n = task.gamma**2, task.L - 1
    if n == 0:
        return g2 * (1 - eta**2 - 2 * (nu - rho * eta) + 1 - rho**2)
    linear = g2 * (nu - rho * eta) + (1 - rho**2) / n
    square = (1 - rho**2) * (g2 + 1 / n)
    a = np.clip(linear / square, 0, 1)
    return g2 * (1 - eta**2) + (1 - rho**2) / n - 2 * a * linear + a**2 * square


def upper_bound(task: Task, overlaps: Overlaps) -> Any:
    """A bound by convexity, (Y - T)^2 <= sum_l a_l (Y - X_l.v)^2.

    The informative token's term is largest for a_1 = 1. Given the scores, that of another token is
    a_l times (eta c - rho u_l)^2 + gamma^2 (1 - eta^2) + 1 - rho^2, where the square is at most
    2 eta^2 c^2 + 2 rho^2 max_l u_l^2, and E[max_l u_l^2] <= 2 log(L - 1) + 2 because P(u^2 > t) <=
    exp(-t/2).
    """
    _, nu, theta, eta, rho = overlaps
    g2, n = task.gamma**2, task.L - 1
    informative = (task.signal * theta) ** 2 + 2 * g2 * (1 - nu)
    if n == 0:
        return informative
    largest = 2 * math.log(n) + 2
    return informative + g2 * (1 + eta**2) + 1 - rho**2 + 2 * rho**2 * largest


# Shapes, noise, and bad input


def test_vectorised_over_overlaps_and_lam() -> None:
    rng = np.random.default_rng(0)
    task = Task(d=30, L=5, gamma=0.7)
    many = Overlaps(*rng.uniform(-0.4, 0.4, (5, 3, 4)))
    lam = rng.uniform(0, 3, (3, 4))
    lam[0, :2] = 0.0, 1e-8
    together, gradients = softmax_risk(task, many, lam), softmax_gradient(task, many, lam)
    slopes = softmax_lam_gradient(task, many, lam)
    assert together.shape == slopes.shape == (3, 4)
    assert together.dtype == np.float64
    for i, j in np.ndindex(3, 4):
        point = many.at((i, j))
        assert_allclose(softmax_risk(task, point, lam[i, j]), together[i, j], rtol=1e-9)
        alone = softmax_gradient(task, point, lam[i, j])
        assert_allclose(alone, [values[i, j] for values in gradients], rtol=1e-9, atol=1e-11)
        slope = softmax_lam_gradient(task, point, lam[i, j])
        assert_allclose(slope, slopes[i, j], rtol=1e-9, atol=1e-11)


def test_overlaps_and_lam_are_broadcast() -> None:
    task, lam = Task(d=100, L=50, gamma=0.7), np.array([[0.1], [0.5], [2.0]])
    kappa = np.linspace(-1, 1, 4)
    row = Overlaps(kappa, 0.3, 0.1, 0.0, -0.2)  # numbers beside an array
    table, gradients = softmax_risk(task, row, lam), softmax_gradient(task, row, lam)
    slopes = softmax_lam_gradient(task, row, lam)
    assert np.shape(table) == np.shape(slopes) == (3, 4)
    assert all(np.shape(values) == (3, 4) for values in gradients)
    for i, j in np.ndindex(3, 4):
        point, size = row._replace(kappa=kappa[j]), float(lam[i, 0])
        assert_allclose(softmax_risk(task, point, size), table[i, j], rtol=1e-9)
    column = softmax_risk(task, row._replace(kappa=0.5), lam[:, 0])  # many lam, one point
    assert np.shape(column) == (3,)
    assert_allclose(column[1], softmax_risk(task, row._replace(kappa=0.5), 0.5), rtol=1e-9)
    assert np.shape(softmax_risk(task, ALIGNED, 0.5)) == ()
    assert np.shape(softmax_risk(task, Overlaps(*np.zeros((5, 0))), 0.5)) == (0,)


def test_a_value_does_not_depend_on_its_neighbours() -> None:
    # Also when the others of the array are at the ends of the range.
    task, lam = Task(d=10**6, L=10**6, gamma=0.7), 0.03
    kappa = np.array([-1.0, -0.3, 0.0, 0.6, 1.0])
    row = Overlaps(kappa, 0.3, 0.001, 0.1, -0.2)
    alone = [softmax_risk(task, row._replace(kappa=one), lam) for one in kappa]
    assert_allclose(softmax_risk(task, row, lam), alone, rtol=1e-9)


def test_the_noise_of_the_label_adds_its_variance() -> None:
    task = Task(d=30, L=5, gamma=0.7, noise_std=0.5)
    expected = softmax_risk(task, ALIGNED, 0.4) + 0.25
    assert_allclose(risk(task, ALIGNED, 0.4, gate="softmax"), expected, rtol=1e-14)


def test_the_default_gate_is_still_erf() -> None:
    task = Task(d=30, L=5, gamma=0.7)
    assert excess_risk(task, ALIGNED, 0.4) == excess_risk(task, ALIGNED, 0.4, gate="erf")
    assert abs(excess_risk(task, ALIGNED, 0.4) - softmax_risk(task, ALIGNED, 0.4)) > 0.01


@pytest.mark.parametrize("function", [excess_risk, risk, risk_gradient, lam_gradient])
@pytest.mark.parametrize("lam", [-0.1, math.nan, [0.5, -1e-9], [[math.nan], [1.0]]])
def test_an_impossible_lam_is_refused(function: Any, lam: Any) -> None:
    with pytest.raises(ValueError, match="lam"):
        function(Task(d=30, L=5, gamma=0.7), ALIGNED, np.array(lam)[()], gate="softmax")


@pytest.mark.parametrize("function", [excess_risk, risk, risk_gradient, lam_gradient])
def test_an_unknown_gate_is_refused(function: Any) -> None:
    with pytest.raises(ValueError, match="gate") as error:
        function(Task(d=30, L=5, gamma=0.7), ALIGNED, 0.5, gate="sofmax")
    assert all(word in str(error.value) for word in ("erf", "softmax", "sofmax"))
