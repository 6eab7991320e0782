"""Which package may import which, and what stays light until it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALLOWED = {  # the arrows: scripts -> studies -> probing -> {slr, data_gen}
    "slr": set(),
    "data_gen": set(),
    "probing": {"slr", "data_gen"},
    "studies": {"probing", "slr", "data_gen"},
    "scripts": {"studies"},
}
HEAVY = {"torch", "transformers", "datasets", "tokenizers", "matplotlib", "sklearn"}


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_point_one_way(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            used = {name.split(".")[0] for name in names} & {*ALLOWED, "tests", "benchmarks"}
            assert used <= ALLOWED[package] | {package}, path


@pytest.mark.parametrize("package", ["slr", "data_gen", "probing", "studies.catalogue"])
def test_importing_a_package_stays_light(package: str) -> None:
    code = f"import sys, {package}; print(*{HEAVY} & {{*sys.modules}})"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout.split() == []
