"""Gradients in law: the hand-written derivatives exactly, the law by Kolmogorov-Smirnov tests."""

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from slr import Task
from slr.attentions.layer import (
    Architecture,
    activate,
    effective_keys,
    predict,
    predict_from_context,
    start_parameters,
)
from slr.attentions.layer_gradients import pullback, set_reader_gradients
from slr.attentions.layer_reduced import draws_in, law_of, n_draws, set_gradients_in_law
from slr.attentions.layer_sampling import sample_sequences, sample_stars
from slr.attentions.layer_training import LayerTraining, train_layers
from slr.predictor import Gate
from slr.predictor import activate as activate_array

TASK = Task(d=6, L=4, gamma=0.6, noise_std=0.1)
SMALL = Architecture(width=5, hidden=7)
CASES: list[tuple[Gate, int]] = [("softmax", 1), ("erf", 1), ("relu", 2), ("linear", 1)]
DRAWS, BATCH = 4000, 2
LEVEL = 0.01  # of the smallest p-value, corrected for the number of tests


@pytest.fixture(autouse=True)
def _double_and_alone() -> Iterator[None]:
    """Numbers of 64 bits, and one thread: for such small arrays others only wait for each other."""
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(threads)
    torch.set_default_dtype(before)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def parameters_of(architecture: Architecture) -> dict[str, torch.Tensor]:
    """A start, with a key and biases that are not 0."""
    parameters = start_parameters(TASK, architecture, generator(1))
    for name in {"Q", "b1", "b2"} & set(parameters):
        parameters[name] = 0.4 * torch.randn(parameters[name].shape, generator=generator(2))
    return {name: tensor.requires_grad_() for name, tensor in parameters.items()}


@pytest.mark.parametrize("mlp", [True, False])
def test_the_gradients_of_what_follows_the_context_are_those_of_autograd(mlp: bool) -> None:
    architecture = replace(SMALL, mlp=mlp)
    parameters = parameters_of(architecture)
    context = torch.randn(9, 1, TASK.d, generator=generator(3), requires_grad=True)
    y = torch.randn(9, generator=generator(4))
    prediction = predict_from_context(architecture, parameters, context)
    torch.autograd.backward(((prediction - y) ** 2).mean())
    values = {name: tensor.detach().numpy() for name, tensor in parameters.items()}
    gradients = {name: np.full_like(value, np.nan) for name, value in values.items()}
    plain = context.detach()[:, 0].numpy()
    g = set_reader_gradients(architecture, values, gradients, plain, y.numpy())
    np.testing.assert_allclose(g, context.grad[:, 0], rtol=1e-10)  # type: ignore[index]
    for name in set(parameters) - {"K", "Q"}:
        np.testing.assert_allclose(gradients[name], parameters[name].grad, rtol=1e-10)  # type: ignore[arg-type]


@pytest.mark.parametrize("gate", sorted(set(get_args(Gate)) - {"uniform"}))
def test_the_gradient_of_a_gate_is_that_of_autograd(gate: Gate) -> None:
    scores = torch.randn(5, TASK.L, generator=generator(5), requires_grad=True)
    values = torch.randn(5, TASK.L, generator=generator(6))
    (activate(scores, gate) * values).sum().backward()  # type: ignore[no-untyped-call]
    array = scores.detach().numpy()
    by_hand = pullback(gate, array, activate_array(array, gate), values.numpy())
    np.testing.assert_allclose(by_hand, scores.grad, rtol=1e-10)  # type: ignore[arg-type]


@functools.cache
def gradients_of(gate: Gate, n_informative: int, without: str | None = None) -> Any:
    """Statistics of many gradients, (2, DRAWS, statistics): with all tokens drawn, and in law.

    ``without`` names the draws that are replaced by 0 in law: a planted error.
    """
    architecture = replace(SMALL, gate=gate)
    parameters, rng = parameters_of(architecture), generator(7)
    stars = sample_stars(TASK, rng)
    key = effective_keys(architecture, parameters)[0].detach().numpy()
    frame = np.array([key, stars.k.numpy(), stars.v.numpy()])
    for tensor in parameters.values():
        tensor.grad = torch.zeros_like(tensor)
    values = {name: tensor.detach().numpy() for name, tensor in parameters.items()}
    gradients = {name: tensor.grad.numpy() for name, tensor in parameters.items()}  # type: ignore[union-attr]
    law, query = law_of(TASK, n_informative, stars), values["Q"].sum(axis=1)

    def directly() -> None:
        for gradient in gradients.values():
            gradient[:] = 0
        X, signal, _ = sample_sequences(TASK, n_informative, stars, BATCH, rng)
        y = signal + TASK.noise_std * torch.randn(BATCH, generator=rng)
        torch.autograd.backward(((predict(architecture, parameters, X) - y) ** 2).mean())

    def in_law() -> None:
        normals = torch.randn(n_draws(TASK, BATCH), generator=rng)
        draws = draws_in(normals, TASK, BATCH)
        if without:
            getattr(draws, without)[:] = 0
        set_gradients_in_law(law, architecture, values, gradients, draws)

    def statistics() -> list[Any]:
        du, V = query @ gradients["K"], gradients["V"]
        along = frame @ du
        squares = [du @ du, (V * V).sum(), (gradients["W1"] ** 2).sum()]
        # Products see the dependence between gradients, which their laws one by one do not.
        products = [V[0] @ du, along[1] * along[2], du[0] * gradients["w"][1]]
        return [*along, *(frame @ V[1]), gradients["Q"][0, 0], *squares, *products]

    samples: list[list[list[Any]]] = [[], []]
    for draw, rows in zip((directly, in_law), samples, strict=True):
        for _ in range(DRAWS):
            draw()
            rows.append(statistics())
    return np.array(samples)


def smallest_p(one: Any, other: Any) -> float:
    """Smallest p-value of Kolmogorov-Smirnov tests on all statistics, times their number."""
    tests = [ks_2samp(x, y, method="asymp").pvalue for x, y in zip(one.T, other.T, strict=True)]
    return float(min(tests) * len(tests))


@pytest.mark.parametrize(("gate", "n_informative"), CASES)
def test_gradients_in_law_have_the_law_of_gradients_on_tokens(
    gate: Gate, n_informative: int
) -> None:
    assert smallest_p(*gradients_of(gate, n_informative)) > LEVEL


@pytest.mark.parametrize("without", ["xi", "eta", "rest"])
def test_the_law_test_sees_a_planted_error(without: str) -> None:
    """The control: each of the draws matters."""
    assert smallest_p(*gradients_of("softmax", 1, without)) < LEVEL


def test_training_in_law_has_the_law_of_training_on_tokens() -> None:
    """From a key of 0, with two informative tokens; the control is another gamma."""
    training = LayerTraining(TASK, SMALL, n_informative=2, step_size=0.2, n_steps=20)
    training = replace(training, batch_size=4, log_every=10, n_test=200)
    runs = 200
    direct = replace(training, all_tokens=True, seed=1)
    wrong = replace(direct, task=replace(TASK, gamma=0.8))

    def ends(training: LayerTraining) -> Any:
        layers = train_layers(training, range(runs))
        columns = (layers.excess_risk, layers.mass, layers.key_cosine, layers.swap_cosine)
        return np.concatenate([column[:, 1:] for column in columns], axis=1)

    reduced = ends(training)
    assert smallest_p(ends(direct), reduced) > LEVEL
    assert smallest_p(ends(wrong), reduced) < LEVEL
