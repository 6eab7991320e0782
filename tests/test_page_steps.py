"""The five steps of the page in a browser: swaps, pictures, edits and the training."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page import (
    LAST,
    MINUS,
    NICE,
    NONE,
    PRESET,
    logits_in,
    open_page,
    reading,
    script,
    settled,
    slide,
    state,
    text_of,
)

from probing.circuits.causal import Trial, causal_table
from probing.models.pretrained import load_model
from probing.sentences import draw_by_word
from probing.states.tokens import tokenise
from studies.pages import report

SLIDERS = {  # its row in the causal table, and the value of the slider by label (0, 1)
    "edit-erase-v": ("erase value", "probe direction", "informative", (1, 1)),
    "edit-reflect-v": ("reflect", "v_hat", "informative", (1, 1)),
    "edit-steer-v": ("steer", "v_hat", "informative", (1, -1)),
    "edit-erase-k": ("erase location", "probe direction", "all words", (1, 1)),
}


def test_each_slider_moves_the_logit_as_the_causal_table_says(
    browser: Any, live_page: Path, live_results: Path, sentiment: Any
) -> None:
    """Towards the other label, on average over sentences of both labels; at other words by 0."""
    model, tokenizer = load_model(str(live_results / report.LIVE), head="classifier")
    parts = (sentiment[name] for name in ("train", "test"))
    train, test = (tokenise(tokenizer, part.select(draw_by_word(part, 240))) for part in parts)
    tests = ("erase value", "erase location", "reflect", "steer")
    table = causal_table(Trial(model, train, test), layers=(0,), heads=(), tests=tests, n_random=1)
    table = table[table["dose"].isna() | (table["dose"] == 1.0)]
    shift = table.set_index(["test", "edit", "site"])["shift"]
    open_page(browser, live_page, state="#at=break")
    sentences = sentiment["test"].shuffle(seed=3).select(range(20))
    for name, (*row, values) in SLIDERS.items():
        moves = []
        for text, label in zip(sentences["text"], sentences["label"], strict=True):
            script(browser, "slr.show({ text: arguments[0], edits: null, word: null })", text)
            browser.find_element("id", "edit-reset").click()
            before = text_of(browser, "edit-verdict")
            slide(browser, name, values[label])
            first, last = logits_in(text_of(browser, "edit-verdict"))
            assert before != text_of(browser, "edit-verdict")
            moves.append((first - last) * (1 if label else -1))
        assert shift[tuple(row)] > 0.1
        assert np.mean(moves) > 0, name
        if row[0] in ("reflect", "steer"):
            assert min(moves) > 0, "every sentence goes to the other label"
    script(browser, "slr.show({ text: arguments[0], edits: null, word: 4 })", NICE)  # distractor
    for name in SLIDERS:
        slide(browser, name, 1)
        plain, after = logits_in(text_of(browser, "edit-verdict"))
        assert plain == after, "at the distractor nothing happens"


def test_step_four_shows_an_edit_until_the_reader_edits(browser: Any, live_page: Path) -> None:
    open_page(browser, live_page)
    assert "edited" not in text_of(browser, "strip-said")
    script(browser, "document.getElementById('break').scrollIntoView()")
    settled(browser)
    assert state(browser)["edits"] == PRESET
    assert text_of(browser, "strip-said").startswith("edited: negative")
    slide(browser, "edit-erase-v", 0.5)
    assert state(browser)["edits"] == NONE | {"erase-v": 0.5}, "the reader's edits begin with none"
    slide(browser, "edit-erase-k", 0.25)
    assert state(browser)["edits"] == NONE | {"erase-v": 0.5, "erase-k": 0.25}
    browser.find_element("id", "edit-reset").click()
    assert state(browser)["edits"] == NONE
    assert text_of(browser, "strip-said").startswith("positive")
    script(browser, "document.getElementById('where').scrollIntoView()")
    settled(browser)
    assert state(browser)["section"] == "where"


def test_erased_the_word_says_the_same_as_one_of_the_other_label(
    browser: Any, live_page: Path
) -> None:
    open_page(browser, live_page, state="#at=break&edits=erase-v:1")
    _, after = logits_in(text_of(browser, "edit-verdict"))
    (other,) = logits_in(text_of(browser, "edit-other"))
    plain = reading(browser, NICE)["logit"]
    assert abs(after - other) < 0.2 * abs(plain)
    assert after * other > 0


def test_the_scrubber_ends_at_the_final_model(browser: Any, live_page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, live_page, state="#at=learned&step=0")
    scrubber = browser.find_element("id", "learn-step")
    assert scrubber.get_attribute("max") == "23"
    first = script(browser, "return slr.read(slr.state().text, { step: 0 }).attention")
    assert max(first) < 0.15, "at the beginning it looks everywhere"
    seen = set()
    for _ in range(24):
        seen.add(browser.find_element("id", "learn-picture").get_attribute("innerHTML"))
        scrubber.send_keys(Keys.ARROW_RIGHT)
    assert len(seen) == 24
    assert state(browser)["step"] == LAST == script(browser, "return slr.steps.at(-1)")
    final = script(
        browser, "return [slr.read(slr.state().text), slr.read(slr.state().text, { step: 243 })]"
    )
    assert final[0] == final[1]
    said = text_of(browser, "learn-verdict")
    logit = f"{abs(final[0]['logit']):.2f}"
    assert f"After {LAST} steps" in said
    assert logit in said
    assert logit in text_of(browser, "play-verdict")


def test_the_training_plays_to_its_end(browser: Any, live_page: Path) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    open_page(browser, live_page, state="#at=learned")
    button = browser.find_element("id", "learn-play")
    button.click()
    assert state(browser)["step"] == 0
    assert button.text == "Pause"
    WebDriverWait(browser, 20).until(lambda one: state(one)["step"] == LAST)
    assert button.text == "Play"


def test_nothing_plays_on_after_start_again_or_a_new_address(browser: Any, live_page: Path) -> None:
    open_page(browser, live_page, state="#at=learned")
    for stop in ("document.getElementById('play-reset').click()", "location.hash = 'step=0'"):
        script(browser, "document.getElementById('learn-play').click()")
        assert text_of(browser, "learn-play") == "Pause"
        time.sleep(0.6)
        script(browser, stop)
        settled(browser)
        assert text_of(browser, "learn-play") == "Play"
        step = state(browser)["step"]
        time.sleep(0.6)
        assert state(browser)["step"] == step
    script(browser, "document.getElementById('learn-play').click(); slr.show({ step: 243 })")
    time.sleep(0.6)
    assert state(browser)["step"] == LAST
    assert text_of(browser, "learn-play") == "Play"
    assert browser.get_log("browser") == []


def test_pictures_show_the_numbers_of_the_reading(browser: Any, live_page: Path) -> None:
    open_page(browser, live_page, state="#at=what")
    found = reading(browser, NICE)

    def of_all(selector: str, value: str) -> Any:
        code = (
            f"return [...document.querySelectorAll('#what-picture {selector}')].map((x) => {value})"
        )
        return script(browser, code)

    for i, title in enumerate(of_all(".disc title", "x.textContent")):
        k, v = (f"{found[name][i]:.2f}".replace("-", MINUS) for name in "kv")
        assert title == f"{found['words'][i]}: attention {found['attention'][i]:.3f}, k {k}, v {v}"
    assert np.argmax(of_all(".disc", "+x.getAttribute('r')")) == np.argmax(found["attention"])
    low, high = of_all(".level.v", "+x.getAttribute('y1')")  # v = -1 and 1
    places = [
        (low - float(y)) / (low - high) * 2 - 1 for y in of_all(".disc", "x.getAttribute('cy')")
    ]
    np.testing.assert_allclose(places, found["v"], atol=0.01)


ERASED = {"edits": [{"edit": "erase", "along": "v", "token": 11}]}


@pytest.mark.parametrize(
    ("name", "address", "options"),
    [
        ("play", "", {}),
        ("edit", "#at=break&edits=erase-v:1", ERASED),
        ("learn", "#at=learned&step=0", {"step": 0}),
    ],
)
def test_behind_each_picture_of_tokens_stands_its_table(
    browser: Any, live_page: Path, name: str, address: str, options: Any
) -> None:
    open_page(browser, live_page, state=address)
    script(browser, f"document.getElementById('{name}-numbers').closest('details').open = true")
    settled(browser)
    rows = script(
        browser,
        f"return [...document.querySelectorAll('#{name}-numbers tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))",
    )
    found = reading(browser, NICE, **options)
    assert [row[0] for row in rows] == found["words"]
    for column, key in enumerate(("attention", "k", "v"), 1):
        numbers = [float(row[column].replace(MINUS, "-")) for row in rows]
        np.testing.assert_allclose(numbers, found[key], atol=5.1e-4)
