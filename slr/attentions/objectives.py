"""What attention learns from two objectives (arXiv 2212.14852): supervised and self-supervised.

supervised        predict the conditional mean f_z(q) at fresh queries q
self-supervised   hide the values of some tokens and predict them from the other tokens and the keys

If queries have the law of the keys, both objectives are least at E[f_z(q) | tokens, q] and differ
only by the noise of the hidden values, so they teach the same parameters. Parameters minimise the
mean squared error on many contexts, by L-BFGS with gradients written out below.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

from slr.attentions.conditional_mean import (
    Contexts,
    LatentTask,
    attend,
    kernel,
    kernel_weights,
    parts,
    sample_contexts,
    softmax_weights,
)
from slr.task import FloatArray

Objective = Literal["supervised", "self-supervised"]
N_LABELS = 16  # queries, or hidden tokens, per context


class Learned(NamedTuple):
    """The parameters that softmax attention and kernel attention learned."""

    metric: FloatArray  # (d_key, d_key)
    precision: float
    ridge: float

    @property
    def beta(self) -> float:
        """The sharpness of the softmax: the mean of the metric's diagonal."""
        return float(np.trace(self.metric)) / len(self.metric)

    def weights(self, keys: FloatArray, queries: FloatArray) -> dict[str, FloatArray]:
        """The weights of both, each of shape (n, n_queries, L)."""
        return {
            "softmax": softmax_weights(keys, queries, self.metric),
            "kernel": kernel_weights(keys, queries, self.precision, self.ridge),
        }


def learn_attention(
    task: LatentTask,
    L: int,
    rng: np.random.Generator,
    *,
    n_contexts: int,
    objective: Objective = "supervised",
    query_shift: float | None = None,
) -> Learned:
    """Fit both kinds of attention to contexts of L visible tokens.

    ``query_shift``: the supervised queries have this shift instead of the keys'. The metric starts
    at I, the logarithms of precision and ridge at 0.
    """
    shift = query_shift if objective == "supervised" else None
    contexts = sample_contexts(task, n_contexts, L, N_LABELS, rng, query_shift=shift)
    labels = contexts.target
    if objective == "self-supervised":  # the hidden tokens' values have noise, too
        labels = labels + task.noise_std * rng.standard_normal(labels.shape)
    metric = _minimise(lambda x: softmax_loss(contexts, labels, x), np.eye(task.d_key).ravel())
    logs = _minimise(lambda x: kernel_loss(contexts, labels, x), np.zeros(2))
    return Learned(metric.reshape(task.d_key, -1), math.exp(logs[0]), math.exp(logs[1]))


def _minimise(
    loss: Callable[[FloatArray], tuple[float, FloatArray]], start: FloatArray
) -> FloatArray:
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", tol=1e-7).x)


def softmax_loss(
    contexts: Contexts, labels: FloatArray, metric: FloatArray
) -> tuple[float, FloatArray]:
    """Mean squared error of softmax attention, and its gradient in the metric's entries."""
    d = contexts.keys.shape[2]
    weights = softmax_weights(contexts.keys, contexts.queries, metric.reshape(d, d))
    read = attend(weights, contexts)
    errors = (read - labels) / labels.size
    by_score = weights * (contexts.values[:, None, :] - read[:, :, None]) * errors[:, :, None]
    gradient = np.sum(contexts.queries.mT @ by_score @ contexts.keys, axis=0)
    return float(np.mean((read - labels) ** 2)), 2 * gradient.ravel()


def kernel_loss(
    contexts: Contexts, labels: FloatArray, logs: FloatArray
) -> tuple[float, FloatArray]:
    """Mean squared error of kernel attention, and its gradient in log precision and log ridge.

    With G = g(K, K) + ridge I and c = G^-1 values, attention reads g(q, K) c, which changes by
    dg(q, K) c - g(q, K) G^-1 dG c.
    """
    precision, ridge = np.exp(logs)
    n, L = contexts.values.shape
    loss, gradient = 0.0, np.zeros(2)
    for part in parts(n, L):
        keys, values, queries, _ = (x[part] for x in contexts)
        gram, reading = kernel(keys, keys, precision), kernel(queries, keys, precision)
        ridged = gram + ridge * np.eye(L)
        c = np.linalg.solve(ridged, values[:, :, None])
        error = reading @ c - labels[part, :, None]
        back = np.linalg.solve(ridged, reading.mT @ error)
        # g = exp(precision (cosine - 1)), so precision dg/dprecision = g log g
        moved = error.mT @ (reading * np.log(reading)) @ c - back.mT @ (gram * np.log(gram)) @ c
        gradient += np.sum(moved), -ridge * np.sum(back * c)
        loss += np.sum(error**2)
    return loss / labels.size, 2 * gradient / labels.size
