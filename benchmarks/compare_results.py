"""Claim: two folders of results hold the same numbers, to the last bit.

python benchmarks/compare_results.py BEFORE AFTER prints one line per table, weight file and list of
claims: equal, changed (which columns, and by how much at most) or in one folder only. Columns with
times are left out.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MEASURED = {"seconds"}  # columns with times
KINDS = ("*.parquet", "model.safetensors", "claims.json")


def main(before: Path, after: Path) -> None:
    verdicts = compare(before, after)
    for path, verdict in verdicts.items():
        print(f"{path}: {verdict}")
    counts = Counter(verdict.split(":")[0] for verdict in verdicts.values())
    print(", ".join(f"{n} {verdict}" for verdict, n in counts.items()))


def compare(before: Path, after: Path) -> dict[str, str]:
    """The verdict on each file: "equal", or how the files differ."""
    names = sorted({*tables_of(before), *tables_of(after)})
    return {path.as_posix(): _compare(before / path, after / path) for path in names}


def differences(before: Path, after: Path) -> list[str]:
    """The files that are not the same to the last bit, and how they differ."""
    verdicts = compare(before, after).items()
    return [f"{path}: {verdict}" for path, verdict in verdicts if verdict != "equal"]


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
    old, new = (pd.read_parquet(path) for path in (before, after))
    changes = [f"without {name}" for name in old if name not in new]
    changes += [f"with {name}" for name in new if name not in old]
    if len(old) != len(new):
        return "changed: " + ", ".join([*changes, f"{len(old)} rows -> {len(new)}"])
    shared = [name for name in old if name in new and name not in MEASURED]
    changes += [
        f"{name} by {_distance(old[name], new[name])}"
        for name in shared
        if not old[name].equals(new[name])
    ]
    return "changed: " + ", ".join(changes) if changes else "equal"


def _distance(old: Any, new: Any) -> str:
    if not (pd.api.types.is_numeric_dtype(old) and pd.api.types.is_numeric_dtype(new)):
        return f"{(old != new).sum()} entries"
    return f"at most {np.nanmax(np.abs(old.to_numpy(float) - new.to_numpy(float))):.2g}"


def _compare_claims(before: Any, after: Any) -> str:
    """The verdict on two lists of claims, by their text, number and outcome."""
    old, new = (
        {(claim["claim"], claim["measured"], claim["passed"]) for claim in claims}
        for claims in (before, after)
    )
    changed = sorted(text for text, *_ in old ^ new)
    return "equal" if not changed else f"changed: {'; '.join(dict.fromkeys(changed))}"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
