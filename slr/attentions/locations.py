"""Several locations: R of the L tokens are informative, and Y is the mean of their values.

(For Y their sum all risks are R^2 times as large, once the length of v is free.)
The best attentions are those of slr/attentions/best.py with n_informative = R; here is Bayes:
E[Y|X] = (1/R) sum_l P(l informative | X) X_l.v*, where a set S of R tokens has a posterior
probability in proportion to exp(sum of the logits in S), with the logits of one location.
"""

import math

import numpy as np
from scipy.special import logsumexp

from slr.task import FloatArray, Task
from slr.yardsticks import MAX_TOKENS, Estimate, bayes_logits, sample_tokens


def inclusion_probabilities(logits: FloatArray, n_informative: int) -> FloatArray:
    """P(l in S) for a random set S of that size with P(S) ~ exp(sum of logits in S); (n, L).

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
    found = np.full((n, L + 1, degree + 1), -np.inf)
    found[:, :, 0] = 0
    for i in range(L):
        with_token = found[:, i, :-1] + logits[:, i, None]
        found[:, i + 1, 1:] = np.logaddexp(found[:, i, 1:], with_token)
    return found


def bayes_excess_risk_of_several(
    task: Task, n_informative: int, n_samples: int, rng: np.random.Generator
) -> Estimate:
    """Of E[Y|X] when Y is the mean of the values of ``n_informative`` tokens."""
    if not 1 <= n_informative <= task.L:
        raise ValueError(f"n_informative must be in 1 .. {task.L}, not {n_informative}")
    chunk = max(1, MAX_TOKENS // task.L)
    losses = []
    for first in range(0, n_samples, chunk):
        tokens = sample_tokens(task, min(chunk, n_samples - first), rng, n_informative)
        logits = bayes_logits(task, tokens.along_k, tokens.squared_norm)
        p = inclusion_probabilities(logits, n_informative)
        signal = tokens.along_v[:, :n_informative].sum(axis=1)
        losses.append(((signal - np.sum(p * tokens.along_v, axis=1)) / n_informative) ** 2)
    loss = np.concatenate(losses)
    return Estimate(float(loss.mean()), float(loss.std(ddof=1) / math.sqrt(n_samples)))
