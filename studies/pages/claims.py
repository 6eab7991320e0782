"""The claims of all studies: what the paper says, what is required, what our results show.

Every number is read from the files under results/, none is typed in.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from studies.catalogue import STUDIES
from studies.results import is_whole, read_json, write_json
from studies.study import Claim, Study

CLAIMS = "claims.json"  # in the folder of all results


def read_claims(results: Path, studies: Sequence[Study] = STUDIES) -> list[Claim]:
    """The claims of those studies whose results are there, whole."""
    there = [study for study in studies if is_whole(results / study.folder)]
    return [claim for study in there for claim in study.judged(results)]


def keep_claims(results: Path, claims: Sequence[Claim]) -> None:
    write_json(results / CLAIMS, [asdict(claim) for claim in claims])


def kept_claims(results: Path) -> list[Claim]:
    """The claims as ``reproduce`` judged them last: what pages show; none if it did not."""
    path = results / CLAIMS
    return [Claim(**claim) for claim in read_json(path)] if path.is_file() else []


def as_text(claims: Sequence[Claim]) -> str:
    lines = [
        f"{'pass' if claim.passed else 'MISS'}  {claim.claim}: {measured(claim)}; "
        f"required: {claim.required}{'; paper: ' + claim.paper if claim.paper else ''}"
        for claim in claims
    ]
    return "\n".join([*lines, summary(claims)])


def summary(claims: Sequence[Claim]) -> str:
    return f"{sum(claim.passed for claim in claims)} of {len(claims)} claims pass"


def as_table(claims: Sequence[Claim]) -> pd.DataFrame:
    rows = [
        {
            "verdict": "✔ pass" if claim.passed else "✘ miss",
            "claim": claim.claim,
            "the paper": claim.paper,
            "required": claim.required,
            "measured": measured(claim),
        }
        for claim in claims
    ]
    return pd.DataFrame(rows).set_index("verdict")


def measured(claim: Claim) -> str:
    return f"{claim.measured} {claim.interval}".strip()
