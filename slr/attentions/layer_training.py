"""Single-pass training of whole attention layers, all repetitions at once.

Each repetition draws its truth (k*, v*), start and samples from its own generator, so run 7 alone
equals run 7 of twenty, up to the order of floating-point sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slr.attentions.layer import (
    Architecture,
    Parameters,
    effective_keys,
    predict_from_context,
    read,
    start_parameters,
)
from slr.dynamics.reduced import Progress
from slr.dynamics.trajectory import logged_steps, tidy
from slr.task import FloatArray, Task, check_whole

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
    log_every: int = 200
    n_test: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.n_informative <= self.task.L:
            raise ValueError(f"n_informative must be in 1 .. {self.task.L}: {self.n_informative}")
        if self.optimiser not in ("sgd", "adam"):
            raise ValueError(f"optimiser must be sgd or adam, not {self.optimiser!r}")
        check_whole(0, seed=self.seed)


@dataclass(frozen=True)
class LayerRuns:
    """Measurements of trained layers at the logged steps, the first of which is the start.

    Mass and cosines belong to the head with the most attention on informative tokens. They are NaN
    without attention; the key's cosines are also NaN while the key is 0.
    """

    training: LayerTraining
    step: npt.NDArray[np.int64]  # (n_logged,)
    excess_risk: FloatArray  # (runs, n_logged), on held-out sequences, without the label's noise
    mass: FloatArray  # share of |attention| on informative tokens
    key_cosine: FloatArray  # of K^T Q x_cls with k*
    value_cosine: FloatArray  # of the mean gradient of T in what attention reads, with v*
    swap_cosine: FloatArray  # of K^T Q x_cls with v*: runs at the swapped point look along v*

    def to_frame(self) -> pd.DataFrame:
        """A tidy table, one row per run and logged step."""
        names = ("excess_risk", "mass", "key_cosine", "value_cosine", "swap_cosine")
        return tidy(self.step, **{name: getattr(self, name) for name in names})


class Sequences(NamedTuple):
    X: Tensor  # (runs, n, L, d)
    signal: Tensor  # (runs, n): Y without its noise
    informative: Tensor  # (runs, n, n_informative): which tokens


class Stars(NamedTuple):
    """k* and v* of each run, both (runs, d)."""

    k: Tensor
    v: Tensor


def train_layers(
    training: LayerTraining, runs: Sequence[int], progress: Progress | None = None
) -> LayerRuns:
    """Train the repetitions with the numbers ``runs``; each step draws fresh sequences."""
    if not len(runs):
        raise ValueError("runs must be an integer of at least 1")
    generators = [_generator(training.seed, run) for run in runs]
    stars = _sample_stars(training.task, generators)
    parameters = start_parameters(training.task, training.architecture, generators)
    for tensor in parameters.values():
        tensor.requires_grad_(True)
    optimisers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    optimiser = optimisers[training.optimiser](parameters.values(), lr=training.step_size)
    test = sample_sequences(training, stars, training.n_test, generators)
    steps = logged_steps(training.n_steps, training.log_every)
    rows = [measure(training, parameters, stars, test)]
    for first, last in itertools.pairwise(steps.tolist()):
        for _ in range(first, last):
            batch = sample_sequences(training, stars, training.batch_size, generators)
            y = batch.signal + training.task.noise_std * _normal(batch.signal.shape[1:], generators)
            prediction = read(training.architecture, parameters, batch.X).prediction
            # Runs share no parameters: the sum gives each the gradient of its own squared error.
            loss = ((prediction - y) ** 2).mean(dim=1).sum()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        rows.append(measure(training, parameters, stars, test))
        if progress:
            progress((last - first) * len(runs))
    columns = np.stack([row.numpy() for row in rows], axis=2).astype(float)
    return LayerRuns(training, steps, *columns)


def sample_sequences(
    training: LayerTraining, stars: Stars, n: int, generators: Sequence[torch.Generator]
) -> Sequences:
    """n sequences per run, from the run's own generator."""
    task = training.task
    X = _normal((n, task.L, task.d), generators)
    order = torch.stack([torch.rand((n, task.L), generator=rng) for rng in generators])
    informative = order.argsort(dim=2)[:, :, : training.n_informative]
    index = informative[..., None].expand(-1, -1, -1, task.d)
    means = task.signal * stars.k[:, None, None]
    tokens = torch.gather(X, 2, index).mul_(task.gamma).add_(means)
    X.scatter_(2, index, tokens)
    signal = (tokens @ stars.v[:, None, :, None]).squeeze(3).mean(dim=2)
    return Sequences(X, signal, informative)


def measure(
    training: LayerTraining, parameters: Parameters, stars: Stars, test: Sequences
) -> Tensor:
    """Excess risk, mass and the three cosines, shape (5, runs)."""
    architecture = training.architecture
    with torch.no_grad():
        reading = read(architecture, parameters, test.X)
        losses = (reading.prediction - test.signal) ** 2
        expected = training.task.gamma**2 / training.n_informative
        risk = _mean_given_mean(losses, test.signal**2, expected)
    if reading.weights is None or reading.context is None:
        return torch.stack([risk, *[torch.full_like(risk, torch.nan)] * 4])
    total = reading.weights.abs().sum(dim=3, keepdim=True)
    share = torch.where(total > 0, reading.weights.abs() / total, 0)  # a relu may be 0 everywhere
    index = test.informative[:, :, None].expand(-1, -1, architecture.heads, -1)
    mass = share.gather(3, index).sum(dim=3).mean(dim=1)  # (runs, heads)
    best = mass.argmax(dim=1)
    rows = torch.arange(len(best))
    context = reading.context.requires_grad_(True)
    prediction = predict_from_context(architecture, parameters, context)
    (slopes,) = torch.autograd.grad(prediction.sum(), context)
    with torch.no_grad():
        key = effective_keys(architecture, parameters)[rows, best]
        value = slopes.mean(dim=1)[rows, best]
        cosines = (_cosine(key, stars.k), _cosine(value, stars.v), _cosine(key, stars.v))
        return torch.stack([risk, mass[rows, best], *cosines])


def _mean_given_mean(x: Tensor, control: Tensor, expected: float) -> Tensor:
    """The mean of x along the last axis, with a control variate whose mean is known."""
    centred = control - control.mean(dim=1, keepdim=True)
    slope = (x * centred).sum(dim=1) / (centred**2).sum(dim=1)
    return x.mean(dim=1) + slope * (expected - control.mean(dim=1))


def _cosine(x: Tensor, unit: Tensor) -> Tensor:
    return (x * unit).sum(dim=1) / x.norm(dim=1)  # 0/0 is NaN: a key of length 0 has no direction


def _generator(seed: int, run: int) -> torch.Generator:
    state = np.random.SeedSequence([seed, run]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def _normal(shape: Sequence[int], generators: Sequence[torch.Generator]) -> Tensor:
    draws = torch.empty((len(generators), *shape))
    for run, generator in enumerate(generators):
        draws[run].normal_(generator=generator)
    return draws


def _sample_stars(task: Task, generators: Sequence[torch.Generator]) -> Stars:
    frame, _ = torch.linalg.qr(_normal((task.d, 2), generators))
    return Stars(frame[:, :, 0].contiguous(), frame[:, :, 1].contiguous())
