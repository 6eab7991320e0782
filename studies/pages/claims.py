"""The claims of all studies: what the paper says, what is required, what our results show.

Every number is read from the files under results/.
"""

from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path

import pandas as pd

from studies.catalogue import STUDIES
from studies.pages.reading import is_there, made_again_by, reading
from studies.storage.results import read_json, write_json
from studies.storage.tables import ResultError
from studies.study import Claim, Study

CLAIMS = "claims.json"  # in the folder of all results
COMMAND = "python scripts/reproduce.py --only report"
ORIGIN = (
    "The origin is that of the requirement. Those set after first runs, or from the numbers of a "
    "prototype, were not set blindly, and were not loosened afterwards. A value with an interval "
    "over words is judged on the end of the interval, values over training seeds or runs on the "
    "worst."
)
MATTER = (  # the beginnings of the claims that the page shows first, whether they pass or not
    "pgd-schedule, from the published starts: runs that find k* and v*",
    "1 layer, from scratch: accuracy, value erased (mean difference)",
    "SmolLM2, wide data, ood_tokens: locate with k and read with v",
)


def read_claims(results: Path, studies: Sequence[Study] = STUDIES) -> list[Claim]:
    """The claims of the studies that have complete results."""
    finished = [study for study in studies if is_there(results, study)]
    return [claim for study in finished for claim in _judged(results, study)]


def _judged(results: Path, study: Study) -> list[Claim]:
    with reading(results, study) as tables:
        return [replace(claim, command=study.command) for claim in study.claims(tables)]


def is_left_out(results: Path, study: Study) -> bool:
    """Whether pages leave the study out: it is optional and not made."""
    return study.optional and not is_there(results, study)


def keep_claims(results: Path, claims: Sequence[Claim]) -> None:
    """Write the claims to the folder of all results."""
    write_json(results / CLAIMS, [asdict(claim) for claim in claims])


def kept_claims(results: Path) -> list[Claim]:
    """The claims as ``reproduce`` last judged them, which pages show; empty if it never did."""
    path = results / CLAIMS
    if not path.exists():
        return []
    with made_again_by(COMMAND):
        kept = read_json(path)
        if not isinstance(kept, list) or not all(map(_is_claim, kept)):
            raise ResultError(f"{path} is not a list of claims")
    return [Claim(**{"origin": ""} | claim) for claim in kept]  # older ones had none


def _is_claim(entry: object) -> bool:
    """Whether the entry has the fields of a claim, with values of their types."""
    if not isinstance(entry, dict):
        return False
    needed = {each.name for each in fields(Claim) if each.default is MISSING} - {"origin"}
    texts = {name: value for name, value in entry.items() if name != "passed"}
    return (
        needed <= entry.keys() <= {each.name for each in fields(Claim)}
        and isinstance(entry["passed"], bool)
        and all(isinstance(value, str) for value in texts.values())
    )


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


def that_matter(claims: Sequence[Claim]) -> list[Claim]:
    """The few claims that matter most: of the theory, of a Transformer, of a language model."""
    return [claim for start in MATTER for claim in claims if claim.claim.startswith(start)]


def by_study(claims: Sequence[Claim]) -> dict[str, list[Claim]]:
    """The claims under the titles of their studies, in the order of all pages."""
    groups = {study.title: [c for c in claims if c.command == study.command] for study in STUDIES}
    known = {study.command for study in STUDIES}
    groups["Others"] = [claim for claim in claims if claim.command not in known]
    return {title: group for title, group in groups.items() if group}


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
