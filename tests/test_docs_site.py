"""The documentation builds without a warning, and shows what the packages export."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import data_gen
import probing
import slr

pytest.importorskip("mkdocs", reason="needs the extra docs")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    # The theme's advertisement for its successor is the only thing it prints unasked.
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert build.returncode == 0, build.stderr
    assert build.stdout + build.stderr == ""
    return folder


def test_every_page_is_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        path = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / path).is_file(), path


@pytest.mark.parametrize("package", [data_gen, slr, probing], ids=lambda package: package.__name__)
def test_the_reference_has_every_public_name(site: Path, package: object) -> None:
    name = package.__name__  # type: ignore[attr-defined]
    page = (site / "api" / f"{name}.html").read_text()
    missing = [public for public in package.__all__ if f".{public}" not in page]  # type: ignore[attr-defined]
    assert not missing


@pytest.mark.parametrize("package", ["data_gen", "slr", "probing", "studies"])
def test_the_reference_lists_modules_that_are_there_each_once(package: str) -> None:
    page = (ROOT / "docs" / "api" / f"{package}.md").read_text()
    listed = re.findall(r"^::: (\S+)$", page, re.MULTILINE)
    assert len(set(listed)) == len(listed)
    files = (ROOT / package).rglob("*.py")
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    left_out = {f"{package}.arrays", f"{package}.progress"}  # types and plumbing
    assert {name for name in modules if "__" not in name} - left_out == set(listed)


def test_pages_need_no_network(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert 'src="http' not in page
    assert 'rel="stylesheet" href="http' not in page
