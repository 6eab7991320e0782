"""Which attention can reach Bayes: the best risk of each gate at k = k* and v = v*.

notation: T(X) = scale sum_l a_l X_l.v*,  a = gate(lam (X_l.k* - threshold)),  g = gamma
          R tokens are informative, the first ones; Y is the mean of their values (R = 1: the paper)
v* is orthogonal to k*: the values X_l.v* are independent of the scores X_l.k* and have mean 0, so
products of two tokens vanish.

Component-wise gates, where a_l depends on token l alone, need three moments at Gaussian scores:
excess risk = g^2/R - 2 scale g^2 E[a_1] + scale^2 (R g^2 E[a_1^2] + (L - R) E[a_L^2])

Softmax depends on all tokens and is simulated, together with Bayes on the same sequences:
E[(Y - T)^2] = E[(Y - E[Y|X])^2] + E[(T - E[Y|X])^2], and the last term, the excess over Bayes, is
the mean of sum_l (scale a_l - p_l/R)^2 (X_l.v*)^2: 0 if the weights are those of Bayes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import erf

from slr.attentions.gate_moments import Moments, moments
from slr.predictor import Gate, activate
from slr.task import FloatArray, Task
from slr.yardsticks import (
    Estimate,
    bayes_weights,
    chunk_sizes,
    posterior_variances,
    sample_tokens,
)

TUNING_TOKENS = 50_000  # for the search of softmax's lam: its error is of second order
HOMOGENEOUS = ("linear", "relu", "uniform")  # a factor of the score is one of the weight
MASS_TOKENS = 100_000  # for the mass of a component-wise gate: to 0.005 at L = 10


@dataclass(frozen=True)
class BestAttention:
    """The best setting of a gate, and its excess risk: exact (stderr 0) but for the softmax."""

    excess_risk: Estimate
    mass: float  # mean share of |a| on the informative tokens
    lam: float
    threshold: float
    scale: float


def best_attention(
    task: Task,
    gate: Gate,
    n_samples: int,
    rng: np.random.Generator,
    *,
    fit_threshold: bool = False,
    scale: float | None = None,
    n_informative: int = 1,
) -> BestAttention:
    """The best lam and scale of a gate with its excess risk, for softmax on n_samples sequences.

    ``scale`` is the length of v: None searches the best, 1 is the paper's predictor. The threshold
    is 0; ``fit_threshold`` searches the best (it changes nothing for softmax).
    """
    chunk_sizes(task, n_samples, n_informative)  # refuses what cannot be
    if gate == "softmax":
        return softmax_and_bayes(task, n_samples, rng, n_informative, scale=scale).softmax

    def risk_at(lam: Any, threshold: Any) -> Any:
        return _exact(task, gate, lam, threshold, n_informative, scale)[0]

    # lam and scale are one parameter of a homogeneous gate; linear ones like a negative threshold.
    log_lams = np.zeros(1) if scale is None and gate in HOMOGENEOUS else _log_lams(task)
    thresholds = task.signal * np.linspace(-1, 1, 11) if fit_threshold else np.zeros(1)
    lam, threshold = _search(risk_at, log_lams, thresholds)
    risk, chosen = _exact(task, gate, lam, threshold, n_informative, scale)
    scores = sample_scores(task, max(200, MASS_TOKENS // task.L), rng, n_informative)
    mass = attention_mass(activate(lam * (scores - threshold), gate), n_informative).mean()
    return BestAttention(Estimate(float(risk), 0.0), float(mass), lam, threshold, float(chosen))


def _exact(
    task: Task, gate: Gate, lam: Any, threshold: Any, n_informative: int, scale: float | None
) -> tuple[Any, Any]:
    """Excess risk and scale (for None, the best one), of the shape of lam and threshold."""
    if gate == "uniform":
        first = other = Moments(1 / task.L, 1 / task.L**2)
    else:
        first = moments(gate, lam * (task.signal - threshold), lam * task.gamma)
        other = moments(gate, -lam * threshold, lam)
    g2, R = task.gamma**2, n_informative
    linear = g2 * first.mean  # E[Y S], S = sum_l a_l X_l.v*
    square = R * g2 * first.square + (task.L - R) * other.square  # E[S^2]
    if scale is None:
        scale = linear / np.maximum(square, 1e-300)  # all weights 0: the scale does not matter
    return g2 / R - 2 * scale * linear + scale**2 * square, scale


class SoftmaxAndBayes(NamedTuple):
    """The best softmax and Bayes on the same sequences: above is the difference of their risks."""

    softmax: BestAttention
    bayes: Estimate
    above: Estimate


def softmax_and_bayes(
    task: Task,
    n_samples: int,
    rng: np.random.Generator,
    n_informative: int = 1,
    *,
    scale: float | None = None,
) -> SoftmaxAndBayes:
    """The softmax with the best lam and scale, and its excess risk above Bayes, by simulation."""
    sizes = chunk_sizes(task, n_samples, n_informative)
    tuning = _Chunk.draw(task, max(200, TUNING_TOKENS // task.L), rng, n_informative)
    risk_at = np.vectorize(lambda lam, _: tuning.above(lam, scale)[0].mean())
    lam, _ = _search(risk_at, _log_lams(task), np.zeros(1))
    _, chosen = tuning.above(lam, scale)
    bayes, above, shares = [], [], []
    for size in sizes:
        chunk = _Chunk.draw(task, size, rng, n_informative)
        bayes.append(chunk.bayes)
        above.append(chunk.above(lam, chosen)[0])
        shares.append(attention_mass(activate(lam * chunk.scores, "softmax"), n_informative))
    risk = Estimate.of([b + a for b, a in zip(bayes, above, strict=True)])
    best = BestAttention(risk, float(np.concatenate(shares).mean()), lam, 0.0, chosen)
    return SoftmaxAndBayes(best, Estimate.of(bayes), Estimate.of(above))


class _Chunk(NamedTuple):
    """Sequences with what Bayes makes of them."""

    scores: FloatArray  # (n, L)
    squared_values: FloatArray  # (n, L), E[(X_l.v*)^2]
    weights: FloatArray  # (n, L), of Bayes: p_l/R
    bayes: FloatArray  # (n,), the posterior variance

    @classmethod
    def draw(cls, task: Task, n: int, rng: np.random.Generator, n_informative: int) -> "_Chunk":
        tokens = sample_tokens(task, n, rng, n_informative)
        p = bayes_weights(task, tokens.along_k, tokens.squared_norm, n_informative)
        bayes = posterior_variances(task, tokens, p, n_informative)
        return cls(tokens.along_k, tokens.squared_values(task), p / n_informative, bayes)

    def above(self, lam: Any, scale: float | None) -> tuple[FloatArray, float]:
        """E[(T - E[Y|X])^2] of softmax, shape (n,), and the scale (for None, the best one)."""
        a = activate(lam * self.scores, "softmax")
        if scale is None:
            weighted = a * self.squared_values
            scale = float(np.sum(self.weights * weighted) / np.sum(a * weighted))
        return np.sum((scale * a - self.weights) ** 2 * self.squared_values, axis=1), scale


def sample_scores(
    task: Task, n: int, rng: np.random.Generator, n_informative: int = 1
) -> FloatArray:
    """Scores X_l.k* of n sequences, shape (n, L), with the informative tokens first."""
    scores = rng.standard_normal((n, task.L))
    scores[:, :n_informative] = task.signal + task.gamma * scores[:, :n_informative]
    return scores


def attention_mass(weights: FloatArray, n_informative: int) -> FloatArray:
    """The share of |a| on the first n_informative tokens, shape (n,); 0 where all weights are 0."""
    size = np.abs(weights)
    total = size.sum(axis=1)
    return np.asarray(size[:, :n_informative].sum(axis=1) / np.where(total > 0, total, 1))


def expected_attention_mass(
    task: Task, kappa: FloatArray, lam: FloatArray, *, n: int = 2000, seed: int = 0
) -> FloatArray:
    """Mean share of |erf(lam X_l.k)| on the informative token, of the shape of kappa and lam.

    Scores X_l.k are N(sqrt(d/2) kappa, gamma^2) for the informative token and N(0, 1) for the
    others, so n draws of L numbers suffice at any d.
    """
    kappa, lam = np.broadcast_arrays(np.asarray(kappa, float), np.asarray(lam, float))
    rng = np.random.default_rng(seed)  # the same draws for all entries: smooth in kappa and lam
    first, others = rng.standard_normal(n), rng.standard_normal((n, task.L - 1))
    mass = np.empty(kappa.shape)
    for index in np.ndindex(kappa.shape):
        informative = np.abs(erf(lam[index] * (task.signal * kappa[index] + task.gamma * first)))
        rest = np.abs(erf(lam[index] * others)).sum(axis=1)
        mass[index] = np.mean(informative / np.maximum(informative + rest, 1e-300))
    return mass


def _log_lams(task: Task) -> FloatArray:
    """A wide grid of log lam."""
    end = 4 + math.log(1 + task.signal)
    return np.linspace(-end, end, 16)


def _search(
    risk_at: Callable[[Any, Any], Any], log_lams: FloatArray, thresholds: FloatArray
) -> tuple[float, float]:
    """The best lam and threshold of a grid, then refined; an axis of one point is kept.

    lam stays within its grid: erf would go on to 0, where it is linear.
    """
    shape = len(log_lams), len(thresholds)
    risks = np.broadcast_to(risk_at(np.exp(log_lams)[:, None], thresholds[None, :]), shape)
    i, j = np.unravel_index(int(np.argmin(risks)), shape)
    point = np.array([log_lams[i], thresholds[j]])
    free = np.array([len(log_lams) > 1, len(thresholds) > 1])
    bounds = np.array([[log_lams[0], log_lams[-1]], [-np.inf, np.inf]])[free]

    def risk_of(x: FloatArray) -> float:
        point[free] = x
        return float(risk_at(math.exp(point[0]), point[1]))

    if free.any():
        options = {"xatol": 1e-6, "fatol": 1e-13, "maxfev": 400}
        found = minimize(risk_of, point[free], method="Nelder-Mead", bounds=bounds, options=options)
        point[free] = found.x
    return math.exp(point[0]), float(point[1])
