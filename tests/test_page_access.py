"""The page is for everybody: keyboard, names, contrast, small windows, paper, little motion."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page import open_page, settled

from probing.arrays import FloatArray

WIDTHS = (320, 390, 1200)
OPENED = "for (const one of document.querySelectorAll('details')) one.open = true;"


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_sideways(browser: Any, live_page: Path, width: int) -> None:
    open_page(browser, live_page, width)
    browser.execute_script(OPENED)
    for text in ("nice " * 500, "n" * 400 + " is nice"):
        browser.execute_script("slr.show({ text: arguments[0] })", text)
        for name in ("play", "break", "learned"):
            browser.execute_script(f"document.getElementById('{name}').scrollIntoView()")
            settled(browser)
        measure = "return [document.documentElement.scrollWidth, window.innerWidth]"
        scroll, inner = browser.execute_script(measure)
        assert scroll <= inner == width
    browser.execute_script("document.querySelector('main').style.minWidth = '3000px'")
    assert browser.execute_script(measure)[0] > width  # it would have been seen


# ---- names


ROLES = {"button", "combobox", "textbox", "slider", "link", "img", "image", "region"}


def accessible(browser: Any) -> list[tuple[str, str]]:
    """Role and name of each part of the page that a screen reader announces, as Chromium has it."""
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    shown = [node for node in tree if not node.get("ignored")]
    return [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip()) for node in shown
    ]


def test_every_control_and_picture_has_a_name(browser: Any, live_page: Path) -> None:
    open_page(browser, live_page)
    browser.execute_cdp_cmd("Accessibility.enable", {})
    found = [(role, name) for role, name in accessible(browser) if role in ROLES]
    assert {"button", "combobox", "textbox", "slider"} <= {role for role, _ in found}
    assert [role for role, name in found if not name] == []
    # each word's menu says which word it is and what attention it gets
    menus = [name for role, name in found if role == "combobox" and "attention" in name]
    assert len(menus) == 6
    browser.execute_script("document.querySelector('label[for=play-text]').remove()")
    found = accessible(browser)
    assert ("textbox", "") in found, "a missing name would have been seen"


def test_names_are_unique_headings_in_order_and_the_language_is_said(
    browser: Any, live_page: Path
) -> None:
    open_page(browser, live_page)
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map((x) => x.id)")
    assert len(ids) == len(set(ids))
    code = "return [...document.querySelectorAll('h1, h2, h3, h4')].map((x) => +x.tagName[1])"
    levels = browser.execute_script(code)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels)), "no level is left out"
    assert browser.execute_script("return document.documentElement.lang") == "en"
    missing = "return [...document.images].filter((x) => !x.alt).length"
    assert browser.execute_script(missing) == 0
    pictures = "return [...document.querySelectorAll('svg[role=img]')].map((x) => x.ariaLabel)"
    assert all(browser.execute_script(pictures))


# ---- keyboard


def test_all_controls_are_reached_by_tab_in_the_order_of_the_page_with_visible_focus(
    browser: Any, live_page: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, live_page)
    expected = browser.execute_script(
        "return [...document.querySelectorAll('a[href], button, select, textarea, input, summary')]"
        ".filter((x) => x.checkVisibility() && !x.disabled && x.tabIndex >= 0)"
        ".map((x) => x.id || x.textContent.trim().slice(0, 20))"
    )
    seen: list[str] = []
    for _ in range(len(expected) + 60):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        active = browser.switch_to.active_element
        if active.tag_name == "body":
            break
        seen.append(active.get_attribute("id") or active.get_attribute("textContent").strip()[:20])
        assert active.value_of_css_property("outline-style") == "solid", seen[-1]
        assert float(active.value_of_css_property("outline-width")[:-2]) >= 2
    assert active.tag_name == "body", "the focus is never caught"
    known = [name for name in seen if name in expected]
    assert known == expected
    assert seen[0].startswith("Skip")


def test_controls_are_large_enough_to_be_touched(browser: Any, live_page: Path) -> None:
    """24 pixels (WCAG 2.2, 2.5.8); links in running text are excepted there."""
    open_page(browser, live_page, 390)
    small = browser.execute_script(
        "return [...document.querySelectorAll('button, select, textarea, input, summary, nav a')]"
        ".filter((x) => x.checkVisibility()).filter((x) => {"
        "const box = (x.closest('label') ?? x).getBoundingClientRect();"
        "return box.height < 24 || box.width < 24; }).map((x) => x.outerHTML.slice(0, 80))"
    )
    assert small == []


# ---- contrast


# A canvas paints backgrounds from the outside in and text on top, so that transparent and mixed
# colours count as they are seen. Text on a picture (svg) stands on what is around the picture.
CONTRAST = """
const canvas = document.createElement('canvas');
canvas.width = canvas.height = 1;
const pen = canvas.getContext('2d', { willReadFrequently: true });
const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
const pixel = () => [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map(linear);
const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
const paint = (colour) => { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); };
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  const text = walker.currentNode.textContent.trim();
  if (!text || !element.checkVisibility()) continue;
  if (element.closest('script, style, title, option, :disabled')) continue;
  const style = getComputedStyle(element);
  paint(matchMedia('(prefers-color-scheme: dark)').matches ? '#000' : '#fff');
  const around = [];
  for (let one = element; one; one = one.parentElement) around.unshift(getComputedStyle(one));
  around.forEach((each) => paint(each.backgroundColor));
  const below = luminance(pixel());
  paint(element.closest('svg') ? style.fill : style.color);
  const above = luminance(pixel());
  const ratio = (Math.max(above, below) + 0.05) / (Math.min(above, below) + 0.05);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const name = element.tagName + '.' + element.getAttribute('class');
  found.push([ratio, large ? 3 : 4.5, text.slice(0, 40), name]);
}
return found;
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_enough_contrast(browser: Any, live_page: Path, dark: bool) -> None:
    """4.5, or 3 for large text (WCAG 2.2, 1.4.3), with half of the attention on an unknown word."""
    open_page(browser, live_page, dark=dark)
    browser.execute_script(OPENED + "slr.show({ text: 'our owl is very lovely' })")
    found = browser.execute_script(CONTRAST)
    assert len(found) > 300
    assert [one for one in found if one[0] < one[1]] == []
    browser.execute_script("document.querySelector('h1').style.color = '#888'")
    low = [one for one in browser.execute_script(CONTRAST) if one[3].startswith("H1")]
    assert low[0][0] < 6, "a grey heading would have been measured"


PALETTE = ("--k", "--v", "--attention", "--erf", "--softmax", "--control", "--frame", "--paper")


def linear_palette(browser: Any, names: Sequence[str] = PALETTE) -> FloatArray:
    """These colours of the page as linear RGB, one row per name."""
    code = """
    const style = getComputedStyle(document.documentElement);
    return arguments[0].map((name) => style.getPropertyValue(name).trim());
    """
    texts = [
        text if len(text) == 7 else "#" + "".join(2 * c for c in text[1:])
        for text in browser.execute_script(code, names)
    ]
    rgb = np.array([[int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)] for text in texts])
    return np.asarray(np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_lines_and_controls_stand_out_from_the_page(
    browser: Any, live_page: Path, dark: bool
) -> None:
    """3 at least against the page (WCAG 2.2, 1.4.11)."""
    open_page(browser, live_page, dark=dark)
    *lights, paper = linear_palette(browser) @ [0.2126, 0.7152, 0.0722] + 0.05
    ratios = {
        name: max(light, paper) / min(light, paper)
        for name, light in zip(PALETTE, lights, strict=False)
    }
    assert {name: ratio for name, ratio in ratios.items() if ratio < 3} == {}


# Machado, Oliveira and Fernandes (2009), severity 1: what remains of linear RGB.
BLIND = {
    "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritan": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_colours_of_k_v_and_attention_differ_for_the_colour_blind(
    browser: Any, live_page: Path, dark: bool
) -> None:
    open_page(browser, live_page, dark=dark)
    names = ["--k", "--v", "--attention"]
    line = linear_palette(browser, names)

    def lab(linear: Any) -> Any:
        to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
        xyz = np.clip(linear, 0, 1) @ np.array(to_xyz).T / [0.9505, 1, 1.089]
        f = np.cbrt(xyz)
        x, y, z = f.T
        return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)

    for kind, matrix in BLIND.items():
        seen = lab(line @ np.array(matrix).T)
        for a, b in ((0, 1), (0, 2), (1, 2)):
            assert np.linalg.norm(seen[a] - seen[b]) > 15, (kind, names[a], names[b])
    red_green = lab(np.array([[0.5, 0.0, 0.0], [0.1, 0.16, 0.0]]) @ np.array(BLIND["deutan"]).T)
    assert np.linalg.norm(red_green[0] - red_green[1]) < 40, "some colours do come close"


# ---- motion and paper


def test_little_motion_is_respected(browser: Any, live_page: Path) -> None:
    open_page(browser, live_page)
    assert browser.execute_script("return document.getAnimations().length") == 0
    behaviour = "return getComputedStyle(document.documentElement).scrollBehavior"
    assert browser.execute_script(behaviour) == "auto"
    motion = [{"name": "prefers-reduced-motion", "value": "no-preference"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": motion})
    assert browser.execute_script(behaviour) == "smooth"


def test_the_page_prints_without_its_controls_on_white(browser: Any, live_page: Path) -> None:
    open_page(browser, live_page, dark=True)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        visible = browser.execute_script(
            "return [...document.querySelectorAll('button, input, textarea, nav')]"
            ".filter((x) => x.checkVisibility()).map((x) => x.outerHTML.slice(0, 60))"
        )
        assert visible == []
        paper = "return getComputedStyle(document.body).backgroundColor"
        assert browser.execute_script(paper) == "rgb(255, 255, 255)"
        printed = browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27})["data"]
        assert len(printed) > 50_000
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
