"""Runs of PGD that advance together, with a given lam or with one that they learn."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from slr.compiled import compiled
from slr.dynamics.steps import LANES, free_lanes, lane_of, overlaps_of, pgd_lanes
from slr.dynamics.trajectory import lam_at
from slr.risks import RiskGate, gate_module
from slr.task import FloatArray, Task

MARGIN = 2.0  # the model of a lam that is learned reaches this factor beyond what was seen
LARGEST_LAM = 64.0  # a run that learns more has diverged
THROWN = 1000.0  # a step beyond this many times the model's range is looked at: did the risk rise?


class Group:
    """LANES runs with equal settings (but for a lam that is learned), in four dimensions."""

    def __init__(
        self, runs: Any, embedded: FloatArray, lam: FloatArray, settings: FloatArray
    ) -> None:
        self.runs, self.settings = runs, settings
        self.vectors = embedded.T.ravel()
        self.lam = lam  # if it is learned
        self.range = (lam.min(), lam.max())

    def descend(
        self, task: Task, gate: RiskGate, steps: Any, log: Any, working: Callable[[], object]
    ) -> None:
        """Advance all runs to the last of the steps, and log their states."""
        lam, lam_decay, _ = self.settings
        last = max(steps[-1] - 1, steps[0])
        model = gate_module(gate).model(task, lam_at(last, lam, lam_decay), lam, working)
        _pgd_group(self.runs, self.vectors, self.settings, log, steps, model)

    def descend_freely(
        self, task: Task, gate: RiskGate, steps: Any, log: Any, working: Callable[[], object]
    ) -> None:
        """The same with a lam that is learned; the model widens where lam leaves its range."""
        row = 1
        while row < len(steps):
            low, high = self.range[0] / MARGIN, self.range[1] * MARGIN
            model = gate_module(gate).model(task, low, high, working)
            left = (self.vectors.copy(), self.lam.copy())  # where a run leaves the range
            arrays = (self.runs, self.vectors, self.lam, log, steps, left)
            row = _free_group(row, (low, high, self.settings[2]), *arrays, model)
            if row < len(steps):
                self._give_up(task, gate, log[self.runs, row - 1], left, THROWN * high)
                seen = [*self.range, *left[1][np.isfinite(self.lam) & np.isfinite(left[1])]]
                self.range = (min(seen), max(seen))

    def _give_up(self, task: Task, gate: RiskGate, before: Any, left: Any, far: float) -> None:
        """Mark the runs that one step has thrown far away from lam and to a higher risk.

        They have diverged. A model for so wide a range may take minutes, and is not needed.
        """
        vectors, lam = left
        risk_at = gate_module(gate).risk_at
        for lane in np.flatnonzero(lam > far):
            point = overlaps_of.py_func(*lane_of.py_func(vectors, lane))
            start = type(point)(*before[lane, :5])
            if risk_at(task, point, lam[lane]) > risk_at(task, start, before[lane, 5]):
                self.lam[lane] = math.nan


def groups_of(settings: FloatArray) -> list[Any]:
    """Runs with equal settings, LANES at a time; the last run of a group fills it up."""
    values, which = np.unique(settings, axis=0, return_inverse=True)
    groups: list[Any] = []
    for index in range(len(values)):
        runs = np.flatnonzero(which == index)
        groups += list(np.pad(runs, (0, -len(runs) % LANES), mode="edge").reshape(-1, LANES))
    return groups


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
    left: Any,
    model: Any,
) -> int:
    """Advance k, v and lam of a group of runs from a row on, while lam is in the model's range.

    Return the first row that was not reached; vectors and lam are then those of the row before,
    and ``left`` holds those behind the step that left the range.
    """
    low, high, step_size = settings
    overlaps, slopes = np.empty((5, LANES)), np.empty((5, LANES))
    while row < len(steps):
        old_vectors, old_lam = vectors.copy(), lam.copy()
        for _ in range(steps[row - 1], steps[row]):
            free_lanes(vectors, model, lam, step_size, overlaps, slopes)
            has_left = False
            for lane in range(LANES):
                if lam[lane] > LARGEST_LAM:
                    lam[lane] = math.nan
                has_left |= lam[lane] < low or lam[lane] > high
            if has_left:
                left[0][:], left[1][:] = vectors, lam
                vectors[:], lam[:] = old_vectors, old_lam
                return row
        for lane in range(LANES):
            k, v = lane_of(vectors, lane)
            log[runs[lane], row, :5] = overlaps_of(k, v)
            log[runs[lane], row, 5] = lam[lane]
        row += 1
    return row
