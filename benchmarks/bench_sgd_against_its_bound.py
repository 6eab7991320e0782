"""Claim: reduced SGD takes at most twice the time of a lower bound.

A noise token needs two normals, one erf and one exp. The bound is a compiled loop that does just
that, for the same number of tokens on the same threads.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numba
import numpy as np

from slr import EXPERIMENTS, run_experiment
from slr.dynamics.trajectory import lam_at


@numba.njit(nogil=True, error_model="numpy")
def bound(rng: np.random.Generator, lam: float, lam_decay: float, n_steps: int, tokens: int) -> Any:
    total = 0.0
    for t in range(n_steps):
        lam_t = lam / (1 + lam_decay * t)
        for _ in range(tokens):
            score = lam_t * rng.standard_normal()
            total += math.erf(score) * rng.standard_normal() + math.exp(-score * score)
    return total


def main() -> None:
    experiment = EXPERIMENTS["sgd-schedule"]
    tokens = experiment.batch_size * experiment.L
    rngs = np.random.default_rng(0).spawn(experiment.runs)
    settings = (experiment.lam, experiment.lam_decay)
    bound(rngs[0], *settings, 1, 1)
    start = time.perf_counter()
    run_experiment(replace(experiment, runs=1, n_steps=10, log_every=10))
    print(f"compilation (or loading it from disk): {time.perf_counter() - start:.1f} s")
    with ThreadPoolExecutor(numba.get_num_threads()) as threads:
        start = time.perf_counter()
        list(threads.map(lambda rng: bound(rng, *settings, experiment.n_steps, tokens), rngs))
        bound_seconds = time.perf_counter() - start
    start = time.perf_counter()
    run_experiment(experiment)
    sgd_seconds = time.perf_counter() - start
    n = experiment.runs * experiment.n_steps * tokens
    last = lam_at(experiment.n_steps, *settings)
    print(
        f"sgd-schedule, {experiment.runs} runs, {n:.1e} tokens, lam {experiment.lam} to {last:.2f}"
    )
    for name, seconds in {
        "bound: two normals, one erf, one exp": bound_seconds,
        "reduced SGD": sgd_seconds,
    }.items():
        print(f"{name:36} {seconds:.1f} s ({seconds / n * 1e9:.0f} ns per token)")
    print(f"ratio: {sgd_seconds / bound_seconds:.2f}")


if __name__ == "__main__":
    main()
