"""Training dynamics on the five overlaps: exact for PGD, exact in law for SGD, at any d.

Each run has its own random generator, so its result depends neither on other runs nor on threads.
A run has *diverged* if a step gave a number that is not finite (the run then keeps its last finite
state), or if further steps of the same size on the risk would raise the risk at the run's end.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from slr.checks import HUGE, check_size, check_whole, is_real
from slr.compiled import compiled
from slr.dynamics.batch_step import empty_batch, sgd_step
from slr.dynamics.groups import Group, groups_of
from slr.dynamics.steps import MIN_D_SGD, embedding
from slr.dynamics.threads import in_threads
from slr.dynamics.trajectory import Trajectory, logged_steps
from slr.overlaps import Overlaps, Rngs, check_gram, rng_per_run
from slr.risks import RiskGate, excess_risk, gate_module
from slr.task import FloatArray, Task

N_BLOCKS = 50  # reports of progress per call
PROBE_STEPS = 10  # further steps that show whether the risk still goes down
RISE_TOLERANCE = 1e-9  # of the risk, relative: far above round-off, far below instability
BLOCK_STEPS = 10**5  # of PGD at a time: a few seconds at most, after which Ctrl-C ends a long run
BLOCK_TOKENS = 10**7  # the same for SGD, in tokens of a run

# Receives the steps just done, summed over runs; 0 says that it works at something else, a table.
Progress = Callable[[int], object]


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
        raise ValueError(f"sgd needs d of at least {MIN_D_SGD}, not {d}")
    check_whole(1, batch_size=batch_size)
    states, settings = _prepare(task, start, lam, lam_decay, step_size, learn_lam)
    model = gate_module(gate).model(task, settings[0, 0], settings[0, 0])  # for its weights alone
    all_steps = logged_steps(n_steps, log_every)
    # Drawing normals is half of the work, and SFC64 is the fastest generator of numpy.
    seeds = [child.integers(2**32, size=8) for child in rng_per_run(rng, len(states))]
    rngs = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]
    constants = (
        float(task.d), float(task.gamma), task.L - 1, float(task.noise_std), int(batch_size),
    )  # fmt: skip

    def advance(steps: Any, log: Any) -> None:
        def run(*of_run: Any) -> None:
            _sgd_run(*of_run, steps, model, constants, learn_lam)

        in_threads(run, settings, log, rngs)

    most = max(1, BLOCK_TOKENS // (batch_size * task.L))
    log = _in_blocks(advance, states, all_steps, progress, most)
    return _trajectory(task, all_steps, log, settings, gate, learn_lam)


def _prepare(
    task: Task, start: Overlaps, lam: Any, lam_decay: Any, step_size: Any, learn_lam: bool
) -> tuple[FloatArray, FloatArray]:
    """Checked states of shape (runs, 6), overlaps and lam, and settings of shape (runs, 3)."""
    if not all(map(is_real, start)):
        raise ValueError("the overlaps must be finite numbers")
    try:
        states = np.stack(np.broadcast_arrays(*map(np.atleast_1d, start)), axis=1).astype(float)
    except ValueError as error:
        raise ValueError("the five overlaps of a start must have one shape, (runs,)") from error
    if states.ndim != 2:
        raise ValueError(f"the overlaps of a start must have shape (runs,), not {states.shape[2:]}")
    check_gram(task, Overlaps(*states.T))
    named = {"lam": lam, "lam_decay": lam_decay, "step_size": step_size}
    check_size(**named)
    check_size(most=HUGE, lam=lam)
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
    groups = [Group(r, embedded[r], lam[r], settings[r[0]]) for r in groups_of(equal)]

    def working() -> None:
        if progress:
            progress(0)

    def advance(steps: Any, log: Any) -> None:
        def run(group: Group) -> None:
            descend = group.descend_freely if learn_lam else group.descend
            descend(task, gate, steps, log, working)

        in_threads(run, groups)

    return _in_blocks(advance, states, steps, progress, BLOCK_STEPS)


def _in_blocks(
    advance: Callable[[Any, FloatArray], None],
    states: FloatArray,
    steps: Any,
    progress: Progress | None,
    most: int,
) -> FloatArray:
    """The log (runs, n_logged, 6): ``advance`` fills each block from the block's first row.

    Compiled code cannot be interrupted, so a block has at most ``most`` steps: rows that are
    further apart are reached by way of states that are not kept.
    """
    log = np.empty((len(states), len(steps), 6))
    log[:, 0] = states
    tell: Progress = progress or (lambda steps: None)
    for first, last in _blocks(steps, most, N_BLOCKS if progress else 1):
        begin, end = int(steps[first]), int(steps[last])
        if end - begin <= most:
            advance(steps[first : last + 1], log[:, first : last + 1])
            tell((end - begin) * len(states))
            continue
        pair = log[:, [first, first]]
        for a, b in itertools.pairwise(itertools.chain(range(begin, end, most), [end])):
            advance(np.array([a, b]), pair)
            tell((b - a) * len(states))
            pair[:, 0] = pair[:, 1]
        log[:, last] = pair[:, 1]
    return log


def _blocks(steps: Any, most: int, n_blocks: int) -> Iterator[tuple[int, int]]:
    """First and last row of each block: at most ``most`` steps, unless it has two rows only."""
    size = max(1, math.ceil(len(steps) / n_blocks))
    first = 0
    while first < len(steps) - 1:
        within = int(np.searchsorted(steps, steps[first] + most, side="right")) - 1
        last = min(max(within, first + 1), first + size, len(steps) - 1)
        yield first, last
        first = last


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
