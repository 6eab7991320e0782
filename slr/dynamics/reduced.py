"""Training dynamics on the five overlaps: exact for PGD, exact in law for SGD, at any d.

Each run has its own random generator, so its result depends neither on other runs nor on threads.
A run has *diverged* if a step gave a number that is not finite (the run then keeps its last finite
state), or if further steps of the same size on the risk would raise the risk at the run's end.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from slr.compiled import compiled
from slr.dynamics.batch_step import empty_batch, sgd_step
from slr.dynamics.steps import (
    LANES,
    MIN_D_SGD,
    embedding,
    free_lanes,
    lane_of,
    overlaps_of,
    pgd_lanes,
)
from slr.dynamics.threads import in_threads
from slr.dynamics.trajectory import Trajectory, lam_at, logged_steps
from slr.overlaps import Overlaps, Rngs, check_gram, rng_per_run
from slr.risks import RiskGate, excess_risk, gate_module
from slr.task import FloatArray, Task, check_size, check_whole

N_BLOCKS = 50  # reports of progress per call
PROBE_STEPS = 10  # further steps that show whether the risk still goes down
RISE_TOLERANCE = 1e-9  # of the risk, relative: far above round-off, far below instability
MARGIN = 2.0  # the model of a lam that is learned reaches this factor beyond what was seen
LARGEST_LAM = 64.0  # a run that learns more has diverged

Progress = Callable[[int], object]  # receives the steps just done, summed over runs


def pgd(
    task: Task,
    start: Overlaps,
    *,
    lam: Any,
    lam_decay: Any = 0.0,
    step_size: Any,
    n_steps: int,
    log_every: int,
    gate: RiskGate = "erf",
    learn_lam: bool = False,
    progress: Progress | None = None,
) -> Trajectory:
    """Projected gradient descent on the risk, from overlaps of shape (runs,).

    ``lam``, ``lam_decay`` and ``step_size`` are numbers, or arrays with one entry per run. The
    trajectory holds the steps 0, log_every, 2 log_every, ... and n_steps. With ``learn_lam`` the
    length of k is free, as in a Transformer: a run descends in lam k, from |lam k| = ``lam``.

    >>> pgd(task, start, lam=0.1, step_size=4e-3, n_steps=100, log_every=50).step
    array([  0,  50, 100])
    """
    states, settings = _prepare(task, start, lam, lam_decay, step_size, learn_lam)
    steps = logged_steps(n_steps, log_every)
    log = _pgd_log(task, states, settings, steps, gate, learn_lam=learn_lam, progress=progress)
    return _trajectory(task, steps, log, settings, gate, learn_lam)


def sgd(
    task: Task,
    start: Overlaps,
    *,
    lam: Any,
    lam_decay: Any = 0.0,
    step_size: Any,
    n_steps: int,
    log_every: int,
    batch_size: int,
    rng: Rngs,
    gate: RiskGate = "erf",
    learn_lam: bool = False,
    progress: Progress | None = None,
) -> Trajectory:
    """Stochastic gradient descent with fresh batches, from overlaps of shape (runs,).

    ``rng`` is one generator, which spawns one per run, or a list with one per run. Every step draws
    ``batch_size`` sequences per run. The other parameters are those of ``pgd``.

    >>> options = {"lam": 0.1, "step_size": 1e-3, "n_steps": 10, "log_every": 10}
    >>> sgd(task, start, **options, batch_size=5, rng=rng).runs
    30
    """
    if (d := task.d) < MIN_D_SGD:
        raise ValueError(
            f"the reduced SGD needs d >= {MIN_D_SGD}; see slr.dynamics.descent for {d=}"
        )
    check_whole(1, batch_size=batch_size)
    states, settings = _prepare(task, start, lam, lam_decay, step_size, learn_lam)
    model = gate_module(gate).model(task, settings[0, 0], settings[0, 0])  # for its weights alone
    all_steps = logged_steps(n_steps, log_every)
    # Drawing normals is half of the work, and SFC64 is the fastest generator of numpy.
    seeds = [child.integers(2**32, size=8) for child in rng_per_run(rng, len(states))]
    rngs = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]
    constants = (float(task.d), float(task.gamma), task.L - 1, float(task.noise_std), batch_size)

    def advance(steps: Any, log: Any) -> None:
        def run(*of_run: Any) -> None:
            _sgd_run(*of_run, steps, model, constants, learn_lam)

        in_threads(run, settings, log, rngs)

    log = _in_blocks(advance, states, all_steps, progress)
    return _trajectory(task, all_steps, log, settings, gate, learn_lam)


def _prepare(
    task: Task, start: Overlaps, lam: Any, lam_decay: Any, step_size: Any, learn_lam: bool
) -> tuple[FloatArray, FloatArray]:
    """Checked states of shape (runs, 6), overlaps and lam, and settings of shape (runs, 3)."""
    try:
        states = np.stack(np.broadcast_arrays(*map(np.atleast_1d, start)), axis=1).astype(float)
    except ValueError as error:
        raise ValueError("the five overlaps of a start must have one shape, (runs,)") from error
    if states.ndim != 2:
        raise ValueError(f"the overlaps of a start must have shape (runs,), not {states.shape[2:]}")
    check_gram(task, Overlaps(*states.T))
    named = {"lam": lam, "lam_decay": lam_decay, "step_size": step_size}
    check_size(**named)
    for name, value in named.items():
        if np.shape(value) not in ((), (len(states),)):
            shape = np.shape(value)
            raise ValueError(f"{name} must be a number or one per run, not of shape {shape}")
    if learn_lam and (np.any(lam_decay) or not np.all(lam)):
        raise ValueError("a lam that is learned must start above 0 and needs a lam_decay of 0")
    rows = [np.broadcast_to(value, len(states)) for value in named.values()]
    settings = np.stack(rows, axis=1).astype(float)
    return np.hstack([states, settings[:, :1]]), settings


def _pgd_log(
    task: Task,
    states: FloatArray,
    settings: FloatArray,
    steps: Any,
    gate: RiskGate,
    *,
    learn_lam: bool = False,
    progress: Progress | None = None,
) -> FloatArray:
    """The states of PGD at the logged steps, shape (runs, n_logged, 6)."""
    embedded = np.array([embedding(Overlaps(*state[:5])).ravel() for state in states])
    lam, equal = states[:, 5], settings[:, 2:] if learn_lam else settings
    groups = [_Group(r, embedded[r], lam[r], settings[r[0]]) for r in _groups(equal)]

    def advance(steps: Any, log: Any) -> None:
        def run(group: _Group) -> None:
            if learn_lam:
                group.descend_freely(task, gate, steps, log)
            else:
                group.descend(task, gate, steps, log)

        in_threads(run, groups)

    return _in_blocks(advance, states, steps, progress)


class _Group:
    """LANES runs with equal settings (but for a lam that is learned), in four dimensions."""

    def __init__(
        self, runs: Any, embedded: FloatArray, lam: FloatArray, settings: FloatArray
    ) -> None:
        self.runs, self.settings = runs, settings
        self.vectors = embedded.T.ravel()
        self.lam = lam  # if it is learned
        self.range = (lam.min(), lam.max())

    def descend(self, task: Task, gate: RiskGate, steps: Any, log: Any) -> None:
        """Advance all runs to the last of the steps, and log their states."""
        lam, lam_decay, _ = self.settings
        last = max(steps[-1] - 1, steps[0])
        model = gate_module(gate).model(task, lam_at(last, lam, lam_decay), lam)
        _pgd_group(self.runs, self.vectors, self.settings, log, steps, model)

    def descend_freely(self, task: Task, gate: RiskGate, steps: Any, log: Any) -> None:
        """The same with a lam that is learned; the model widens where lam leaves its range."""
        row, seen = 1, np.array(self.range)
        while row < len(steps):
            self.range = (min(self.range[0], seen[0]), max(self.range[1], seen[1]))
            low, high = self.range[0] / MARGIN, self.range[1] * MARGIN
            model = gate_module(gate).model(task, low, high)
            arrays = (self.runs, self.vectors, self.lam, log, steps, seen)
            row = _free_group(row, (low, high, self.settings[2]), *arrays, model)


def _groups(settings: FloatArray) -> list[Any]:
    """Runs with equal settings, LANES at a time; the last run of a group fills it up."""
    values, which = np.unique(settings, axis=0, return_inverse=True)
    groups: list[Any] = []
    for index in range(len(values)):
        runs = np.flatnonzero(which == index)
        groups += list(np.pad(runs, (0, -len(runs) % LANES), mode="edge").reshape(-1, LANES))
    return groups


def _in_blocks(
    advance: Callable[[Any, FloatArray], None],
    states: FloatArray,
    steps: Any,
    progress: Progress | None,
) -> FloatArray:
    """The log (runs, n_logged, 6): ``advance`` fills each block from the block's first row."""
    log = np.empty((len(states), len(steps), 6))
    log[:, 0] = states
    size = max(1, math.ceil(len(steps) / N_BLOCKS)) if progress else len(steps)
    for first in range(0, len(steps) - 1, size):
        block = slice(first, first + size + 1)
        advance(steps[block], log[:, block])
        if progress:
            progress(int(steps[block][-1] - steps[first]) * len(states))
    return log


def _trajectory(
    task: Task,
    steps: Any,
    log: FloatArray,
    settings: FloatArray,
    gate: RiskGate,
    learn_lam: bool,
) -> Trajectory:
    finite = np.isfinite(log.sum(axis=2))
    diverged = ~finite.all(axis=1)
    for run in np.flatnonzero(diverged):  # keep the last finite state
        bad = int(np.argmin(finite[run]))
        log[run, bad:] = log[run, bad - 1]
    diverged |= _is_unstable(task, log[:, -1], settings, gate, learn_lam)
    return Trajectory(task, steps, log[..., 5], _as_overlaps(log), diverged, gate)


def _is_unstable(
    task: Task, states: FloatArray, settings: FloatArray, gate: RiskGate, learn_lam: bool
) -> Any:
    """Whether further steps of this size on the risk would raise the risk, shape (runs,)."""
    now = np.stack([states[:, 5], np.zeros(len(states)), settings[:, 2]], axis=1)
    log = _pgd_log(task, states, now, np.arange(PROBE_STEPS + 1), gate, learn_lam=learn_lam)
    unstable = np.asarray(~np.isfinite(log).all(axis=(1, 2)))
    risks = excess_risk(task, _as_overlaps(log[~unstable]), log[~unstable, :, 5], gate)
    rises = np.diff(risks, axis=1) > RISE_TOLERANCE * (1 + abs(risks[:, 1:]))
    unstable[~unstable] = rises.any(axis=1)
    return unstable


def _as_overlaps(log: FloatArray) -> Overlaps:
    return Overlaps(*np.moveaxis(log[..., :5], -1, 0))


@compiled()
def _pgd_group(runs: Any, vectors: Any, settings: Any, log: Any, steps: Any, model: Any) -> None:
    """Advance k and v of a group of runs, in four dimensions, and log their overlaps."""
    lam, lam_decay, step_size = settings
    overlaps, slopes = np.empty((5, LANES)), np.empty((5, LANES))
    for row in range(1, len(steps)):
        for t in range(steps[row - 1], steps[row]):
            pgd_lanes(vectors, model, lam / (1 + lam_decay * t), step_size, overlaps, slopes)
        for lane in range(LANES):
            k, v = lane_of(vectors, lane)
            log[runs[lane], row, :5] = overlaps_of(k, v)
            log[runs[lane], row, 5] = lam / (1 + lam_decay * steps[row])


@compiled()
def _free_group(
    row: int,
    settings: Any,
    runs: Any,
    vectors: Any,
    lam: Any,
    log: Any,
    steps: Any,
    seen: Any,
    model: Any,
) -> int:
    """Advance k, v and lam of a group of runs from a row on, while lam is in the model's range.

    Return the first row that was not reached; vectors and lam are then those of the row before.
    """
    low, high, step_size = settings
    overlaps, slopes = np.empty((5, LANES)), np.empty((5, LANES))
    while row < len(steps):
        old_vectors, old_lam = vectors.copy(), lam.copy()
        for _ in range(steps[row - 1], steps[row]):
            free_lanes(vectors, model, lam, step_size, overlaps, slopes)
            for lane in range(LANES):
                if lam[lane] > LARGEST_LAM:
                    lam[lane] = math.nan
                if lam[lane] < low or lam[lane] > high:
                    seen[0], seen[1] = min(seen[0], lam[lane]), max(seen[1], lam[lane])
                    vectors[:], lam[:] = old_vectors, old_lam
                    return row
        for lane in range(LANES):
            k, v = lane_of(vectors, lane)
            log[runs[lane], row, :5] = overlaps_of(k, v)
            log[runs[lane], row, 5] = lam[lane]
        row += 1
    return row


@compiled()
def _sgd_run(
    settings: Any,
    log: Any,
    rng: np.random.Generator,
    steps: Any,
    model: Any,
    constants: Any,
    learn_lam: bool,
) -> None:
    """Advance the overlaps and lam of one run from the first row of its log, and log them."""
    lam, lam_decay, step_size = settings
    kappa, nu, theta, eta, rho, learned = log[0]
    state = Overlaps(kappa, nu, theta, eta, rho)
    batch = empty_batch(constants[4], constants[2])
    for row in range(1, len(steps)):
        for t in range(steps[row - 1], steps[row]):
            lam_t = learned if learn_lam else lam / (1 + lam_decay * t)
            state, learned = sgd_step(
                state, model, constants, lam_t, step_size, learn_lam, rng, batch
            )
        log[row, :5] = state
        log[row, 5] = learned if learn_lam else lam / (1 + lam_decay * steps[row])
