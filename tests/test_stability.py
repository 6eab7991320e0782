"""The Hessian at the aligned point, against finite differences and against PGD itself."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from slr import EXPERIMENTS, Overlaps, Task, excess_risk, pgd, sample_truth
from slr.dynamics.scaling import flow_velocity, scaled_experiment
from slr.dynamics.stability import (
    hessian_eigenvalues,
    predicted_stability_limit,
    slope_on_spheres,
    smallest_slope_at_v_star,
    stability_limit,
)
from slr.dynamics.steps import embedding
from slr.risks import gate_module
from slr.task import Truth


def numerical_hessian(
    task: Task, lam: float, truth: Truth, k: Any, v: Any, size: float = 1e-4
) -> Any:
    """Second differences of the risk along the two spheres at (k, v).

    The risk sees overlaps only, so the vectors may have fewer dimensions than the task.
    """
    # Orthonormal bases of the two tangent spaces, one vector per row.
    bases = [np.linalg.svd(x[None])[2][1:] for x in (k, v)]
    n = len(k) - 1

    def risk(*moves: tuple[int, float]) -> float:
        tangent = np.zeros(2 * n)
        for i, x in moves:
            tangent[i] += x
        turned = []
        for point, basis, part in zip((k, v), bases, np.split(tangent, 2), strict=True):
            along = part @ basis
            angle = float(np.linalg.norm(along))  # along a great circle
            ratio = math.sin(angle) / angle if angle else 1.0
            turned.append(math.cos(angle) * point + ratio * along)
        return float(excess_risk(task, Overlaps.of(turned[0], turned[1], truth), lam))

    hessian = np.empty((2 * n, 2 * n))
    for i in range(2 * n):
        for j in range(2 * n):
            corners = [(a, b, risk((i, a * size), (j, b * size))) for a in (1, -1) for b in (1, -1)]
            hessian[i, j] = sum(a * b * value for a, b, value in corners) / (4 * size**2)
    return hessian


@pytest.mark.parametrize(
    ("task", "lam"),
    [
        (Task(d=2, L=3, gamma=0.8), 0.4),
        (Task(d=5, L=4, gamma=0.7), 0.3),
        (Task(d=6, L=10, gamma=1.3), 1.0),
        (Task(d=8, L=1, gamma=0.5), 0.6),
    ],
)
def test_the_eigenvalues_are_those_of_the_risk_on_vectors(task: Task, lam: float) -> None:
    truth = sample_truth(task, np.random.default_rng(0))
    hessian = numerical_hessian(task, lam, truth, truth.k_star, truth.v_star)
    numerical = np.linalg.eigvalsh(hessian)
    closed = hessian_eigenvalues(task, lam)
    # Second differences err by 1e-7: the square of their size, and round-off over that square.
    distance = abs(numerical[:, None] - closed)
    assert distance.min(axis=1).max() < 1e-6 * abs(closed).max(), "each is one of the four"
    assert distance.min(axis=0).max() < 1e-6 * abs(closed).max(), "and each of the four is there"


@pytest.mark.parametrize("d", [100, 400, 10**6, 10**12])
def test_pgd_returns_below_two_over_the_largest_eigenvalue_and_not_above(d: int) -> None:
    task, lam = Task(d=d, L=10, gamma=0.7), 2 / math.sqrt(d)
    predicted = predicted_stability_limit(task, lam)
    assert stability_limit(task, lam) == pytest.approx(predicted, rel=1e-3)


def test_the_papers_schedule_starts_beyond_the_limit() -> None:
    """Values of an independent audit, by second differences of its own code (two digits)."""
    schedule = EXPERIMENTS["pgd-schedule"]
    found = [predicted_stability_limit(schedule.task, lam) for lam in (1.0, 0.5, 0.2, 0.1)]
    assert_allclose(found, [0.0023, 0.0028, 0.0038, 0.0047], atol=5e-5)
    assert hessian_eigenvalues(schedule.task, 1.0)[0] == pytest.approx(-0.29, abs=5e-3)
    assert hessian_eigenvalues(schedule.task, 0.5)[0] > 0, "the control"


@pytest.mark.parametrize(("lam", "swapped_is_stable"), [(0.35, False), (0.28, True), (0.2, True)])
def test_along_the_schedule_the_swapped_point_is_stable_first(
    lam: float, swapped_is_stable: bool
) -> None:
    """So stability does not explain that most runs choose the aligned point."""
    schedule = EXPERIMENTS["pgd-schedule"]
    start = Overlaps(0.0, 0.0, 0.5, 1.0, 0.0)  # k at v*, v partly along k*
    options: dict[str, Any] = {"step_size": 5e-4, "n_steps": 100_000, "log_every": 100_000}
    swapped = pgd(schedule.task, start, lam=lam, **options).final.at(0)
    k, v = np.zeros(6), np.zeros(6)
    k[:4], v[:4] = embedding(Overlaps(*map(float, swapped)))
    axes = np.eye(6)
    hessian = numerical_hessian(schedule.task, lam, Truth(axes[0], axes[1]), k, v)
    limit = 2 / np.linalg.eigvalsh(hessian)[-1]
    assert (limit > schedule.step_size) == swapped_is_stable
    assert predicted_stability_limit(schedule.task, lam) < schedule.step_size


@pytest.mark.parametrize("gate", ["erf", "softmax"])
def test_the_slope_on_spheres_is_the_speed_of_the_flow_of_vectors(gate: Any) -> None:
    rng = np.random.default_rng(0)
    task, lam = EXPERIMENTS["pgd-small-lambda"].task, 0.1
    model = gate_module(gate).model(task, lam, lam)
    for _ in range(20):
        k, v = (x / np.linalg.norm(x) for x in rng.normal(size=(2, 4)))
        overlaps = Overlaps(k[0], v[1], v[0], k[1], k @ v)
        speed = np.linalg.norm(flow_velocity(embedding(overlaps).ravel(), model, lam))
        assert float(slope_on_spheres(task, overlaps, lam, gate)) == pytest.approx(speed, rel=1e-6)


@pytest.mark.parametrize("lam", [0.05, 0.1, 0.2])
def test_erf_has_a_swapped_point_and_softmax_has_none(lam: float) -> None:
    task = EXPERIMENTS["pgd-small-lambda"].task
    assert smallest_slope_at_v_star(task, lam)[0] < 1e-6
    assert smallest_slope_at_v_star(task, lam, "softmax")[0] > 1e-3


def test_a_scaled_step_size_is_stable() -> None:
    for d in (400, 10**5):
        scaled = scaled_experiment("pgd-small-lambda", d)
        assert scaled.step_size <= predicted_stability_limit(scaled.task, scaled.lam) / 2
