"""The report is one page from whatever results there are, and its controls work in a browser."""

import dataclasses
import html
import json
import math
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from page import open_page
from PIL import Image

from studies.catalogue import STUDIES
from studies.findings import Finding
from studies.making import make
from studies.pages import report
from studies.practice import bridge, figure1
from studies.settings import settings_of
from studies.storage.results import is_current, result_folder
from studies.study import Study
from studies.theory import portrait

FINDINGS = [
    Finding(text="a < b by {}.", value=0.988, low=0.9, high=1.0, published="yes", holds=True),
    Finding(text="A share of {}.", value=0.5, required="all", holds=False, why="some do not"),
]


ALWAYS = [study for study in STUDIES if not study.optional]  # others where they are made


def keep(results: Path, study: Study, width: int = 60, **tables: Any) -> None:
    with result_folder(results / study.folder, {"seed": 7, "code_sha256": "0123456789"}) as folder:
        for name, table in tables.items():
            table.to_parquet(folder / f"{name}.parquet")
        for stem in study.figures:
            Image.new("RGB", (width, 100), "teal").save(folder / f"{stem}.png")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Figure 1 and one study of the theory; no model and no bridge."""
    folder = tmp_path_factory.mktemp("results")
    columns = ["series", "accuracy", "low", "high", "kind", "words"]
    rows = [("tiny", 1.0, 0.9, 1.0, "interval", 6.0)]
    dots = pd.DataFrame(rows, columns=columns).assign(split="test", data="published")
    sparsity = {"model": ["1 layer"], "split": "test", "mass": 0.9, "low": 0.8, "high": 1.0}
    models = {"series": ["tiny"], "data": "published", "split": "test", "accuracy": 1.0}
    keep(
        folder,
        figure1.STUDY,
        2000,
        dots=dots,
        sparsity=pd.DataFrame({**sparsity, "seeds": 20}),
        models=pd.DataFrame(models),
    )
    points = pd.DataFrame({"kappa": [1.0], "nu": [1.0], "kind": ["minimum"]})
    keep(folder, portrait.STUDY, fixed_points=points)
    return folder


@pytest.fixture(scope="module", autouse=True)
def planted() -> Iterator[None]:
    """Findings that can be recognised, as the results have few tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "read_findings", lambda _: FINDINGS)
        yield


@pytest.fixture(scope="module")
def made(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("made") / "report"
    return make(report.STUDY, report.Options(results=results, output=output)) / "index.html"


@pytest.fixture(scope="module")
def page(made: Path) -> str:
    return made.read_text(encoding="utf-8")


# ---- what is on the page


class Resources(HTMLParser):
    """Every address that a browser would fetch, and every image."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "img":
            self.images.append(found)
        if tag != "a":
            keys = ("src", "href", "srcset", "data", "poster", "action")
            self.addresses += [value for key in keys if (value := found.get(key))]


def test_the_page_fetches_nothing(page: str) -> None:
    found = Resources(page)
    assert len(found.images) == 2
    assert all(address.startswith("data:") for address in found.addresses)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", page)


def test_the_browser_itself_fetches_nothing(page: str) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="(.+?)"', page)
    assert policy == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    )


def test_every_image_has_a_text_and_a_bounded_size(page: str) -> None:
    for image in Resources(page).images:
        assert image["alt"]
        assert int(image["width"] or 0) <= report.MAX_WIDTH
    assert max(int(image["width"] or 0) for image in Resources(page).images) == 1600  # was 2000


def test_studies_have_title_caption_and_command_and_missing_ones_their_command(page: str) -> None:
    shown, text = (figure1.STUDY, portrait.STUDY), html.unescape(page)
    for study in ALWAYS:
        assert study.command in text
        for caption in study.figures.values():
            assert (caption in text) == (study in shown)
    missing = re.findall(r'class="missing">(.+?) is missing', text)
    others = [study.title for study in ALWAYS if study not in shown]
    assert [title for title in missing if title in others] == others
    assert set(missing) - set(others) == {"The Transformer of this page"}


def test_a_study_says_the_same_on_every_page(page: str) -> None:
    assert "<p>Fixed points of the flow on the invariant manifold:</p>" in page
    assert '<th scope="row">minimum</th>\n<td class="measure" data-label="kappa">1.0</td>' in page


def test_findings_have_their_verdict_in_words(page: str) -> None:
    assert "Of 1 predictions that were written down before their runs 0 held" in page
    assert "a &lt; b by 0.99 [0.90, 1.00]." in page
    assert 'class="same" data-label="verdict">same</td>' in page
    assert 'class="missed" data-label="verdict">missed: some do not</td>' in page


def test_figure1_has_its_numbers(page: str) -> None:
    assert re.findall(r'data-label="test \(6 words\)">(.*?)</td>', page) == ["1.00 [0.90, 1.00]"]


def test_seeds_and_versions_are_shown(page: str) -> None:
    assert 'data-label="seed">7</td>' in page
    assert f"numpy {np.__version__}" in page


def test_an_empty_folder_gives_a_page_of_commands(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    page = report.render(tmp_path / "results")
    assert page.count('class="missing"') == len(ALWAYS) + 1  # and the model
    for command in ("figure1.py", "train_transformer.py", "bridge.py"):
        assert f"scripts/{command}" in page
    assert "portrait-erf" in page  # needs no results


class Texts(HTMLParser):
    """Every text and attribute of a page, as a browser reads them, by element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[tuple[str, str]] = []
        self.element = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.element = tag
        self.texts += [(f"{tag} {name}", value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append((self.element, data))


def live_of(word: str, epsilon: float = 1e-12) -> dict[str, Any]:
    """What the page shows of a model whose only word and labels are this text."""
    reading = {"text": word, "tokens": [word], "label": word, "logit": 1.0}
    reading |= {"attention": [1.0], "k": [0.0], "v": [0.0]}
    names = ("step", "kappa", "nu", "attention_mass", "error")
    curve = {name: [0.0] for name in names}
    live: dict[str, Any] = {
        "readings": [reading],
        "special": {},
        "labels": [word, word],
        "examples": {word: word},
    }
    live |= {"curve": curve, "n_weights": 1, "epsilon": epsilon, "axes_cosine": 0.0}
    live |= {"learned": {"kappa": None, "nu": None}}
    nothing = dict.fromkeys(("paths", "causal", "n_seeds", "cosines", "found"))
    return {"live": live, "train": "", "bridge": bridge.STUDY, **nothing}


EVIL = "</script><script>alert('&')</script>"


def test_no_text_becomes_an_element(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pd.DataFrame({EVIL: ["1"], "x": [EVIL]}, index=pd.Index([EVIL], name="name"))
    study = dataclasses.replace(
        portrait.STUDY,
        title=EVIL,
        command=EVIL,
        figures={"portrait": EVIL},
        says=lambda tables: [EVIL, f"`{EVIL}`", table],
    )
    monkeypatch.setattr(report, "THEORY", [study])
    evil = [dataclasses.replace(FINDINGS[0], text=EVIL)]
    monkeypatch.setattr(report, "read_findings", lambda _: evil)
    monkeypatch.setattr(report, "live_values", lambda _: live_of(EVIL))
    page = report.render(results)
    texts = Texts(page).texts
    sources = len(re.findall(r'"[a-z]+/[a-z]+\.js"', (report.PARTS / "page.html").read_text()))
    assert page.count("<script") == page.count("</script>") == sources + 2  # portrait and model
    # of the study: title, cells, caption, paragraph, pieces of code, summary; of the sentence: its
    # token, text, label, example, and these again in two tables
    where = sorted(element for element, text in texts if text == EVIL)
    study_texts = ["h3", "figcaption", "p", "code", "code", "th", "td", "div aria-label"]
    study_texts += ["td data-label", "th", "th"]
    story_texts = ["span", "textarea", "b", "td", "option", "option value"]
    story_texts += ["th"] * 3  # the token, in the tables behind three pictures
    story_texts += ["span"] * 4  # the labels, at the ends of two bars
    assert where == sorted([*study_texts, *story_texts])
    (data,) = [text for element, text in texts if text.startswith('{"model"')]
    assert json.loads(data)["model"]["labels"] == [EVIL, EVIL]


def test_a_model_without_a_number_is_an_error(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN is not JSON: the browser could not read it, and the page would not start."""
    monkeypatch.setattr(report, "live_values", lambda _: live_of("nice", math.nan))
    with pytest.raises(ValueError, match="not JSON compliant"):
        report.render(results)


# ---- the command


def test_an_earlier_report_is_kept_unless_asked(made: Path, results: Path, tmp_path: Path) -> None:
    before = made.stat().st_mtime_ns
    make(report.STUDY, report.Options(results=results, output=made.parent))
    assert made.stat().st_mtime_ns == before, "made of the same results: it is kept"
    empty = tmp_path / "empty"
    empty.mkdir()
    output = tmp_path / "report"
    with pytest.raises(FileExistsError, match="--overwrite"):
        make(report.STUDY, report.Options(results=empty, output=made.parent))
    shutil.copytree(made.parent, output)
    make(report.STUDY, report.Options(results=empty, output=output, overwrite=True))
    assert Resources((output / "index.html").read_text()).images == []


def test_a_page_that_is_too_large_says_so(
    results: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for most, said in ((5, False), (0, True)):
        monkeypatch.setattr(report, "MOST_MEGABYTES", most)
        make(report.STUDY, report.Options(results=results, output=tmp_path / str(most)))
        assert ("slow to open" in capsys.readouterr().out) == said


def test_results_that_are_no_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"reproduce\.py"):
        make(report.STUDY, report.Options(results=tmp_path / "none", output=tmp_path / "report"))


def test_a_changed_result_makes_the_report_outdated(results: Path, made: Path) -> None:
    config = report.Options(results=results, output=made.parent)
    assert is_current(made.parent, settings_of(report.STUDY, config))
    path = results / "slr/portrait/portrait.png"
    before = path.read_bytes()
    try:
        path.write_bytes(before[:-1] + b"\0")  # of the same size
        assert not is_current(made.parent, settings_of(report.STUDY, config))
    finally:
        path.write_bytes(before)
    assert is_current(made.parent, settings_of(report.STUDY, config))


# ---- in a browser


def test_the_page_opens_from_disk_without_complaints(browser: Any, made: Path) -> None:
    open_page(browser, made)
    widths = browser.execute_script(
        "return [...document.images].map((i) => i.complete && i.naturalWidth)"
    )
    assert widths == [1600, 60]
    assert browser.get_log("browser") == []


def test_findings_are_folded_by_group_and_can_be_opened(browser: Any, made: Path) -> None:
    open_page(browser, made)
    folded = browser.find_elements("css selector", "#findings details")
    assert [each.get_attribute("open") for each in folded] == ["true", None]
    assert "some do not" not in browser.find_element("id", "findings").text
    folded[1].find_element("css selector", "summary").click()
    assert "some do not" in browser.find_element("id", "findings").text
