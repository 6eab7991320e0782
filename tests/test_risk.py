"""The closed-form risk: against quadrature, simulation, its own Taylor expansion, and the paper."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import erf, owens_t

from slr import (
    ALIGNED,
    Overlaps,
    Task,
    empirical_risk,
    excess_risk,
    predict,
    risk,
    risk_gradient,
    sample_batch,
    sample_truth,
)
from slr.overlaps import check_gram
from slr.special import zeta


def random_unit(d: int, rng: np.random.Generator) -> Any:
    x = rng.standard_normal(d)
    return x / np.linalg.norm(x)


@given(st.floats(-30, 30), st.floats(1e-3, 30))
def test_zeta_is_the_integral_that_defines_it(mean: float, scale: float) -> None:
    # quad is given the knee of erf, which is narrow for a large scale.
    def integrand(z: float) -> float:
        return float(erf(mean + scale * z) ** 2 * math.exp(-z * z / 2) / math.sqrt(2 * math.pi))

    knee = float(np.clip(-mean / scale, -9, 9))
    value, _ = quad(integrand, -10, 10, points=[knee], limit=500, epsabs=1e-12)
    assert abs(zeta(mean, scale=scale) - value) < 1e-10


def test_zeta_is_one_minus_eight_times_owens_t() -> None:
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(5000) * 10 ** rng.uniform(-3, 2, 5000)
    scale = 10 ** rng.uniform(-4, 3, 5000)
    h, a = abs(mean) * np.sqrt(2 / (1 + 2 * scale**2)), 1 / np.sqrt(1 + 4 * scale**2)
    assert_allclose(zeta(mean, scale=scale), 1 - 8 * owens_t(h, a), rtol=0, atol=2e-15)


def test_zeta_keeps_its_digits_where_one_minus_eight_owens_t_loses_them() -> None:
    # For a small scale, zeta(0) = 4/pi scale^2 (1 - ...): known to full relative precision.
    scale = 1e-9
    assert_allclose(zeta(0.0, scale=scale), 4 / math.pi * scale**2, rtol=1e-12)
    assert abs(1 - 8 * owens_t(0, 1 / math.sqrt(1 + 4 * scale**2)) - 4 / math.pi * scale**2) > 1e-18


@pytest.mark.parametrize("trial", range(12))
def test_closed_form_matches_simulation(trial: int) -> None:
    rng = np.random.default_rng(trial)
    task = Task(
        d=int(rng.integers(2, 15)),
        L=int(rng.integers(1, 8)),
        gamma=float(rng.uniform(0.2, 2)),
        noise_std=float(rng.uniform(0, 0.5)),
    )
    lam = float(rng.uniform(0.05, 1.5))
    truth = sample_truth(task, rng)
    k, v = random_unit(task.d, rng), random_unit(task.d, rng)
    X, y, _ = sample_batch(task, truth, 100_000, rng)
    losses = (y - predict(X, k, v, lam)) ** 2
    stderr = losses.std() / math.sqrt(len(losses))
    # 12 trials: 4 standard errors are exceeded by chance less than once in 1000 suites.
    assert abs(losses.mean() - risk(task, Overlaps.of(k, v, truth), lam)) < 4 * stderr
    assert empirical_risk(X, y, k, v, lam) == pytest.approx(losses.mean())


def test_the_simulation_test_would_see_a_wrong_formula() -> None:
    """The control: leaving out one term of the risk is many standard errors away."""
    rng = np.random.default_rng(0)
    task, lam = Task(d=6, L=4, gamma=0.8), 0.6
    truth = sample_truth(task, rng)
    k, v = random_unit(task.d, rng), random_unit(task.d, rng)
    X, y, _ = sample_batch(task, truth, 100_000, rng)
    losses = (y - predict(X, k, v, lam)) ** 2
    stderr = losses.std() / math.sqrt(len(losses))
    without = excess_risk(task, Overlaps.of(k, v, truth)._replace(rho=0.0), lam)
    assert abs(losses.mean() - without) > 8 * stderr


@pytest.mark.parametrize("trial", range(8))
def test_partials_leave_a_remainder_of_second_order(trial: int) -> None:
    rng = np.random.default_rng(100 + trial)
    task = Task(
        d=int(rng.integers(2, 500)), L=int(rng.integers(1, 20)), gamma=float(rng.uniform(0.3, 2))
    )
    lam = float(rng.uniform(0.05, 1.0))
    point = Overlaps(*rng.uniform(-0.5, 0.5, 5))
    direction = rng.standard_normal(5)
    slope = float(np.dot(risk_gradient(task, point, lam), direction))
    sizes = np.geomspace(1e-3, 1e-2, 6) / math.sqrt(task.d)
    remainders = [
        abs(
            excess_risk(task, Overlaps(*(np.array(point) + size * direction)), lam)
            - excess_risk(task, point, lam)
            - size * slope
        )
        for size in sizes
    ]
    order = np.polyfit(np.log(sizes), np.log(remainders), 1)[0]
    assert abs(order - 2) < 0.1  # 1 if a partial were wrong


def test_vectorised_over_overlaps_and_lam() -> None:
    rng = np.random.default_rng(0)
    task = Task(d=30, L=5, gamma=0.7)
    many = Overlaps(*rng.uniform(-0.4, 0.4, (5, 3, 4)))
    lam = rng.uniform(0.1, 1, (3, 4))
    together, gradients = excess_risk(task, many, lam), risk_gradient(task, many, lam)
    assert together.shape == (3, 4)
    for i, j in np.ndindex(3, 4):
        assert excess_risk(task, many.at((i, j)), lam[i, j]) == pytest.approx(together[i, j])
        one = risk_gradient(task, many.at((i, j)), lam[i, j])
        assert_allclose(one, [partial[i, j] for partial in gradients])


def test_finite_at_the_edges() -> None:
    kappa, lam = np.meshgrid([-1.0, 0.0, 1.0], [0.0, 1e-300, 1e-8, 1.0, 1e8])
    zero = np.zeros_like(kappa)
    point = Overlaps(kappa, np.where(kappa == 0, 0.5, 1.0), zero, zero, zero)
    for d, L, gamma in itertools.product([2, 400, 10**12], [1, 2, 10], [1e-8, 1.0, 1e6]):
        task = Task(d=d, L=L, gamma=gamma)
        assert np.isfinite(excess_risk(task, point, lam)).all(), task
        gradient = risk_gradient(task, point, lam)
        assert np.isfinite(gradient).all(), task
        assert not np.any([gradient.theta, gradient.eta, gradient.rho]), task


def test_known_values() -> None:
    task = Task(d=400, L=10, gamma=0.7)
    # Closed gate: the zero predictor.
    assert excess_risk(task, Overlaps(0.3, 0.2, 0.1, 0.0, 0.1), 0.0) == pytest.approx(0.49)
    # One token and an open gate: T = X.v is exact at v = v*.
    alone = Task(d=10**6, L=1, gamma=0.7)
    assert excess_risk(alone, ALIGNED, 10.0) == pytest.approx(0, abs=1e-12)
    # Turning both k and v around changes nothing.
    point = Overlaps(0.3, 0.2, 0.1, -0.1, 0.1)
    turned = Overlaps(-0.3, -0.2, -0.1, 0.1, 0.1)
    assert excess_risk(task, turned, 0.4) == pytest.approx(excess_risk(task, point, 0.4))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d": 1}, "d must be"),
        ({"d": 2.5}, "d must be"),
        ({"L": 0}, "L must be"),
        ({"gamma": 0.0}, "gamma must be"),
        ({"gamma": math.nan}, "gamma must be"),
        ({"noise_std": -1.0}, "noise_std must be"),
    ],
)
def test_an_impossible_task_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Task(**({"d": 10, "L": 3, "gamma": 0.7} | values))


def test_an_impossible_gram_matrix_is_refused() -> None:
    task = Task(d=10, L=3, gamma=0.7)
    check_gram(task, Overlaps(0.6, 0.8, -0.6, 0.8, 0.28))
    with pytest.raises(ValueError, match=r"no unit vectors in R\^10 have the overlaps kappa=1.2"):
        check_gram(task, Overlaps(1.2, 0.0, 0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match=r"\(run 1\)"):
        check_gram(task, Overlaps(*np.array([[0.1, 0.9], [0.1, 0.9], [0, 0], [0, 0], [0.1, 0.9]])))
    with pytest.raises(ValueError, match="finite"):
        check_gram(task, Overlaps(math.nan, 0.0, 0.0, 0.0, 0.0))
    # Fine in R^4, but in R^2 k has no room off k* and v*.
    check_gram(Task(d=4, L=3, gamma=0.7), Overlaps(0.5, 0.5, 0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match=r"R\^2"):
        check_gram(Task(d=2, L=3, gamma=0.7), Overlaps(0.5, 0.5, 0.0, 0.0, 0.0))
