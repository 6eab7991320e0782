"""Yardsticks for any predictor: the excess risks of Bayes, oracle, best linear and zero.

An excess risk is a risk without noise_std^2.
notation: E[Y|X] = sum_l p_l X_l.v*,  p = softmax_l( h X_l.k*/g^2 - |X_l|^2 (1/g^2 - 1)/2 )
If R tokens are informative and Y is the mean of their values, E[Y|X] = (1/R) sum_l p_l X_l.v* with
p_l = P(l informative | X), where a set of R tokens has a posterior probability in proportion to
exp(sum of its logits). (If Y is the sum, all risks are R^2 times as large, provided |v| is free.)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, lambertw, logsumexp, softmax

from slr.checks import check_size, check_whole
from slr.gates import softmax as softmax_gate
from slr.overlaps import ALIGNED
from slr.risks import RiskGate, excess_risk
from slr.task import FloatArray, Task

MAX_TOKENS = 2_000_000  # drawn at a time


@dataclass(frozen=True)
class Estimate:
    """A Monte-Carlo mean with its standard error.

    >>> Estimate.of([np.array([1.0, 3.0])])
    Estimate(value=2.0, stderr=1.0)
    """

    value: float
    stderr: float

    @classmethod
    def of(cls, chunks: Sequence[FloatArray]) -> "Estimate":
        """The mean of samples that were drawn in chunks."""
        samples = np.concatenate(chunks)
        return cls(float(samples.mean()), float(samples.std(ddof=1) / math.sqrt(len(samples))))


def chunk_sizes(task: Task, n_samples: int, n_informative: int = 1) -> list[int]:
    """Sizes of chunks that fit into memory and make up n_samples sequences."""
    check_whole(2, n_samples=n_samples)
    check_whole(1, most=task.L, n_informative=n_informative)
    chunk = max(1, MAX_TOKENS // task.L)
    return [min(chunk, n_samples - first) for first in range(0, n_samples, chunk)]


def bayes_excess_risk(
    task: Task, n_samples: int, rng: np.random.Generator, n_informative: int = 1
) -> Estimate:
    """Excess risk of E[Y|X]: the mean of the posterior variance, by simulation of n_samples X.

    Of a token only X.k* and |X|^2 are drawn, so the cost does not depend on d. If several tokens
    are informative, Y is the mean of their values.

    >>> bayes_excess_risk(task, 1000, rng).value < oracle_excess_risk(task, best_oracle_lam(task))
    np.True_
    """
    variances = []
    for size in chunk_sizes(task, n_samples, n_informative):
        tokens = sample_tokens(task, size, rng, n_informative)
        p = bayes_weights(task, tokens.along_k, tokens.squared_norm, n_informative)
        variances.append(posterior_variances(task, tokens, p, n_informative))
    return Estimate.of(variances)


def bayes_at_most(task: Task, n_samples: int, rng: np.random.Generator) -> Estimate:
    """An upper bound of the excess risk of E[Y|X], from one token per sequence: for any d and L.

    With w_l the density ratio of an informative token to another and S = sum_{l>1} w_l, Bayes has
    E[(X_1.v*)^2 S/(w_1 + S)]. That is concave in S, whose mean is L - 1 (Jensen's inequality).
    """
    tokens = sample_tokens(replace(task, L=1), n_samples, rng)
    log_w = bayes_logits(task, tokens.along_k, tokens.squared_norm)
    log_w -= task.signal**2 / (2 * task.gamma**2) + task.d * math.log(task.gamma)
    share = expit(math.log(task.L - 1) - log_w) if task.L > 1 else np.zeros_like(log_w)
    return Estimate.of([np.sum(share * tokens.squared_values(task), axis=1)])


class Tokens(NamedTuple):
    """All that P(l informative | X) depends on, each of shape (n, L)."""

    along_k: FloatArray  # X.k*
    squared_norm: FloatArray

    def squared_values(self, task: Task) -> FloatArray:
        """E[(X.v*)^2] given the two: what is orthogonal to k* has no preferred direction."""
        return (self.squared_norm - self.along_k**2) / (task.d - 1)


def sample_tokens(task: Task, n: int, rng: np.random.Generator, n_informative: int = 1) -> Tokens:
    """Tokens of n sequences, informative ones first; one chi-square replaces d - 1 coordinates."""
    along_k = rng.standard_normal((n, task.L))
    rest = rng.chisquare(task.d - 1, (n, task.L))
    first = (slice(None), slice(n_informative))
    along_k[first] = task.signal + task.gamma * along_k[first]
    rest[first] *= task.gamma**2
    return Tokens(along_k, along_k**2 + rest)


def posterior_variances(
    task: Task, tokens: Tokens, p: FloatArray, n_informative: int = 1
) -> FloatArray:
    """E[Var(Y | X)] given what p depends on, without label noise, shape (n,).

    The values X_l.v* have mean 0 given that, so products of two tokens vanish and
    1/R^2 sum_l p_l (1 - p_l) E[(X_l.v*)^2] is left, which varies far less than (Y - E[Y|X])^2.
    """
    spread = np.sum(p * (1 - p) * tokens.squared_values(task), axis=1)
    return np.asarray(spread / n_informative**2)


def bayes_logits(task: Task, along_k: FloatArray, squared_norm: FloatArray) -> FloatArray:
    """Log density ratio of an informative token to another, up to a constant, shape (n, L)."""
    precision = 1 / task.gamma**2
    return precision * task.signal * along_k - (precision - 1) / 2 * squared_norm


def bayes_weights(
    task: Task, along_k: FloatArray, squared_norm: FloatArray, n_informative: int = 1
) -> FloatArray:
    """P(l informative | X) from X_l.k* and |X_l|^2, all of shape (n, L)."""
    logits = bayes_logits(task, along_k, squared_norm)
    if n_informative == 1:
        return np.asarray(softmax(logits, axis=1))
    return inclusion_probabilities(logits, n_informative)


def inclusion_probabilities(logits: FloatArray, n_informative: int) -> FloatArray:
    """P(l in S), shape (n, L), for a random set S of that size with P(S) ~ exp(sum of its logits).

    Sums over sets are elementary symmetric polynomials of exp(logits): one pass over the tokens
    from the left and one from the right.
    """
    before = _log_symmetric(logits, n_informative)  # of the tokens left of l
    after = _log_symmetric(logits[:, ::-1], n_informative)[:, ::-1]  # of those from l on
    total = before[:, -1, n_informative]
    # r tokens of S left of l, R - 1 - r right of it
    others = before[:, :-1, :n_informative] + after[:, 1:, :n_informative][:, :, ::-1]
    return np.asarray(np.exp(logits + logsumexp(others, axis=2) - total[:, None]))


def _log_symmetric(logits: FloatArray, degree: int) -> FloatArray:
    """log e_r of the first i tokens, shape (n, L + 1, degree + 1)."""
    n, L = logits.shape
    sums = np.full((n, L + 1, degree + 1), -np.inf)
    sums[:, :, 0] = 0
    for i in range(L):
        with_token = sums[:, i, :-1] + logits[:, i, None]
        sums[:, i + 1, 1:] = np.logaddexp(sums[:, i, 1:], with_token)
    return sums


def oracle_excess_risk(task: Task, lam: Any, gate: RiskGate = "erf") -> Any:
    """Excess risk of the predictor at k = k*, v = v*, of the shape of lam.

    >>> f"{oracle_excess_risk(task, lam=0.1):.4f}"
    '0.1135'
    """
    if gate == "softmax":  # one integral per lam, where a table would be of no use
        check_size(lam=lam)
        return np.vectorize(lambda x: softmax_gate.at_point(task, 1.0, x)[0].loss, otypes=[float])(
            lam
        )
    return excess_risk(task, ALIGNED, lam, gate)


def best_oracle_lam(task: Task, gate: RiskGate = "erf") -> float:
    """The lam at which the oracle's excess risk is smallest.

    >>> f"{best_oracle_lam(task):.4f}"
    '0.0635'
    """
    # The best lam of erf lies between 1/sqrt(d) and 1/sqrt(L), and that of softmax is about
    # sqrt(d/2)/gamma^2, as in Bayes' weights: search a wide bracket on a log scale.
    low, high = -math.log(task.d) - 5.0, 5.0
    if gate == "softmax":
        high = math.log(4 * task.signal / min(task.gamma, 1.0) ** 2)
        low = min(0.0, high) - math.log(task.d)
    grid = np.linspace(low, high, 200 if gate == "erf" else 60)
    best = grid[np.argmin(oracle_excess_risk(task, np.exp(grid), gate))]
    width = grid[1] - grid[0]

    def risk(x: float) -> float:
        return float(oracle_excess_risk(task, math.exp(x), gate))

    return math.exp(refined(risk, best, width))


def oracle_rate(task: Task) -> float:
    """The excess risk of the best oracle to first order, where d is far larger than L.

    With x = lam sqrt(d), the gate misses g^2 erfc(x/sqrt 2)^2 ~ 2 g^2 exp(-x^2)/(pi x^2) of the
    informative token, and lets 4/pi (L - 1)/d x^2 of the others through. The sum is least at
    x^2 = W(g^2 d / (2 (L - 1))), with Lambert's W, so it falls like (L/d) log(d/L).
    """
    n = task.L - 1
    x2 = float(lambertw(task.gamma**2 * task.d / (2 * n)).real)
    return 4 / math.pi * n / task.d * (1 + x2)


def refined(function: Callable[[float], float], best: float, width: float) -> float:
    """The minimiser of a function near the best point of a grid with spacing ``width``."""
    bounds = (best - width, best + width)
    return float(minimize_scalar(function, bounds=bounds, method="bounded").x)


def linear_excess_risk(task: Task) -> float:
    """Excess risk of the best linear predictor on the L d inputs.

    >>> f"{linear_excess_risk(task):.4f}"
    '0.4647'
    """
    g2 = task.gamma**2
    return g2 - g2**2 / (task.L + g2 - 1)


def linear_attention_excess_risk(task: Task, *, affine: bool = True) -> float:
    """Excess risk of the best linear attention, c sum_l (b + X_l.k*) X_l.v*; b = 0 unless affine.

    With b = 0 the best c leaves g^2 r/(1 + r), r = (g^2 + (L-1)/g^2)/h^2. The best b is
    (1 + g^4/(L-1))/h.

    >>> f"{linear_attention_excess_risk(task):.4f}"
    '0.0420'
    """
    g2, h, n = task.gamma**2, task.signal, task.L - 1
    if n == 0 and affine:  # b alone: uniform attention
        return 0.0
    b = (1 + g2**2 / n) / h if affine else 0.0
    ratio = (g2 + n / g2 * (1 + b**2)) / (h + b) ** 2
    return g2 * ratio / (1 + ratio)


def zero_excess_risk(task: Task) -> float:
    """Excess risk of the predictor that is always 0.

    >>> f"{zero_excess_risk(task):.4f}"
    '0.4900'
    """
    return task.gamma**2
