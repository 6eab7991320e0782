"""The predictor as an estimator: it recovers a planted truth, and behaves as sklearn's."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from slr import SingleLocationRegressor, Task, best_oracle_lam, predict, sample_batch, sample_truth
from slr.predictor import GATES

TASK = Task(d=30, L=4, gamma=0.7, noise_std=0.1)
TRUTH = sample_truth(TASK, np.random.default_rng(0))


def data(n: int, seed: int) -> tuple[Any, Any]:
    X, y, _ = sample_batch(TASK, TRUTH, n, np.random.default_rng(seed))
    return X, y


SETTINGS: dict[str, dict[str, Any]] = {
    # One start: a random one may find k = v*, a minimum that is lower still (docs/theory.md).
    "erf": {"lam": best_oracle_lam(TASK), "n_starts": 1},
    "one-sided": {"lam": 1.0, "fit_threshold": True},
    "softmax": {"lam": 1.0},
}


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("unit_v", [True, False])
def test_it_recovers_the_planted_directions(gate: Any, unit_v: bool) -> None:
    model = SingleLocationRegressor(gate=gate, unit_v=unit_v, **SETTINGS[gate]).fit(*data(3000, 1))
    k, v = model.k_, model.v_ / np.linalg.norm(model.v_)
    sign = np.sign(v @ TRUTH.v_star) if gate == "erf" else 1  # erf is odd: both may be turned
    assert sign * (k @ TRUTH.k_star) > 0.95
    assert sign * (v @ TRUTH.v_star) > 0.95
    X, y = data(3000, 2)
    # The erf gate lets noise tokens through; the others nearly reach the label noise.
    assert model.score(X, y) > (0.3 if gate == "erf" else 0.8)
    if gate == "one-sided":
        assert 0 < model.threshold_ < TASK.signal


@pytest.mark.parametrize("gate", GATES)
def test_on_shuffled_labels_it_finds_nothing(gate: Any) -> None:
    """The control."""
    X, y = data(3000, 1)
    model = SingleLocationRegressor(gate=gate, unit_v=False, **SETTINGS[gate])
    model.fit(X, np.random.default_rng(0).permutation(y))
    assert model.score(*data(3000, 2)) < 0.05


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("unit_v", [True, False])
def test_gradients(gate: Any, unit_v: bool) -> None:
    model = SingleLocationRegressor(gate=gate, unit_v=unit_v, fit_threshold=True, lam=0.8)
    X, y = data(40, 3)
    point = np.random.default_rng(0).standard_normal(2 * TASK.d + 1)
    error = check_grad(
        lambda p: model._loss_and_gradient(p, X, y)[0],
        lambda p: model._loss_and_gradient(p, X, y)[1],
        point,
    )
    assert error < 1e-5


def test_predictions_and_attention_are_the_predictors() -> None:
    model = SingleLocationRegressor(gate="one-sided", lam=0.7, fit_threshold=True, n_starts=1)
    X, y = data(500, 4)
    model.fit(X, y)
    options: dict[str, Any] = {"gate": "one-sided", "threshold": model.threshold_}
    assert_allclose(model.predict(X), predict(X, model.k_, model.v_, 0.7, **options))
    weights = model.attention(X)
    assert weights.shape == (500, TASK.L)
    assert_allclose(model.predict(X), (weights * (X @ model.v_)).sum(axis=1))
    assert model.loss_ == pytest.approx(np.mean((y - model.predict(X)) ** 2))


def test_it_is_a_scikit_learn_estimator() -> None:
    model = SingleLocationRegressor(gate="softmax", lam=2.0, random_state=3, n_starts=2)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    X, y = data(300, 0)
    with pytest.raises(NotFittedError):
        copy.predict(X)
    assert (model.fit(X, y).k_ == copy.fit(X, y).k_).all(), "equal seeds, equal results"
    assert model.fit(X, y) is model


@pytest.mark.parametrize(
    ("options", "X", "y", "message"),
    [
        ({"gate": "relu"}, np.zeros((4, 2, 3)), np.zeros(4), "gate must be one of"),
        ({"lam": 0.0}, np.zeros((4, 2, 3)), np.zeros(4), "lam must be positive"),
        ({"n_starts": 0}, np.zeros((4, 2, 3)), np.zeros(4), "n_starts"),
        ({}, np.zeros((4, 3)), np.zeros(4), r"shape \(n, L, d\)"),
        ({}, np.zeros((4, 2, 3)), np.zeros(5), "one entry per sequence"),
        ({}, np.full((4, 2, 3), np.nan), np.zeros(4), "X must be finite"),
        ({}, np.zeros((4, 2, 3)), np.full(4, np.inf), "y must be finite"),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SingleLocationRegressor(**options).fit(X, y)
