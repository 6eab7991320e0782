"""Claim: training a one-head layer in law is faster than on tokens, and near what it must compute.

The paper's layer (d = p = 80, m = 200, L = 10, batch 128, SGD) is trained in law and with all
tokens drawn, on one core. The bound is the time of the six matrix products of V and the MLP,
forwards and backwards, and of the normals. All are timed in turn, so that a busy machine slows all;
the best turn counts.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from slr import Task
from slr.attentions.layer_reduced import n_draws
from slr.attentions.layer_training import LayerTraining, train_layer

N_STEPS, TURNS = (10, 2) if "--smoke" in sys.argv else (200, 8)


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def bound(task: Task, batch: int, width: int, hidden: int) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    shapes = [(batch, task.d), (batch, hidden), (width, hidden), (width, task.d)]
    c, h, W, V = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    normals = torch.empty(n_draws(task, batch))

    def steps() -> None:
        for _ in range(N_STEPS):
            normals.normal_()
            c @ V.T, c @ W, c.T @ h, h @ W.T, c.T @ c, c @ V

    return steps


def main() -> None:
    task = Task(d=80, L=10, gamma=math.sqrt(0.5), noise_std=0.1)
    in_law = LayerTraining(task, n_steps=N_STEPS, log_every=N_STEPS, n_test=2)
    on_tokens = replace(in_law, all_tokens=True)
    work = {
        "on tokens": lambda: train_layer(on_tokens, 0),
        "in law": lambda: train_layer(in_law, 0),
        "bound": bound(task, in_law.batch_size, 80, 200),
    }
    with threadpool_limits(1):
        turns = [{name: seconds(do) for name, do in work.items()} for _ in range(TURNS)]
    best = {name: min(turn[name] for turn in turns) / N_STEPS * 1e3 for name in work}
    shown = ", ".join(f"{name} {value:.2f}" for name, value in best.items())
    ratio = best["on tokens"] / best["in law"]
    print(f"ms per step of a run: {shown}; in law is faster by {ratio:.1f}")


if __name__ == "__main__":
    main()
