"""Single-pass training of whole attention layers, one repetition after the other.

Each repetition draws its truth (k*, v*), start and samples from its own generator, so run 7 alone
equals run 7 of twenty.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from slr.attentions.layer import Architecture, Parameters, predict, start_parameters
from slr.attentions.layer_measures import Measures, measure
from slr.attentions.layer_reduced import draws_in, law_of, n_draws, set_gradients_in_law
from slr.attentions.layer_sampling import Stars, generator_of, sample_sequences, sample_stars
from slr.checks import check_between, check_whole
from slr.compiled import compiled
from slr.dynamics.trajectory import check_log, logged_steps, tidy
from slr.memory import check_memory
from slr.task import FloatArray, Task

if TYPE_CHECKING:
    import pandas as pd

BETAS, EPS = (0.9, 0.999), 1e-8  # of Adam, as usual


@dataclass(frozen=True)
class LayerTraining:
    """Everything that a run depends on besides its number.

    Y is the mean of the values X_l.v* of ``n_informative`` tokens, plus noise. One informative
    token is the single-location task. With ``all_tokens`` every token is drawn, also where the law
    of a few sums is enough (slr/attentions/layer_reduced.py): slower, and the same in law.
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
    all_tokens: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.n_informative <= self.task.L:
            raise ValueError(f"n_informative must be in 1 .. {self.task.L}: {self.n_informative}")
        if self.optimiser not in ("sgd", "adam"):
            raise ValueError(f"optimiser must be sgd or adam, not {self.optimiser!r}")
        check_whole(0, seed=self.seed)
        check_whole(1, batch_size=self.batch_size, n_test=self.n_test, log_every=self.log_every)
        check_between(1e-300, 1e300, step_size=self.step_size)
        self.check_memory()

    def check_memory(self) -> None:
        """Refuse a layer, a batch or a log that does not fit into memory."""
        d, L, p = self.task.d, self.task.L, self.architecture.width
        p = d if self.architecture.released else p
        check_memory(f"a layer of dimension {d:.3g}", 40.0 * d * p)  # K, V, Q and their gradients
        check_log(1, self.n_steps, self.log_every)
        check_memory(f"a batch of {self.batch_size:.3g} sequences", 4.0 * self.batch_size * L * d)
        check_memory(f"a test set of {self.n_test:.3g} sequences", 4.0 * self.n_test * L * d)


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


def train_layers(training: LayerTraining, runs: Sequence[int]) -> LayerRuns:
    """Train the repetitions with the numbers ``runs``; each step draws fresh sequences."""
    if not len(runs):
        raise ValueError("runs must be an integer of at least 1")
    return joined([train_layer(training, run) for run in runs])


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
        weights = _Weights(start_parameters(task, architecture, generator))
        test = sample_sequences(task, training.n_informative, stars, training.n_test, generator)
        set_gradients = _gradients(training, weights, stars, generator)
        update = _update(training, weights)
        steps = logged_steps(training.n_steps, training.log_every)
        rows = [measure(task, architecture, weights.parameters, stars, test)]
        for first, last in itertools.pairwise(steps.tolist()):
            for _ in range(first, last):
                set_gradients()
                update()
            rows.append(measure(task, architecture, weights.parameters, stars, test))
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


class _Weights:
    """Parameters and their gradients as parts of two flat tensors, which one update serves."""

    def __init__(self, start: Parameters) -> None:
        self.flat = torch.cat([tensor.flatten() for tensor in start.values()])
        self.gradient = torch.zeros_like(self.flat)
        sizes = [tensor.numel() for tensor in start.values()]
        parts = zip(torch.split(self.flat, sizes), torch.split(self.gradient, sizes), strict=True)
        self.parameters: Parameters = {}
        for (name, tensor), (values, gradient) in zip(start.items(), parts, strict=True):
            self.parameters[name] = values.view_as(tensor).requires_grad_()
            self.parameters[name].grad = gradient.view_as(tensor)


def _update(training: LayerTraining, weights: _Weights) -> Callable[[], object]:
    """A function that makes one step of the optimiser."""
    if training.optimiser == "sgd":
        return lambda: weights.flat.add_(weights.gradient, alpha=-training.step_size)
    values, gradient = weights.flat.numpy(), weights.gradient.numpy()
    moments, steps = np.zeros((2, len(values)), values.dtype), itertools.count(1)
    return lambda: adam_step(values, gradient, *moments, training.step_size, next(steps))


@compiled(fastmath=True)
def adam_step(
    values: Any, gradient: Any, mean: Any, square: Any, step_size: float, step: int
) -> None:
    """One step of torch.optim.Adam with its defaults, in one pass over the memory."""
    first, second, eps = BETAS[0], BETAS[1], values.dtype.type(EPS)
    keep1, keep2 = values.dtype.type(1 - first), values.dtype.type(1 - second)
    root = values.dtype.type(1 / math.sqrt(1 - second**step))
    size = values.dtype.type(step_size / (1 - first**step))
    for i in range(len(values)):
        mean[i] += keep1 * (gradient[i] - mean[i])
        square[i] += keep2 * (gradient[i] * gradient[i] - square[i])
        values[i] -= size * mean[i] / (math.sqrt(square[i]) * root + eps)


def _gradients(
    training: LayerTraining, weights: _Weights, stars: Stars, generator: torch.Generator
) -> Callable[[], None]:
    """A function that draws a batch and sets the gradients of its mean squared error."""
    task, architecture, n = training.task, training.architecture, training.batch_size

    def directly() -> None:
        batch = sample_sequences(task, training.n_informative, stars, n, generator)
        y = batch.signal + task.noise_std * torch.randn(n, generator=generator)
        prediction = predict(architecture, weights.parameters, batch.X)
        weights.gradient.zero_()
        torch.autograd.backward(((prediction - y) ** 2).mean())

    if training.all_tokens or not architecture.reducible:
        return directly
    values = {name: tensor.detach().numpy() for name, tensor in weights.parameters.items()}
    gradients = {name: tensor.grad.numpy() for name, tensor in weights.parameters.items()}  # type: ignore[union-attr]
    law = law_of(task, training.n_informative, stars)
    normals = torch.empty(n_draws(task, n))
    draws = draws_in(normals, task, n)

    def in_law() -> None:
        normals.normal_(generator=generator)
        set_gradients_in_law(law, architecture, values, gradients, draws)

    return in_law
