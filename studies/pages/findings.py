"""The findings of all studies, in words and tables: what replicates, what was predicted, the rest.

Every number is read from the tables under results/.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from studies.catalogue import STUDIES
from studies.findings import Finding
from studies.pages.reading import is_there, reading
from studies.study import Study

TITLES = {  # of the groups, in the order of all pages
    "replication": "Published values, and ours",
    "prediction": "Predictions written down before their runs",
    "finding": "Findings",
}


def read_findings(results: Path, studies: Sequence[Study] = STUDIES) -> list[Finding]:
    """The findings of the studies that have results."""
    return [
        finding
        for study in studies
        if is_there(results, study)
        for finding in findings_of(results, study)
    ]


def findings_of(results: Path, study: Study) -> list[Finding]:
    with reading(results, study) as tables:
        return list(study.findings(tables))


def is_left_out(results: Path, study: Study) -> bool:
    """Whether pages leave the study out: it is optional and not made."""
    return study.optional and not is_there(results, study)


def grouped(findings: Sequence[Finding]) -> dict[str, pd.DataFrame]:
    """One table per group, by its title, with the sentences as index."""
    tables = {}
    for group, title in TITLES.items():
        members = [finding for finding in findings if finding.group == group]
        rows = {"here": [finding.sentence for finding in members]}
        if group == "replication":
            rows["published"] = [finding.published for finding in members]
        if group == "prediction":
            rows["predicted"] = [finding.required for finding in members]
        if group != "finding":
            rows["verdict"] = [finding.outcome for finding in members]
        if members:
            tables[title] = pd.DataFrame(rows).set_index("here")
    return tables


def summary(findings: Sequence[Finding]) -> list[str]:
    """The sentences with which pages begin: what holds, then what was compared."""
    if not findings:
        return []
    verdicts = [finding.verdict for finding in findings if finding.group != "finding"]
    count = verdicts.count
    return [
        *(finding.sentence for finding in findings if finding.headline),
        f"{count('same')} published values are the same here, {count('different')} different and "
        f"{count('not comparable')} not comparable. Of {count('held') + count('missed')} "
        f"predictions that were written down before their runs {count('held')} held and "
        f"{count('missed')} are missed, each with the reason.",
    ]
