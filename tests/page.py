"""The page's scripts in node, and the page in a browser, for tests of what readers see."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from studies.pages import report


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
    drawn = "return document.querySelector('#portrait-square *') !== null"
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
