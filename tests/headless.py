"""A browser without a window, for tests of the pages that people read."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def headless_browser() -> Iterator[Any]:
    """Chromium, driven by selenium; without one of them the test is skipped."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium (extra dev)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # Reduced motion: else a click would have to wait for the page to have scrolled smoothly.
    for flag in "headless=new no-sandbox disable-gpu force-prefers-reduced-motion".split():
        options.add_argument(f"--{flag}")
    options.add_argument("--disable-dev-shm-usage")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield opened
    finally:
        opened.quit()
