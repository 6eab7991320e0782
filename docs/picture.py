"""Make the moving picture of README: a short story, played on the page of results in a browser.

Buttons are pressed and sentences typed as readers do it, and what is below the text field is left
out. If the page does not say what README says of the picture, no picture is made.
"""

import io
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from studies.command_line import parse
from studies.ending import ending
from studies.storage.results import write_whole

WIDTH, HEIGHT = 800, 900  # of the window, in CSS pixels
SCALE = 1.125  # pixels per CSS pixel: the picture is 900 pixels wide
MARGIN = 14  # CSS pixels below the text field
SECONDS = 2.5  # per scene
MAKE = "make reproduce, or python scripts/report.py, makes it"


@dataclass(frozen=True, kw_only=True)
class Options:
    page: Path = Path("results/report/index.html")
    """The page, made by scripts/report.py."""
    output: Path = Path(__file__).parent / "figures" / "page.gif"
    """File of the picture, a GIF."""


@dataclass(frozen=True)
class Scene:
    """A control and what is done with it, by keyboard, and what the page says then."""

    control: str | None
    typed: str | None
    says: str


OPENING = "The food was awful. our clever robot is"  # five words that the model never saw
STORY = (
    Scene(None, None, "attends to “nice”"),
    Scene("swap-unread", None, "the verdict stays"),
    Scene("swap-read", None, "the verdict flips"),
    Scene("play-text", f"{OPENING} nice", "attends to “nice”"),
    Scene("play-text", f"{OPENING} boring", "it has found no word"),
)


def main(options: Options) -> None:
    if options.output.suffix != ".gif":
        raise ValueError(f"{options.output} does not end with .gif, which is what is written")
    if not options.output.parent.is_dir():
        raise ValueError(f"{options.output.parent} is not a folder for a picture")
    if not options.page.is_file():
        raise ValueError(f"{options.page} is not a file; {MAKE}")
    with headless_browser() as browser:
        shots = play(browser, options.page.resolve())
    gif = as_gif(shots)
    write_whole(options.output, gif)
    width, height = shots[0].size
    print(
        f"{options.output}: {len(shots)} scenes, {SECONDS} s each, {width} x {height} pixels, "
        f"{len(gif) / 1000:.0f} kB"
    )


@contextmanager
def headless_browser() -> Iterator[Any]:
    """Chromium without a window, driven by selenium."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        raise ValueError("there is no browser to play in: apt-get install chromium chromium-driver")
    try:
        from selenium import webdriver
        from selenium.common.exceptions import WebDriverException
    except ImportError as error:
        raise ValueError(
            "selenium, which drives the browser, is missing: pip install '.[dev]'"
        ) from error
    flags = webdriver.ChromeOptions()
    flags.binary_location = chromium
    flags.add_argument("--headless=new")
    for flag in ("no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"):
        flags.add_argument(f"--{flag}")
    try:
        opened = webdriver.Chrome(options=flags, service=webdriver.ChromeService(driver))
        try:
            yield opened
        finally:
            opened.quit()
    except WebDriverException as error:
        why = (error.msg or "").partition("\n")[0]
        raise ValueError(f"the browser {chromium} failed ({why})") from error


def play(browser: Any, page: Path) -> list[Image.Image]:
    """One shot per scene, all of the same size."""
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": SCALE, "mobile": False}
    light = [
        {"name": "prefers-color-scheme", "value": "light"},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": light})
    browser.get(page.as_uri())
    if not browser.execute_script("return typeof window.slr?.read === 'function'"):
        raise ValueError(f"no Transformer runs in {page}; {MAKE}, with all results")
    shots, ends = [], []
    for scene in STORY:
        act(browser, scene)
        said = browser.execute_script("return document.getElementById('play').innerText")
        if scene.says not in said:
            done = scene.typed or scene.control or "opening the page"
            raise ValueError(f"{page} does not say {scene.says!r} after {done!r}, as README does")
        png = browser.get_screenshot_as_png()
        shots.append(Image.open(io.BytesIO(png)).convert("RGB"))
        bottom = "return document.getElementById('play-text').getBoundingClientRect().bottom"
        ends.append(browser.execute_script(bottom))
    return cut(shots, [round((end + MARGIN) * SCALE) for end in ends])


def cut(shots: list[Image.Image], ends: list[int]) -> list[Image.Image]:
    """The shots down to their ends, the lower ones filled up with their last row of pixels."""
    whole = []
    for shot, end in zip(shots, ends, strict=True):
        row = shot.crop((0, end - 1, shot.width, end))
        filled = row.resize((shot.width, max(ends)))
        filled.paste(shot.crop((0, 0, shot.width, end)))
        whole.append(filled)
    return whole


def act(browser: Any, scene: Scene) -> None:
    """Do what a reader does, by keyboard: the frame of the focus shows which control was used."""
    from selenium.webdriver.common.keys import Keys

    if scene.control is not None:
        control = browser.find_element("id", scene.control)
        if scene.typed is None:
            control.send_keys(Keys.ENTER)
        else:
            control.clear()
            control.send_keys(scene.typed)
    browser.execute_script("scrollTo(0, 0)")
    drawn = (
        "const done = arguments[0];"
        "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50)));"
    )
    browser.execute_async_script(drawn)


def as_gif(shots: list[Image.Image]) -> bytes:
    """A GIF that is played for ever; all of its pictures have the same 256 colours."""
    width, height = shots[0].size
    film = Image.new("RGB", (width, height * len(shots)))
    for number, shot in enumerate(shots):
        film.paste(shot, (0, number * height))
    film = film.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    first, *others = (
        film.crop((0, number * height, width, (number + 1) * height))
        for number in range(len(shots))
    )
    buffer = io.BytesIO()
    first.save(
        buffer,
        "GIF",
        save_all=True,
        append_images=others,
        duration=round(1000 * SECONDS),
        loop=0,
    )
    return buffer.getvalue()


if __name__ == "__main__":
    with ending(last=True):
        main(parse(Options, __doc__ or "", sys.argv[1:], Path(sys.argv[0]).name))
