"""The moving picture of README is played on the page, or there is none and one line says why."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "figures" / "page.gif"


def make_picture(
    page: Path, output: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    script = str(ROOT / "docs" / "picture.py")
    command = [sys.executable, script, "--page", str(page), "--output", str(output)]
    return subprocess.run(
        command, env=os.environ | (environment or {}), capture_output=True, text=True
    )


def check(path: Path) -> None:
    """What README needs: scenes that differ and last long enough, few pixels and bytes."""
    assert path.stat().st_size < 600_000
    with Image.open(path) as picture:
        assert picture.format == "GIF"
        assert picture.info["loop"] == 0
        assert picture.width <= 900
        scenes = set()
        for number in range(getattr(picture, "n_frames", 1)):
            picture.seek(number)
            assert picture.info["duration"] >= 1500
            scenes.add(picture.convert("RGB").tobytes())
        assert len(scenes) == number + 1 == 5


def test_the_picture_of_readme_can_be_read() -> None:
    check(PICTURE)


def test_readme_and_the_site_say_the_same_of_the_picture() -> None:
    texts = [
        re.findall(rf"!\[([^]]*)\]\((?:docs/)?figures/{PICTURE.name}\)", path.read_text())
        for path in (ROOT / "README.md", ROOT / "docs" / "index.md")
    ]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 1


def test_the_page_plays_the_story(live_page: Path, tmp_path: Path) -> None:
    if not shutil.which("chromedriver"):
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    run = make_picture(live_page, tmp_path / "page.gif")
    assert (run.returncode, run.stderr) == (0, "")
    assert "5 scenes" in run.stdout
    check(tmp_path / "page.gif")
    assert [path.name for path in tmp_path.iterdir()] == ["page.gif"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("no page", "missing.html is not a file; make reproduce"),
        ("no model", "no Transformer runs in"),
        ("other model", "does not say 'the verdict flips' after 'swap-read', as README does"),
        ("no browser", "there is no browser to play in: apt-get install chromium"),
        ("no folder", "is not a folder for a picture"),
        ("no gif", "does not end with .gif"),
    ],
)
def test_without_a_page_that_plays_the_story_one_line_says_why(
    live_page: Path, tmp_path: Path, wrong: str, says: str
) -> None:
    page, output, environment = live_page, tmp_path / "page.gif", {}
    output.write_text("an earlier picture")
    if wrong == "no page":
        page = tmp_path / "missing.html"
    elif wrong == "no model":
        page = tmp_path / "empty.html"
        page.write_text("<!DOCTYPE html>\n")
    elif wrong == "other model":
        page = tmp_path / "other.html"
        html = live_page.read_text(encoding="utf-8")
        page.write_text(html.replace("the verdict flips", "the verdict wavers"), encoding="utf-8")
    elif wrong == "no browser":
        environment = {"PATH": str(tmp_path)}
    elif wrong == "no folder":
        output = tmp_path / "missing" / "page.gif"
    else:
        output = tmp_path / "page.png"
    if wrong in {"no model", "other model"} and not shutil.which("chromedriver"):
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    before = sorted(tmp_path.iterdir())
    run = make_picture(page, output, environment)
    assert run.returncode == 2
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1
    assert says in run.stderr
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "page.gif").read_text() == "an earlier picture"
