"""Checks of what repeats a run: seeds, and the keys of stored states."""

import copy
from contextlib import suppress
from typing import Any

import numpy as np

from probing.doctor.finding import check
from probing.doctor.subject import Patient
from probing.states.fingerprint import fingerprint
from probing.states.parts import ActivationError
from probing.temporary import temporary_folder


@check("seeds", "a seed that controls nothing, or results that no seed repeats")
def seeds(patient: Patient) -> tuple[bool, str]:
    first, again, other = (
        fingerprint(patient.untrained(patient.model, patient.seed + i)) for i in (0, 0, 1)
    )
    equal, different = ("agree" if first == seeded else "differ" for seeded in (again, other))
    return first == again != other, f"equal seeds {equal}, other seeds {different}"


@check("cache keys", "stored states of another model, tokenizer, text or position")
def cache_keys(patient: Patient) -> tuple[bool, str]:
    tokenizer = copy.deepcopy(patient.tokenizer)
    tokenizer.add_tokens(["a-word-that-no-text-holds"])
    options: dict[str, Any] = {"positions": ("summary",)}
    columns = patient.columns()
    others = {name: column[::-1] for name, column in columns.items()}
    if others == columns:  # few sentences may read the same backwards
        others = {name: [*column, column[0]] for name, column in columns.items()}
    changes: dict[str, dict[str, Any]] = {
        "model": {"model": patient.untrained(patient.model, patient.seed + 1)},
        "tokenizer": {"tokenizer": tokenizer},
        "texts": {"rows": others},
        "positions": {"positions": ("mean",)},
        "attention": {"attention": True},
    }
    accepted = []
    with temporary_folder("slr-probing-doctor-") as folder:
        first = patient.run(**options, folder=folder)
        again = patient.run(**options, folder=folder)
        for name, changed in changes.items():
            with suppress(ActivationError):
                patient.run(**options | changed, folder=folder)
                accepted.append(name)
        same = np.array_equal(first.stacked("summary"), again.stacked("summary"))
        del first, again  # memory maps of files that are about to be deleted
    but = f"but not another {' or '.join(accepted)}" if accepted else "read back its own"
    measured = f"refused {len(changes) - len(accepted)} of {len(changes)} others, {but}"
    return same and not accepted, measured
