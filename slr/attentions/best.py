"""Which attention can reach Bayes: the best risk of each gate at k = k* and v = v*.

notation: T(X) = scale sum_l a_l X_l.v*,  a = gate(lam (X_l.k* - threshold))
v* is orthogonal to k*, so the values X_l.v* are independent of the scores, and are integrated out:
E[(Y - T)^2 | a] - noise_std^2 = gamma^2 (1 - scale a_1)^2 + scale^2 sum_{l>1} a_l^2
where token 1 is the informative one. If R tokens are informative and Y is the mean of their values,
each of them adds gamma^2 (1/R - scale a_l)^2. Only the scores X_l.k* are simulated, so the cost
does not depend on d.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import erf

from slr.predictor import Gate, activate
from slr.task import FloatArray, Task
from slr.yardsticks import Estimate, chunk_sizes, refined

TUNING_TOKENS = 50_000  # for the search of lam and threshold: their errors are of second order


@dataclass(frozen=True)
class BestAttention:
    """The best setting of a gate, and its excess risk on fresh samples."""

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
    """The best lam and scale of a gate, and their excess risk on ``n_samples`` sequences.

    ``scale`` is the length of v: None searches the best, 1 is the paper's predictor. The threshold
    is 0; ``fit_threshold`` searches the best.
    """
    sizes = chunk_sizes(task, n_samples, n_informative)
    tuning = sample_scores(task, max(200, TUNING_TOKENS // task.L), rng, n_informative)

    def risk_at(x: FloatArray) -> float:
        weights = activate(math.exp(x[0]) * (tuning - x[1]), gate)
        return float(_losses(task, weights, n_informative, scale)[0].mean())

    lam, threshold = _search(task, risk_at, fit_threshold)
    weights = activate(lam * (tuning - threshold), gate)
    chosen = _losses(task, weights, n_informative, scale)[1]
    losses, shares = [], []
    for size in sizes:
        scores = sample_scores(task, size, rng, n_informative)
        weights = activate(lam * (scores - threshold), gate)
        losses.append(_losses(task, weights, n_informative, chosen)[0])
        shares.append(attention_mass(weights, n_informative))
    mass = float(np.concatenate(shares).mean())
    return BestAttention(Estimate.of(losses), mass, lam, threshold, chosen)


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


def _losses(
    task: Task, weights: FloatArray, n_informative: int, scale: float | None
) -> tuple[FloatArray, float]:
    """E[(Y - T)^2 | a] - noise_std^2, shape (n,), and the scale (for None, the best one)."""
    g2, informative, other = task.gamma**2, weights[:, :n_informative], weights[:, n_informative:]
    linear = g2 * informative.sum(axis=1) / n_informative  # E[Y S | a], S = sum_l a_l X_l.v*
    square = g2 * np.sum(informative**2, axis=1) + np.sum(other**2, axis=1)  # E[S^2 | a]
    if scale is None:
        scale = float(linear.mean() / square.mean()) if square.any() else 0.0
    return np.asarray(g2 / n_informative - 2 * scale * linear + scale**2 * square), scale


def _search(
    task: Task, risk_at: Callable[[FloatArray], float], fit_threshold: bool
) -> tuple[float, float]:
    """The best lam and threshold: those of a grid (of log lam), then refined."""
    grid = np.linspace(-4 - math.log(1 + task.signal), 4 + math.log(1 + task.signal), 30)
    thresholds = task.signal * np.linspace(0, 1, 6) if fit_threshold else [0.0]
    points = [np.array([x, threshold]) for x in grid for threshold in thresholds]
    best = points[int(np.argmin([risk_at(point) for point in points]))]
    if fit_threshold:
        minimum = minimize(risk_at, best, method="Nelder-Mead", options={"maxfev": 80})
        return math.exp(minimum.x[0]), float(minimum.x[1])
    x = refined(lambda x: risk_at(np.array([x, 0.0])), best[0], width=grid[1] - grid[0])
    return math.exp(x), 0.0
