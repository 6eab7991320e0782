"""The claims of all studies: what the paper says, what is required, what our results show.

Every number is read from the files under results/.
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
    """The claims of the studies that have complete results."""
    finished = [study for study in studies if is_whole(results / study.folder)]
    return [claim for study in finished for claim in study.judged(results)]


def is_left_out(results: Path, study: Study) -> bool:
    """Whether pages leave the study out: it is optional and not made."""
    return study.optional and not is_whole(results / study.folder)


def keep_claims(results: Path, claims: Sequence[Claim]) -> None:
    """Write the claims to the folder of all results."""
    write_json(results / CLAIMS, [asdict(claim) for claim in claims])


def kept_claims(results: Path) -> list[Claim]:
    """The claims as ``reproduce`` last judged them, which pages show; empty if it never did."""
    path = results / CLAIMS
    if not path.is_file():
        return []
    return [Claim(**{"origin": ""} | claim) for claim in read_json(path)]  # older ones had none


def as_text(claims: Sequence[Claim]) -> str:
    """One line per claim, and a summary."""
    lines = [
        f"{'pass' if claim.passed else 'MISS'}  {claim.claim}: {measured(claim)}; "
        f"required: {claim.required} ({claim.origin})"
        f"{'; paper: ' + claim.paper if claim.paper else ''}"
        for claim in claims
    ]
    return "\n".join([*lines, summary(claims)])


def summary(claims: Sequence[Claim]) -> str:
    """A line that says how many claims pass."""
    return f"{sum(claim.passed for claim in claims)} of {len(claims)} claims pass"


def as_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """One row per claim, with its verdict as index."""
    rows = [
        {
            "verdict": "✔ pass" if claim.passed else "✘ miss",
            "claim": claim.claim,
            "the paper": claim.paper,
            "required": claim.required,
            "origin": claim.origin,
            "measured": measured(claim),
        }
        for claim in claims
    ]
    return pd.DataFrame(rows).set_index("verdict")


def measured(claim: Claim) -> str:
    """The measured value with its interval."""
    return f"{claim.measured} {claim.interval}".strip()
