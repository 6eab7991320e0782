"""The page's phase portrait: its numbers are those of slr, and readers can move everything."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page import MINUS, in_node, open_page, slide, text_of
from scipy.integrate import solve_ivp

from slr import Overlaps, excess_risk
from slr.dynamics.portrait import flow
from studies.pages import report
from studies.pages.portrait import LAMS, TASK, portrait_values

SCRIPTS = ["shared/bytes.js", "portrait/flow.js"]
CASES = [(gate, lam) for gate in ("erf", "softmax") for lam in LAMS]
PICTURES = ("portrait-erf", "portrait-softmax")


@pytest.fixture(scope="module")
def values() -> Any:
    return portrait_values()


def of_page(values: Any, gate: str, lam: float, code: str, given: Any = None) -> Any:
    """The value of an expression about the ``flow`` that the page makes of one setting."""
    setting = values["gates"][gate][LAMS.index(lam)]
    both = {"setting": setting, "given": given}
    whole = f"((flow, given) => {code})(portraitFlow(given.setting), given.given)"
    return in_node(SCRIPTS, whole, both)


# ---- numbers


@pytest.mark.parametrize(("gate", "lam"), CASES)
def test_risk_and_flow_of_the_page_are_those_of_slr(values: Any, gate: Any, lam: float) -> None:
    """At points of the grid of kappa to single precision; between them lines err a little."""
    rng = np.random.default_rng(0)
    kappa, nu = rng.integers(-100, 101, 100) / 100, rng.uniform(-1, 1, 100)
    for on_grid in (True, False):
        kappa = kappa if on_grid else np.clip(kappa + rng.uniform(-0.01, 0.01, 100), -1, 1)
        code = "given.map((point) => [flow.risk(...point), ...flow.velocity(...point)])"
        found = np.array(of_page(values, gate, lam, code, np.transpose([kappa, nu]).tolist()))
        risk = excess_risk(TASK, Overlaps(kappa, nu, *np.zeros((3, 100))), lam, gate)
        expected = np.transpose([risk, *flow(TASK, kappa, nu, lam, gate)])
        size = abs(expected).max(axis=0)
        assert (abs(found - expected) < (1e-6 if on_grid else 5e-3) * size).all()


@pytest.mark.parametrize(("gate", "lam"), [case for case in CASES if case[1] in (0.01, 0.1, 0.3)])
def test_paths_of_the_page_are_those_of_the_flow(values: Any, gate: Any, lam: float) -> None:
    end = 100.0
    for start in ([-0.5, -0.4], [-0.5, 0.4], [0.9, -0.99]):

        def velocity(_: float, y: Any) -> Any:
            kappa, nu = np.clip(y, -1, 1)
            return np.array(flow(TASK, kappa, nu, lam, gate))

        path = np.array(of_page(values, gate, lam, f"flow.path(...given, {end})", start))
        exact = solve_ivp(
            velocity, (0, end), start, "LSODA", rtol=1e-8, atol=1e-10, t_eval=path[:, 0]
        )
        assert math.isclose(path[-1, 0], end)
        assert np.abs(path[:, 1:] - exact.y.T).max() < 0.02  # two pixels, in time as well


def test_erf_has_two_minima_and_softmax_one(values: Any) -> None:
    for gate, minima in {"erf": [[-1, -1], [1, 1]], "softmax": [[1, 1]]}.items():
        for setting in values["gates"][gate]:
            points = [point[:2] for point in setting["points"] if point[2] == "minimum"]
            assert points == minima


def test_with_softmax_nu_rises_and_at_nu_1_so_does_kappa(values: Any) -> None:
    kappas = np.linspace(-0.99, 0.99, 67).tolist()
    for lam in LAMS:
        code = "given.map((kappa) => [flow.velocity(kappa, 0)[1], flow.velocity(kappa, 1)[0]])"
        assert (np.array(of_page(values, "softmax", lam, code, kappas)) > 0).all()


@pytest.mark.parametrize("gate", ["erf", "softmax"])
def test_shades_lie_where_the_risk_is_above_their_level(values: Any, gate: Any) -> None:
    level = 0.6
    for kappa, low, high in of_page(values, gate, 0.1, f"flow.above({level})"):
        for nu in np.linspace(-1, 1, 41):
            point = Overlaps(kappa, nu, 0.0, 0.0, 0.0)
            risk = float(excess_risk(TASK, point, 0.1, gate))
            assert abs(risk - level) < 1e-5 or (risk > level) == (low <= nu <= high and low < high)


# ---- in a browser


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an empty folder of results: the portrait needs none."""
    page = tmp_path_factory.mktemp("page") / "index.html"
    page.write_text(report.render(tmp_path_factory.mktemp("results")), encoding="utf-8")
    return page


def inner(browser: Any, name: str) -> str:
    return str(browser.execute_script(f"return document.getElementById('{name}').innerHTML"))


def shown(browser: Any) -> list[str]:
    return [inner(browser, f"{name}{part}") for name in PICTURES for part in ("", "-says")]


@pytest.mark.parametrize("name", ["lam", "kappa", "nu"])
def test_every_slider_moves_both_pictures_to_its_ends(browser: Any, made: Path, name: str) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, made)
    before = shown(browser)
    for key in (Keys.HOME, Keys.END):
        browser.find_element("id", f"portrait-{name}").send_keys(key)
        after = shown(browser)
        assert all(a != b for a, b in zip(before, after, strict=True))
        assert not re.search(r"NaN|Infinity|undefined", "".join(after))
        before = after
    assert browser.get_log("browser") == []


def test_a_start_is_chosen_by_button_and_by_click(browser: Any, made: Path) -> None:
    open_page(browser, made)
    for gate, corner in (("erf", f"{MINUS}1"), ("softmax", "1")):
        said = text_of(browser, f"portrait-{gate}-says")
        assert f"near the minimum at ({corner},\N{NO-BREAK SPACE}{corner})" in said
    for button in browser.find_elements("css selector", "#portrait [data-start]"):
        button.click()
        kappa, nu = button.get_attribute("data-start").split(",")
        assert browser.find_element("id", "portrait-kappa").get_attribute("value") == kappa
        assert browser.find_element("id", "portrait-nu").get_attribute("value") == nu
        assert button.get_attribute("aria-pressed") == "true"
    browser.execute_script("document.getElementById('portrait-softmax').scrollIntoView()")
    browser.find_element("id", "portrait-softmax").click()  # its middle is not that of the axes
    assert browser.find_element("id", "portrait-kappa").get_attribute("value") == "-0.08"
    assert browser.find_element("id", "portrait-nu").get_attribute("value") == "-0.24"
    pressed = browser.find_elements("css selector", "#portrait [aria-pressed=true]")
    assert pressed == []


def test_the_setting_is_in_the_address(browser: Any, made: Path) -> None:
    open_page(browser, made)
    opened = shown(browser)
    slide(browser, "portrait-lam", LAMS.index(0.3))
    slide(browser, "portrait-nu", -0.25)
    address = str(browser.execute_script("return pageState.link()")).partition("#")[2]
    assert {part for part in address.split("&") if part[:3] != "at="} == {"lam=0.3", "nu=-0.25"}
    seen = shown(browser)
    assert seen != opened
    open_page(browser, made, state=f"#{address}")
    assert shown(browser) == seen


@pytest.mark.parametrize("junk", ["#lam=NaN&kappa=junk&nu=7", "#lam=0.11&kappa=%00&nu=&&=%"])
def test_junk_in_the_address_is_the_paper_s_setting(browser: Any, made: Path, junk: str) -> None:
    open_page(browser, made)
    expected = shown(browser)
    open_page(browser, made, state=junk)
    assert shown(browser) == expected
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_portrait_does_not_stick_out(browser: Any, made: Path, width: int) -> None:
    open_page(browser, made, width)
    script = "const r = document.getElementById('portrait'); return [r.scrollWidth, r.clientWidth]"
    scroll, client = browser.execute_script(script)
    assert scroll <= client <= width


def test_pictures_have_names_and_follow_the_reader_s_scheme(browser: Any, made: Path) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        open_page(browser, made, dark=scheme == "dark")
        script = (
            "return arguments[0].map((name) => document.querySelector('#portrait-erf ' + name))"
            ".map((part) => getComputedStyle(part)).map((style) => style.stroke + style.fill)"
        )
        seen[scheme] = browser.execute_script(
            script, (".own", ".risk", ".minimum", ".arrows", ".ground")
        )
        for gate, minima in (("erf", 2), ("softmax", 1)):
            label = browser.find_element("id", f"portrait-{gate}").get_attribute("aria-label")
            assert f"flow of {gate}" in label
            assert f"minima: {minima}," in label
    assert all(a != b for a, b in zip(seen["light"], seen["dark"], strict=True))
