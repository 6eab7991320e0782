"""Examine a model and a dataset for faults that give numbers instead of errors.

Prints one line a check: did it pass, what was measured, what does it protect from. Exit code 0 if
all pass, 1 if one fails, 2 if there is nothing to examine (no such model or data).
"""

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from command_line import run

if TYPE_CHECKING:
    from probing.doctor.checks import Finding


@dataclass(frozen=True)
class Config:
    model: str = "minilm"
    """minilm, the folder of a model, or a name on the hub such as bert-base-uncased."""
    data: str = "sentiment"
    """A built-in dataset, a TOML spec, a folder of generate_data.py, or your own CSV or JSONL."""
    seed: int = 0
    """Of the untrained models and the interventions."""


def main(config: Config) -> None:
    if config.seed < 0:
        raise ValueError(f"--seed must not be negative, but is {config.seed}")

    from tqdm import tqdm

    from data_gen import read_data
    from probing.doctor.checks import DOCTOR, examine
    from probing.doctor.subject import Patient
    from probing.models.pretrained import load_model

    model, tokenizer = load_model(config.model)
    patient = Patient(model, tokenizer, read_data(config.data), seed=config.seed)
    with tqdm(desc="examining", total=len(DOCTOR), unit="check", disable=None, leave=False) as bar:
        findings = examine(patient, progress=lambda *_: bar.update())
    print(report(findings))
    failed = sum(not finding.passed for finding in findings)
    print(
        f"{len(findings) - failed} of {len(findings)} checks passed: {config.model}, {config.data}"
    )
    if failed:
        raise SystemExit(1)


def report(findings: "list[Finding]") -> str:
    lines = [f"{'check':<21}{'':<6}{'measured':<62}protects from"]
    for finding in findings:
        measured = textwrap.shorten(finding.measured, 200)
        first, *rest = textwrap.wrap(measured, 60)
        verdict = "pass" if finding.passed else "FAIL"
        lines.append(f"{finding.name:<21}{verdict:<6}{first:<62}{finding.protects_from}")
        lines += [f"{'':<27}{line}" for line in rest]
    return "\n".join(lines)


if __name__ == "__main__":
    run(main, Config, __doc__)
