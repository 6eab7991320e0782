"""The tokens' sufficient statistic, and what attention keeps of it (arXiv 2212.14852).

With features phi of the keys, f_z = phi.z for a Gaussian latent z, and the tokens have a likelihood
of z in proportion to exp(t.z - z.S z/2), up to noise_std^2, with the statistic

    S = sum_l phi(k_l) phi(k_l)^T,    t = sum_l phi(k_l) value_l

So (S, t) is sufficient for z, and minimal: two contexts have the same likelihood if and only if
they have the same (S, t). Kernel attention is a function of it, phi(q).(S + ridge I)^-1 t.
"""

from typing import NamedTuple

import numpy as np

from slr.attentions.conditional_mean import (
    Contexts,
    LatentTask,
    attend,
    kernel_weights,
    sample_contexts,
    sample_points,
    softmax_weights,
)
from slr.attentions.conditional_mean_errors import Trials, features
from slr.task import FloatArray
from slr.yardsticks import Estimate


class Statistic(NamedTuple):
    """S and t of n contexts."""

    S: FloatArray  # (n, features, features)
    t: FloatArray  # (n, features)

    @classmethod
    def of(cls, contexts: Contexts, precision: float) -> "Statistic":
        phi = features(contexts.keys, precision)
        return cls(phi.mT @ phi, (contexts.values[:, None, :] @ phi)[:, 0])

    def read(self, queries: FloatArray, precision: float, ridge: float) -> FloatArray:
        """Kernel attention at the queries, shape (n, n_queries), without the tokens."""
        ridges = ridge * np.eye(self.S.shape[-1])
        z = np.linalg.solve(self.S + ridges, self.t[:, :, None])
        return np.asarray((features(queries, precision) @ z)[:, :, 0])


def split_tokens(contexts: Contexts, rng: np.random.Generator) -> tuple[Contexts, Contexts]:
    """Two contexts with different tokens and the same statistic.

    Both have every key twice: one with its value twice, the other with values that lie apart.
    """
    apart = rng.standard_normal(contexts.values.shape)
    keys = np.repeat(contexts.keys, 2, axis=1)
    values = np.repeat(contexts.values, 2, axis=1)
    moved = values + np.stack([apart, -apart], axis=2).reshape(values.shape)
    same = contexts._replace(keys=keys, values=values)
    return same, same._replace(values=moved)


def partial_weights(
    trials: Trials, ridge: float, *, degree: int | None = None, S: FloatArray | None = None
) -> FloatArray:
    """Weights of kernel attention that lacks a part of the statistic, shape (n, n_queries, L).

    ``degree`` keeps the features up to this degree, and ``S`` stands for the S of every context.
    """
    precision = trials.task.precision
    phi, query = (features(x, precision, degree) for x in (trials.keys, trials.queries))
    gram = (phi.mT @ phi if S is None else S) + ridge * np.eye(phi.shape[-1])
    return np.asarray(query @ np.linalg.solve(gram, phi.mT))


def further_correlation(target: FloatArray, base: FloatArray, extra: FloatArray) -> Estimate:
    """Held-out correlation of what ``base`` leaves of the target with what ``extra`` makes of it.

    On the first half of the contexts the target is fitted by a line in base, and what is left by
    extra (n, columns). On the second half the two are compared: their correlation is 0 up to its
    standard error if extra adds nothing, whatever was fitted (a gain in R^2 would be negative).
    """
    half = len(target) // 2
    columns = np.column_stack([np.ones_like(base), base])
    left = target - columns @ np.linalg.lstsq(columns[:half], target[:half])[0]
    columns = np.column_stack([columns, extra])
    fitted = columns @ np.linalg.lstsq(columns[:half], left[:half])[0]
    left, fitted = left[half:], fitted[half:] - fitted[half:].mean()
    return Estimate.of([left * fitted / (left.std() * fitted.std())])


def further_features(contexts: Contexts, softmaxes: list[FloatArray]) -> FloatArray:
    """What else the tokens say about the first query, shape (n, columns).

    Mean value, value of the nearest key, its cosine with the query, and what softmax attentions
    with these weights read there.
    """
    cosines = (contexts.keys @ contexts.queries[:, 0, :, None])[:, :, 0]
    nearest = cosines.argmax(axis=1)[:, None]
    columns = [
        contexts.values.mean(axis=1),
        np.take_along_axis(contexts.values, nearest, axis=1)[:, 0],
        np.take_along_axis(cosines, nearest, axis=1)[:, 0],
        *(attend(weights, contexts)[:, 0] for weights in softmaxes),
    ]
    return np.column_stack(columns)


# ---- what the study shows, at the task's own kernel and noise


def statistic_differences(
    task: LatentTask, n: int, L: int, rng: np.random.Generator
) -> dict[str, float]:
    """Largest differences between kernel attention and what is read from a statistic."""
    precision, ridge = task.precision, task.noise_std**2
    contexts = sample_contexts(task, n, L, 32, rng)
    same, moved = split_tokens(contexts, rng)
    differences = {}
    for name, seen, read in (
        ("(S, t)", contexts, contexts),
        ("(S, t) of other tokens", same, moved),
    ):
        expected = attend(kernel_weights(seen.keys, seen.queries, precision, ridge), seen)
        found = Statistic.of(read, precision).read(read.queries, precision, ridge)
        differences[name] = float(np.abs(found - expected).max())
    return differences


def partial_errors(task: LatentTask, n: int, L: int, rng: np.random.Generator) -> dict[str, float]:
    """Errors of kernel attention with the whole statistic and without parts of it."""
    ridge, trials = task.noise_std**2, Trials.draw(task, n, L, 32, rng)
    phi = features(sample_points(task, 1, 20_000, rng, task.key_shift)[0], task.precision)
    weights = {
        "(S, t)": partial_weights(trials, ridge),
        "t, with S at its mean": partial_weights(trials, ridge, S=L / len(phi) * phi.T @ phi),
        "(S, t) of degrees 0 and 1": partial_weights(trials, ridge, degree=1),
    }
    return {name: float(trials.errors(a).mean()) for name, a in weights.items()}


def further_correlations(
    task: LatentTask, n: int, L: int, rng: np.random.Generator
) -> dict[str, Estimate]:
    """What further features add to kernel attention and (control) to the best softmax."""
    beta = Trials.draw(task, 100, L, 16, rng).best_beta()
    contexts = sample_contexts(task, n, L, 1, rng)
    keys, queries = contexts.keys, contexts.queries
    softmaxes = [softmax_weights(keys, queries, x) for x in (beta, 2 * beta)]
    kernel = kernel_weights(keys, queries, task.precision, task.noise_std**2)
    target, extra = contexts.target[:, 0], further_features(contexts, softmaxes)
    return {
        name: further_correlation(target, attend(weights, contexts)[:, 0], extra)
        for name, weights in (("kernel attention", kernel), ("softmax attention", softmaxes[0]))
    }
