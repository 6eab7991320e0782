"""The report is one page from whatever results there are, and its controls work in a browser."""

import dataclasses
import html
import json
import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from headless import headless_browser
from PIL import Image

from data_gen import build_tokenizer
from probing.models.presets import build_model
from probing.models.pretrained import load_model
from probing.sentences import draw_by_word
from probing.states.extraction import read
from probing.states.tokens import tokenise
from slr import Overlaps, Task, excess_risk, fixed_points, pgd
from slr.dynamics.portrait import flow
from studies.catalogue import STUDIES
from studies.making import make
from studies.pages import report
from studies.pages import tokens as token_view
from studies.pages.claims import keep_claims
from studies.practice import figure1
from studies.results import is_current, result_folder
from studies.settings import settings_of
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
def results(tmp_path_factory: pytest.TempPathFactory, sentiment: Any) -> Path:
    """Figure 1, one study of the theory, models with random weights, claims; no bridge."""
    folder = tmp_path_factory.mktemp("results")
    columns = ["series", "accuracy", "low", "high", "kind", "words"]
    rows = [("bert-published", 0.95, math.nan, math.nan, "", math.nan)]
    rows.append(("tiny", 1.0, 0.9, 1.0, "interval", 6.0))
    dots = pd.DataFrame(rows, columns=columns).assign(split="test", data="published")
    sparsity = {"model": ["1 layer"], "split": "test", "mass": 0.9, "lowest": 0.8, "highest": 1.0}
    keep(
        folder,
        figure1.STUDY,
        2000,
        dots=dots,
        sparsity=pd.DataFrame(sparsity),
    )
    points = pd.DataFrame({"kappa": [1.0], "nu": [1.0], "kind": ["minimum"]})
    keep(folder, portrait.STUDY, fixed_points=points)
    keep_claims(folder, [dataclasses.replace(claim, interval="[0.9, 1]") for claim in CLAIMS])
    tokenizer = build_tokenizer(sentiment["train"]["text"][:])
    for name, preset in (("tiny-0", "tiny"), ("small-0", "small")):
        model = build_model(tokenizer, preset, ["negative", "positive"], seed=0)
        model.save_pretrained(folder / "models" / name)
        tokenizer.save_pretrained(folder / "models" / name)
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
    assert missing == [study.title for study in ALWAYS if study not in shown]


def test_a_study_says_the_same_on_every_page(page: str) -> None:
    assert "<p>Fixed points of the flow on the invariant manifold:</p>" in page
    assert '<th scope="row">minimum</th>\n<td class="measure" data-label="kappa">1.0</td>' in page


def test_every_study_has_a_caption_for_each_figure() -> None:
    without = [study.name for study in STUDIES if not study.figures]
    assert set(without) == {"dataset", "controls"}, "these have tables alone"


def test_claims_say_pass_or_miss_in_words(page: str) -> None:
    assert "1 of 2 claims pass" in page
    for text in ("a &lt; b", "above 0.9", "0.988", "[0.9, 1]", "✔ pass", "✘ miss"):
        assert text in page


def test_figure1_stands_beside_the_published_numbers(page: str) -> None:
    cells = re.findall(r'data-label="test \(6 words\)">(.*?)</td>', page)
    assert cells == ["0.95", "1.00 [0.90, 1.00]"]


def test_seeds_and_versions_are_shown(page: str) -> None:
    assert 'data-label="seed">7</td>' in page
    assert f"numpy {np.__version__}" in page


def test_an_empty_folder_gives_a_page_of_commands(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    page = report.render(tmp_path / "results")
    assert page.count('class="missing"') == len(ALWAYS) + 2  # and claims and model
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
    monkeypatch.setattr(report, "MODELS", {"tiny-0": (EVIL, EVIL)})
    monkeypatch.setattr(
        report, "kept_claims", lambda _: [dataclasses.replace(CLAIMS[0], claim=EVIL)]
    )
    monkeypatch.setattr(token_view, "token_view", lambda folder, name: {"name": name})
    page = report.render(results)
    texts = Texts(page).texts
    assert page.count("<script") == page.count("</script>") == 5  # the data and four of our own
    # title, cells (a name and a text), caption, paragraph, two pieces of code, two more commands
    where = sorted(element for element, text in texts if text == EVIL)
    assert where == sorted(
        [*"h3 figcaption p code code code th th td td".split(), "div aria-label", "td data-label"]
    )
    (data,) = [text for element, text in texts if text.startswith("[{")]
    assert json.loads(data) == [{"name": EVIL}]


def test_a_view_without_a_number_is_an_error(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN is not JSON: the browser could not read it, and the page would not start."""
    monkeypatch.setattr(token_view, "token_view", lambda folder, name: {"logit": math.nan})
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


# ---- the token view's numbers


@pytest.fixture(scope="module")
def views(page: str) -> Any:
    found = re.search(r'id="token-data">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def test_the_view_has_sentences_of_all_splits_and_both_labels(views: Any) -> None:
    assert [(len(view["heads"]), len(view["layers"])) for view in views] == [(1, 1), (8, 2)]
    for view in views:
        sentences = view["sentences"]
        assert len(sentences) == len({one["text"] for one in sentences}) == 24
        pairs = {(one["split"], one["label"]) for one in sentences}
        assert len(pairs) == 10


def test_attention_is_a_distribution_over_the_tokens(views: Any) -> None:
    for view in views:
        for one in view["sentences"]:
            n = len(one["tokens"])
            assert {len(one[key]) for key in ("roles", "unknown", "masking")} == {n}
            # Rounded to 4 digits, so a sum over n tokens is off by n times 5e-5 at most.
            assert np.allclose(np.sum(one["attention"], axis=1), 1, atol=5e-5 * n)
            assert one["roles"].count("informative") == 1


def test_projections_have_the_units_that_the_page_says(results: Path, sentiment: Any) -> None:
    """On the sentences of the fit: 0 and 1 along k_hat, -1 and 1 along v_hat."""
    model, tokenizer = load_model(str(results / "models/tiny-0"), head="classifier")
    split = sentiment["train"].select(draw_by_word(sentiment["train"], token_view.N_TRAIN))
    tokens = tokenise(tokenizer, split)
    states = read(model, tokens)
    (axes,) = token_view.reading_axes(states)

    def along(name: str, mask: Any) -> Any:
        direction, zero, unit = axes[name]
        return (states.at(0)[mask].astype(float) @ direction - zero) / unit

    others = ~tokens.special & ~tokens.informative
    assert math.isclose(along("k", others).mean(), 0, abs_tol=1e-6)
    assert math.isclose(along("k", tokens.informative).mean(), 1, rel_tol=1e-5)
    along_v = along("v", tokens.informative)
    means = [along_v[tokens.labels == label].mean() for label in (0, 1)]
    assert np.allclose(means, [-1, 1], rtol=1e-5)


def test_masking_is_the_change_of_the_logit_difference(views: Any, results: Path) -> None:
    import torch

    model, tokenizer = load_model(str(results / "models/tiny-0"), head="classifier")
    one = views[0]["sentences"][0]
    words = one["text"].split()
    for hidden in (0, len(words) - 1):
        text = " ".join([*words[:hidden], "[UNK]", *words[hidden + 1 :]])
        inputs = tokenizer([one["text"], text], return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            logits = model(**inputs).logits
        before, after = (logits[:, 1] - logits[:, 0]).tolist()
        assert math.isclose(one["logit"], before, abs_tol=1e-4)
        assert math.isclose(one["masking"][1 + hidden], after - before, abs_tol=2e-4)
    assert one["masking"][0] is None  # [CLS] is not a word


# ---- the phase portrait's mathematics: JavaScript against Python


def node(code: str) -> Any:
    program = shutil.which("node")
    if program is None:
        pytest.skip("no node to run html/flow.js with")
    flow_js = json.dumps(str(report.PARTS / "flow.js"))
    code = f"const m = require({flow_js}); console.log(JSON.stringify({code}));"
    run = subprocess.run([program, "-e", code], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def random_points(n: int) -> list[dict[str, float]]:
    rng = np.random.default_rng(0)
    return [
        {
            "kappa": rng.uniform(-1, 1),
            "nu": rng.uniform(-1, 1),
            "lam": 10 ** rng.uniform(-2, 0.5),
            "gamma": rng.uniform(0.1, 2),
            "d": int(10 ** rng.uniform(0.5, 5)),
            "L": int(rng.integers(1, 100)),
        }
        for _ in range(n)
    ]


def test_risk_and_flow_of_the_page_are_those_of_slr() -> None:
    points = random_points(300)
    found = node(
        f"{json.dumps(points)}.map((p) => "
        "[m.excessRisk(p.kappa, p.nu, p), ...m.velocity(p.kappa, p.nu, p)])"
    )
    for p, (risk, by_kappa, by_nu) in zip(points, found, strict=True):
        task = Task(d=int(p["d"]), L=int(p["L"]), gamma=p["gamma"])
        expected = excess_risk(task, Overlaps(p["kappa"], p["nu"], 0.0, 0.0, 0.0), p["lam"])
        assert math.isclose(risk, float(expected), rel_tol=1e-12)
        velocity = flow(task, p["kappa"], p["nu"], p["lam"])
        # exp(-a^2) for a of hundreds is 1e-300 or 0: both stand still.
        assert np.allclose([by_kappa, by_nu], velocity, rtol=1e-10, atol=1e-100)


def test_paths_of_the_page_are_those_of_small_pgd_steps() -> None:
    """The flow is the limit of PGD: with steps of 1e-4 they part by less than 1e-3."""
    task, lam, time = Task(d=400, L=10, gamma=math.sqrt(0.5)), 0.1, 3.0
    start = Overlaps(np.array([-0.3]), np.array([0.6]), 0.0, 0.0, 0.0)
    run = pgd(task, start, lam=lam, step_size=1e-4, n_steps=int(time / 1e-4), log_every=1000)
    rows = node(
        f"m.trajectory(-0.3, 0.6, {{d: 400, L: 10, gamma: Math.sqrt(0.5), lam: {lam}}}, "
        f"{{end: {time}}})"
    )
    t, kappa, nu = np.array(rows).T
    steps = run.step * 1e-4
    assert math.isclose(t[-1], time)
    # Between its points a path is a straight line of length 0.05 at most: bends count.
    assert np.abs(np.interp(steps, t, kappa) - run.overlaps.kappa[0]).max() < 1e-3
    assert np.abs(np.interp(steps, t, nu) - run.overlaps.nu[0]).max() < 1e-3


@pytest.mark.parametrize(("lam", "d"), [(0.1, 400), (0.5, 40), (1.0, 10)])
def test_fixed_points_of_the_page_are_those_of_slr(lam: float, d: int) -> None:
    expected = [dataclasses.asdict(one) for one in fixed_points(Task(d, 10, 0.7), lam)]
    found = node("m.FIXED_POINTS")
    assert sorted(found, key=lambda p: (p["kappa"], p["nu"])) == expected


# ---- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with headless_browser() as opened:
        yield opened


def open_page(browser: Any, made: Path, width: int = 1280) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(made.as_uri())
    drawn = "return (document.getElementById('portrait-square') || {}).innerHTML"
    WebDriverWait(browser, 20).until(lambda one: one.execute_script(drawn))


def text_of(browser: Any, name: str) -> str:
    return str(browser.execute_script(f"return document.getElementById('{name}').innerHTML"))


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


@pytest.mark.parametrize("name", ["lam", "gamma", "d", "L", "kappa", "nu"])
def test_every_slider_changes_the_picture(browser: Any, made: Path, name: str) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, made)
    pictures = ("portrait-square", "portrait-risk")
    before = [text_of(browser, picture) for picture in pictures]
    slider = browser.find_element("id", f"portrait-{name}")
    shown = text_of(browser, f"portrait-{name}-value")
    slider.send_keys(Keys.ARROW_RIGHT * 8)
    after = [text_of(browser, picture) for picture in pictures]
    assert text_of(browser, f"portrait-{name}-value") != shown
    assert before[1] != after[1]
    assert (before[0] == after[0]) == (name == "L")  # L moves the risk but not the flow
    browser.find_element("id", "portrait-reset").click()
    assert [text_of(browser, picture) for picture in pictures] == before


def test_a_click_into_the_square_starts_a_path_there(browser: Any, made: Path) -> None:
    open_page(browser, made)
    before = text_of(browser, "portrait-square")
    browser.find_element("id", "portrait-square").click()  # in its middle
    assert text_of(browser, "portrait-square") != before
    middle = float(browser.find_element("id", "portrait-kappa").get_attribute("value"))
    assert abs(middle) < 0.2


def test_tokens_answer_to_mouse_and_keyboard(browser: Any, made: Path, views: Any) -> None:
    from selenium import webdriver
    from selenium.webdriver.common.keys import Keys

    open_page(browser, made)
    first = views[0]["sentences"][0]
    place = first["roles"].index("informative")

    def shown() -> str:
        return str(browser.find_element("css selector", "#token-detail h3").text)

    assert shown().startswith(f"“{first['tokens'][place]}”: informative word")
    row = browser.find_elements("css selector", "#token-row button")
    assert [button.text for button in row] == first["tokens"]
    row[1].click()
    assert shown().startswith(f"“{first['tokens'][1]}”")
    row[1].send_keys(Keys.ARROW_RIGHT)
    assert shown().startswith(f"“{first['tokens'][2]}”")
    browser.switch_to.active_element.send_keys(Keys.END)
    assert shown().startswith("“[SEP]”")
    number = browser.find_element("css selector", "#token-detail .value").text
    assert math.isclose(float(number), first["attention"][0][-1], abs_tol=1e-3)
    webdriver.ActionChains(browser).move_to_element(row[3]).perform()
    assert shown().startswith(f"“{first['tokens'][3]}”")  # a look, until the mouse goes away
    elsewhere = browser.find_element("id", "token-model")
    webdriver.ActionChains(browser).move_to_element(elsewhere).perform()
    assert shown().startswith("“[SEP]”")
    pressed = browser.find_elements("css selector", "#token-row [aria-pressed=true]")
    assert [button.text for button in pressed] == ["[SEP]"]


def test_sentence_model_and_shade_can_be_chosen(browser: Any, made: Path, views: Any) -> None:
    from selenium.webdriver.support.ui import Select

    open_page(browser, made)
    Select(browser.find_element("id", "token-sentence")).select_by_index(23)
    row = browser.find_elements("css selector", "#token-row button")
    assert [button.text for button in row] == views[0]["sentences"][23]["tokens"]
    before = text_of(browser, "token-row")
    Select(browser.find_element("id", "token-shade")).select_by_value("k-0")
    assert text_of(browser, "token-row") != before
    Select(browser.find_element("id", "token-model")).select_by_index(1)
    bars = browser.find_elements("css selector", "#token-detail .bar")
    assert len(bars) == 8 + 2 * 2 + 1  # heads, two projections a layer, masking
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_sticks_out_sideways(browser: Any, made: Path, width: int) -> None:
    open_page(browser, made, width)
    script = "return [document.documentElement.scrollWidth, window.innerWidth]"
    scroll, inner = browser.execute_script(script)
    assert scroll <= inner == width
    browser.execute_script("document.querySelector('main').style.width = '3000px'")
    browser.execute_script("document.querySelector('main').style.maxWidth = 'none'")
    assert browser.execute_script(script)[0] > width  # it would have been seen


def test_focus_is_visible(browser: Any, made: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, made)
    seen: list[str] = []
    while len(seen) < 60:  # once around
        browser.switch_to.active_element.send_keys(Keys.TAB)
        active = browser.switch_to.active_element
        if active.tag_name == "body":
            break
        seen.append(active.get_attribute("id"))
        assert active.value_of_css_property("outline-style") == "solid", active.text
    assert active.tag_name == "body"
    controls = ["token-model", "token-shade", "token-sentence", "portrait-lam", "portrait-reset"]
    assert [name for name in seen if name in controls] == controls
