"""Examine a model and a dataset for faults that give numbers instead of errors.

Prints one line per check: whether it passed, what was measured, what the check protects from. The
exit code is 0 if all pass, 1 if one fails, 2 if other commands would refuse the model or the data,
in the same line.
"""

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from studies.bounds import Seed
from studies.study import counter
from studies.subject import Subject

if TYPE_CHECKING:
    from probing.doctor.finding import Finding


@dataclass(frozen=True, kw_only=True)
class Options(Subject):
    seed: Seed = 0
    """Seed of the checks."""


def main(options: Options) -> None:
    options = options.resolved()

    from probing.doctor.checks import examine
    from probing.doctor.subject import Patient

    model, tokenizer, classifies = options.load_whole()
    dataset = options.read_data()
    options.check_data(model, tokenizer, dataset, classifies=classifies)
    patient = Patient(model, tokenizer, dataset, seed=options.seed)
    with counter("examining", "check") as progress:
        findings = examine(patient, progress=progress)
    print(report(findings))
    passed = sum(finding.passed for finding in findings)
    print(f"{passed} of {len(findings)} checks passed: {options.model}, {options.data}")
    if passed < len(findings):
        raise SystemExit(1)


def report(findings: "list[Finding]") -> str:
    """The findings as a table, with long measurements on several lines."""
    lines = [f"{'check':<21}{'':<6}{'measured':<62}protects from"]
    for finding in findings:
        measured = textwrap.shorten(finding.measured, 200)
        first, *rest = textwrap.wrap(measured, 60)
        verdict = "pass" if finding.passed else "FAIL"
        lines.append(f"{finding.name:<21}{verdict:<6}{first:<62}{finding.protects_from}")
        lines += [f"{'':<27}{line}" for line in rest]
    return "\n".join(lines)
