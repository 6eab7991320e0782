"""The page's scripts in node, and the page in a browser, for tests of what readers see."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from studies.pages import report

NICE = "The city is dreadful. our orange owl is very nice"
MEAN = "The city is nice. my red cow is extremely mean"
LAST = 243  # step of the training
MINUS = "\N{MINUS SIGN}"
NONE = {"erase-v": 0, "reflect-v": 0, "steer-v": 0, "erase-k": 0}
PRESET = NONE | {"reflect-v": 1}  # of step 4, until the reader edits


def in_node(scripts: list[str], code: str, given: Any = None) -> Any:
    """The value of an expression in the scope of some of the page's scripts; ``given`` is there."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("no node to run the page's scripts with: apt-get install nodejs")
    sources = [(report.PARTS / name).read_text(encoding="utf-8") for name in scripts]
    last = f"const given = {json.dumps(given)}; console.log(JSON.stringify({code}));"
    whole = "\n".join([*sources, last])  # on the standard input: an argument has a limit
    run = subprocess.run([program, "-"], input=whole, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


def open_page(
    browser: Any, page: Path, width: int = 1200, *, state: str = "", dark: bool = False
) -> None:
    """Load the page anew, in a window of this width, with the state in its address."""
    from selenium.webdriver.support.ui import WebDriverWait

    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [
        {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get("about:blank")  # else another hash would not load the page
    browser.get_log("browser")  # what was said of another page
    browser.get(page.as_uri() + state)
    drawn = "return document.querySelector('#portrait-erf *') !== null"
    WebDriverWait(browser, 20).until(lambda one: one.execute_script(drawn))
    settled(browser)


def settled(browser: Any) -> None:
    """Wait until the page has noticed where it was scrolled to, and has drawn."""
    browser.execute_async_script(
        "const done = arguments[0];"
        "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30)));"
    )


def text_of(browser: Any, name: str) -> str:
    return str(browser.execute_script(f"return document.getElementById('{name}').textContent"))


# ---- what a reader does, and sees


def script(browser: Any, code: str, *given: Any) -> Any:
    return browser.execute_script(code, *given)


def wrote(browser: Any, text: str) -> None:
    """Type a text in place of the sentence; emoji cannot be typed by the driver, so all are set."""
    field = browser.find_element("id", "play-text")
    field.clear()
    if text.isascii() and 0 < len(text) < 200:
        field.send_keys(text)
    else:
        code = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'));"
        script(browser, code, field, text)


def until(browser: Any, holds: Callable[[], bool]) -> None:
    """Wait for what the page does once the reader pauses."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 10).until(lambda _: holds())


def shares(browser: Any) -> list[float]:
    code = "return [...document.querySelectorAll('#play-chips .share')].map((x) => +x.textContent)"
    return [float(x) for x in script(browser, code)]


def reading(browser: Any, text: str, **options: Any) -> Any:
    return script(browser, "return slr.read(arguments[0], arguments[1])", text, options)


def state(browser: Any) -> Any:
    return script(browser, "return slr.state()")


def slide(browser: Any, name: str, value: float) -> None:
    code = """
    const [name, value] = arguments, input = document.getElementById(name);
    input.value = value;
    input.dispatchEvent(new Event('input', { bubbles: true }));
    """
    script(browser, code, name, value)


def logits_in(text: str) -> list[float]:
    found = re.findall(rf"logit ([+{MINUS}][\d.]+)", text)
    return [float(number.replace(MINUS, "-")) for number in found]
