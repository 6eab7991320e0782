"""Whole attention layers: what they compute, that runs are independent, and their controls."""

import math
from collections.abc import Iterator, Sequence
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
    predict,
    start_parameters,
)
from slr.attentions.layer_measures import measure
from slr.attentions.layer_sampling import Stars, sample_sequences
from slr.attentions.layer_training import LayerRuns, LayerTraining, joined, train_layer
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


def train_layers(training: LayerTraining, runs: Sequence[int]) -> LayerRuns:
    return joined([train_layer(training, run) for run in runs])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def stars_of(seed: int = 0) -> Stars:
    frame, _ = torch.linalg.qr(torch.randn(TASK.d, 2, generator=generator(seed)))
    return Stars(frame[:, 0].contiguous(), frame[:, 1].contiguous())


def weights_by_hand(gate: str, scores: Any) -> Any:
    if gate == "softmax":
        return np.exp(scores) / np.exp(scores).sum()
    return np.tanh(scores) if gate == "tanh" else scores


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("gate", ["softmax", "tanh", "linear"])
@pytest.mark.parametrize(("heads", "mlp"), [(1, True), (2, True), (2, False)])
def test_a_layer_is_its_definition(gate: Gate, heads: int, mlp: bool) -> None:
    layer = replace(SMALL, gate=gate, heads=heads, mlp=mlp)
    parameters = start_parameters(TASK, layer, generator())
    parameters["Q"] = torch.randn(parameters["Q"].shape, generator=generator())
    X = torch.randn(3, TASK.L, TASK.d, generator=generator(1))
    prediction = predict(layer, parameters, X)
    p = {name: tensor.numpy() for name, tensor in parameters.items()}
    size = 8 // heads
    for i, tokens in enumerate(X.numpy()):
        z = np.zeros(8)
        for part in (slice(h * size, (h + 1) * size) for h in range(heads)):
            query = p["Q"][part] @ np.ones(TASK.d)
            scores = np.array([query @ (p["K"][part] @ x) for x in tokens]) / math.sqrt(size)
            for weight, x in zip(weights_by_hand(gate, scores), tokens, strict=True):
                z[part] += weight * (p["V"][part] @ x)
        if mlp:
            z = np.maximum(z @ p["W1"] + p["b1"], 0) @ p["W2"] + p["b2"]
        assert float(prediction[i]) == pytest.approx(float(z @ p["w"]))


@pytest.mark.usefixtures("double")
def test_the_released_layer_is_its_definition() -> None:
    layer = Architecture(released=True, hidden=10)
    parameters = start_parameters(TASK, layer, generator())
    parameters["Q"] = torch.randn(parameters["Q"].shape, generator=generator())
    X = torch.randn(3, TASK.L, TASK.d, generator=generator(1))
    p = {name: tensor.numpy() for name, tensor in parameters.items()}

    def normed(x: Any) -> Any:
        return (x - x.mean()) / math.sqrt(x.var() + 1e-5)

    for i, prediction in enumerate(predict(layer, parameters, X)):
        tokens = [normed(x) for x in (*X[i].numpy(), p["register"])]
        scores = [(p["K"] @ tokens[-1]) @ (p["Q"] @ x) / math.sqrt(TASK.d) for x in tokens]
        weights = weights_by_hand("softmax", np.array(scores))
        z = p["register"] + sum(a * (p["V"] @ x) for a, x in zip(weights, tokens, strict=True))
        z = z + np.maximum(z @ p["W1"] + p["b1"], 0) @ p["W2"] + p["b2"]
        assert float(prediction) == pytest.approx(float(z @ p["w"]))


def test_the_register_is_not_trained() -> None:
    layer = Architecture(released=True, hidden=10)
    parameters = start_parameters(TASK, layer, generator())
    for tensor in parameters.values():
        tensor.requires_grad_()
    X = torch.randn(3, TASK.L, TASK.d, generator=generator(1))
    predict(layer, parameters, X).sum().backward()  # type: ignore[no-untyped-call]
    assert parameters["register"].grad is None
    assert parameters["Q"].grad.abs().max() > 0  # type: ignore[union-attr]


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_a_run_does_not_depend_on_other_runs_or_threads(
    optimiser: Literal["sgd", "adam"],
) -> None:
    training = LayerTraining(TASK, SMALL, n_steps=80, log_every=20, n_test=200, batch_size=32)
    training = replace(training, optimiser=optimiser)
    together = train_layers(training, range(4))
    threads = torch.get_num_threads()
    torch.set_num_threads(3 - min(threads, 2))  # 1 if there were several, else 2
    try:
        alone = train_layers(training, [2])
        assert torch.get_num_threads() == 3 - min(threads, 2), "left as found"
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_array_equal(together.excess_risk[2], alone.excess_risk[0])
    np.testing.assert_array_equal(together.key_cosine[2], alone.key_cosine[0])
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
    parameters, stars = start_parameters(TASK, layer, generator()), stars_of()
    length = 20 * math.sqrt(TASK.d)
    parameters |= {"K": torch.eye(TASK.d), "V": torch.eye(TASK.d), "w": stars.v}
    parameters["Q"] = length * stars.k[:, None].expand(-1, TASK.d) / TASK.d
    np.testing.assert_allclose(effective_keys(layer, parameters)[0], 20 * stars.k)
    test = sample_sequences(TASK, 1, stars, 5000, generator())
    planted = measure(TASK, layer, parameters, stars, test)
    assert planted.mass > 0.9
    assert planted.excess_risk < linear_excess_risk(TASK) / 3
    assert planted.key_cosine == pytest.approx(1)
    assert planted.value_cosine == pytest.approx(1)
    assert planted.swap_cosine == pytest.approx(0, abs=1e-12)
    parameters["w"] = torch.zeros(TASK.d)  # predicts 0, whose risk is known without error
    assert measure(TASK, layer, parameters, stars, test).excess_risk == pytest.approx(0.7**2)


def test_sequences_have_the_law_of_the_task() -> None:
    stars = Stars(torch.eye(TASK.d)[0], torch.eye(TASK.d)[1])
    n = 20_000
    X, signal, informative = sample_sequences(TASK, 2, stars, n, generator())
    chosen = torch.zeros(n, TASK.L, dtype=torch.bool).scatter_(1, informative, True)
    assert (chosen.sum(dim=1) == 2).all()
    assert chosen.double().mean(dim=0).numpy() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(n))
    tokens, others = X[chosen], X[~chosen]
    limit = 5 / math.sqrt(2 * n)  # standard errors, of tokens with unit variance
    mean = torch.zeros(TASK.d)
    mean[0] = TASK.signal
    assert (tokens.mean(dim=0) - mean).abs().max() < limit
    assert tokens.std(dim=0).numpy() == pytest.approx(TASK.gamma, abs=limit)
    assert others.mean(dim=0).abs().max() < limit
    assert others.std(dim=0).numpy() == pytest.approx(1, abs=limit)
    np.testing.assert_allclose(signal, tokens[:, 1].reshape(n, 2).mean(dim=1), atol=1e-5)


def test_the_control_without_attention_has_as_many_parameters() -> None:
    task = Task(d=80, L=10, gamma=0.7)
    sizes = {}
    for name in ("softmax", "fully connected"):
        parameters = start_parameters(task, ARCHITECTURES[name], generator())
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
    ],
)
def test_what_cannot_be_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
