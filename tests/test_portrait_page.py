"""The phase portrait in a browser: its controls, its pictures and its address."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page import open_page

from slr import Overlaps, Task, excess_risk
from slr.dynamics.experiment import published_start
from slr.dynamics.portrait import flow
from studies.pages import report

PAPER = Task(d=400, L=10, gamma=math.sqrt(0.5))  # which the page opens with, at lam = 0.1


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an empty folder of results: the portrait needs none."""
    page = tmp_path_factory.mktemp("page") / "index.html"
    page.write_text(report.render(tmp_path_factory.mktemp("results")), encoding="utf-8")
    return page


def text_of(browser: Any, name: str) -> str:
    return str(browser.execute_script(f"return document.getElementById('{name}').innerHTML"))


def choose(browser: Any, start: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("id", "portrait-start")).select_by_value(start)


def table_of(browser: Any) -> list[list[float]]:
    script = (
        "return [...document.querySelectorAll('#portrait-table tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    rows = browser.execute_script(script)
    return [[float(text.replace("\N{MINUS SIGN}", "-")) for text in row] for row in rows]


@pytest.mark.parametrize("gate", ["erf", "softmax"])
@pytest.mark.parametrize("name", ["lam", "gamma", "d", "L", "kappa", "nu"])
def test_every_slider_changes_the_picture(browser: Any, made: Path, name: str, gate: str) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, made)
    pictures = ("portrait-square", "portrait-risk")
    opened = [text_of(browser, picture) for picture in pictures]
    browser.find_element("id", f"portrait-gate-{gate}").click()
    before = [text_of(browser, picture) for picture in pictures]
    slider = browser.find_element("id", f"portrait-{name}")
    shown = text_of(browser, f"portrait-{name}-value")
    slider.send_keys(Keys.ARROW_RIGHT * 8)
    after = [text_of(browser, picture) for picture in pictures]
    assert text_of(browser, f"portrait-{name}-value") != shown
    assert before[1] != after[1]
    # With erf L moves the risk but not the flow; with softmax it moves both.
    assert (before[0] == after[0]) == ((name, gate) == ("L", "erf"))
    browser.find_element("id", "portrait-reset").click()
    assert [text_of(browser, picture) for picture in pictures] == opened


def test_the_gate_can_be_switched_with_mouse_and_keyboard(browser: Any, made: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, made)

    def shown() -> list[str]:
        pictures = ("portrait-square", "portrait-risk")
        labels = [browser.find_element("id", name).get_attribute("aria-label") for name in pictures]
        return [*(text_of(browser, name) for name in (*pictures, "portrait-summary")), *labels]

    erf = shown()
    browser.find_element("css selector", "label:has(#portrait-gate-softmax)").click()
    softmax = shown()
    assert all(one != other for one, other in zip(erf, softmax, strict=True))
    for texts, gate, points in [
        (erf, "erf", "2 minima, 1 saddle, 2 maxima"),
        (softmax, "softmax", "1 minimum, 2 saddles, 1 maximum"),
    ]:
        assert texts[2].startswith(f"{gate}: from (\N{MINUS SIGN}0.30,")
        assert f"of the {gate} gate" in texts[3]
        assert points in texts[3]
        assert f"of the {gate} gate" in texts[4]
    browser.find_element("id", "portrait-gate-softmax").send_keys(Keys.ARROW_LEFT)
    assert browser.switch_to.active_element.get_attribute("id") == "portrait-gate-erf"
    assert shown() == erf
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert shown() == softmax
    browser.find_element("id", "portrait-reset").click()
    assert browser.find_element("id", "portrait-gate-erf").is_selected()
    assert shown() == erf


@pytest.mark.parametrize("gate", ["erf", "softmax"])
def test_sliders_reach_their_ends_without_complaints(browser: Any, made: Path, gate: str) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, made)
    browser.find_element("id", f"portrait-gate-{gate}").click()
    for key, length in [(Keys.END, "1,000,000"), (Keys.HOME, "1")]:
        for name in ("lam", "gamma", "d", "L", "kappa", "nu"):
            browser.find_element("id", f"portrait-{name}").send_keys(key)
            for shown in ("square", "risk", "summary"):
                assert not re.search(
                    r"NaN|Infinity|undefined", text_of(browser, f"portrait-{shown}")
                )
        assert text_of(browser, "portrait-L-value") == length
    assert browser.get_log("browser") == []


def test_a_click_into_the_square_starts_a_path_there(browser: Any, made: Path) -> None:
    open_page(browser, made)
    before = text_of(browser, "portrait-square")
    browser.find_element("id", "portrait-square").click()  # in its middle
    assert text_of(browser, "portrait-square") != before
    middle = float(browser.find_element("id", "portrait-kappa").get_attribute("value"))
    assert abs(middle) < 0.2


def test_a_start_of_the_paper_leaves_the_manifold_and_ends_at_the_swapped_point(
    browser: Any, made: Path
) -> None:
    open_page(browser, made)
    for row in table_of(browser):
        assert row[3:6] == [0, 0, 0]  # the reader's own start is on the manifold
    choose(browser, "sphere-d400-3")
    start, *_, end = table_of(browser)
    published = [float(x) for x in published_start("pgd-small-lambda").at(2)]
    assert np.allclose(start[1:6], published, atol=5e-4)
    assert np.allclose(end[1:6], [0, 0, 0.63, 1, 0], atol=2e-3)
    assert "near the swapped point" in text_of(browser, "portrait-summary")
    assert "(0.63, 1.00)" in browser.find_element("id", "portrait-swapped").text
    browser.find_element("css selector", "label:has(#portrait-gate-softmax)").click()
    assert np.allclose(table_of(browser)[-1][1:3], 1, atol=2e-3)
    assert "no swapped point here: training leaves" in text_of(browser, "portrait-swapped")
    choose(browser, "sphere-d80-1")
    assert text_of(browser, "portrait-d-value") == "80"  # that of the experiment
    choose(browser, "manifold-d400-30")
    assert text_of(browser, "portrait-d-value") == "400"


def test_the_first_table_row_is_the_start_and_times_ascend(browser: Any, made: Path) -> None:
    open_page(browser, made)
    rows = table_of(browser)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert len(rows) == 12
    for _, kappa, nu, *_, risk in rows:
        point = Overlaps(kappa, nu, 0.0, 0.0, 0.0)
        assert math.isclose(risk, float(excess_risk(PAPER, point, 0.1)), abs_tol=4e-3)


def hash_of(browser: Any) -> str:
    browser.execute_async_script("setTimeout(arguments[0], 400)")  # it is set after a pause
    return str(browser.execute_script("return location.hash"))


def test_the_setting_is_in_the_address(browser: Any, made: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, made)
    browser.find_element("id", "portrait-kappa").send_keys(Keys.ARROW_RIGHT)
    assert "kappa=-0.29" in hash_of(browser)
    choose(browser, "sphere-d80-7")
    browser.find_element("css selector", "label:has(#portrait-gate-softmax)").click()
    address = hash_of(browser)
    said = set(address[1:].split("&")) - {"at=portrait"}  # where the window stands
    assert said == {"d=80", "gate=softmax", "start=sphere-d80-7"}
    shown = [text_of(browser, f"portrait-{name}") for name in ("square", "exchange", "table")]
    browser.find_element("id", "portrait-reset").click()
    assert hash_of(browser) in ("", "#at=portrait")
    open_page(browser, made, state=address)
    again = [text_of(browser, f"portrait-{name}") for name in ("square", "exchange", "table")]
    assert again == shown


JUNK = [
    "#gate=foo&lam=NaN&gamma=-1&d=1e99&L=0&kappa=junk&nu=7&start=sphere-d400-31",
    "#gate=&lam=&gamma=Infinity&d=&L=1.5e300&kappa=%00&nu=null&start=%3Cimg%20onerror%3Dx%3E",
    "#lam=0x&d=-5&kappa=1,5&start=constructor&&&=%",
]


@pytest.mark.parametrize("junk", JUNK)
def test_junk_in_the_address_is_the_paper_s_setting(browser: Any, made: Path, junk: str) -> None:
    names = [f"portrait-{name}" for name in ("square", "exchange", "risk", "summary", "table")]
    open_page(browser, made)
    expected = [text_of(browser, name) for name in names]
    open_page(browser, made, state=junk)
    assert [text_of(browser, name) for name in names] == expected
    assert browser.get_log("browser") == []


def test_values_in_the_address_are_taken_as_they_are(browser: Any, made: Path) -> None:
    open_page(browser, made, state="#lam=0.2&gamma=1&d=100&L=50&kappa=0.25&nu=-0.5")
    values = {"lam": "0.20", "d": "100", "L": "50", "kappa": "0.25", "nu": "\N{MINUS SIGN}0.50"}
    for name, shown in values.items():
        assert text_of(browser, f"portrait-{name}-value") == shown
    assert table_of(browser)[0][1:3] == [0.25, -0.5]


def test_every_control_and_picture_has_a_name(browser: Any, made: Path) -> None:
    open_page(browser, made)
    script = (
        "return ['input', 'select', 'button']"
        ".flatMap((name) => [...document.querySelectorAll('#portrait ' + name)])"
        ".filter((one) => !one.labels?.length && !one.textContent.trim()).map((one) => one.id)"
    )
    assert browser.execute_script(script) == []
    for name, word in [("square", "fixed points"), ("exchange", "swapped"), ("risk", "oracle")]:
        label = browser.find_element("id", f"portrait-{name}").get_attribute("aria-label")
        assert word in label
    options = browser.find_elements("css selector", "#portrait-start option")
    assert len(options) == 1 + 3 * 30


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_portrait_does_not_stick_out(browser: Any, made: Path, width: int) -> None:
    open_page(browser, made, width)
    browser.execute_script("document.querySelector('#portrait details').open = true")
    script = "const r = document.getElementById('portrait'); return [r.scrollWidth, r.clientWidth]"
    scroll, inner = browser.execute_script(script)
    assert scroll <= inner <= width


def test_colours_follow_the_reader_s_scheme(browser: Any, made: Path) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        open_page(browser, made, dark=scheme == "dark")
        parts = (".own", ".path", ".minimum", ".arrows", ".ground")
        script = (
            "return arguments[0].map((name) => document.querySelector('#portrait-square ' + name))"
            ".map((part) => getComputedStyle(part)).map((style) => style.stroke + style.fill)"
        )
        seen[scheme] = browser.execute_script(script, parts)
    assert all(a != b for a, b in zip(seen["light"], seen["dark"], strict=True))
    for name in ("field", "pictures", "portrait", "controls", "words"):
        script_text = (report.PARTS / f"portrait/{name}.js").read_text(encoding="utf-8")
        assert not re.search(r"#[0-9a-fA-F]{3,6}\b", script_text)


def test_the_speed_of_the_flow_has_a_scale(browser: Any, made: Path) -> None:
    """The numbers below the bar are decades, and the palest shade is beyond them."""
    open_page(browser, made)
    texts = browser.execute_script(
        "return [...document.querySelectorAll('#portrait-square .bar text')]"
        ".map((text) => text.textContent)"
    )
    numbers, label = [float(text) for text in texts[:-1]], texts[-1]
    assert label.startswith("speed of the flow")
    fastest = max(
        math.hypot(*map(float, flow(PAPER, x, y, 0.1)))
        for x in np.linspace(-0.98, 0.98, 49)
        for y in np.linspace(-0.98, 0.98, 49)
    )
    assert sorted(numbers) == [0.01, 0.1, 1]
    assert 1 <= fastest < 10
