"""Single-pass training of whole attention layers, one repetition after the other.

Each repetition draws its truth (k*, v*), start and samples from its own generator, so run 7 alone
equals run 7 of twenty.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from slr.attentions.layer import Architecture, Parameters, predict, start_parameters
from slr.attentions.layer_measures import Measures, measure
from slr.attentions.layer_sampling import Stars, generator_of, sample_sequences, sample_stars
from slr.checks import check_between, check_whole
from slr.dynamics.trajectory import LONGEST, logged_steps, tidy
from slr.task import FloatArray, Task

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LayerTraining:
    """Everything that a run depends on besides its number.

    Y is the mean of the values X_l.v* of ``n_informative`` tokens, plus noise. One informative
    token is the single-location task.
    """

    task: Task
    architecture: Architecture = Architecture()  # noqa: RUF009  (frozen)
    n_informative: int = 1
    optimiser: Literal["sgd", "adam"] = "sgd"
    step_size: float = 0.01
    n_steps: int = 8000
    batch_size: int = 128
    log_every: int = 100
    n_test: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.n_informative <= self.task.L:
            raise ValueError(f"n_informative must be in 1 .. {self.task.L}: {self.n_informative}")
        if self.optimiser not in ("sgd", "adam"):
            raise ValueError(f"optimiser must be sgd or adam, not {self.optimiser!r}")
        check_whole(0, seed=self.seed)
        check_whole(1, batch_size=self.batch_size, n_test=self.n_test, log_every=self.log_every)
        check_between(1e-300, 1e300, step_size=self.step_size)
        check_whole(0, most=LONGEST, n_steps=self.n_steps)


@dataclass(frozen=True)
class LayerRuns:
    """Measures (slr/attentions/layer_measures.py) at the logged steps, the first of them the start.

    Each has the shape (runs, n_logged).
    """

    training: LayerTraining
    step: npt.NDArray[np.int64]  # (n_logged,)
    excess_risk: FloatArray
    mass: FloatArray
    key_cosine: FloatArray
    value_cosine: FloatArray
    swap_cosine: FloatArray

    def to_frame(self) -> pd.DataFrame:
        """A tidy table, one row per run and logged step."""
        return tidy(self.step, **{name: getattr(self, name) for name in Measures._fields})


def joined(parts: Sequence[LayerRuns]) -> LayerRuns:
    """The runs of all parts, which were trained alike."""
    columns = (np.concatenate([getattr(part, name) for part in parts]) for name in Measures._fields)
    return LayerRuns(parts[0].training, parts[0].step, *columns)


def train_layer(training: LayerTraining, run: int) -> LayerRuns:
    """Train one repetition, on one core: more of them do not pay off, and could change bits."""
    with _one_core():
        generator = generator_of(training.seed, run)
        task, architecture = training.task, training.architecture
        stars = sample_stars(task, generator)
        parameters = start_parameters(task, architecture, generator)
        test = sample_sequences(task, training.n_informative, stars, training.n_test, generator)
        for tensor in parameters.values():
            tensor.requires_grad_()
        optimiser = _optimiser(training, parameters)
        steps = logged_steps(training.n_steps, training.log_every)
        rows = [measure(task, architecture, parameters, stars, test)]
        for first, last in itertools.pairwise(steps.tolist()):
            for _ in range(first, last):
                optimiser.zero_grad()
                _batch_loss(training, parameters, stars, generator).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            rows.append(measure(task, architecture, parameters, stars, test))
    return LayerRuns(training, steps, *np.array(rows).T[:, None])


@contextmanager
def _one_core() -> Iterator[None]:
    """One thread in numpy and in torch, whose matrix products have a setting of their own."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)


def _optimiser(training: LayerTraining, parameters: Parameters) -> torch.optim.Optimizer:
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    return kinds[training.optimiser](list(parameters.values()), lr=training.step_size, fused=True)


def _batch_loss(
    training: LayerTraining, parameters: Parameters, stars: Stars, generator: torch.Generator
) -> Tensor:
    """The mean squared error over a fresh batch of sequences."""
    n = training.batch_size
    batch = sample_sequences(training.task, training.n_informative, stars, n, generator)
    y = batch.signal + training.task.noise_std * torch.randn(n, generator=generator)
    return ((predict(training.architecture, parameters, batch.X) - y) ** 2).mean()
