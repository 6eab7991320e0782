"""The shape of the code base: which package may import which, and what stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("slr", "data_gen", "probing")
ALLOWED = {"slr": set(), "data_gen": set(), "probing": {"slr", "data_gen"}}
HEAVY = {"torch", "transformers", "datasets", "tokenizers", "matplotlib", "sklearn", "numba"}
SCRIPTS = sorted(
    path.name for path in (ROOT / "scripts").glob("*.py") if "__main__" in path.read_text()
)


def imported(path: Path) -> set[str]:
    """The top-level names of every import in a file, wherever it stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package: str) -> None:
    ours = {*PACKAGES, "scripts", "tests", "benchmarks"}
    ours |= {path.stem for path in (ROOT / "scripts").glob("*.py")}
    for path in (ROOT / package).rglob("*.py"):
        assert imported(path) & ours <= ALLOWED[package] | {package}, path


def test_the_import_parser_sees_an_import() -> None:
    assert {"data_gen", "tqdm"} <= imported(ROOT / "scripts" / "generate_data.py")


def test_there_is_no_drawer() -> None:
    drawers = {"utils", "helpers", "misc", "common"}
    assert not [path for path in ROOT.glob("*/*.py") if path.stem in drawers]


def modules_loaded(code: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return {name.split(".")[0] for name in run.stdout.split()}


@pytest.mark.parametrize("package", ["slr", "data_gen"])
def test_importing_a_package_stays_light(package: str) -> None:
    heavy = HEAVY - {"numba"} if package == "slr" else HEAVY
    loaded = modules_loaded(f"import {package}")
    assert package in loaded
    assert not loaded & heavy


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_loads_nothing_heavy(script: str) -> None:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", f"scripts/{script}", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in run.stderr.splitlines()}
    assert "tyro" in loaded
    assert not loaded & (HEAVY | {"numpy", "scipy"})
    assert "usage" in run.stdout
