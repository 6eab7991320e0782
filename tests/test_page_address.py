"""Every state of the page is in its address, can be copied and saved, and comes back."""

import csv
import io
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import numpy as np
import pytest
from page import (
    LAST,
    MEAN,
    NICE,
    NONE,
    PRESET,
    open_page,
    reading,
    script,
    settled,
    state,
    text_of,
    until,
    wrote,
)


def test_a_link_restores_the_state(browser: Any, live_page: Path) -> None:
    values = {"text": MEAN, "word": "9", "edits": "erase-v:0.5,steer-v:-1.5", "at": "break"}
    open_page(browser, live_page, state="#" + urlencode(values | {"step": "0"}))
    found = state(browser)
    assert found["text"] == MEAN
    assert (found["word"], found["step"], found["section"]) == (9, 0, "break")
    assert found["edits"] == {"erase-v": 0.5, "reflect-v": 0, "steer-v": -1.5, "erase-k": 0}
    assert "At step" in browser.find_element("id", "learn-path").get_attribute("aria-label")
    assert browser.find_element("id", "edit-steer-v").get_attribute("value") == "-1.5"
    top = script(browser, "return document.getElementById('break').getBoundingClientRect().top")
    assert 0 <= top < 450, "the page is at the step"
    again = script(browser, "return pageState.link()").partition("#")[2]
    assert parse_qs(again) == {name: [x] for name, x in (values | {"step": "0"}).items()}


@pytest.mark.parametrize("place", ["portrait", "where", "learned"])
def test_a_link_leads_to_its_section(browser: Any, live_page: Path, place: str) -> None:
    open_page(browser, live_page, state="#" + urlencode({"text": MEAN, "at": place}))
    settled(browser)
    code = f"return document.getElementById('{place}').getBoundingClientRect().top"
    assert 0 <= script(browser, code) < 450
    link = str(script(browser, "return pageState.link()"))
    assert parse_qs(link.partition("#")[2])["at"] == [place]


def test_what_the_reader_does_is_in_the_address(browser: Any, live_page: Path) -> None:
    open_page(browser, live_page)
    assert script(browser, "return location.hash") == ""
    wrote(browser, "my dog is nice & mean")
    said = {"text": ["my dog is nice & mean"]}  # it is written when the reader pauses
    until(browser, lambda: parse_qs(browser.current_url.partition("#")[2]) == said)
    browser.find_element("id", "play-reset").click()
    until(browser, lambda: script(browser, "return location.hash") == "")


@pytest.mark.parametrize(
    "junk",
    [
        "step=999&edits=melt:1,erase-v:nan,steer-v:1e9,__proto__:1&word=-3&at=nowhere",
        "text=&step=&edits=&word=4.5&at=&=&%&%zz&lam=x&kappa=%00",
        "step[]=1&edits=,,,:::&word=0x1f&at=body&lam=-1&kappa=Infinity",
        "=" * 300,
    ],
)
def test_a_link_with_junk_opens_the_page_as_it_is(browser: Any, live_page: Path, junk: str) -> None:
    open_page(browser, live_page, state=f"#{junk}")
    found = state(browser)
    assert (found["text"], found["step"], found["section"]) == (NICE, LAST, "")
    assert found["word"] in (None, 31)  # 0x1f is a number, of a token that is not there
    assert found["edits"] in (PRESET, NONE)
    assert browser.get_log("browser") == []


def test_back_and_forward_restore_the_state(browser: Any, live_page: Path) -> None:
    open_page(browser, live_page, state="#" + urlencode({"text": NICE, "edits": "erase-v:1"}))
    script(browser, "location.hash = arguments[0]", urlencode({"text": MEAN, "step": 0}))
    settled(browser)
    assert (state(browser)["text"], state(browser)["step"]) == (MEAN, 0)
    browser.back()
    settled(browser)
    assert (state(browser)["text"], state(browser)["step"]) == (NICE, LAST)
    assert state(browser)["edits"] == NONE | {"erase-v": 1}
    browser.forward()
    settled(browser)
    assert (state(browser)["text"], state(browser)["step"]) == (MEAN, 0)
    assert state(browser)["edits"] == PRESET


@pytest.mark.parametrize("button", ["copy-link", "copy-step"])
def test_the_link_is_copied(browser: Any, live_page: Path, button: str) -> None:
    values = {"text": MEAN} | ({"at": "break"} if button == "copy-step" else {})
    open_page(browser, live_page, state="#" + urlencode(values))
    # the clipboard of a browser without a window is not to be relied on
    script(browser, "navigator.clipboard.writeText = async (text) => { window.kept = text; };")
    script(browser, f"document.getElementById('{button}').click()")
    settled(browser)
    kept = str(script(browser, "return window.kept"))
    assert kept.startswith(live_page.as_uri() + "#")
    found = parse_qs(kept.partition("#")[2])
    assert {name: found[name] for name in values} == {name: [x] for name, x in values.items()}
    assert text_of(browser, button).startswith("Copied (for this computer")
    open_page(browser, live_page)
    script(browser, "navigator.clipboard.writeText = async () => { throw new Error('no'); };")
    script(browser, f"document.getElementById('{button}').click()")
    settled(browser)
    assert "address bar" in text_of(browser, button)


def test_the_numbers_are_exported(browser: Any, live_page: Path) -> None:
    values = {"text": 'his, "dog" is nice', "edits": "erase-v:1", "step": "0"}
    open_page(browser, live_page, state="#" + urlencode(values))
    script(browser, "URL.createObjectURL = (blob) => { window.kept = blob; return 'data:,'; };")
    token = int(np.argmax(reading(browser, values["text"])["attention"]))
    edit = {"edit": "erase", "along": "v", "token": token, "amount": 1}
    cases: list[tuple[str, str, dict[str, Any], str]] = [
        ("", "export-csv", {}, ""),  # beside the sentence: what is seen there
        ("where", "export-step", {}, ""),
        ("break", "export-step", {"edits": [edit]}, f"erase v at token {token} by 1"),
        ("learned", "export-step", {"step": 0}, ""),
    ]
    for section, button, options, said in cases:
        if section:
            script(browser, f"document.getElementById('{section}').scrollIntoView()")
            settled(browser)
        script(browser, f"document.getElementById('{button}').click()")
        text = browser.execute_async_script("window.kept.text().then(arguments[0])")
        rows = list(csv.DictReader(io.StringIO(text)))
        expected = reading(browser, values["text"], **options)
        assert [row["word"] for row in rows] == expected["words"]
        assert [row["read_as"] for row in rows] == expected["tokens"]
        for name in ("attention", "k", "v"):
            assert [float(row[name]) for row in rows] == expected[name]
        assert {float(row["logit"]) for row in rows} == {expected["logit"]}
        assert {row["edits"] for row in rows} == {said}
        assert {row["step"] for row in rows} == {str(options.get("step", LAST))}
