"""The views of pretrained models: their tables are facts, and the page shows them."""

import json
import math
import re
import shutil
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from damage import to_half

from data_gen import build_tokenizer
from probing.models.presets import build_model
from probing.models.pretrained import load_model
from probing.sentences import draw_by_word
from probing.states.extraction import extract
from studies.making import is_made, make
from studies.pages.report import PARTS, templates
from studies.pages.views import by_layer, view_context, view_values
from studies.practice import views
from studies.storage.results import result_folder
from studies.storage.tables import ResultError
from studies.study import Tables

SMALL = {"minilm": ("small", "bert"), "smollm2": ("tiny", "llama")}  # preset and architecture
SCRIPTS = [  # of the section, in the order of the page
    name
    for name in re.findall(r'"([a-z]+/\w+\.js)"', (PARTS / "page.html").read_text(encoding="utf-8"))
    if name.startswith(("shared/", "views/")) and name != "shared/start.js"
]
PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Views</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>{{ source("style.css") | safe }}{{ source("views/views.css") | safe }}</style></head><body>
<main>{% include "views/views.html" %}</main>
{% if views %}
<script type="application/json" id="views-data">{{ views | tojson }}</script>{% endif %}
{% for name in SCRIPTS %}
<script>{{ source(name) | safe }}</script>{% endfor %}
<script>pageState.restore();</script></body></html>""".replace("SCRIPTS", str(SCRIPTS))


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory, sentiment: Any, one_thread: None
) -> dict[str, Path]:
    """Results of an encoder and a decoder with random weights in the place of the real models."""
    folder = tmp_path_factory.mktemp("views")
    texts = sentiment["train"]["text"][:]
    for name, (preset, architecture) in SMALL.items():
        tokenizer = build_tokenizer(texts, ends=architecture == "bert")
        model = build_model(tokenizer, preset, ["negative", "positive"], 1, architecture)
        draw = torch.Generator().manual_seed(0)
        with torch.no_grad():  # attention and states that differ visibly
            for parameter in model.parameters():
                parameter.add_(0.12 * torch.randn(parameter.shape, generator=draw))
        for part in (model, tokenizer):
            part.save_pretrained(folder / "models" / name)
        study, options = views.VIEWS[name]
        output = folder / "results" / study.folder
        small = str(folder / "models" / name)
        make(study, replace(options, model=small, sentences=96, output=output))
    return {"models": folder / "models", "results": folder / "results"}


@pytest.fixture(scope="module", params=sorted(SMALL))
def subject(request: Any, results: dict[str, Path]) -> tuple[Any, Any, Tables]:
    """Model, tokenizer and tables."""
    model, tokenizer = load_model(results["models"] / request.param)
    return model, tokenizer, Tables(results["results"] / f"views-{request.param}")


def outputs_of(model: Any, tokenizer: Any, text: str) -> Any:
    model.set_attn_implementation("eager")
    inputs = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        return model(**inputs, output_attentions=True, output_hidden_states=True)


# ---- the study


def test_attention_is_the_row_of_the_summary_token(subject: tuple[Any, Any, Tables]) -> None:
    model, tokenizer, tables = subject
    attention = tables["attention"].set_index("sentence")
    tokens = tables["tokens"].set_index("sentence")
    for row in tables["sentences"].itertuples():
        (place,) = np.flatnonzero(tokens.loc[row.sentence, "summary"])
        assert place == (
            0 if model.config.model_type == "bert" else len(tokens.loc[row.sentence]) - 1
        )
        whole = torch.cat(outputs_of(model, tokenizer, row.text).attentions)
        expected = whole[:, :, place].permute(2, 0, 1).numpy()
        ours = attention.loc[row.sentence].set_index(["token", "layer", "head"])["weight"]
        ours = ours.sort_index().to_numpy().reshape(expected.shape)
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6)
        assert np.ptp(expected) > 0.02, "not even"


def test_coordinates_are_projections_of_the_states(
    subject: tuple[Any, Any, Tables], sentiment: Any
) -> None:
    model, tokenizer, tables = subject
    axes = views.reading_axes(training_states(model, tokenizer, sentiment))
    coordinates = tables["coordinates"].set_index(["sentence", "layer"]).sort_index()
    for row in tables["sentences"].itertuples():
        states = outputs_of(model, tokenizer, row.text).hidden_states
        assert len(states) == len(axes)
        for layer, (state, axis) in enumerate(zip(states, axes, strict=True)):
            ours = coordinates.loc[(row.sentence, layer)].sort_values("token")
            for name in ("k", "v"):
                direction, zero, unit = axis[name].direction, axis[name].zero, axis[name].unit
                along = (state[0].double().numpy() @ direction - zero) / unit
                np.testing.assert_allclose(ours[name], along, rtol=1e-4, atol=1e-4)


def training_states(model: Any, tokenizer: Any, sentiment: Any) -> Any:
    drawn = sentiment["train"].select(draw_by_word(sentiment["train"], 96))
    return extract(model, tokenizer, drawn, positions=("tokens",))


def test_axes_have_the_units_that_the_page_says(
    subject: tuple[Any, Any, Tables], sentiment: Any
) -> None:
    model, tokenizer, _ = subject
    states = training_states(model, tokenizer, sentiment)
    tokens = states.tokens
    others = ~tokens.special & ~tokens.informative & (tokens.positions > 0)
    for layer, axis in enumerate(views.reading_axes(states)):
        k, v = (axis[name].coordinates(states.at(layer)) for name in ("k", "v"))
        assert math.isclose(k[others].mean(), 0, abs_tol=1e-5)
        assert math.isclose(k[tokens.informative].mean(), 1, rel_tol=1e-4)
        means = [v[tokens.informative][tokens.labels == label].mean() for label in (0, 1)]
        np.testing.assert_allclose(means, [-1, 1], rtol=1e-4)
        assert all(math.isclose(np.linalg.norm(one.direction), 1) for one in axis.values())


def test_sentences_come_from_all_splits_with_both_labels(results: dict[str, Path]) -> None:
    tables = [Tables(results["results"] / f"views-{name}")["sentences"] for name in SMALL]
    pd.testing.assert_frame_equal(*tables)
    assert tables[0]["text"].nunique() == len(tables[0]) == 24
    assert tables[0].groupby("split", sort=False).size().to_dict() == views.SHOWN
    assert (tables[0].groupby("split")["label"].nunique() == 2).all()


def test_each_token_is_itself(subject: tuple[Any, Any, Tables]) -> None:
    _, _, tables = subject
    tokens = tables["tokens"]
    for row in tables["sentences"].itertuples():
        own = tokens[tokens["sentence"] == row.sentence]
        words = own[own["role"] != "special"]["text"]
        assert "".join(words) == row.text.replace(" ", "")
        assert (own["role"] == "informative").sum() == own["summary"].sum() == 1


def test_counts_by_layer_are_those_of_loops(subject: tuple[Any, Any, Tables]) -> None:
    _, _, tables = subject
    layers = by_layer(tables)
    tokens, labels = tables["tokens"], tables["sentences"].set_index("sentence")["label"]
    weights = tables["attention"].set_index(["sentence", "token", "layer", "head"])["weight"]
    along = tables["coordinates"].set_index(["sentence", "token", "layer"])
    word = tokens[tokens["role"] == "informative"].set_index("sentence")["token"]
    for layer in layers.index:
        located = read = 0
        for i in range(24):
            own = tokens[(tokens["sentence"] == i) & (tokens["role"] != "special")]
            k = {token: along.loc[(i, token, layer), "k"] for token in own["token"]}
            located += max(k, key=k.__getitem__) == word[i]
            read += (along.loc[(i, word[i], layer), "v"] > 0) == (labels[i] == "positive")
        assert layers.loc[layer, ["located", "read"]].tolist() == [located, read]
        if layer:
            heads = {
                head: np.mean([weights[i, word[i], layer, head] for i in range(24)])
                for head in weights.index.unique("head")
            }
            best = max(heads, key=heads.__getitem__)
            first = np.mean([weights.loc[i, 0, layer].mean() for i in range(24)])
            expected = [np.mean(list(heads.values())), best, heads[best], first]
            np.testing.assert_allclose(layers.loc[layer].iloc[2:].astype(float), expected, 1e-5)


def test_the_studies_are_made_once(results: dict[str, Path]) -> None:
    study, options = views.VIEWS["minilm"]
    here: dict[str, Any] = {
        "model": str(results["models"] / "minilm"),
        "output": results["results"] / study.folder,
    }
    assert is_made(study, replace(options, **here, sentences=96))
    assert not is_made(study, replace(options, **here, sentences=48))
    assert {each.folder for each, _ in views.VIEWS.values()} == {"views-minilm", "views-smollm2"}


# ---- the values of the page


def decoded(value: dict[str, Any]) -> dict[str, Any]:
    n = sum(len(one["tokens"]) for one in value["sentences"])
    layers, heads = value["layers"], value["heads"]
    weights = np.frombuffer(b64decode(value["attention"]), "u1").reshape(n, layers, heads) / 255
    along = {
        name: np.frombuffer(b64decode(value[name]), "<i2").reshape(n, layers + 1) * value["step"]
        for name in ("k", "v")
    }
    return {"attention": weights, **along}


def test_the_page_has_the_numbers_of_the_tables(results: dict[str, Path]) -> None:
    values = view_values(results["results"])
    assert [(one["key"], one["layers"], one["heads"]) for one in values] == [
        ("minilm", 2, 4),
        ("smollm2", 1, 1),
    ]
    for value in values:
        tables = Tables(results["results"] / f"views-{value['key']}")
        order = ["sentence", "token", "layer"]
        found = decoded(value)
        weights = tables["attention"].sort_values([*order, "head"])["weight"]
        assert np.abs(found["attention"].ravel() - weights.to_numpy()).max() <= 0.5 / 255 + 1e-6
        along = tables["coordinates"].sort_values(order)
        for name in ("k", "v"):
            assert (
                np.abs(found[name].ravel() - along[name].to_numpy()).max()
                <= value["step"] / 2 + 1e-9
            )
        assert [one["text"] for one in value["sentences"]] == tables["sentences"]["text"].tolist()


def changed(results: dict[str, Path], folder: Path, **tables: pd.DataFrame) -> Path:
    """Results of the encoder alone, with other tables."""
    before = results["results"] / "views-minilm"
    with result_folder(folder / "views-minilm", {"study": "views"}) as partial:
        for file in before.glob("*.parquet"):
            shutil.copy(file, partial)
        for name, table in tables.items():
            table.to_parquet(partial / f"{name}.parquet", index=False)
    return folder


def test_a_coordinate_off_any_scale_is_kept(results: dict[str, Path], tmp_path: Path) -> None:
    table = Tables(results["results"] / "views-minilm")["coordinates"]
    table.loc[table["token"] == 0, "v"] *= 10_000
    (value,) = view_values(changed(results, tmp_path, coordinates=table))
    assert value["step"] > 0.01
    expected = table.sort_values(["sentence", "token", "layer"])["v"].to_numpy()
    assert np.abs(decoded(value)["v"].ravel() - expected).max() <= value["step"] / 2 + 1e-9


def test_missing_models_are_absent_and_their_command_is_shown(
    results: dict[str, Path], tmp_path: Path
) -> None:
    for folder, missing in [
        (tmp_path, "MiniLM and SmolLM2"),
        (changed(results, tmp_path / "one"), "SmolLM2"),
    ]:
        page = templates().from_string(PAGE).render(**view_context(folder))
        assert re.findall(r'class="missing">(.+?) is missing: <code>(.+?)</code>', page) == [
            (f"The view of {missing}", views.STUDY.command)
        ]
        assert ("views-data" in page.split("<script>")[0]) == (folder != tmp_path)
    assert view_context(results["results"])["views_missing"] == []


FAULTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "not a number": ("coordinates", lambda t: t.assign(k=t["k"].mask(t["token"] == 1))),
    "infinite": ("coordinates", lambda t: t.assign(v=math.inf)),
    "a row less": ("attention", lambda t: t.iloc[1:]),
    "a row twice": ("attention", lambda t: pd.concat([t.iloc[1:], t.iloc[-1:]])),
    "a weight of 2": ("attention", lambda t: t.assign(weight=t["weight"] * 0 + 2)),
    "no head": ("attention", lambda t: t.drop(columns="head")),
    "another sentence": ("sentences", lambda t: t.assign(sentence=t["sentence"] + 1)),
    "another split": ("sentences", lambda t: t.assign(split="mine")),
    "another role": ("tokens", lambda t: t.assign(role="verb")),
    "no rows": ("tokens", lambda t: t.iloc[:0]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_tables_that_cannot_be_shown_are_refused_in_one_line(
    results: dict[str, Path], tmp_path: Path, fault: str
) -> None:
    name, damage = FAULTS[fault]
    table = damage(Tables(results["results"] / "views-minilm")[name])
    with pytest.raises(ResultError) as refused:
        view_values(changed(results, tmp_path, **{name: table}))
    message = str(refused.value)
    assert "\n" not in message
    assert "views-minilm" in message
    assert message.endswith(f"make it again: {views.STUDY.command} --overwrite")


def test_a_damaged_file_is_refused(results: dict[str, Path], tmp_path: Path) -> None:
    folder = changed(results, tmp_path)
    to_half(folder / "views-minilm" / "attention.parquet")
    with pytest.raises(ResultError, match=r"attention\.parquet.*make it again"):
        view_values(folder)


# ---- the section


EVIL = "</script><script>alert('&')</script>"


class Scripts(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.data, self.scripts, self.inside = "", 0, False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.inside = dict(attrs).get("id") == "views-data"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.data += data
            self.inside = False


@pytest.fixture(scope="module")
def pages(results: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The section of both models, and that of texts and tokens that look like elements."""
    folder = tmp_path_factory.mktemp("pages")
    before = Tables(results["results"] / "views-minilm")
    evil = {
        "tokens": before["tokens"].assign(text=EVIL),
        "sentences": before["sentences"].assign(text=EVIL),
    }
    shown = {"both": results["results"], "evil": changed(results, folder / "evil", **evil)}
    for name, source in shown.items():
        page = templates().from_string(PAGE).render(**view_context(source))
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in shown}


def test_no_text_becomes_an_element(pages: dict[str, Path]) -> None:
    page = pages["evil"].read_text(encoding="utf-8")
    found = Scripts(page)
    assert found.scripts == page.count("</script>") == len(SCRIPTS) + 2
    (value,) = json.loads(found.data)
    assert {token for one in value["sentences"] for token in one["tokens"]} == {EVIL}


def test_without_scripts_the_section_has_its_numbers(
    pages: dict[str, Path], results: dict[str, Path]
) -> None:
    page = re.sub(r"<script.*?</script>", "", pages["both"].read_text(encoding="utf-8"), flags=re.S)
    text = " ".join(re.sub(r"<[^>]+>", "", page).split())
    for value in view_values(results["results"]):
        facts = value["facts"]
        assert f"{value['name']} ({value['layers']} layers of {value['heads']} heads)" in text
        assert f"in {facts['mostly_first']} of {value['layers']} layers" in text
        assert f"more than {facts['elsewhere']} on average" in text
        lowest, highest = facts["located"]
        assert f"the highest in {lowest} to {highest} of the {facts['tested']} sentences" in text
        assert f"and in {facts['embedded']} in the embeddings" in text
        assert page.count(f">{value['name']} by layer, over all 24 sentences<") == 1
    assert page.count('<th scope="row" class="number">') == 3 + 2  # a row per layer and embeddings
    assert "{{" not in text


def test_scripts_and_styles_fetch_nothing() -> None:
    for path in (PARTS / "views").iterdir():
        assert not re.search(
            r"url\(|@import|fetch\(|XMLHttpRequest|import\(|innerHTML", path.read_text()
        )


def show(browser: Any, page: Path, fragment: str = "", width: int = 1200) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get("about:blank")
    browser.get(page.as_uri() + fragment)


def inside(browser: Any, name: str) -> str:
    return str(browser.execute_script(f"return document.getElementById('views-{name}').innerHTML"))


def text_of(browser: Any, name: str) -> str:
    return str(browser.find_element("id", f"views-{name}").text)


def chosen(browser: Any) -> tuple[int, int]:
    """Layer and token of the one cell that Tab reaches, which is the focused one if any is."""
    (cell,) = browser.find_elements("css selector", "#views-map [tabindex='0']")
    return int(cell.get_attribute("data-layer")), int(cell.get_attribute("data-token"))


def select(browser: Any, name: str, value: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("id", f"views-{name}")).select_by_value(value)


def test_every_choice_changes_the_picture(browser: Any, pages: dict[str, Path]) -> None:
    show(browser, pages["both"])
    seen = {inside(browser, "scroll")}
    choices = [
        ("head", "largest"),
        ("head", "3"),
        ("sentence", "23"),
        ("show", "k"),
        ("show", "v"),
        ("view", "smollm2"),
    ]
    for n, (name, value) in enumerate(choices, 2):
        select(browser, name, value)
        seen.add(inside(browser, "scroll"))
        assert len(seen) == n, (name, value)
        assert browser.find_element("id", "views-head").is_enabled() == (
            name in ("head", "sentence")
        )
    assert browser.get_log("browser") == []


def test_cells_labels_and_table_have_the_numbers_of_the_results(
    browser: Any, pages: dict[str, Path], results: dict[str, Path]
) -> None:
    value = view_values(results["results"])[0]
    found, i = decoded(value), 7
    first = sum(len(one["tokens"]) for one in value["sentences"][:i])
    tokens = value["sentences"][i]["tokens"]
    rows = slice(first, first + len(tokens))
    weights = found["attention"][rows]
    quantities = {
        "show=attention": weights.mean(axis=2),
        "head=largest": weights.max(axis=2),
        "head=2": weights[:, :, 1],
        "show=k": found["k"][rows],
        "show=v": found["v"][rows],
    }
    for fragment, expected in quantities.items():
        show(browser, pages["both"], f"#sentence={i}&{fragment}")
        low = 1 if expected.shape[1] == value["layers"] else 0
        cells = browser.execute_script(
            "return [...document.querySelectorAll('#views-map [role=gridcell]')].map((cell) => "
            "[cell.dataset.layer, cell.dataset.token, cell.getAttribute('aria-label')])"
        )
        assert len(cells) == expected.size
        for layer, token, label in cells:
            assert label.startswith(tokens[int(token)])
            number = float(label.split(": ")[-1].replace("\N{MINUS SIGN}", "-"))
            assert abs(number - expected[int(token), int(layer) - low]) <= 0.00501
        browser.find_element("css selector", "#views-details summary").click()
        browser.execute_async_script("setTimeout(arguments[0], 30)")
        body = browser.execute_script(
            "return [...document.querySelectorAll('#views-table tbody tr')].map((row) => "
            "[...row.cells].map((cell) => cell.textContent.replace('\\u2212', '-')))"
        )
        numbers = np.array(body, float)
        assert numbers[:, 0].tolist() == list(range(value["layers"], low - 1, -1))
        np.testing.assert_allclose(numbers[:, 1:], expected.T[::-1], rtol=0, atol=0.00501)


def test_the_map_answers_to_keyboard_and_mouse(browser: Any, pages: dict[str, Path]) -> None:
    from selenium import webdriver
    from selenium.webdriver.common.keys import Keys

    show(browser, pages["both"], "#show=k")
    _, token = chosen(browser)
    assert "informative word" in text_of(browser, "detail")
    browser.find_element("id", "views-sentence").send_keys(Keys.TAB)
    active = browser.switch_to.active_element
    assert active.get_attribute("role") == "gridcell"
    active.send_keys(Keys.PAGE_DOWN)
    assert chosen(browser) == (0, token)
    for key, (up, right) in [
        (Keys.ARROW_UP, (1, 0)), (Keys.ARROW_RIGHT, (1, 1)), (Keys.ARROW_LEFT, (1, 0)),
        (Keys.ARROW_DOWN, (0, 0)), (Keys.ARROW_DOWN, (0, 0)),
    ]:  # fmt: skip
        browser.switch_to.active_element.send_keys(key)
        assert chosen(browser) == (up, token + right)
    browser.switch_to.active_element.send_keys(Keys.HOME)
    assert chosen(browser) == (0, 0)
    assert text_of(browser, "detail").startswith("“[CLS]” (special token), layer 0")
    browser.switch_to.active_element.send_keys(Keys.TAB)
    after = browser.switch_to.active_element.get_attribute("textContent")
    assert after == "Copy a link to this view", "one stop for Tab"
    cells = browser.find_elements("css selector", "#views-map [data-layer='2']")
    webdriver.ActionChains(browser).move_to_element(cells[3]).perform()
    assert "layer 2" in text_of(browser, "detail")  # a look, until the mouse goes away
    elsewhere = browser.find_element("id", "views-view")
    webdriver.ActionChains(browser).move_to_element(elsewhere).perform()
    assert text_of(browser, "detail").startswith("“[CLS]”")
    cells[3].click()
    assert chosen(browser) == (2, 3)
    assert browser.get_log("browser") == []


def test_the_hash_keeps_and_restores_what_is_shown(browser: Any, pages: dict[str, Path]) -> None:
    def hash_now() -> str:
        browser.execute_async_script("setTimeout(arguments[0], 260)")
        return str(browser.execute_script("return location.hash"))

    show(browser, pages["both"])
    opened = inside(browser, "scroll")
    for name, value in [("head", "largest"), ("sentence", "20")]:
        select(browser, name, value)
    shown = inside(browser, "panel")
    asked = hash_now()
    assert dict(part.split("=") for part in asked[1:].split("&")) == {
        "head": "largest",
        "sentence": "20",
    }
    show(browser, pages["both"], asked)
    assert inside(browser, "panel") == shown
    browser.execute_script("location.hash = '#show=k&head=4'")
    browser.execute_async_script("setTimeout(arguments[0], 30)")
    assert browser.find_element("id", "views-show").get_attribute("value") == "k"
    junk = [
        "#view=x&sentence=1e3&show=constructor&head=99",
        "#sentence=-1&head=0&view=__proto__",
        "#views",
        "#head=%&show=&x=y",
    ]
    for fragment in junk:
        show(browser, pages["both"], fragment)
        assert inside(browser, "scroll") == opened
    assert browser.get_log("browser") == []


def test_a_hash_is_drawn_once(browser: Any, pages: dict[str, Path]) -> None:
    show(browser, pages["both"])
    browser.execute_script(
        "window.drawn = 0; new MutationObserver(() => drawn++).observe("
        "document.getElementById('views-title'), { childList: true });"
        "location.hash = '#view=smollm2&sentence=3&show=v&head=largest'"
    )
    browser.execute_async_script("setTimeout(arguments[0], 60)")
    assert browser.execute_script("return drawn") == 1
    assert "SmolLM2" in text_of(browser, "title")


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_nothing_sticks_out_sideways(browser: Any, pages: dict[str, Path], width: int) -> None:
    for page in pages.values():
        show(browser, page, "#show=k&sentence=20", width)
        browser.execute_script(
            "for (const one of document.querySelectorAll('details')) one.open = true"
        )
        browser.execute_async_script("setTimeout(arguments[0], 60)")
        scroll = browser.execute_script("return document.documentElement.scrollWidth")
        assert scroll <= width
        box, cursor = browser.execute_script(
            "return ['scroll', 'cursor'].map((name) => document.getElementById('views-' + name))"
            ".map((one) => one.getBoundingClientRect()).map((one) => [one.left, one.right])"
        )
        assert box[0] <= cursor[0] < cursor[1] <= box[1] + 1, "the chosen cell is in sight"
    assert browser.get_log("browser") == []


def test_names_that_look_like_elements_are_shown_as_text(
    browser: Any, pages: dict[str, Path]
) -> None:
    show(browser, pages["evil"])
    assert EVIL in text_of(browser, "title")
    assert EVIL in text_of(browser, "detail")
    assert browser.execute_script("return document.querySelectorAll('main script').length") == 0


# ---- the models themselves


def test_the_numbers_of_the_text_are_those_of_the_tables(results: Any) -> None:
    """Counted one by one: the best head where the word is not the summary, and located words."""
    for value in view_values(results["results"]):
        tables = Tables(results["results"] / f"views-{value['key']}")
        tokens = tables["tokens"]
        weights: dict[tuple[int, int], list[float]] = {}
        splits = dict(tables["sentences"][["sentence", "split"]].to_numpy())
        located: dict[int, int] = {}
        for number, part in tokens.groupby("sentence"):
            inside = part[part["role"] == "informative"]
            along = tables["coordinates"].query("sentence == @number")
            for layer, rows in along.groupby("layer"):
                words = rows[rows["token"].isin(part[part["role"] != "special"]["token"])]
                best = words.loc[words["k"].idxmax(), "token"]
                hit = best in set(inside["token"]) and splits[number] != "train"
                located[layer] = located.get(layer, 0) + int(hit)
            if inside["summary"].any():
                continue
            seen = tables["attention"].query("sentence == @number")
            seen = seen[seen["token"].isin(inside["token"])]
            for place, weight in seen.groupby(["layer", "head"])["weight"].sum().items():
                weights.setdefault(place, []).append(weight)
        best_head = max(np.mean(each) for each in weights.values())
        assert value["facts"]["elsewhere"] == f"{best_head:.2f}"
        counts = [located[layer] for layer in sorted(located)]
        assert value["facts"]["embedded"] == counts[0]
        assert value["facts"]["located"] == [min(counts[1:]), max(counts[1:])]
        assert value["facts"]["tested"] == sum(split != "train" for split in splits.values())
