"""Gate: two folders of results (or of transcripts) hold the same numbers, to the last bit.

Tables are compared by column, arrays (.safetensors) by tensor, JSON and text by line; distances are
relative to the largest entry of a column. It ends with 1 if a file is gone or changed, except those
in EXPECTED: its lines have a pattern of paths (`slr/layer/*`), a tab or two spaces with #, and the
reason. Two files (docs/times.json, or the output of `make reproduce`) are compared by their times:
it ends with 1 if a stage is more than 10% slower.

Left out: times (columns and keys called seconds), code_sha256 (any line of code changes it), the
versions made_with and transformers_version, files.json (hashes of files that are compared
themselves), hidden files, and pictures and pages, which are drawn from tables.
"""

import argparse
import difflib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.torch import load_file

LEFT_OUT = {"seconds", "code_sha256", "made_with", "transformers_version"}
LINES = {".json", ".jsonl", ".csv", ".md", ".toml", ".txt"}
COMPARED = LINES | {".parquet", ".safetensors"}
MOST = 8  # differences of one file that are printed
BY_MACHINE = (
    "All of slr/ is equal and weights of trained Transformers are not: another machine does this, "
    "by last digits of BLAS. Make BEFORE again on this machine, from its commit, to rule that out."
)


def main(before: Path, after: Path, expected: Path | None) -> bool:
    """Print how the folders differ; whether a difference has no reason."""
    differ, reasons, refused = differences(before, after), read_expected(expected), 0
    for path, verdict in differ.items():
        named = [reason for pattern, reason in reasons.items() if fnmatch(path, pattern)]
        refused += verdict != "new" and not named
        print("  # ".join([f"{path}: {verdict}", *named]))
    for pattern, reason in reasons.items():
        if not any(fnmatch(path, pattern) for path in differ):
            print(f"expected, but did not happen: {pattern}  # {reason}")
    changed = {path.split("/")[0] for path, verdict in differ.items() if "changed" in verdict}
    if refused and "models" in changed and "slr" not in changed:
        print(BY_MACHINE)
    counts = dict(Counter(verdict.split(":")[0] for verdict in differ.values()))
    print(f"{len([*tables_of(before)])} files before: {counts or 'all equal'}, {refused} refused")
    return refused > 0


def differences(before: Path, after: Path) -> dict[str, str]:
    """The files that are not the same to the last bit: "new", "gone", or "changed:" and how."""
    names = sorted({*tables_of(before), *tables_of(after)})
    verdicts = {path.as_posix(): _difference(before / path, after / path) for path in names}
    return {path: verdict for path, verdict in verdicts.items() if verdict}


def tables_of(results: Path) -> Iterator[Path]:
    """The files of a folder that are compared."""
    for path in (path.relative_to(results) for path in results.rglob("*")):
        if path.suffix in COMPARED and path.name != "files.json" and "/." not in f"/{path}":
            yield path


def read_expected(path: Path | None) -> dict[str, str]:
    """The reasons for expected changes, by their patterns of paths."""
    lines = filter(None, map(str.strip, path.read_text().splitlines() if path else []))
    parts = [[part.strip() for part in re.split(r"\t|  +#", line, maxsplit=1)] for line in lines]
    if unnamed := [part[0] for part in parts if len(part) == 1]:
        raise SystemExit(f"error: {path} has no reason for {unnamed[0]}")
    return dict(parts)


def _difference(before: Path, after: Path) -> str:
    if not before.exists() or not after.exists():
        return "gone" if before.exists() else "new"
    if before.suffix in LINES:
        diff = difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=0)
        changes = [line for line in list(diff)[2:] if not line.startswith("@@")]
    else:
        changes = list(_changes(_columns(before), _columns(after)))
    more = [f"and {len(changes) - MOST} more"] if len(changes) > MOST else []
    return "\n    ".join(["changed:", *changes[:MOST], *more]) if changes else ""


def _lines(path: Path) -> list[str]:
    text = path.read_text()
    if path.suffix == ".json":
        text = json.dumps(json.loads(text, object_hook=_compared), indent=1, ensure_ascii=False)
    return text.splitlines()


def _compared(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in columns.items() if name not in LEFT_OUT}


def _columns(path: Path) -> dict[str, pd.Series]:
    """The columns of a table, or the tensors of a file, each named with its shape."""
    if path.suffix == ".parquet":
        return _compared(dict(pd.read_parquet(path).items()))
    tensors = {f"{name} {tuple(each.shape)}": each for name, each in load_file(path).items()}
    return {name: pd.Series(each.double().numpy().ravel()) for name, each in tensors.items()}


def _changes(before: dict[str, pd.Series], after: dict[str, pd.Series]) -> Iterator[str]:
    yield from (f"without {name}" for name in before if name not in after)
    yield from (f"with {name}" for name in after if name not in before)
    for name in before:
        if name in after and not before[name].equals(after[name]):
            yield f"{name} {_distance(before[name], after[name])}"


def _distance(before: pd.Series, after: pd.Series) -> str:
    if len(before) != len(after) or before.dtype != after.dtype:
        return f"{len(before)} rows of {before.dtype} -> {len(after)} of {after.dtype}"
    if not pd.api.types.is_numeric_dtype(before):
        pairs = zip(before.fillna(""), after.fillna(""), strict=True)
        return f"in {sum(not np.array_equal(*pair) for pair in pairs)} of {len(before)} rows"
    old, new = before.to_numpy(float), after.to_numpy(float)
    differ = (old != new) & ~(np.isnan(old) & np.isnan(new))
    scale = np.max(np.abs(old), where=np.isfinite(old), initial=0) or 1
    largest = np.max(np.nan_to_num(np.abs(old - new)[differ], nan=np.inf), initial=0) / scale
    return f"by at most {largest:.2g} in {differ.sum()} of {len(before)} rows"


def is_slower(before: Path, after: Path) -> bool:
    """Print the times of all stages; whether one is slower by 10%, and a second of rounding."""
    times = pd.DataFrame({"before": _times(before), "after": _times(after)}, dtype=float)
    times["slower"] = times["after"] > 1.1 * times["before"] + 1
    print(times.to_string())
    return bool(times["slower"].any())


def _times(path: Path) -> dict[str, float]:
    text = path.read_text()
    if path.suffix == ".json":
        return dict(json.loads(text)["reproduce"]["stages"])
    return {name: float(s) for name, s in re.findall(r"== (\S+) took (\d+) s", text)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--expected", type=Path)
    options = parser.parse_args()
    if options.before.is_file():
        sys.exit(is_slower(options.before, options.after))
    if not any(tables_of(options.before)):
        parser.error(f"{options.before} is not a folder with results")
    sys.exit(main(**vars(options)))
