"""The overlaps of training runs at logged steps, and how each run ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slr.checks import check_whole
from slr.overlaps import Overlaps, distance_to_manifold
from slr.risks import RiskGate, excess_risk
from slr.task import FloatArray, Task

if TYPE_CHECKING:
    import pandas as pd

LONGEST = 10**15  # steps: more would take decades
ALIGNMENT = 0.95  # a direction above it counts as found; at 0.99 runs are still creeping


@dataclass(frozen=True)
class Trajectory:
    """Training runs at logged steps, the first of which is the start.

    ``excess_risk`` is that of the overlaps at the lam of the same step. A run that diverged (see
    slr/dynamics/reduced.py) keeps its last finite state and is marked in ``diverged``.

    >>> trajectory.excess_risk.shape
    (30, 101)
    """

    task: Task
    step: npt.NDArray[np.int64]  # (n_logged,)
    lam: FloatArray  # (runs, n_logged)
    overlaps: Overlaps  # of arrays (runs, n_logged)
    diverged: npt.NDArray[np.bool_]  # (runs,)
    gate: RiskGate = "erf"

    @property
    def runs(self) -> int:
        return len(self.diverged)

    @property
    def excess_risk(self) -> FloatArray:
        return np.asarray(excess_risk(self.task, self.overlaps, self.lam, self.gate))

    @property
    def distance_to_manifold(self) -> FloatArray:
        return np.asarray(distance_to_manifold(self.overlaps))

    @property
    def final(self) -> Overlaps:
        """The overlaps at the last step, arrays of shape (runs,)."""
        return self.overlaps.at((slice(None), -1))

    def aligned(self, threshold: float = ALIGNMENT) -> npt.NDArray[np.bool_]:
        """Whether each run ended aligned (see ``outcomes``), shape (runs,)."""
        return np.asarray((alignment(self.final) > threshold) & ~self.diverged)

    def steps_to_align(self, threshold: float = ALIGNMENT) -> FloatArray:
        """The first logged step at which a run is aligned, shape (runs,), or infinity."""
        reached = alignment(self.overlaps) > threshold
        return np.where(reached.any(axis=1), self.step[reached.argmax(axis=1)], math.inf)

    def outcomes(self) -> pd.DataFrame:
        """How each run ended, one row per run.

        aligned: (k, v) near (k*, v*) or (-k*, -v*) (``alignment`` above ALIGNMENT), and not
            diverged
        swapped: at another minimum, k near v* or -v* (|eta| above ALIGNMENT), and not diverged
        steps_to_align: the first logged step at which the run is aligned, infinite if none is
        Overlaps, excess_risk and distance_to_manifold are those of the last step.
        """
        import pandas as pd

        final = self.final
        columns: dict[str, Any] = {
            "run": np.arange(self.runs),
            "aligned": self.aligned(),
            "swapped": (abs(final.eta) > ALIGNMENT) & ~self.diverged,
            "diverged": self.diverged,
            "steps_to_align": self.steps_to_align(),
            **final._asdict(),
            "excess_risk": excess_risk(self.task, final, self.lam[:, -1], self.gate),
            "distance_to_manifold": distance_to_manifold(final),
        }
        return pd.DataFrame(columns)

    def to_frame(self) -> pd.DataFrame:
        """A tidy table, one row per run and logged step."""
        return tidy(
            self.step,
            lam=self.lam,
            **self.overlaps._asdict(),
            excess_risk=self.excess_risk,
            distance_to_manifold=self.distance_to_manifold,
            diverged=np.broadcast_to(self.diverged[:, None], self.lam.shape),
        )


def tidy(step: npt.NDArray[np.int64], **columns: Any) -> pd.DataFrame:
    """A table with one row per run and logged step, from arrays of shape (runs, n_logged)."""
    import pandas as pd

    runs = len(next(iter(columns.values())))
    index = {"run": np.repeat(np.arange(runs), len(step)), "step": np.tile(step, runs)}
    return pd.DataFrame(index | {name: values.ravel() for name, values in columns.items()})


def alignment(overlaps: Overlaps) -> Any:
    """min(|kappa|, |nu|) with the sign of kappa nu: 1 only at (k*, v*) and (-k*, -v*)."""
    kappa, nu = overlaps.kappa, overlaps.nu
    return np.sign(kappa * nu) * np.minimum(abs(kappa), abs(nu))


def logged_steps(n_steps: int, log_every: int) -> npt.NDArray[np.int64]:
    """0, log_every, 2 log_every, ... and n_steps."""
    check_whole(0, most=LONGEST, n_steps=n_steps)
    check_whole(1, log_every=log_every)
    steps = np.arange(0, n_steps + 1, log_every, dtype=np.int64)
    return steps if steps[-1] == n_steps else np.append(steps, np.int64(n_steps))


def lam_at(step: Any, lam: Any, lam_decay: Any) -> Any:
    """The schedule of the paper: lam / (1 + lam_decay t)."""
    return lam / (1 + lam_decay * step)
