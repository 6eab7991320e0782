"""Claim: two folders of results hold the same numbers, to the last bit; or where they differ.

python benchmarks/compare_results.py BEFORE AFTER prints one line per table, weight file and list of
claims: equal, changed (in which columns, and by how much at most) or there in one folder only.
Columns that say how long something took are left out.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MEASURED = {"seconds"}  # columns of tables that say how long something took
KINDS = ("*.parquet", "model.safetensors", "claims.json")


def main(before: Path, after: Path) -> None:
    verdicts = compare(before, after)
    for path, verdict in verdicts.items():
        print(f"{path}: {verdict}")
    counts = Counter(verdict.split(":")[0] for verdict in verdicts.values())
    print(", ".join(f"{n} {verdict}" for verdict, n in counts.items()))


def compare(before: Path, after: Path) -> dict[str, str]:
    """By file: "equal", or in what way it is not."""
    names = sorted({*tables_of(before), *tables_of(after)})
    return {path.as_posix(): _compare(before / path, after / path) for path in names}


def differences(one: Path, other: Path) -> list[str]:
    """The files that are not the same, to the last bit, with what differs."""
    return [
        f"{path}: {verdict}" for path, verdict in compare(one, other).items() if verdict != "equal"
    ]


def tables_of(results: Path) -> Iterator[Path]:
    for kind in KINDS:
        for path in results.rglob(kind):
            if not any(part.startswith(".") for part in path.relative_to(results).parts):
                yield path.relative_to(results)


def _compare(before: Path, after: Path) -> str:
    if not before.exists() or not after.exists():
        return f"only {'before' if before.exists() else 'after'}"
    if before.suffix == ".json":
        return _compare_claims(*(json.loads(path.read_text()) for path in (before, after)))
    if before.suffix != ".parquet":
        return "equal" if before.read_bytes() == after.read_bytes() else "changed: other weights"
    one, other = (pd.read_parquet(path) for path in (before, after))
    changes = [f"without {name}" for name in one if name not in other]
    changes += [f"with {name}" for name in other if name not in one]
    if len(one) != len(other):
        return "changed: " + ", ".join([*changes, f"{len(one)} rows -> {len(other)}"])
    shared = [name for name in one if name in other and name not in MEASURED]
    changes += [
        f"{name} by {_distance(one[name], other[name])}"
        for name in shared
        if not one[name].equals(other[name])
    ]
    return "changed: " + ", ".join(changes) if changes else "equal"


def _distance(one: Any, other: Any) -> str:
    if not (pd.api.types.is_numeric_dtype(one) and pd.api.types.is_numeric_dtype(other)):
        return f"{(one != other).sum()} entries"
    return f"at most {np.nanmax(np.abs(one.to_numpy(float) - other.to_numpy(float))):.2g}"


def _compare_claims(before: Any, after: Any) -> str:
    """Claims by what they say: a field may have another name."""
    said = [{(c["claim"], c["measured"], c["passed"]) for c in each} for each in (before, after)]
    other = sorted(claim for claim, *_ in said[0] ^ said[1])
    return "equal" if not other else f"changed: {'; '.join(dict.fromkeys(other))}"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
