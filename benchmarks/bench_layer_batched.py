"""Claim: training all repetitions of a layer at once is faster than one after the other.

The paper's layer (d = p = 80, m = 200, L = 10, batch 128, SGD) is trained on the same samples, once
with all repetitions in one batch and once with one repetition after the other. Both are timed in
turn, so that a busy machine slows both; the best turn counts, and the first only warms up.
"""

import math
import sys
import time

import torch

from slr import Task
from slr.attentions.layer_training import LayerTraining, train_layers

N_STEPS, TURNS = (10, 2) if "--smoke" in sys.argv else (100, 4)


def seconds(training: LayerTraining, groups: list[list[int]]) -> float:
    start = time.perf_counter()
    for runs in groups:
        train_layers(training, runs)
    return time.perf_counter() - start


def main() -> None:
    task = Task(d=80, L=10, gamma=math.sqrt(0.5), noise_std=0.1)
    training = LayerTraining(task, n_steps=N_STEPS, log_every=N_STEPS, n_test=2)
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        for runs in (4, 20):
            layouts = {"batched": [list(range(runs))], "one by one": [[i] for i in range(runs)]}
            times: dict[str, list[float]] = {name: [] for name in layouts}
            for _ in range(TURNS):
                for name, groups in layouts.items():
                    times[name].append(seconds(training, groups))
            best = {name: min(turns[1:]) for name, turns in times.items()}
            rates = ", ".join(
                f"{name} {runs * N_STEPS / value:.0f}" for name, value in best.items()
            )
            speed_up = best["one by one"] / best["batched"]
            print(
                f"{threads} thread(s), {runs:2} runs: speed-up {speed_up:.2f}; "
                f"steps of a run per second: {rates}"
            )


if __name__ == "__main__":
    main()
