"""The documentation builds without a warning, needs no network, and begins with the report."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from headless import headless_browser

from studies.pages import report

pytest.importorskip("mkdocs", reason="needs the extra docs")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of results, of a folder without any."""
    path = tmp_path_factory.mktemp("report") / "index.html"
    path.write_text(report.render(tmp_path_factory.mktemp("results")), encoding="utf-8")
    return path


def mkdocs(site: Path, front: Path, config: Path = ROOT / "mkdocs.yml") -> tuple[int, str]:
    """Build a site that begins with a page, if there is one: the exit code, and what is printed."""
    # The theme's advertisement for its successor is the only thing it prints unasked.
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "SLR_FRONT_PAGE": str(front)}
    places = ["--config-file", str(config), "--site-dir", str(site)]
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", *places],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    return build.returncode, build.stdout + build.stderr


@pytest.fixture(scope="module")
def site(front: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert mkdocs(folder, front) == (0, "")
    return folder


def test_every_page_is_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        path = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / path).is_file(), path


def test_pages_need_no_network(site: Path) -> None:
    """Links may lead into the world; what a page is made of must not come from there."""
    for path in site.rglob("*.html"):
        page = BeautifulSoup(path.read_text(), "html.parser")
        scripts = [str(tag["src"]) for tag in page.select("script[src], img[src], iframe[src]")]
        styles = [str(tag["href"]) for tag in page.select("link[href]:not([rel=canonical])")]
        if path == site / "index.html":  # the page of results, which consists of one file
            assert all(address.startswith("data:") for address in scripts + styles)
            continue
        assert scripts
        assert styles
        assert not [address for address in scripts + styles if "//" in address], path


# ---- the front page


def test_the_site_begins_with_the_page_of_results(site: Path, front: Path) -> None:
    """It is the page as it was made, with one more link among those to its sections."""
    page = BeautifulSoup((site / "index.html").read_text(encoding="utf-8"), "html.parser")
    links = page.select("nav[aria-label=Sections] > ul > li > a")
    assert links[-1].text == "Documentation"
    assert (site / str(links[-1]["href"])).is_file()
    assert [str(link["href"])[0] for link in links[:-1]] == ["#"] * (len(links) - 1)
    assert links[-1].parent
    added = f"{links[-1].parent}\n"
    as_made = front.read_text(encoding="utf-8")
    assert (site / "index.html").read_text(encoding="utf-8").replace(added, "") == as_made
    assert "Content-Security-Policy" in as_made
    index = json.loads((site / "search" / "search_index.json").read_text())
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert "quick-start.html" in places
    assert not {"", "index.html"} & places, "its text is not that of docs/index.md"


@pytest.fixture
def small_site(tmp_path: Path) -> Path:
    """The settings of a site with the front page and little else."""
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "index.md", tmp_path / "docs")
    shutil.copytree(ROOT / "docs" / "figures", tmp_path / "docs" / "figures")
    for name in ("quick-start", "results"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"# {name}")
    settings = tmp_path / "mkdocs.yml"
    settings.write_text(
        f"site_name: small\nuse_directory_urls: false\nhooks: [{ROOT / 'docs' / 'front.py'}]\n"
        "extra: {front: !ENV SLR_FRONT_PAGE}\n"
    )
    return settings


def test_a_site_without_results_begins_with_how_to_make_them(
    small_site: Path, tmp_path: Path
) -> None:
    assert mkdocs(tmp_path / "site", tmp_path / "missing.html", small_site) == (0, "")
    page = BeautifulSoup((tmp_path / "site" / "index.html").read_text(), "html.parser")
    assert "make reproduce" in page.get_text()
    assert {"quick-start.html", "results.html"} <= {str(a["href"]) for a in page.select("a[href]")}
    (picture,) = page.select("img")
    assert (tmp_path / "site" / str(picture["src"])).is_file()
    assert "moving picture" in str(picture["alt"])


def test_a_page_of_older_code_is_taken(small_site: Path, tmp_path: Path) -> None:
    """A relative path begins at the settings; this is what earlier pages had in common."""
    older = (
        '<!DOCTYPE html>\n<html lang="en">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">\n'
        '<nav aria-label="Sections"><ul>\n<li><a href="#figure1">Figure 1</a></li>\n</ul></nav>\n'
        "<footer>Made by <code>python scripts/report.py</code>.</footer>\n</html>\n"
    )
    (tmp_path / "older.html").write_text(older)
    assert mkdocs(tmp_path / "site", Path("older.html"), small_site) == (0, "")
    page = (tmp_path / "site" / "index.html").read_text()
    assert page.replace('<li><a href="quick-start.html">Documentation</a></li>\n', "") == older
    assert len(page) > len(older)


@pytest.mark.parametrize(
    "damage",
    [
        lambda page: b"",
        lambda page: page[: len(page) // 2],
        lambda page: page.replace(b'<nav aria-label="Sections"><ul>', b"<ul>"),
        lambda page: page.replace(b"Content-Security-Policy", b"Something-Else"),
        lambda page: page.replace(b"python scripts/report.py", b"python other.py"),
        lambda page: b"\xff" + page,
    ],
    ids=["empty", "cut", "no sections", "no policy", "not ours", "not text"],
)
def test_a_damaged_page_of_results_is_refused_in_one_line(
    small_site: Path, tmp_path: Path, front: Path, damage: Callable[[bytes], bytes]
) -> None:
    """The site of an earlier build is as it was."""
    path = tmp_path / "page.html"
    path.write_bytes(damage(front.read_bytes()))
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("earlier")
    code, printed = mkdocs(tmp_path / "site", path, small_site)
    assert code == 1
    assert printed.count("\n") == 1
    assert f"{path} is damaged, or scripts/report.py did not make it" in printed
    assert "python scripts/report.py --overwrite" in printed
    assert (tmp_path / "site" / "index.html").read_text() == "earlier"


# ---- in a browser


def test_search_works_in_pages_opened_from_disk(site: Path) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    with headless_browser() as browser:
        browser.set_window_size(1200, 900)
        browser.get((site / "index.html").as_uri())
        browser.find_element("link text", "Documentation").click()
        entry = browser.find_element("css selector", "input[name=query]")
        entry.click()
        entry.send_keys("leace")
        found = ".md-search-result__item a"
        wait = WebDriverWait(browser, 20)
        wait.until(lambda page: page.find_elements("css selector", found))
        places = [
            link.get_attribute("href") for link in browser.find_elements("css selector", found)
        ]
        assert any("#probing.circuits.interventions.Leace" in place for place in places)
        names = "return performance.getEntriesByType('resource').map((entry) => entry.name)"
        assert all(name.startswith("file:") for name in browser.execute_script(names))
        assert browser.get_log("browser") == []
        entry.clear()
        entry.send_keys("qwertyuiop")  # a word that no page has
        nothing = "No matching documents"
        wait.until(lambda page: nothing in page.find_element("class name", "md-search-result").text)
