"""The documentation builds without a warning, and shows what the packages export, as it is."""

import ast
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from bs4 import BeautifulSoup, Tag
from headless import headless_browser

import data_gen
import probing
import slr
import slr.sweep
from studies.pages import report

pytest.importorskip("mkdocs", reason="needs the extra docs")

ROOT = Path(__file__).parent.parent
PACKAGES = ("data_gen", "slr", "probing", "studies")


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


@pytest.fixture(scope="module")
def reference(site: Path) -> dict[str, BeautifulSoup]:
    """The pages of the reference, such as "slr/model"."""
    pages = sorted((site / "api").rglob("*.html"))
    names = [page.relative_to(site / "api").with_suffix("").as_posix() for page in pages]
    return {
        name: BeautifulSoup(page.read_text(), "html.parser")
        for name, page in zip(names, pages, strict=True)
    }


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


# ---- the reference: every public name once, as it is


def documented(page: BeautifulSoup) -> Iterator[tuple[str, Tag]]:
    """Every function and class on a page of the reference: its path, and where it is described."""
    for heading in page.select(".doc-heading[id]"):
        box = heading.find_parent(class_="doc-object")
        assert box
        if {"doc-function", "doc-class"} & set(box["class"]):
            yield str(heading["id"]), box


def resolved(path: str) -> Any:
    """What a dotted path leads to: a module, or something in it (None: set by a method)."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = inspect.getattr_static(found, part, None)
        return getattr(found, "__func__", found)  # of a class method
    raise AssertionError(f"{path} leads nowhere")


@pytest.mark.parametrize("package", [data_gen, slr, slr.sweep, probing], ids=lambda p: p.__name__)
def test_every_public_name_is_on_one_page_and_in_the_table_of_contents(
    reference: dict[str, BeautifulSoup], package: ModuleType
) -> None:
    named = {
        name: [
            f"{page}.html#{path}"
            for page, soup in reference.items()
            for path in map(str, (tag["id"] for tag in soup.select(f'.doc-heading[id$=".{name}"]')))
            if resolved(path) is getattr(package, name)
        ]
        for name in package.__all__
    }
    assert {name: places for name, places in named.items() if len(places) != 1} == {}
    folder = package.__name__.split(".")[0]
    links = reference[f"{folder}/index"].select("table a code")
    contents = {link.text: f"{folder}/{link.parent['href']}" for link in links if link.parent}
    assert {name: [contents.get(name)] for name in named} == named


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_lists_modules_that_are_there_each_once(package: str) -> None:
    pages = (ROOT / "docs" / "api" / package).glob("*.md")
    listed = [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)]
    assert len(set(listed)) == len(listed)
    files = (ROOT / package).rglob("*.py")
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    left_out = {f"{package}.arrays", f"{package}.progress"}  # types and plumbing
    assert {name for name in modules if "__" not in name} - left_out == set(listed)


class Shown(NamedTuple):
    """A parameter as a page shows it: texts, and None where there is no default."""

    type: str
    default: str | None


def shown_signature(box: Tag) -> dict[str, Shown]:
    """The parameters in the signature of a function or class."""
    code = box.find(class_="doc-signature", recursive=False)
    if code is None:
        return {}
    (function,) = ast.parse(f"def {code.get_text().strip()}: ...").body
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    missing = [None] * (len(positional) - len(given.defaults))
    defaults = [*missing, *given.defaults, *given.kw_defaults]
    return {
        each.arg: Shown(
            ast.unparse(each.annotation) if each.annotation else "",
            ast.unparse(default) if default else None,
        )
        for each, default in zip([*positional, *given.kwonlyargs], defaults, strict=True)
        if each.arg not in ("self", "summary")
    }


def shown_table(box: Tag) -> dict[str, Shown]:
    """The parameters in the table of the description, if it has one."""
    contents = box.find(class_="doc-contents", recursive=False)
    assert contents
    titles = contents.select(":scope > p > .doc-section-title:-soup-contains('Parameters')")
    tables = [title.find_next("table") for title in titles]
    rows = [row.find_all("td") for table in tables if table for row in table.select("tbody tr")]
    return {
        name.text.strip(): Shown(kind.text.strip(), default.text.strip() if default.code else None)
        for name, kind, _, default in rows
    }


def wrong_defaults(path: str, known: Any, shown: dict[str, Shown]) -> list[str]:
    """Defaults that are not those of the code: the text is an expression in its module.

    Fields of a dataclass may be inherited, with expressions of the base class's module.
    """
    if not shown:
        return []
    actual, wrong = inspect.signature(known).parameters, []
    names: dict[str, Any] = {}
    for owner in reversed(getattr(known, "__mro__", [known])):
        names |= vars(sys.modules[owner.__module__])
    for name, (_, text) in shown.items():
        default = actual[name].default
        if repr(default) == "<factory>":  # a field of a dataclass, made anew for each
            continue
        value = eval(text, names) if text else inspect.Parameter.empty
        if value is not default and repr(value) != repr(default):
            wrong.append(f"{path}({name}={text}), not {default!r}")
    return wrong


def test_every_default_on_the_pages_is_that_of_the_code(
    reference: dict[str, BeautifulSoup],
) -> None:
    wrong, compared = [], 0
    for page in reference.values():
        for path, box in documented(page):
            for shown in (shown_signature(box), shown_table(box)):
                wrong += wrong_defaults(path, resolved(path), shown)
                compared += len([each for each in shown.values() if each.default])
    assert wrong == []
    assert compared > 300


def test_a_wrong_default_would_be_seen() -> None:
    def known(tol: float = 1e-5, max_iter: int = 100) -> None: ...

    right = {"tol": Shown("float", "1e-05"), "max_iter": Shown("int", "100")}
    assert wrong_defaults("known", known, right) == []
    wrong = {"tol": Shown("float", None), "max_iter": Shown("int", "1e-05")}
    seen = ["known(tol=None), not 1e-05", "known(max_iter=1e-05), not 100"]
    assert wrong_defaults("known", known, wrong) == seen


def test_tables_of_parameters_have_types_where_types_belong(
    reference: dict[str, BeautifulSoup],
) -> None:
    """In numpydoc, what follows "name :" is a type: a description stands on its own lines."""
    tables = {
        path: (shown_signature(box), shown_table(box))
        for page in reference.values()
        for path, box in documented(page)
    }
    assert len([path for path, (_, table) in tables.items() if table]) >= 5
    differing = {
        f"{path}({name}: {table[name].type})"
        for path, (signature, table) in tables.items()
        for name in table
        if table[name].type != signature[name].type
    }
    assert differing == set()


@pytest.mark.parametrize(
    ("path", "signature"),
    [
        (
            "slr.estimator.SingleLocationRegressor",
            {"max_iter": Shown("int", "500"), "tol": Shown("float", "1e-08")},
        ),
        ("slr.task.Task", {"d": Shown("int", None), "noise_std": Shown("float", "0.0")}),
    ],
)
def test_a_class_shows_the_signature_of_its_constructor(
    reference: dict[str, BeautifulSoup], path: str, signature: dict[str, Shown]
) -> None:
    boxes = {name: box for page in reference.values() for name, box in documented(page)}
    assert shown_signature(boxes[path]).items() >= signature.items()


def test_examples_are_code_and_stars_are_stars(reference: dict[str, BeautifulSoup]) -> None:
    page = reference["slr/model"]
    assert ">>> Task(d=400, L=10, gamma=0.7).signal" in [
        code.get_text().splitlines()[0] for code in page.select("pre code") if code.text
    ]
    assert "with k*, v* orthonormal" in " ".join(page.get_text().split())
    assert not [page for page in reference.values() if page.find("blockquote")]


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
