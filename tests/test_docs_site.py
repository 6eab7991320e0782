"""The documentation builds without a warning, and shows what the packages export."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import data_gen
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


@pytest.mark.parametrize("package", [data_gen, slr], ids=lambda package: package.__name__)
def test_the_reference_has_every_public_name(site: Path, package: object) -> None:
    name = package.__name__  # type: ignore[attr-defined]
    page = (site / "api" / f"{name}.html").read_text()
    missing = [one for one in package.__all__ if f".{one}" not in page]  # type: ignore[attr-defined]
    assert not missing


def test_pages_need_no_network(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert 'src="http' not in page
    assert 'rel="stylesheet" href="http' not in page
