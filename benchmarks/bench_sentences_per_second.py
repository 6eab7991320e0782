"""Claim: labelled sentences cost microseconds, at constant memory, however large the grammar.

Prints sentences per second on one core (from the grammar, and through datasets.IterableDataset) and
the peak memory above what the imports take, for the published dataset and for grammars of 10^9 and
10^12 sentences.
"""

import resource
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable
from itertools import islice

import torch  # noqa: F401  (datasets imports it when iterating; that is not what is measured)
from datasets import IterableDataset  # noqa: F401

from data_gen import Spec, build_dataset, parse_spec, read_spec, stream_dataset

N = 300_000


def large_spec(slots: int) -> Spec:
    """A grammar of 10^slots sentences: slots - 1 slots of ten words, and ten informative words."""
    names = [f"SLOT{i}" for i in range(slots - 1)]
    words = {name: {"training": [f"{name.lower()}-{i}" for i in range(10)]} for name in names}
    polarity = {label: [f"{label}{i}" for i in range(5)] for label in ("negative", "positive")}
    key = {"role": "informative", "training": [w for group in polarity.values() for w in group]}
    return parse_spec(
        {
            "polarity": polarity,
            "slots": words | {"KEY": key},
            "patterns": {"only": " ".join(f"{{{name}}}" for name in ["KEY", *names])},
            "splits": {"train": {"patterns": ["only"], "words": "training"}},
        }
    )


def rate(items: Iterable[object], n: int) -> float:
    """Items per second, the first thousand (which fill the tables) left out."""
    iterator = iter(items)
    deque(islice(iterator, 1000), maxlen=0)
    start = time.perf_counter()
    done = sum(1 for _ in islice(iterator, n))
    return done / (time.perf_counter() - start)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str) -> None:
    spec = read_spec(name) if name == "sentiment" else large_spec(int(name))
    split = spec.splits["train"]
    before = peak_mb()
    in_order = rate(split, N)
    shuffled = rate(split.iter_shard(0, 1, seed=0), N)
    grammar_memory = peak_mb() - before
    streamed = rate(stream_dataset(spec, seed=0), 20_000)
    print(
        f"{len(split):>16,} {in_order:>14,.0f} {shuffled:>14,.0f} {streamed:>18,.0f} "
        f"{grammar_memory:>8.1f} {peak_mb() - before:>8.1f}"
    )


def main() -> None:
    print("sentences per second on one core, and peak memory above the imports")
    print(
        f"{'sentences':>16} {'in order':>14} {'shuffled':>14} {'IterableDataset':>18} "
        f"{'MB':>8} {'MB (HF)':>8}",
        flush=True,
    )
    for name in ("sentiment", "9", "12"):  # one process each: peak memory only grows
        subprocess.run([sys.executable, __file__, name], check=True)
    before, start = peak_mb(), time.perf_counter()
    rows = sum(build_dataset("sentiment").num_rows.values())
    seconds, memory = time.perf_counter() - start, peak_mb() - before
    print(f"the published dataset ({rows} rows) is built in {seconds:.2f} s with {memory:.0f} MB")


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
