"""Training on five overlaps is training in R^d: exactly for PGD, in law for SGD."""

import functools
import math
from typing import Any

import numba
import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy.stats import ks_2samp, kstest
from vector_descent import descend

from slr import (
    Overlaps,
    Task,
    pgd,
    sample_truth,
    sgd,
    start_on_manifold,
    start_on_sphere,
)
from slr.dynamics import reduced, steps
from slr.dynamics.batch_step import frame
from slr.dynamics.threads import thread_limit
from slr.gates import erf
from slr.overlaps import check_gram, gram_matrix
from slr.special import FEW, MANY
from slr.task import Truth

PAPER = Task(d=400, L=10, gamma=math.sqrt(0.5))


def random_units(runs: int, d: int, rng: np.random.Generator) -> Any:
    x = rng.standard_normal((runs, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("task", "lam", "lam_decay", "step_size", "n_steps"),
    [
        (Task(d=2, L=1, gamma=0.5), 0.3, 0.0, 0.01, 3000),
        (Task(d=3, L=2, gamma=0.7), 0.5, 0.0, 0.01, 3000),
        (Task(d=5, L=4, gamma=2.0), 1.5, 1e-2, 0.002, 3000),
        (Task(d=50, L=5, gamma=1.5), 0.3, 1e-3, 0.001, 3000),
        (PAPER, 0.1, 0.0, 4e-3, 3000),
        (PAPER, 0.9, 0.0, 1e-3, 3000),
    ],
)
def test_reduced_pgd_equals_pgd_on_vectors(
    task: Task, lam: float, lam_decay: float, step_size: float, n_steps: int
) -> None:
    rng = np.random.default_rng(task.d)
    truth = sample_truth(task, rng)
    k, v = random_units(4, task.d, rng), random_units(4, task.d, rng)
    options: dict[str, Any] = {"lam": lam, "lam_decay": lam_decay, "step_size": step_size}
    options |= {"n_steps": n_steps, "log_every": 500}
    direct = descend(task, truth, k, v, **options)
    reduced = pgd(task, Overlaps.of(k, v, truth), **options)
    assert_array_equal(direct.step, reduced.step)
    for one, other in zip(direct.overlaps, reduced.overlaps, strict=True):
        assert abs(one - other).max() < 1e-9
    assert abs(direct.excess_risk - reduced.excess_risk).max() < 1e-9
    moved = max(abs(x[:, -1] - x[:, 0]).max() for x in reduced.overlaps)
    assert moved > 0.1, "the control: something happened"


def start_vectors(overlaps: Overlaps, d: int) -> tuple[Any, Any]:
    k, v = np.zeros(d), np.zeros(d)
    k[:4], v[:4] = steps.embedding(overlaps)
    return k, v


SGD_CASES = [
    (Task(d=6, L=3, gamma=0.8, noise_std=0.3), 0.8, 2),
    (Task(d=8, L=2, gamma=1.4, noise_std=0.0), 1.5, 1),
    (Task(d=20, L=4, gamma=0.5, noise_std=0.1), 0.4, 3),
]
SGD_RUNS = 4000
SGD_START = Overlaps(0.3, 0.2, -0.25, 0.35, 0.1)


@functools.cache
def sgd_logs(task: Task, lam: float, batch_size: int) -> tuple[Any, Any]:
    """The overlaps of many runs of both algorithms at three times, shape (5, runs, 3)."""
    options: dict[str, Any] = {"lam": lam, "lam_decay": 1e-2, "step_size": 0.1}
    options |= {"n_steps": 60, "log_every": 20, "batch_size": batch_size}
    truth = Truth(np.eye(task.d)[0], np.eye(task.d)[1])
    k, v = start_vectors(SGD_START, task.d)
    stacked = np.tile(k, (SGD_RUNS, 1)), np.tile(v, (SGD_RUNS, 1))
    direct = descend(task, truth, *stacked, **options, rng=np.random.default_rng(1))
    start = Overlaps(*(np.full(SGD_RUNS, x) for x in SGD_START))
    reduced = sgd(task, start, **options, rng=np.random.default_rng(2))
    return np.array(direct.overlaps)[:, :, 1:], np.array(reduced.overlaps)[:, :, 1:]


def smallest_p(direct: Any, reduced: Any) -> float:
    """Smallest p-value of Kolmogorov-Smirnov tests, all overlaps and times, times their number."""
    pairs = [(i, t) for i in range(direct.shape[0]) for t in range(direct.shape[2])]
    p = [ks_2samp(direct[i, :, t], reduced[i, :, t]).pvalue for i, t in pairs]
    return float(min(p) * len(pairs))


@pytest.mark.parametrize(("task", "lam", "batch_size"), SGD_CASES)
def test_reduced_sgd_has_the_law_of_sgd_on_vectors(task: Task, lam: float, batch_size: int) -> None:
    direct, reduced = sgd_logs(task, lam, batch_size)
    assert smallest_p(direct, reduced) > 0.01  # corrected for 15 tests
    # Products of overlaps see what the five laws one by one do not: their dependence.
    joint = [x * y for n, x in enumerate(direct) for y in direct[:n]]
    joint_reduced = [x * y for n, x in enumerate(reduced) for y in reduced[:n]]
    assert smallest_p(np.array(joint), np.array(joint_reduced)) > 0.01


def test_the_law_test_sees_a_planted_error() -> None:
    """The control: the reduced run of another d (7 instead of 6) has another law."""
    task, lam, batch_size = SGD_CASES[0]
    direct, _ = sgd_logs(task, lam, batch_size)
    _, wrong = sgd_logs(Task(d=7, L=3, gamma=0.8, noise_std=0.3), lam, batch_size)
    assert smallest_p(direct, wrong) < 0.01, "the level of the test above"


def test_on_the_manifold_pgd_stays_there_exactly() -> None:
    start = start_on_manifold(PAPER, 30, np.random.default_rng(0))
    found = pgd(PAPER, start, lam=0.1, step_size=4e-3, n_steps=20_000, log_every=200)
    assert (found.distance_to_manifold == 0).all()
    assert found.aligned(0.9).all(), "and finds k* and v*"


def test_row_zero_is_the_start_and_rows_are_instants() -> None:
    start = start_on_sphere(PAPER, 3, np.random.default_rng(0))
    found = pgd(PAPER, start, lam=0.5, lam_decay=1e-3, step_size=1e-3, n_steps=25, log_every=10)
    assert found.step.tolist() == [0, 10, 20, 25]
    assert found.excess_risk.shape == found.distance_to_manifold.shape == (3, 4)
    for one, other in zip(start, found.overlaps, strict=True):
        assert_array_equal(one, other[:, 0])
    assert found.lam[0].tolist() == pytest.approx([0.5 / (1 + 1e-3 * t) for t in found.step])
    # A run to step 20 ends where the longer run was at step 20.
    short = pgd(PAPER, start, lam=0.5, lam_decay=1e-3, step_size=1e-3, n_steps=20, log_every=20)
    assert_array_equal(short.final.kappa, found.overlaps.kappa[:, 2])


@pytest.mark.parametrize("d", [2, 3, 4, 6, 50])
def test_starts_have_the_law_of_random_vectors(d: int) -> None:
    task = Task(d=d, L=2, gamma=0.7)
    rng = np.random.default_rng(d)
    drawn = start_on_sphere(task, 4000, rng)
    check_gram(task, drawn)
    truth = Truth(np.eye(d)[0], np.eye(d)[1])
    real = Overlaps.of(random_units(4000, d, rng), random_units(4000, d, rng), truth)
    p = [ks_2samp(x, y).pvalue for x, y in zip(drawn, real, strict=True)]
    p += [
        ks_2samp(drawn.rho * drawn.kappa * drawn.theta, real.rho * real.kappa * real.theta).pvalue
    ]
    assert min(p) * len(p) > 0.01


@pytest.mark.parametrize("d", [2, 3, 10])
def test_manifold_starts_are_uniform_and_possible(d: int) -> None:
    task = Task(d=d, L=2, gamma=0.7)
    found = start_on_manifold(task, 4000, np.random.default_rng(d))
    check_gram(task, found)
    assert not np.any([found.theta, found.eta, found.rho])
    if d == 10:  # the first coordinate on the sphere of R^9 and of R^8: (1 + x)/2 ~ Beta
        for x, dimension in ((found.kappa, 9), (found.nu, 8)):
            shape = (dimension - 1) / 2
            assert kstest((1 + x) / 2, "beta", (shape, shape)).pvalue > 0.005
    else:
        assert set(abs(found.nu)) == {1.0}


def test_d_of_a_trillion_costs_no_memory_and_behaves() -> None:
    task = Task(d=10**12, L=10, gamma=0.7, noise_std=0.1)
    start = start_on_manifold(task, 5, np.random.default_rng(0))
    found = pgd(task, start, lam=2e-6, step_size=4e-3, n_steps=20_000, log_every=1000)
    assert found.aligned(0.9).all()
    sphere = start_on_sphere(task, 5, np.random.default_rng(0))
    options: dict[str, Any] = {"lam": 2e-6, "step_size": 1e-13, "n_steps": 50, "log_every": 50}
    moved = sgd(task, sphere, **options, batch_size=5, rng=np.random.default_rng(1))
    check_gram(task, moved.final)
    assert (moved.final.kappa != sphere.kappa).all()


def run_both(start: Overlaps, rngs: Any) -> list[Any]:
    task = Task(d=30, L=4, gamma=0.7, noise_std=0.1)
    options: dict[str, Any] = {"lam": 0.5, "step_size": 1e-2, "n_steps": 300, "log_every": 100}
    plain = pgd(task, start, **options)
    return [plain, sgd(task, start, **options, batch_size=3, rng=rngs)]


def test_run_7_alone_is_run_7_of_thirty_and_threads_do_not_matter() -> None:
    task = Task(d=30, L=4, gamma=0.7)
    start_rngs, rngs = (np.random.default_rng(seed).spawn(30) for seed in (0, 1))
    start = start_on_sphere(task, 30, start_rngs)
    alone_start = start_on_sphere(task, 1, np.random.default_rng(0).spawn(30)[7:8])
    assert alone_start.kappa[0] == start.kappa[7]
    together = run_both(start, rngs)
    alone = run_both(alone_start, np.random.default_rng(1).spawn(30)[7:8])
    spawned = run_both(start, np.random.default_rng(1))
    with thread_limit(1):
        single = run_both(start, np.random.default_rng(1).spawn(30))
    for one, seven, child, serial in zip(together, alone, spawned, single, strict=True):
        assert_array_equal(np.array(one.overlaps)[:, 7], np.array(seven.overlaps)[:, 0])
        assert_array_equal(np.array(one.overlaps), np.array(child.overlaps))
        assert_array_equal(np.array(one.overlaps), np.array(serial.overlaps))
    other = run_both(start, np.random.default_rng(2))
    assert (other[1].final.kappa != together[1].final.kappa).all(), "the control: seeds matter"


def test_training_leaves_the_threads_of_torch_alone() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        start = start_on_sphere(Task(d=30, L=4, gamma=0.7), 3, np.random.default_rng(0))
        run_both(start, np.random.default_rng(1))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)


def test_progress_adds_up_and_changes_nothing() -> None:
    start = start_on_sphere(PAPER, 3, np.random.default_rng(0))
    done: list[int] = []
    options: dict[str, Any] = {"lam": 0.1, "step_size": 4e-3, "n_steps": 1000, "log_every": 7}
    watched = pgd(PAPER, start, **options, progress=done.append)
    assert sum(done) == 3 * 1000
    assert len(done) > 10
    assert_array_equal(watched.final.kappa, pgd(PAPER, start, **options).final.kappa)


def test_settings_may_differ_between_runs() -> None:
    start = start_on_sphere(PAPER, 3, np.random.default_rng(0))
    lam, step_size = np.array([0.05, 0.1, 0.3]), np.array([1e-3, 2e-3, 4e-3])
    together = pgd(PAPER, start, lam=lam, step_size=step_size, n_steps=200, log_every=200)
    for run in range(3):
        alone = pgd(
            PAPER,
            start.at([run]),
            lam=lam[run],
            step_size=step_size[run],
            n_steps=200,
            log_every=200,
        )
        assert alone.final.nu[0] == together.final.nu[run]


def test_runs_in_lockstep_do_not_see_each_other() -> None:
    """More runs than advance together, of two settings in turn; one of them diverges."""
    runs = 2 * steps.LANES + 3
    start = start_on_sphere(PAPER, runs, np.random.default_rng(0))
    step_size = np.where(np.arange(runs) % 2, 1e-3, 4e-3)
    step_size[5] = 1e308
    options: dict[str, Any] = {"lam": 0.5, "lam_decay": 1e-3, "n_steps": 200, "log_every": 100}
    together = pgd(PAPER, start, step_size=step_size, **options)
    assert together.diverged[5]
    for run in range(runs):
        alone = pgd(PAPER, start.at([run]), step_size=step_size[run], **options)
        one, other = np.array(alone.overlaps)[:, 0], np.array(together.overlaps)[:, run]
        assert_array_equal(one, other)


@pytest.mark.parametrize("rule", [FEW, MANY], ids=["few", "many"])
def test_gradients_of_many_runs_are_vector_instructions(rule: Any) -> None:
    """A branch or a call in the loop would end it silently, and take eight times as long."""
    loop = numba.njit(error_model="numpy")(erf.gradients_by.py_func)  # not from the cache
    overlaps = np.zeros((5, steps.LANES))
    loop(rule, erf.model(PAPER, 0.1, 0.1), overlaps, 0.1, np.empty_like(overlaps))
    (code,) = loop.inspect_llvm().values()
    assert code.count("fmul <") > 100


@pytest.mark.parametrize("step_size", [1.0, 1e3, 1e100, 1e308])
def test_a_step_size_beyond_stability_is_reported_and_leaves_no_nan(step_size: float) -> None:
    start = start_on_sphere(PAPER, 5, np.random.default_rng(0))
    found = pgd(PAPER, start, lam=1.0, step_size=step_size, n_steps=2000, log_every=100)
    assert found.diverged.all()
    assert np.isfinite(found.excess_risk).all()
    assert np.linalg.eigvalsh(gram_matrix(found.overlaps)).min() > -1e-9
    assert not found.aligned(0.0).any()
    stable = pgd(PAPER, start, lam=1.0, step_size=1e-3, n_steps=2000, log_every=100)
    assert not stable.diverged.any(), "the control"


def test_sgd_beyond_stability_is_reported() -> None:
    task = Task(d=80, L=10, gamma=0.7, noise_std=0.1)
    start = start_on_sphere(task, 4, np.random.default_rng(0))
    options: dict[str, Any] = {"lam": 0.2, "n_steps": 400, "log_every": 20, "batch_size": 5}
    for step_size, diverges in ((1.0, True), (1e200, True), (1e-3, False)):
        found = sgd(task, start, **options, step_size=step_size, rng=np.random.default_rng(0))
        assert found.diverged.all() == found.diverged.any() == diverges
        assert np.isfinite(found.excess_risk).all()


def test_overlaps_stay_a_gram_matrix_in_a_long_chaotic_run() -> None:
    start = start_on_sphere(PAPER, 10, np.random.default_rng(3))
    found = pgd(
        PAPER, start, lam=1.0, lam_decay=1e-4, step_size=8e-3, n_steps=50_000, log_every=100
    )
    assert np.linalg.eigvalsh(gram_matrix(found.overlaps)).min() > -1e-9


GOOD: dict[str, Any] = {"lam": 0.1, "step_size": 1e-3, "n_steps": 10, "log_every": 5}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_steps": -1}, "n_steps must be"),
        ({"log_every": 0}, "log_every must be"),
        ({"lam": -0.1}, "lam must be"),
        ({"lam": math.nan}, "lam must be"),
        ({"lam": np.array([0.1, 0.2])}, "lam must be a number or one per run"),
        ({"lam_decay": -1.0}, "lam_decay must be"),
        ({"step_size": math.inf}, "step_size must be"),
    ],
)
def test_impossible_settings_are_refused(changed: dict[str, Any], message: str) -> None:
    start = start_on_sphere(PAPER, 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        pgd(PAPER, start, **(GOOD | changed))


def test_impossible_starts_are_refused() -> None:
    with pytest.raises(ValueError, match="no unit vectors"):
        pgd(PAPER, Overlaps(1.0, 1.0, 0.0, 0.0, 1.0), **GOOD)
    with pytest.raises(ValueError, match="one shape"):
        pgd(PAPER, Overlaps(np.zeros(2), np.zeros(3), 0.0, 0.0, 0.0), **GOOD)
    with pytest.raises(ValueError, match="at least 6"):
        sgd(
            Task(d=5, L=2, gamma=1.0),
            Overlaps(*[0.0] * 5),
            **GOOD,
            batch_size=1,
            rng=np.random.default_rng(),
        )
    with pytest.raises(ValueError, match="batch_size"):
        sgd(PAPER, Overlaps(*[0.0] * 5), **GOOD, batch_size=0, rng=np.random.default_rng())
    with pytest.raises(ValueError, match="random generators"):
        sgd(PAPER, Overlaps(*[0.0] * 5), **GOOD, batch_size=1, rng=np.random.default_rng().spawn(2))


def test_a_frame_has_the_inner_products_it_is_made_of() -> None:
    found = start_on_sphere(Task(d=6, L=1, gamma=1.0), 50, np.random.default_rng(0))
    k = np.array([1.0, 0.0, 0.0, 0.0])
    for run in range(50):
        one = Overlaps(*(float(x[run]) for x in found))
        v, k_star, v_star = frame(one)
        vectors = np.array([k_star, v_star, k, v])
        assert abs(vectors @ vectors.T - gram_matrix(one)).max() < 1e-12
        k4, v4 = steps.embedding(one)
        assert max(abs(np.array(steps.overlaps_of(k4, v4)) - np.array(one))) < 1e-12


@pytest.mark.parametrize("optimiser", ["pgd", "sgd"])
def test_a_run_in_many_blocks_is_that_in_one(
    optimiser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks end between logged steps, too: Ctrl-C has to end a run that logs only its end."""
    start = start_on_sphere(PAPER, 3, np.random.default_rng(0))
    options: dict[str, Any] = {"lam": 0.3, "lam_decay": 0.01, "step_size": 4e-3, "n_steps": 100}

    def train(log_every: int, progress: Any = None) -> Any:
        if optimiser == "pgd":
            return pgd(PAPER, start, **options, log_every=log_every, progress=progress).overlaps
        rng = np.random.default_rng(1)
        more = {"batch_size": 2, "rng": rng, "progress": progress}
        return sgd(PAPER, start, **options, log_every=log_every, **more).overlaps

    whole = {log_every: train(log_every) for log_every in (1, 40, 100)}
    monkeypatch.setattr(reduced, "BLOCK_STEPS", 7)
    monkeypatch.setattr(reduced, "BLOCK_TOKENS", 7 * 2 * PAPER.L)
    for log_every, overlaps in whole.items():
        done: list[int] = []
        assert_array_equal(train(log_every, done.append), overlaps)
        assert sum(done) == 300
        assert max(done) <= 7 * 3
