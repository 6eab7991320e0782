"""The report is one page from whatever results there are, and its controls work in a browser."""

import dataclasses
import html
import json
import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from page import open_page
from PIL import Image

from studies.catalogue import STUDIES
from studies.making import make
from studies.pages import report
from studies.pages.claims import MATTER, by_study, keep_claims, that_matter
from studies.practice import bridge, figure1
from studies.settings import settings_of
from studies.storage.results import is_current, result_folder
from studies.study import Claim, Study
from studies.theory import portrait

CLAIMS = [
    Claim(
        claim="a < b",
        paper="yes",
        required="above 0.9",
        origin="the paper",
        measured="0.988",
        passed=True,
    ),
    Claim(claim="a miss", required="all", origin="the paper", measured="29 of 30", passed=False),
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
    """Figure 1, one study of the theory, claims; no model and no bridge."""
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
    keep_claims(folder, [dataclasses.replace(claim, interval="[0.9, 1]") for claim in CLAIMS])
    return folder


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


def test_the_check_for_addresses_sees_one() -> None:
    assert Resources('<img src="https://x.org/a.png">').addresses == ["https://x.org/a.png"]


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
    assert set(missing) - set(others) == {"The Transformer of this page", REAL}


def test_a_study_says_the_same_on_every_page(page: str) -> None:
    assert "<p>Fixed points of the flow on the invariant manifold:</p>" in page
    assert '<th scope="row">minimum</th>\n<td class="measure" data-label="kappa">1.0</td>' in page


def test_titles_are_those_of_the_page_of_results(page: str) -> None:
    results = (Path(__file__).parent.parent / "docs/results.md").read_text(encoding="utf-8")
    theirs = re.findall("^## (.+)$", results, re.MULTILINE)
    ours = [html.unescape(title) for title in re.findall("<h[23]>(.+?)</h[23]>", page)]
    assert {study.title for study in ALWAYS} <= {*ours}
    both = [title for title in ours if title in theirs]
    assert {"Figure 1", "Claims"} <= {*both}
    # and what the page of results does not have
    assert set(ours) - set(both) == {
        "Phase portrait", "Real models", "Inside the Transformer", "The idealised model",
        "Environment and seeds", "Packages", "Stages and their seeds",
    }  # fmt: skip


def test_every_study_has_a_caption_for_each_figure() -> None:
    without = [study.name for study in STUDIES if not study.figures]
    assert set(without) == {"dataset", "controls"}, "these have tables alone"


def test_claims_say_pass_or_miss_in_words(page: str) -> None:
    assert "1 of 2 claims pass" in page
    for text in ("a &lt; b", "above 0.9", "0.988", "[0.9, 1]", "✔ pass", "✘ miss"):
        assert text in page


def test_figure1_has_its_numbers(page: str) -> None:
    assert re.findall(r'data-label="test \(6 words\)">(.*?)</td>', page) == ["1.00 [0.90, 1.00]"]


def test_seeds_and_versions_are_shown(page: str) -> None:
    assert 'data-label="seed">7</td>' in page
    assert f"numpy {np.__version__}" in page


def test_an_empty_folder_gives_a_page_of_commands(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    page = report.render(tmp_path / "results")
    assert page.count('class="missing"') == len(ALWAYS) + 3  # and claims, model, views
    for command in ("reproduce.py", "figure1.py", "train_transformer.py", "bridge.py"):
        assert f"scripts/{command}" in page
    assert "portrait-lam" in page  # needs no results


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


REAL = "The view of MiniLM and SmolLM2"
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
    monkeypatch.setattr(
        report, "kept_claims", lambda _: [dataclasses.replace(CLAIMS[0], claim=EVIL)]
    )
    monkeypatch.setattr(report, "live_values", lambda _: live_of(EVIL))
    page = report.render(results)
    texts = Texts(page).texts
    sources = len(re.findall(r'"[a-z]+/[a-z]+\.js"', (report.PARTS / "page.html").read_text()))
    assert page.count("<script") == page.count("</script>") == sources + 2  # portrait and model
    # of the study: title, cells, caption, paragraph, pieces of code, summary; of the sentence: its
    # token, text, label, example, and these again in two tables
    where = sorted(element for element, text in texts if text == EVIL)
    study_texts = ["h3", "figcaption", "p", "code", "code", "th", "td", "div aria-label"]
    study_texts += ["td data-label", "td", "th"]
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
    browser.execute_script("setTimeout(() => { throw new Error('planted'); }, 0)")
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert "planted" in str(browser.get_log("browser"))  # a complaint would have been seen


def test_claims_and_tables_are_folded_and_can_be_opened(browser: Any, made: Path) -> None:
    open_page(browser, made)
    folded = browser.find_elements("css selector", "#claims details")
    assert [each.get_attribute("open") for each in folded] == [None]
    assert "a miss" not in browser.find_element("id", "claims").text
    folded[0].find_element("css selector", "summary").click()
    assert "a miss" in browser.find_element("id", "claims").text


# ---- the scripts


def test_names_of_scripts_are_unique() -> None:
    """All scripts of the page share one scope: a second `const` of a name would stop a script."""
    names: dict[str, list[str]] = {}
    for path in report.PARTS.rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^(?:async )?(?:const|let|class|function\*?) (\w+)", text, re.M):
            names.setdefault(name, []).append(path.name)
        # several in one line: const [a, b] = ...
        for group in re.findall(r"^(?:const|let) [\[{](.+?)[\]}] =", text, re.M):
            for name in group.split(","):
                names.setdefault(name.split(":")[-1].strip(), []).append(path.name)
    assert {"erf", "makeTransformer", "pageState"} <= set(names)
    assert {name: files for name, files in names.items() if len(files) > 1} == {}


def test_every_script_and_style_is_on_the_page() -> None:
    page = (report.PARTS / "page.html").read_text(encoding="utf-8")
    files = [*report.PARTS.rglob("*.js"), *report.PARTS.rglob("*.css")]
    assert len(files) > 15
    for path in files:
        assert f'"{path.relative_to(report.PARTS).as_posix()}"' in page, path


# ---- the claims on top


def test_the_claims_that_matter_are_claims_of_the_results() -> None:
    """One each, in the page of results, which is made of a whole run."""
    text = (Path(__file__).parent.parent / "docs/results.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [✔✘] (?:pass|miss) \| (.+?) \|", text, re.M)
    assert len(rows) > 100
    for start in MATTER:
        assert len([row for row in rows if row.startswith(start)]) == 1, start


def test_claims_stand_below_their_studies_and_none_is_lost() -> None:
    claims = [
        dataclasses.replace(CLAIMS[0], command=portrait.STUDY.command),
        dataclasses.replace(CLAIMS[1], command="python scripts/of_an_earlier_version.py"),
        dataclasses.replace(CLAIMS[1], claim=f"{MATTER[1]}, as said", command=bridge.STUDY.command),
    ]
    groups = by_study(claims)
    assert list(groups) == [bridge.STUDY.title, portrait.STUDY.title, "Others"]
    assert [claim for group in groups.values() for claim in group] == [
        claims[2],
        claims[0],
        claims[1],
    ]
    assert that_matter(claims) == [claims[2]]
