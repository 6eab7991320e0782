"""The shape of the code base: which package may import which, and what stays light."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from studies.command_line import COMMANDS

ROOT = Path(__file__).parent.parent
ALLOWED = {  # the arrows: scripts -> studies -> probing -> {slr, data_gen}
    "slr": set(),
    "data_gen": set(),
    "probing": {"slr", "data_gen"},
    "studies": {"probing", "slr", "data_gen"},
    "scripts": {"studies"},
}
GROUPS = {  # within a package: what a group may import of the others; not named: nothing else
    "probing": {
        "models": {""},
        "states": {""},
        "probes": {"", "states"},
        "controls": {"", "states", "probes"},
        "circuits": {"", "states", "probes"},
        "doctor": {"", "states", "models", "circuits"},
    },
    "slr": {
        "workers": {""},
        "gates": {""},
        "dynamics": {"", "gates", "workers"},
        "attentions": {"", "gates", "dynamics"},
        "sweep": {"", "dynamics", "workers"},
    },
    "studies": {
        "storage": set(),
        "theory": {"", "storage"},
        "practice": {"", "storage"},
        "tools": {"", "storage", "practice"},
        "pages": {"", "storage", "theory", "practice"},
    },
}
HEAVY = {"torch", "transformers", "datasets", "tokenizers", "matplotlib", "sklearn", "numba"}
MOST_MODULES = 14  # of a folder
MOST_COMMANDS = 18  # each a file of six lines in scripts/
MOST_LINES = 60  # of a script


@cache
def imported(path: Path) -> set[str]:
    """The dotted names of every import in a file, wherever it stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_point_one_way(package: str) -> None:
    ours = {*ALLOWED, "tests", "benchmarks"}
    for path in (ROOT / package).rglob("*.py"):
        packages = {name.split(".")[0] for name in imported(path)}
        assert packages & ours <= ALLOWED[package] | {package}, path


def modules_of(package: str) -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / package).rglob("*.py")
    }


@pytest.mark.parametrize("package", ["slr", "data_gen", "probing", "studies"])
def test_no_module_imports_itself_through_others(package: str) -> None:
    """Imports under TYPE_CHECKING and inside functions count: a cycle is a cycle."""
    modules = modules_of(package)
    arrows = {
        name: {
            target
            for target in (modules.keys() - {name, package})
            if any(f"{used}.".startswith(f"{target}.") for used in imported(path))
            and path.name != "__init__.py"
        }
        for name, path in modules.items()
    }
    settled: set[str] = set()
    while loose := {name for name in arrows if name not in settled and arrows[name] <= settled}:
        settled |= loose
    assert settled == set(modules), f"in a cycle: {sorted(set(modules) - settled)}"


@pytest.mark.parametrize(("package", "group"), [(p, g) for p in GROUPS for g in GROUPS[p]])
def test_groups_of_a_package_point_one_way(package: str, group: str) -> None:
    for path in (ROOT / package / group).rglob("*.py"):
        for name in imported(path):
            parts = name.split(".")
            if parts[0] == package and len(parts) > 1:
                other = parts[1] if parts[1] in GROUPS[package] else ""
                assert other in GROUPS[package][group] | {group}, f"{path} imports {name}"


def test_the_import_parser_sees_an_import() -> None:
    found = imported(ROOT / "studies" / "practice" / "dataset.py")
    assert {"data_gen.dataset.build_dataset", "tqdm.tqdm"} <= found


def folders() -> list[Path]:
    return sorted({path.parent for name in ALLOWED for path in (ROOT / name).rglob("*.py")})


@pytest.mark.parametrize("folder", folders(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_folder_can_be_taken_in_at_a_glance(folder: Path) -> None:
    modules = [path.stem for path in folder.glob("*.py")]
    assert len(modules) <= (MOST_COMMANDS if folder.name == "scripts" else MOST_MODULES)
    assert not {"utils", "helpers", "misc", "common"} & set(modules), "a drawer"


def test_scripts_are_commands_only() -> None:
    scripts = {path.name: path for path in (ROOT / "scripts").glob("*.py")}
    assert {script for _, script in COMMANDS.values()} == set(scripts)
    for path in scripts.values():
        assert "__main__" in path.read_text()
        assert len(path.read_text().splitlines()) <= MOST_LINES


def modules_loaded(*command: str) -> tuple[set[str], str]:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    lines = [line.rsplit("|", 1)[-1].strip() for line in run.stderr.splitlines()]
    return {line.split(".")[0] for line in lines}, run.stdout


@pytest.mark.parametrize("package", ["slr", "data_gen", "probing", "studies.catalogue"])
def test_importing_a_package_stays_light(package: str) -> None:
    heavy = HEAVY - {"numba"} if package == "slr" else HEAVY
    loaded, _ = modules_loaded("-c", f"import {package}")
    assert package.split(".")[0] in loaded
    assert not loaded & heavy


def test_help_loads_nothing_heavy() -> None:
    """All commands in one process: what none of them loads, each does not."""
    names = "\n".join(
        f"try: run({name!r}, ['--help'], prog='{script}')\nexcept SystemExit: pass"
        for name, (_, script) in COMMANDS.items()
    )
    loaded, out = modules_loaded("-c", f"from studies.command_line import run\n{names}")
    assert "tyro" in loaded
    assert not loaded & HEAVY
    for _, script in COMMANDS.values():
        assert f"usage: {script}" in out
