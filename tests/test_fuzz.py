"""2 000 broken inputs, made from a seed: no traceback, no hang, none accepted silently."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fuzz
import numpy as np
import pytest
import torch
from bad_input import ACCEPTED, call

CASES = {"specs": 600, "sentences": 500, "configs": 400, "tokenizers": 300, "grids": 200}


@pytest.mark.slow
@pytest.mark.parametrize("target", CASES)
def test_broken_input_is_refused_or_sound(target: str) -> None:
    command = [sys.executable, fuzz.__file__, target, str(CASES[target])]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-4000:]}"
    counts = json.loads(run.stdout.splitlines()[-1])  # libraries may speak before it
    assert sum(counts.values()) == CASES[target]
    # Mutations that break nothing, or everything at once, would test nothing.
    assert min(counts["refused"], counts["accepted"]) > 0.02 * CASES[target]


# ---- the fuzzer finds what it looks for


def sound(target: str, tmp_path: Path) -> Any:
    """An accepted value of the target that has no fault, and the folder it came from."""
    for number in range(200):
        folder = tmp_path / str(number)
        folder.mkdir()
        case = fuzz.TARGETS[target].case(np.random.default_rng([0, number]), folder)
        ended = call(case, within=folder)
        if ended.outcome == ACCEPTED:
            assert not fuzz.TARGETS[target].fault(ended.value, folder)
            return ended.value, folder
    raise AssertionError("no case is accepted")


def new_weight(used: Any) -> Any:
    with torch.no_grad():
        next(used[0].parameters()).normal_()
    return used


def unused_weight(used: Any) -> Any:
    model = torch.nn.Module()
    model.first = next(used[0].parameters())  # the others are not there
    return model, *used[1:]


def other_label(dataset: Any) -> Any:
    flipped = dataset["train"].map(lambda row: {"label": 1 - row["label"]})
    return dataset | {"train": flipped}


def lost_rows(dataset: Any) -> Any:
    return dataset | {"train": dataset["train"].select(range(2))}


def unbalanced(spec: Any) -> Any:
    def without_one(split: Any) -> Any:
        first, *others = split.patterns
        (place,) = (i for i, e in enumerate(first.elements) if e.labels)
        element = first.elements[place]
        fewer = replace(element, choices=element.choices[1:], labels=element.labels[1:])
        elements = (*first.elements[:place], fewer, *first.elements[place + 1 :])
        return replace(split, patterns=(replace(first, elements=elements), *others), sample=0)

    return replace(spec, splits={n: without_one(split) for n, split in spec.splits.items()})


def overlapping(spec: Any) -> Any:
    return replace(
        spec, splits=spec.splits | {"again": replace(spec.splits["train"], name="again")}
    )


FAULTS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("configs", new_weight, "no file has"),
    ("configs", unused_weight, "not used"),
    ("sentences", other_label, "rows became"),
    ("sentences", lost_rows, "rows became"),
    ("specs", unbalanced, "not balanced"),
    ("specs", overlapping, "is in train and in again"),
]


@pytest.mark.parametrize(("target", "plant", "says"), FAULTS)
def test_a_planted_fault_counts_as_silent(
    target: str, plant: Callable[[Any], Any], says: str, tmp_path: Path
) -> None:
    value, folder = sound(target, tmp_path)
    assert says in fuzz.TARGETS[target].fault(plant(value), folder)
