"""Attention that learns at one length to estimate the conditional means of conditional_mean.py.

Softmax attention learns its metric A, kernel attention its precision and ridge (as logarithms), by
Adam on fresh contexts.
"""

import math
from typing import NamedTuple

import numpy as np
import torch

from slr.attentions.conditional_mean import Contexts, LatentTask, kernel_attention, sample_contexts
from slr.dynamics.reduced import Progress
from slr.task import FloatArray

N_QUERIES = 16


class Learned(NamedTuple):
    """What was learned at a length, for softmax_attention and kernel_attention."""

    metric: FloatArray  # (d_key, d_key)
    precision: float
    ridge: float


def learn_attention(
    task: LatentTask,
    L: int,
    rng: np.random.Generator,
    *,
    n_steps: int,
    batch_size: int = 32,
    step_size: float = 0.05,
    progress: Progress | None = None,
) -> Learned:
    """Train both kinds of attention on contexts of L tokens, from metric I, precision and ridge 1.

    The step size falls linearly to 0, so that the noise of single steps averages out.
    """
    metric = torch.eye(task.d_key, dtype=torch.float64, requires_grad=True)
    logs = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    groups = [{"params": [metric], "lr": 10 * step_size}, {"params": [logs], "lr": step_size}]
    optimiser = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, n_steps)
    for _ in range(n_steps):
        contexts = sample_contexts(task, batch_size, L, N_QUERIES, rng)
        keys, values, queries, target = contexts = Contexts(*map(torch.from_numpy, contexts))
        softmax = (queries @ metric @ keys.mT).softmax(dim=2) @ values[:, :, None]
        kernel = kernel_attention(contexts, logs[0].exp(), logs[1].exp(), torch)
        # Neither loss depends on the other's parameters: one step trains both, each for itself.
        loss = ((softmax[:, :, 0] - target) ** 2).mean() + ((kernel - target) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if progress:
            progress(1)
    precision, ridge = (math.exp(x) for x in logs.tolist())
    return Learned(metric.detach().numpy(), precision, ridge)
