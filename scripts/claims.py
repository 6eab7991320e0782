"""The claims: what the paper says, what our results say, and whether that passes.

Every number is read from the files under results/, none is typed in.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_directory import FILES

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Claim:
    claim: str
    paper: str = ""  # what the paper says; empty where the claim is ours
    target: str  # what passes
    measured: str
    interval: str = ""
    passed: bool
    command: str


Judge = Callable[[Path], Iterator[Claim]]  # of a folder of results


def read_claims(results: Path, stages: tuple[str, ...] = ()) -> list[Claim]:
    """Of every stage of ``make reproduce`` whose results are there, or of some stages."""
    import claims_practice
    import claims_theory

    judges = {
        "figure1": claims_practice.FIGURE1,
        "bridge": claims_practice.BRIDGE,
        "controls": claims_practice.CONTROLS,
        "slr": claims_theory.SLR,
    }
    return [
        claim
        for stage in judges
        if not stages or stage in stages
        for folder, judge in judges[stage].items()
        if (results / folder / FILES).is_file()
        for claim in judge(results / folder)
    ]


def as_rows(claims: list[Claim]) -> list[dict[str, Any]]:
    return [asdict(claim) for claim in claims]


def as_text(claims: list[Claim]) -> str:
    lines = [
        f"{'pass' if one.passed else 'MISS'}  {one.claim}: {one.measured}"
        f"{' ' + one.interval if one.interval else ''}; passes: {one.target}"
        f"{'; paper: ' + one.paper if one.paper else ''}"
        for one in claims
    ]
    passed = sum(one.passed for one in claims)
    return "\n".join([*lines, f"{passed} of {len(claims)} claims pass"])


def table(folder: Path, name: str) -> "pd.DataFrame":
    import pandas as pd

    return pd.read_parquet(folder / f"{name}.parquet")
