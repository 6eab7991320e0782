"""Installed from a wheel into a clean environment, the commands work from any folder."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from studies.command_line import COMMANDS

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the tracked files: the checkout's own build folders stay out of it."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True)  # fmt: skip
    for name in listed.stdout.split():
        if (ROOT / name).is_file() and not name.startswith(("docs/", "notebooks/", "tests/")):
            target = folder / "copy" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(folder / "copy")], check=True)
    (built,) = folder.glob("slr_probing-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; its dependencies are this one's, by a .pth file."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed"]
    subprocess.run([*install, "--prefix", str(folder), str(wheel)], check=True)
    # The folder alone, so that the editable install of this checkout (a .pth file) is not found.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin"


CLEAN = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def run(environment: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [environment / "slr-probing", *words], cwd=cwd, env=CLEAN, capture_output=True, text=True
    )


def test_the_wheel_holds_the_packages_and_their_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {
        "slr", "data_gen", "probing", "studies",
    }  # fmt: skip
    for folder, pattern in (("data_gen/specs", "*.toml"), ("studies/pages/html", "*")):
        found = filter(Path.is_file, (ROOT / folder).rglob(pattern))
        files = {path.relative_to(ROOT).as_posix() for path in found}
        assert len(files) > 3
        assert files <= set(names)
    modules = [
        path for name in ("slr", "probing", "studies") for path in (ROOT / name).rglob("*.py")
    ]
    assert {path.relative_to(ROOT).as_posix() for path in modules} <= set(names)


def test_it_is_the_installed_package_that_runs(environment: Path, tmp_path: Path) -> None:
    code = "import studies, slr; print(studies.__file__, slr.__file__)"
    command = [str(environment / "python"), "-c", code]
    out = subprocess.check_output(command, cwd=tmp_path, env=CLEAN, text=True)
    assert str(ROOT) not in out
    assert out.count(str(environment.parent)) == 2


def test_help_lists_every_command(environment: Path, tmp_path: Path) -> None:
    out = run(environment, "--help", cwd=tmp_path).stdout
    for name in COMMANDS:
        assert f"\n  {name} " in out
    unknown = run(environment, "prove", cwd=tmp_path)
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("error: no command 'prove'; there are generate-data, train")


def test_commands_work_from_any_folder(environment: Path, tmp_path: Path) -> None:
    """One that needs the specs, one that compiles, one that needs the page's parts."""
    data = run(environment, "generate-data", "--spec", "restaurant", "--output", "d", cwd=tmp_path)
    assert data.returncode == 0, data.stderr
    assert (tmp_path / "d" / "data" / "train-00000-of-00001.parquet").is_file()
    portrait = run(environment, "slr", "portrait", "--smoke", cwd=tmp_path)
    assert portrait.returncode == 0, portrait.stderr
    assert (tmp_path / "results" / "slr" / "portrait" / "portrait.png").is_file()
    report = run(environment, "report", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    page = (tmp_path / "results" / "report" / "index.html").read_text()
    assert "Fixed points of the flow" in page
    assert 'id="portrait-erf"' in page
