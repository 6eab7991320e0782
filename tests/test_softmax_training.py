"""Training with a softmax gate, and with a lam that is learned: on five overlaps as in R^d."""

import functools
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import ks_2samp
from vector_descent import descend

from slr import (
    EXPERIMENTS,
    Overlaps,
    Task,
    excess_risk,
    fixed_points,
    flow,
    pgd,
    published_start,
    sample_truth,
    sgd,
    start_on_manifold,
    start_on_sphere,
)
from slr.compiled import compiled
from slr.dynamics import steps
from slr.dynamics.portrait import flow_jacobian
from slr.dynamics.stability import predicted_stability_limit, stability_limit
from slr.gates import softmax
from slr.gates.interface import register
from slr.gates.softmax_moments import Nodes, coefficients, grid_step
from slr.gates.softmax_table import TOLERANCE, table
from slr.sweep import train_cell
from slr.task import Truth

PAPER = Task(d=400, L=10, gamma=math.sqrt(0.5))
GATES: list[Any] = ["erf", "softmax"]
ROOT = Path(__file__).parent.parent


def random_units(runs: int, d: int, rng: np.random.Generator) -> Any:
    x = rng.standard_normal((runs, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def differences(task: Task, options: dict[str, Any]) -> tuple[float, float]:
    """Largest difference of the overlaps, and of lam, between PGD on vectors and reduced PGD."""
    rng = np.random.default_rng(task.d)
    truth = sample_truth(task, rng)
    k, v = random_units(4, task.d, rng), random_units(4, task.d, rng)
    direct = descend(task, truth, k, v, **options)
    reduced = pgd(task, Overlaps.of(k, v, truth), **options)
    moved = max(abs(x[:, -1] - x[:, 0]).max() for x in reduced.overlaps)
    assert moved > 0.1, "the control: something happened"
    apart = [abs(x - y).max() for x, y in zip(direct.overlaps, reduced.overlaps, strict=True)]
    assert abs(direct.excess_risk - reduced.excess_risk).max() < 1e-9
    return max(apart), abs(direct.lam - reduced.lam).max()


@pytest.mark.parametrize(
    ("task", "lam", "lam_decay", "step_size", "n_steps"),
    [
        (Task(d=4, L=1, gamma=0.5), 0.3, 0.0, 0.01, 500),
        (Task(d=3, L=2, gamma=0.7), 1.5, 0.0, 0.02, 3000),
        (Task(d=5, L=4, gamma=2.0), 1.5, 1e-2, 0.02, 400),
        (Task(d=50, L=1000, gamma=1.0), 0.8, 1e-3, 0.1, 400),
        (PAPER, 0.1, 0.0, 4e-3, 3000),
        (PAPER, 1.0, 1e-3, 4e-3, 400),
    ],
)
def test_reduced_softmax_pgd_equals_pgd_on_vectors(
    task: Task, lam: float, lam_decay: float, step_size: float, n_steps: int
) -> None:
    options: dict[str, Any] = {"lam": lam, "lam_decay": lam_decay, "step_size": step_size}
    options |= {"n_steps": n_steps, "log_every": 100, "gate": "softmax"}
    assert max(differences(task, options)) < 1e-9


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(
    ("task", "lam"), [(Task(d=3, L=2, gamma=0.7), 0.5), (Task(d=40, L=5, gamma=1.2), 0.4)]
)
def test_reduced_pgd_with_a_learned_lam_equals_descent_in_lam_k(
    gate: Any, task: Task, lam: float
) -> None:
    options: dict[str, Any] = {"lam": lam, "step_size": 4e-4, "n_steps": 4000, "log_every": 800}
    apart, lam_apart = differences(task, options | {"gate": gate, "learn_lam": True})
    assert apart < 1e-9
    assert lam_apart < 1e-9


def test_descent_in_lam_k_lowers_the_risk_by_its_gradient() -> None:
    """The first step of a learned lam against the risk of a vector of free length, by hand."""
    task, lam, step_size = Task(d=40, L=5, gamma=1.2), 0.4, 1e-7
    start = Overlaps(*([x] for x in (0.3, 0.2, 0.1, -0.2, 0.15)))
    options: dict[str, Any] = {"lam": lam, "step_size": step_size, "n_steps": 1, "log_every": 1}
    for gate in GATES:
        run = pgd(task, start, **options, gate=gate, learn_lam=True)
        turned = pgd(task, start, **options, gate=gate)
        numerical = [float(excess_risk(task, start, lam + e, gate)[0]) for e in (1e-5, -1e-5)]
        slope = (numerical[0] - numerical[1]) / 2e-5
        assert run.lam[0, 1] - lam == pytest.approx(-step_size * slope, rel=1e-4)
        ratio = (run.final.kappa - start.kappa) / (turned.final.kappa - start.kappa)
        assert ratio[0] == pytest.approx(1 / lam**2, rel=1e-3)  # k turns by the angle of lam k


SGD_RUNS = 3000
SGD_START = Overlaps(0.3, 0.2, -0.25, 0.35, 0.1)
SGD_CASES: list[Any] = [
    (Task(d=6, L=3, gamma=0.8, noise_std=0.3), {"gate": "softmax", "lam": 0.8}, 2),
    (Task(d=20, L=4, gamma=0.5, noise_std=0.1), {"gate": "softmax", "lam": 0.6}, 3),
    (
        Task(d=8, L=2, gamma=1.4, noise_std=0.1),
        {"gate": "softmax", "lam": 0.7, "learn_lam": True, "lam_decay": 0.0},
        2,
    ),
    (
        Task(d=8, L=3, gamma=1.4, noise_std=0.1),
        {"gate": "erf", "lam": 0.7, "learn_lam": True, "lam_decay": 0.0},
        2,
    ),
]


@functools.cache
def sgd_logs(case: int, d: int | None = None) -> tuple[Any, Any]:
    """Overlaps and lam of many runs of both algorithms at three times, shape (6, runs, 3)."""
    task, changes, batch_size = SGD_CASES[case]
    options = {"lam_decay": 1e-2, "step_size": 0.05, "n_steps": 60, "log_every": 20} | changes
    options["batch_size"] = batch_size
    truth = Truth(np.eye(task.d)[0], np.eye(task.d)[1])
    k, v = np.zeros((2, SGD_RUNS, task.d))
    k[:, :4], v[:, :4] = steps.embedding(SGD_START)
    direct = descend(task, truth, k, v, **options, rng=np.random.default_rng(1))
    start = Overlaps(*(np.full(SGD_RUNS, x) for x in SGD_START))
    other = Task(d or task.d, task.L, task.gamma, task.noise_std)
    reduced = sgd(other, start, **options, rng=np.random.default_rng(2))
    one, two = (np.array([*x.overlaps, x.lam])[:, :, 1:] for x in (direct, reduced))
    return (one, two) if changes.get("learn_lam") else (one[:5], two[:5])


def smallest_p(direct: Any, reduced: Any) -> float:
    """Smallest p-value of Kolmogorov-Smirnov tests at all times, times their number."""
    pairs = [(i, t) for i in range(direct.shape[0]) for t in range(direct.shape[2])]
    p = [ks_2samp(direct[i, :, t], reduced[i, :, t]).pvalue for i, t in pairs]
    return float(min(p) * len(pairs))


@pytest.mark.parametrize("case", range(len(SGD_CASES)))
def test_reduced_sgd_has_the_law_of_sgd_on_vectors(case: int) -> None:
    direct, reduced = sgd_logs(case)
    assert smallest_p(direct, reduced) > 0.01
    joint = [x * y for n, x in enumerate(direct) for y in direct[:n]]
    joint_reduced = [x * y for n, x in enumerate(reduced) for y in reduced[:n]]
    assert smallest_p(np.array(joint), np.array(joint_reduced)) > 0.01


@pytest.mark.parametrize("case", [0, 2])
def test_the_law_test_sees_a_planted_error(case: int) -> None:
    """The control: the reduced run of another d has another law."""
    direct, _ = sgd_logs(case)
    _, wrong = sgd_logs(case, d=SGD_CASES[case][0].d + 2)
    assert smallest_p(direct, wrong) < 0.01, "the level of the test above"


@pytest.mark.parametrize(("lam", "risk"), [(0.05, 0.4073), (0.1, 0.2891), (0.2, 0.0770)])
def test_softmax_aligns_from_all_of_the_papers_starts(lam: float, risk: float) -> None:
    experiment = EXPERIMENTS["pgd-small-lambda"]
    start = published_start("pgd-small-lambda")
    options: dict[str, Any] = {"step_size": 4e-3, "n_steps": 20_000, "log_every": 2000}
    outcomes = pgd(experiment.task, start, lam=lam, **options, gate="softmax").outcomes()
    assert outcomes["aligned"].sum() == 30
    assert (outcomes["kappa"] > 0).all(), "the sign symmetry of erf is gone"
    assert outcomes["excess_risk"].round(4).unique() == pytest.approx([risk])
    if lam == 0.1:
        other = pgd(experiment.task, start, lam=lam, **options).outcomes()
        assert other["aligned"].sum() == 16, "the control: erf, as in the paper's figure"
        assert other["swapped"].sum() == 14


def test_runs_of_a_learned_lam_do_not_see_each_other() -> None:
    start = start_on_sphere(PAPER, 40, np.random.default_rng(0))
    options: dict[str, Any] = {"lam": 0.1, "step_size": 4e-3, "n_steps": 400, "log_every": 100}
    options |= {"gate": "softmax", "learn_lam": True}
    together = pgd(PAPER, start, **options)
    alone = pgd(PAPER, start.at([37]), **options)
    assert (np.array(alone.overlaps)[:, 0] == np.array(together.overlaps)[:, 37]).all()
    assert (alone.lam[0] == together.lam[37]).all()
    assert together.lam[:, -1].min() > 0.11, "the control: lam is learned"


def test_a_lam_that_leaves_the_first_table_is_followed() -> None:
    """From lam 0.02 to above 0.25 a table is widened; a wide one from the start ends equally."""
    start = start_on_manifold(PAPER, 3, np.random.default_rng(0))
    options: dict[str, Any] = {"step_size": 4e-3, "n_steps": 4000, "gate": "softmax"}
    options |= {"learn_lam": True, "lam": 0.1}
    often, once = (pgd(PAPER, start, **options, log_every=every) for every in (10, 4000))
    assert once.lam[:, -1].min() > 0.4
    assert abs(often.lam[:, -1] - once.lam[:, -1]).max() < 1e-9


@pytest.mark.parametrize("changed", [{"lam": 0.0}, {"lam_decay": 1e-3}])
def test_a_learned_lam_has_no_schedule_and_does_not_start_at_0(changed: dict[str, Any]) -> None:
    start = start_on_sphere(PAPER, 2, np.random.default_rng(0))
    options: dict[str, Any] = {"lam": 0.1, "step_size": 1e-3, "n_steps": 10, "log_every": 5}
    with pytest.raises(ValueError, match="lam that is learned"):
        pgd(PAPER, start, **options | changed, learn_lam=True)
    with pytest.raises(ValueError, match="lam that is learned"):
        rng = np.random.default_rng(0)
        sgd(PAPER, start, **options | changed, batch_size=2, rng=rng, learn_lam=True)


# ---- the tables


@pytest.mark.parametrize(
    ("task", "low", "high"),
    [
        (PAPER, 0.1, 0.1),
        (PAPER, 0.05, 1.9),
        (Task(d=400, L=10**9, gamma=0.7), 1.0, 1.0),
        (Task(d=10**12, L=10, gamma=1.0), 1e-6, 0.2),
        (Task(d=10**6, L=1000, gamma=0.3), 3.0, 3.0),
        (Task(d=4, L=2, gamma=2.0), 0.5, 0.5),
    ],
)
def test_tables_keep_their_tolerance_against_a_refined_rule(
    task: Task, low: float, high: float
) -> None:
    """At random places, against integrals with a third of the steps: values and derivatives."""
    chosen = table(task, low, high)
    assert 0 < chosen.error <= TOLERANCE
    rng = np.random.default_rng(0)
    for lam in {low, high, (low + high) / 2}:
        step = grid_step(task, lam)
        top = min(lam * task.signal, 60.0)
        mu = rng.uniform(-top, top, 40)
        exact = np.array(
            [coefficients(task, lam, Nodes(x, step, 1, np.array([-1.0])), step, 3) for x in mu]
        )[:, :, :, 0, 0]
        values, slopes = softmax.moments(task, mu / (lam * task.signal), lam)
        for i, of_table in enumerate((values, slopes)):
            for f, column in enumerate(of_table):
                scale = abs(exact[:, i, f]).max()
                assert abs(column - exact[:, i, f]).max() < 2 * TOLERANCE * scale


def test_a_table_that_cannot_reach_its_accuracy_is_refused(monkeypatch: Any) -> None:
    from slr.gates import softmax_table

    monkeypatch.setattr(softmax_table, "DEGREES", ((3, 3),))
    with pytest.raises(ValueError, match=r"has an error of .* instead of 1e-09; choose a smaller"):
        excess_risk(Task(d=411, L=10, gamma=0.7), Overlaps(*[0.1] * 5), 0.5, "softmax")


# ---- landscape


@pytest.mark.parametrize("task", [PAPER, Task(d=400, L=2, gamma=0.6), Task(d=30, L=100, gamma=2.0)])
@pytest.mark.parametrize("lam", [0.05, 0.5])
def test_fixed_points_of_softmax_lie_on_the_edges(task: Task, lam: float) -> None:
    points = fixed_points(task, lam, "softmax")
    for point in points:
        velocity = flow(task, point.kappa, point.nu, lam, "softmax")
        assert abs(np.array(velocity)).max() < 1e-8
    assert {(p.kappa, p.nu) for p in points if p.kind == "minimum"} == {(1.0, 1.0)}
    assert {abs(p.nu) for p in points} == {1.0}, "nu always grows inside"
    # all of them: changes of the sign of R_kappa along both edges, and the corners
    kappa = np.linspace(-1, 1, 4001)[1:-1]
    roots = 0
    for nu in (-1.0, 1.0):
        slope = softmax.on_manifold(task, kappa, nu, lam).kappa
        roots += int((np.sign(slope[1:]) != np.sign(slope[:-1])).sum())
    assert len(points) == 4 + roots


@pytest.mark.parametrize("gate", GATES)
def test_the_jacobian_of_the_flow_is_its_derivative(gate: Any) -> None:
    task, lam, e = Task(d=100, L=5, gamma=0.8), 0.3, 1e-5
    for kappa, nu in ((0.3, 0.4), (-0.5, 0.9), (1.0, -1.0)):
        numerical = np.array(
            [
                (np.array(flow(task, kappa + a, nu + b, lam, gate))
                 - np.array(flow(task, kappa - a, nu - b, lam, gate))) / (2 * e)
                for a, b in ((e, 0.0), (0.0, e))
            ]
        ).T  # fmt: skip
        assert numerical == pytest.approx(flow_jacobian(task, kappa, nu, lam, gate), abs=1e-6)


@pytest.mark.parametrize("lam", [0.05, 0.3])
def test_the_stability_limit_of_softmax_is_that_of_its_hessian(lam: float) -> None:
    predicted = predicted_stability_limit(PAPER, lam, "softmax")
    assert stability_limit(PAPER, lam, "softmax") == pytest.approx(predicted, rel=0.02)


def test_a_sweep_of_both_gates_begins_at_the_same_starts() -> None:
    cells = [train_cell({"n_steps": 0, "runs": 3, "gate": gate}) for gate in GATES]
    assert cells[0]["abs_kappa"] == cells[1]["abs_kappa"]
    assert cells[0]["excess_risk"] != cells[1]["excess_risk"]
    with pytest.raises(ValueError, match="gate must be one of erf, softmax"):
        train_cell({"gate": "relu"})


# ---- a third gate


class Tilted(NamedTuple):
    """A risk that is linear in the overlaps."""

    slope: float


@compiled()
def tilted_gradients(model: Any, overlaps: Any, lam: Any, slopes: Any) -> None:
    for run in range(slopes.shape[1]):
        for i in range(5):
            slopes[i, run] = 0.0
        slopes[0, run] = -model.slope


def test_another_gate_moves_by_the_same_motion() -> None:
    """With the risk -slope kappa, k goes straight to k*, and v stays."""
    register(Tilted, gradients=tilted_gradients)
    start = Overlaps(0.1, 0.2, 0.3, -0.2, 0.1)
    vectors = np.repeat(steps.embedding(start).ravel(), steps.LANES)
    arrays = np.empty((5, steps.LANES)), np.empty((5, steps.LANES))
    for _ in range(3000):
        steps.pgd_lanes(vectors, Tilted(1.0), 0.1, 1e-2, *arrays)
    k, v = steps.lane_of.py_func(vectors, 3)
    assert k == pytest.approx([1, 0, 0, 0], abs=1e-9)
    assert v == pytest.approx(steps.embedding(start)[1])
    # The compiled step is now on disk with a type that no other program knows: no harm is done.
    code = (
        "from slr import *; task = Task(9, 2, 1.0); start = Overlaps(*[[0.1]] * 5);"
        "pgd(task, start, lam=0.1, step_size=0.1, n_steps=2, log_every=1); print('trained')"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.stdout == "trained\n", run.stderr


def test_a_run_that_one_step_throws_far_away_has_diverged_at_once() -> None:
    """A table for lam from 1e-6 to 64 takes minutes; no piece of it is made."""
    task = Task(d=10**12, L=10, gamma=0.7)
    start = start_on_sphere(task, 3, np.random.default_rng(0))
    options: dict[str, Any] = {"lam": 2e-6, "n_steps": 20, "log_every": 10, "gate": "softmax"}
    made = table.cache_info().misses
    thrown = pgd(task, start, **options, step_size=4e-3, learn_lam=True)
    assert thrown.diverged.all()
    assert (thrown.lam == 2e-6).all()
    assert table.cache_info().misses <= made + 3
    calm = pgd(task, start, **options, step_size=1e-13, learn_lam=True)
    assert not calm.diverged.any()


def test_a_large_step_from_a_tiny_lam_that_lowers_the_risk_is_kept() -> None:
    """The control: lam grows a million times in one step, as it should."""
    start = start_on_sphere(PAPER, 3, np.random.default_rng(0))
    options: dict[str, Any] = {"lam": 1e-9, "step_size": 4e-3, "n_steps": 10, "log_every": 1}
    run = pgd(PAPER, start, **options, gate="softmax", learn_lam=True)
    assert (run.lam[:, 1] > 1e-4).all()
    assert not run.diverged.any()


def test_progress_is_reported_while_a_table_is_made() -> None:
    told: list[int] = []
    task = Task(d=17, L=3, gamma=0.77)  # no other test has its table
    start = start_on_sphere(task, 2, np.random.default_rng(0))
    options: dict[str, Any] = {"lam": 0.1, "step_size": 1e-3, "n_steps": 4, "log_every": 2}
    pgd(task, start, **options, gate="softmax", progress=told.append)
    assert told[0] == 0
    assert sum(told) == 8
