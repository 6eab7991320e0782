"""Checks for silent faults: most failures in this field give numbers, not errors.

Each check examines one thing that can be wrong with a model, its tokenizer or its dataset, and says
what it measured and what it protects from. A check that raises has failed, and reports the error.
"""

from probing.doctor.finding import Check, Finding
from probing.doctor.of_data import balanced, disjoint, spans, unknown_words
from probing.doctor.of_model import (
    attention,
    batched,
    captured_layers,
    first_words,
    interventions,
    left_as_found,
    padding_side,
)
from probing.doctor.of_runs import cache_keys, seeds
from probing.doctor.subject import Patient
from probing.progress import Progress

ALL = (
    left_as_found,  # first: what an earlier check left behind would count as the original state
    batched,
    padding_side,
    attention,
    captured_layers,
    first_words,
    interventions,
    unknown_words,
    spans,
    disjoint,
    balanced,
    seeds,
    cache_keys,
)
DOCTOR: dict[str, Check] = {each.name: each for each in ALL}


def examine(patient: Patient, progress: Progress | None = None) -> list[Finding]:
    """The findings of all checks, in order; a failing check does not stop the others.

    ``progress(done, total)`` counts checks.

    >>> [finding.name for finding in examine(patient) if not finding.passed]
    """
    findings: list[Finding] = []
    for examination in DOCTOR.values():
        findings.append(examination(patient))
        if progress:
            progress(len(findings), len(DOCTOR))
    return findings
