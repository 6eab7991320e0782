"""Claim: reduced SGD takes about twice the time of drawing its normals.

A noise token needs two normals, and an informative token five. The bound is a compiled loop that
draws just these, with the same generators on the same threads.
"""

import time
from dataclasses import replace

import numba
import numpy as np

from slr import EXPERIMENTS, run_experiment
from slr.dynamics.threads import in_threads
from slr.dynamics.trajectory import lam_at


@numba.njit(nogil=True)
def bound(rng: np.random.Generator, normals: int) -> float:
    total = 0.0
    for _ in range(normals):
        total += rng.standard_normal()
    return total


def main() -> None:
    experiment = EXPERIMENTS["sgd-schedule"]
    tokens = experiment.batch_size * experiment.L
    rngs = [np.random.Generator(np.random.SFC64(run)) for run in range(experiment.runs)]
    normals = experiment.n_steps * experiment.batch_size * (2 * (experiment.L - 1) + 5)
    settings = (experiment.lam, experiment.lam_decay)
    bound(rngs[0], 1)
    start = time.perf_counter()
    run_experiment(replace(experiment, runs=1, n_steps=10, log_every=10))
    print(f"compilation (or loading it from disk): {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    in_threads(lambda rng: bound(rng, normals), rngs)
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
        "bound: drawing the normals": bound_seconds,
        "reduced SGD": sgd_seconds,
    }.items():
        print(f"{name:36} {seconds:.1f} s ({seconds / n * 1e9:.0f} ns per token)")
    print(f"ratio: {sgd_seconds / bound_seconds:.2f}")


if __name__ == "__main__":
    main()
