"""Whole attention layers: what they compute, that runs are independent, and their controls."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch

from slr import Task, linear_excess_risk
from slr.attentions.layer import (
    ARCHITECTURES,
    Architecture,
    effective_keys,
    fully_connected_width,
    read,
    start_parameters,
)
from slr.attentions.layer_training import (
    LayerTraining,
    Stars,
    measure,
    sample_sequences,
    train_layers,
)
from slr.predictor import Gate

TASK = Task(d=12, L=4, gamma=0.7, noise_std=0.1)
SMALL = Architecture(width=8, hidden=10)


@pytest.fixture
def double() -> Iterator[None]:
    """Numbers of 64 bits, so that only the order of sums is left to differ."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def generators(runs: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(run) for run in range(runs)]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("gate", ["softmax", "tanh", "linear"])
@pytest.mark.parametrize(("heads", "mlp"), [(1, True), (2, True), (2, False)])
def test_a_layer_is_its_definition(gate: Gate, heads: int, mlp: bool) -> None:
    layer = replace(SMALL, gate=gate, heads=heads, mlp=mlp)
    parameters = start_parameters(TASK, layer, generators(2))
    parameters["Q"] = torch.randn(parameters["Q"].shape, generator=generators(1)[0])
    X = torch.randn(2, 3, TASK.L, TASK.d, generator=generators(1)[0])
    found = read(layer, parameters, X)
    act: dict[str, Any] = {
        "softmax": lambda s: np.exp(s) / np.exp(s).sum(),
        "tanh": np.tanh,
        "linear": lambda s: s,
    }
    for run in range(2):
        p = {name: tensor[run].numpy() for name, tensor in parameters.items()}
        size = 8 // heads
        for i, tokens in enumerate(X[run].numpy()):
            z = np.zeros(8)
            for part in (slice(h * size, (h + 1) * size) for h in range(heads)):
                query = p["Q"][part] @ np.ones(TASK.d)
                scores = np.array([query @ (p["K"][part] @ x) for x in tokens]) / math.sqrt(size)
                for weight, x in zip(act[gate](scores), tokens, strict=True):
                    z[part] += weight * (p["V"][part] @ x)
            if mlp:
                z = np.maximum(z @ p["W1"] + p["b1"][0], 0) @ p["W2"] + p["b2"][0]
            assert float(found.prediction[run, i]) == pytest.approx(float(z @ p["w"][:, 0]))


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_runs_trained_at_once_equal_runs_trained_alone(optimiser: Literal["sgd", "adam"]) -> None:
    training = LayerTraining(TASK, SMALL, n_steps=80, log_every=20, n_test=200, batch_size=32)
    training = replace(training, optimiser=optimiser)
    together = train_layers(training, range(4))
    alone = train_layers(training, [2])
    # 64-bit rounding (1e-16) through 80 steps.
    np.testing.assert_allclose(together.excess_risk[2], alone.excess_risk[0], rtol=1e-10)
    np.testing.assert_allclose(together.key_cosine[2], alone.key_cosine[0], rtol=1e-8)
    assert abs(together.excess_risk[1] - alone.excess_risk[0]).min() > 1e-6  # others differ
    other = train_layers(replace(training, seed=1), [2])
    assert abs(other.excess_risk - alone.excess_risk).min() > 1e-6


def test_uniform_attention_is_no_better_than_linear_and_softmax_is() -> None:
    """Given the mean of the tokens Y is Gaussian: no MLP on it can beat the best linear one."""
    task = Task(d=20, L=5, gamma=0.7, noise_std=0.1)
    training = LayerTraining(task, optimiser="adam", step_size=2e-3, n_steps=250, n_test=10_000)
    training = replace(training, log_every=250)
    frozen = train_layers(replace(training, architecture=Architecture("uniform")), [0, 1])
    linear = linear_excess_risk(task)
    stderr = linear * math.sqrt(2 / training.n_test)  # of a mean of squared Gaussians
    assert (frozen.excess_risk[:, -1] > linear - 4 * stderr).all()
    np.testing.assert_allclose(frozen.mass, 1 / task.L, rtol=1e-5)
    trained = train_layers(training, [0, 1])
    assert (trained.excess_risk[:, -1] < linear / 3).all()
    assert (trained.mass[:, -1] > 0.8).all()


@pytest.mark.usefixtures("double")
def test_planted_directions_are_measured() -> None:
    layer = replace(SMALL, mlp=False, width=TASK.d)
    parameters = start_parameters(TASK, layer, generators(2))
    frame, _ = torch.linalg.qr(torch.randn(2, TASK.d, 2, generator=generators(1)[0]))
    stars = Stars(frame[..., 0], frame[..., 1])
    eye = torch.eye(TASK.d).expand(2, -1, -1)
    length = 20 * math.sqrt(TASK.d)
    parameters |= {"K": eye, "V": eye, "w": stars.v[..., None]}
    parameters["Q"] = length * stars.k[..., None].expand(-1, -1, TASK.d) / TASK.d
    keys = effective_keys(layer, parameters)[:, 0]
    np.testing.assert_allclose(keys, 20 * stars.k)
    training = LayerTraining(TASK, layer, n_test=5000)
    test = sample_sequences(training, stars, 5000, generators(2))
    risk, mass, key, value, swap = measure(training, parameters, stars, test)
    assert (mass > 0.9).all()
    assert (risk < linear_excess_risk(TASK) / 3).all()
    np.testing.assert_allclose(key, 1)
    np.testing.assert_allclose(value, 1)
    np.testing.assert_allclose(swap, 0, atol=1e-12)


def test_sequences_have_the_law_of_the_task() -> None:
    training = LayerTraining(TASK, n_informative=2)
    stars = Stars(torch.eye(TASK.d)[None, 0], torch.eye(TASK.d)[None, 1])
    n = 20_000
    X, signal, informative = sample_sequences(training, stars, n, generators(1))
    chosen = torch.zeros(n, TASK.L, dtype=torch.bool).scatter_(1, informative[0], True)
    assert (chosen.sum(dim=1) == 2).all()
    assert chosen.double().mean(dim=0).numpy() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(n))
    tokens, others = X[0][chosen], X[0][~chosen]
    limit = 5 / math.sqrt(2 * n)  # standard errors, of tokens with unit variance
    mean = torch.zeros(TASK.d)
    mean[0] = TASK.signal
    assert (tokens.mean(dim=0) - mean).abs().max() < limit
    assert tokens.std(dim=0).numpy() == pytest.approx(TASK.gamma, abs=limit)
    assert others.mean(dim=0).abs().max() < limit
    assert others.std(dim=0).numpy() == pytest.approx(1, abs=limit)
    np.testing.assert_allclose(signal[0], tokens[:, 1].reshape(n, 2).mean(dim=1), atol=1e-5)


def test_the_control_without_attention_has_as_many_parameters() -> None:
    task = Task(d=80, L=10, gamma=0.7)
    sizes = {}
    for name in ("softmax", "fully connected"):
        parameters = start_parameters(task, ARCHITECTURES[name], generators(1))
        sizes[name] = sum(tensor.numel() for tensor in parameters.values())
    one_more = task.L * task.d + 2 * fully_connected_width(task, ARCHITECTURES["softmax"])
    assert abs(sizes["softmax"] - sizes["fully connected"]) < one_more  # of a hidden unit


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_begins_to_learn(name: str) -> None:
    """In particular none starts where all gradients are 0."""
    training = LayerTraining(TASK, ARCHITECTURES[name], optimiser="adam", step_size=1e-3)
    found = train_layers(replace(training, n_steps=60, log_every=60, n_test=2000), [0])
    assert found.excess_risk[0, 1] < found.excess_risk[0, 0] - 1e-3


def test_a_tidy_table_has_the_risks_of_each_run() -> None:
    training = LayerTraining(TASK, SMALL, n_steps=6, log_every=2, n_test=100)
    found = train_layers(training, range(3))
    frame = found.to_frame()
    assert frame[frame["run"] == 1]["excess_risk"].tolist() == found.excess_risk[1].tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Architecture("cosine"), "gate must be one of softmax"),  # type: ignore[arg-type]
        (lambda: Architecture(heads=3), "does not divide into 3 heads"),
        (lambda: LayerTraining(TASK, n_informative=5), "n_informative must be in 1 .. 4"),
        (lambda: LayerTraining(TASK, optimiser="lbfgs"), "sgd or adam"),  # type: ignore[arg-type]
        (lambda: LayerTraining(TASK, seed=-1), "seed must be an integer of at least 0"),
        (lambda: train_layers(LayerTraining(TASK), []), "runs must be"),
    ],
)
def test_what_cannot_be_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
