"""Claim: a step of PGD with a softmax gate costs at most five of erf, at any d and any L.

The times are per run and step of 60 runs on all cores, in one process after the other, the best of
five; tables are made before, and their times are reported on their own. The alternative that any
d and L have without the tables is the gradient of a batch of sequences: its time is that of
automatic differentiation in torch, for a batch whose gradient has an error of a tenth or so.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from slr import Task, pgd, published_start, sgd, start_on_sphere
from slr.gates import softmax_table

PAPER = Task(d=400, L=10, gamma=math.sqrt(0.5))
RUNS, STEPS = 60, 20_000


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def microseconds(task: Task, gate: Any, lam: float, steps: int = STEPS, **options: Any) -> float:
    start = start_on_sphere(task, RUNS, np.random.default_rng(0))
    settings: dict[str, Any] = {"lam": lam, "step_size": 1e-6, "n_steps": steps, "gate": gate}
    settings |= {"log_every": steps} | options
    return seconds(lambda: pgd(task, start, **settings)) / (RUNS * steps) * 1e6


def forget_tables() -> None:
    softmax_table.table.cache_clear()
    softmax_table._piece.cache_clear()


def autograd_microseconds(task: Task, lam: float, batch: int) -> float:
    """One step of one run on a batch, by automatic differentiation on vectors."""
    generator = torch.Generator().manual_seed(0)
    k, v = torch.randn(2, task.d, generator=generator, dtype=torch.float64)
    x = torch.randn(batch, task.L, task.d, generator=generator, dtype=torch.float64)
    y = x[:, 0, 1].clone()

    def step() -> None:
        k.requires_grad_(True)
        v.requires_grad_(True)
        weights = torch.softmax(lam * (x @ k), dim=1)
        loss = ((y - (weights * (x @ v)).sum(1)) ** 2).mean()
        torch.autograd.grad(loss, (k, v))

    return seconds(step) * 1e6


def main() -> None:
    print("PGD, microseconds per run and step")
    for lam in (0.05, 0.1, 0.5, 1.0):
        erf, soft = (microseconds(PAPER, gate, lam) for gate in ("erf", "softmax"))
        print(f"  d=400 L=10 lam={lam}: erf {erf:.3f}, softmax {soft:.3f}, ratio {soft / erf:.1f}")
    for d in (2, 100, 10**6, 10**12):
        soft = microseconds(Task(d, 10, PAPER.gamma), "softmax", 2 / math.sqrt(d))
        print(f"  d={d:g} L=10: softmax {soft:.3f}")
    for L in (1, 10, 10**3, 10**6, 10**9):
        soft = microseconds(Task(400, L, PAPER.gamma), "softmax", 0.5)
        print(f"  d=400 L={L:g}: softmax {soft:.3f}")
    schedule = microseconds(PAPER, "softmax", 1.0, lam_decay=1e-4)
    learned = microseconds(PAPER, "softmax", 0.1, learn_lam=True)
    print(f"  lam by schedule {schedule:.3f}, learned {learned:.3f}")

    start = published_start("pgd-small-lambda")
    options: dict[str, Any] = {"step_size": 4e-3, "n_steps": STEPS, "log_every": 200}

    def fresh() -> None:
        forget_tables()
        pgd(PAPER, start, lam=0.1, **options, gate="softmax")

    warm = seconds(lambda: pgd(PAPER, start, lam=0.1, **options, gate="softmax"))
    print(f"30 runs x 20 000 steps: {warm:.3f} s, {seconds(fresh):.3f} s with its tables")

    print("tables, seconds (one lam; lam from 0 to 1)")
    for task in (PAPER, Task(400, 10**9, PAPER.gamma), Task(10**12, 10, PAPER.gamma)):
        times = []
        for low, high in ((0.5, 0.5), (0.0, 1.0)):
            start_time = time.perf_counter()
            forget_tables()
            error = softmax_table.table(task, low, high).error
            times.append(f"{time.perf_counter() - start_time:.3f} (error {error:.0e})")
        print(f"  d={task.d:g} L={task.L:g}: {', '.join(times)}")

    rng = np.random.default_rng(0)
    many = start_on_sphere(Task(80, 10, PAPER.gamma), RUNS, rng)
    small = Task(80, 10, PAPER.gamma, noise_std=0.1)
    batch: dict[str, Any] = {"lam": 0.2, "step_size": 1e-3, "n_steps": 2000, "log_every": 2000}
    batch |= {"batch_size": 5}
    for gate in ("erf", "softmax"):
        took = seconds(lambda gate=gate: sgd(small, many, **batch, gate=gate, rng=rng), 3)  # type: ignore[misc]
        print(f"SGD, batch 5, {gate}: {took / (RUNS * 2000) * 1e6:.2f} microseconds")
    sampled = autograd_microseconds(PAPER, 0.1, 1000)
    exact = microseconds(PAPER, "softmax", 0.1)
    print(f"a batch of 1000 by autograd: {sampled:.0f} microseconds, {sampled / exact:.0f} times")


if __name__ == "__main__":
    main()
