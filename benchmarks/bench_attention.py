"""Claim: attention that can be read and changed costs nothing while it is not.

MiniLM and SmolLM2 run a batch with their own attention (sdpa) and inside `attending`, with a tap
that does nothing and wants no weights. Both run in turn, and the best of each are compared; more
than 10% gives exit code 1. Two figures are for information: the ratio with weights, which sdpa does
not give, and the time to enter and leave the block, which is paid once. Processor time of one
thread is measured: on a busy machine the waiting of threads for each other would drown the ratio.
"""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from probing.models.pretrained import load_model
from probing.models.training import one_torch_thread
from probing.states.attention import attending
from probing.states.recording import inputs_for

TARGET = 1.10
ROUNDS = 15


def batches() -> dict[str, dict[str, torch.Tensor]]:
    ids = torch.randint(1000, 2000, (32, 14), generator=torch.Generator().manual_seed(0))
    padded = torch.ones_like(ids)
    padded[16:, -3:] = 0
    return {
        "32 sentences": {"input_ids": ids, "attention_mask": torch.ones_like(ids)},
        "32 sentences, padded": {"input_ids": ids, "attention_mask": padded},
        "1 sentence": {"input_ids": ids[:1], "attention_mask": torch.ones_like(ids[:1])},
    }


def seconds(model: Any, inputs: dict[str, torch.Tensor], block: Any) -> float:
    with block:
        start = time.thread_time()
        model(**inputs)
        return time.thread_time() - start


def seconds_to_enter(model: Any) -> float:
    start = time.thread_time()
    with attending(model, lambda call: None):
        pass
    return time.thread_time() - start


def ratios(name: str) -> list[float]:
    model = load_model(name)[0].base_model
    found = []
    for title, batch in batches().items():
        inputs, times = inputs_for(model, batch), []
        for _ in range(ROUNDS):
            blocks = (
                nullcontext(),
                attending(model, lambda call: None),
                attending(model, lambda call: None, weights=True),
            )
            times.append([seconds(model, inputs, block) for block in blocks])
        plain, tapped, weighed = np.array(times[1:]).T  # the first is a warm-up
        found.append(float(tapped.min() / plain.min()))
        print(f"{name}, {title}: {plain.min() * 1e3:.1f} ms; a tap: {found[-1]:.3f} times as long")
        print(f"  (median of pairs {np.median(tapped / plain):.3f};", end="")
        print(f" with weights {weighed.min() / plain.min():.2f})")
    entering = min(seconds_to_enter(model) for _ in range(ROUNDS))
    print(f"{name}: entering and leaving the block takes {entering * 1e3:.2f} ms")
    return found


def main() -> None:
    with torch.inference_mode(), one_torch_thread():
        worst = max(ratios("minilm") + ratios("smollm2"))
    print(f"largest ratio: {worst:.3f}  (target: at most {TARGET})")
    if worst > TARGET:
        raise SystemExit("a target is missed")


if __name__ == "__main__":
    main()
