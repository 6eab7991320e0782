"""How much of its attention the idealised predictor gives to the informative token.

The paper's weights erf(lam X_l.k) have a sign and no fixed sum: the mass is the share of their
absolute values. Scores X_l.k are N(sqrt(d/2) kappa, gamma^2) for the informative token and N(0, 1)
for the others, at any dimension, so that a few thousand draws of L numbers give it.
"""

import numpy as np
from scipy.special import erf

from slr.task import FloatArray, Task


def attention_mass(
    task: Task, kappa: FloatArray, lam: FloatArray, *, n: int = 2000, seed: int = 0
) -> FloatArray:
    """Mean share on the informative token, for arrays kappa and lam of one shape."""
    kappa, lam = np.broadcast_arrays(np.asarray(kappa, float), np.asarray(lam, float))
    rng = np.random.default_rng(seed)  # the same draws for all entries: smooth in kappa and lam
    own, others = rng.standard_normal(n), rng.standard_normal((n, task.L - 1))
    found = np.empty(kappa.shape)
    for index in np.ndindex(kappa.shape):
        informative = np.abs(erf(lam[index] * (task.signal * kappa[index] + task.gamma * own)))
        rest = np.abs(erf(lam[index] * others)).sum(axis=1)
        found[index] = np.mean(informative / np.maximum(informative + rest, 1e-300))
    return found
