"""Sequences of the task for training whole layers, as tensors."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slr.task import Task


class Stars(NamedTuple):
    """k* and v*, both (d,)."""

    k: Tensor
    v: Tensor


class Sequences(NamedTuple):
    X: Tensor  # (n, L, d)
    signal: Tensor  # (n,): Y without its noise
    informative: Tensor  # (n, n_informative): which tokens


def generator_of(seed: int, run: int) -> torch.Generator:
    state = np.random.SeedSequence([seed, run]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def sample_stars(task: Task, generator: torch.Generator) -> Stars:
    frame, _ = torch.linalg.qr(torch.randn((task.d, 2), generator=generator))
    return Stars(frame[:, 0].contiguous(), frame[:, 1].contiguous())


def sample_sequences(
    task: Task, n_informative: int, stars: Stars, n: int, generator: torch.Generator
) -> Sequences:
    """n sequences with all their tokens, the informative ones at random places."""
    X = torch.empty((n, task.L, task.d)).normal_(generator=generator)
    order = torch.rand((n, task.L), generator=generator)
    informative = order.topk(n_informative, dim=1).indices
    index = informative[..., None].expand(-1, -1, task.d)
    tokens = torch.gather(X, 1, index).mul_(task.gamma).add_(task.signal * stars.k)
    X.scatter_(1, index, tokens)
    return Sequences(X, (tokens @ stars.v).mean(dim=1), informative)
