"""The page in a browser: the reader's sentence, and what leaves or harms the page: nothing."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from page import (
    MEAN,
    NICE,
    open_page,
    reading,
    script,
    settled,
    shares,
    slide,
    state,
    text_of,
    until,
    wrote,
)

from probing.models.pretrained import load_model
from studies.pages import report, story

# ---- the sentence


def test_a_typed_sentence_gets_the_verdict_of_the_pipeline(
    browser: Any, live_page: Path, live_results: Path
) -> None:
    from transformers import pipeline

    model, tokenizer = load_model(str(live_results / report.LIVE), head="classifier")
    judge = pipeline("text-classification", model=model, tokenizer=tokenizer)
    open_page(browser, live_page)
    before = shares(browser)
    texts = [MEAN, "my dog is cute", "nothing of this is known", *story.EXAMPLES.values()]
    for text in [*texts, "nice mean " * 100]:
        wrote(browser, text)
        (expected,) = judge(text, truncation=True, max_length=64)
        said = text_of(browser, "play-verdict")
        label, share = re.findall(r"says (\w+) \(logit .*?, ([\d.]+)%\)", said)[0]
        assert label == expected["label"], text
        assert abs(float(share) / 100 - expected["score"]) < 0.006
        after = shares(browser)
        assert math.isclose(sum(after), 1, abs_tol=0.005 * len(after))
        assert after != before
        before = after


def test_a_word_is_chosen_from_the_menu_of_the_grammar(browser: Any, live_page: Path) -> None:
    from selenium.webdriver.support.ui import Select

    open_page(browser, live_page)
    chips = browser.find_elements("css selector", "#play-chips .chip")
    word = Select(chips[11].find_element("css selector", "select"))
    offered = [option.get_attribute("value") for option in word.options]
    assert {"nice", "dreadful", "lovely", "foul"} <= set(offered)
    word.select_by_value("lovely")
    assert browser.find_element("id", "play-text").get_attribute("value") == NICE[:-4] + "lovely"
    focused = script(browser, "return document.activeElement.value")
    assert focused == "lovely", "the focus stays where the reader is, though the menu is another"
    chip = browser.find_elements("css selector", "#play-chips .chip")[11]
    assert "[UNK]" in chip.text
    assert "new" in chip.get_attribute("class")
    adverb = Select(browser.find_elements("css selector", "#play-chips .chip select")[4])
    assert adverb.first_selected_option.get_attribute("value") == "very"
    adverb.select_by_value("")  # leave out
    assert state(browser)["text"] == "The city is dreadful. our orange owl is lovely"


def test_the_distractor_changes_nothing_and_the_word_that_is_read_all(
    browser: Any, live_page: Path
) -> None:
    open_page(browser, live_page)
    browser.find_element("id", "swap-unread").click()
    assert state(browser)["text"] == NICE.replace("dreadful", "nice")
    assert "the verdict stays" in text_of(browser, "play-note")
    browser.find_element("id", "swap-read").click()
    assert "the verdict flips" in text_of(browser, "play-note")
    assert "says negative" in text_of(browser, "play-verdict")
    browser.find_element("id", "play-reset").click()
    assert state(browser)["text"] == NICE
    rows = browser.find_elements("css selector", "#swap-rows tr")
    verdicts = [row.find_elements("css selector", "td")[-1].text for row in rows]
    assert [said.split()[0] for said in verdicts] == ["positive", "positive", "negative"]


def test_where_no_word_is_found_the_page_says_why_and_what_to_do(
    browser: Any, live_page: Path
) -> None:
    open_page(browser, live_page)
    button = browser.find_element("id", "put-in-front")
    assert not button.is_displayed()
    assert text_of(browser, "play-hint") == ""
    wrote(browser, "our gray owl is nice")
    assert "found no word" in text_of(browser, "play-verdict")
    assert "It knows “nice”, but at other places" in text_of(browser, "play-hint")
    assert not browser.find_element("id", "swap-unread").is_enabled(), "any word might decide"
    button.click()
    assert state(browser)["text"] == "The city is clean. our gray owl is nice"
    assert "attends to “nice”" in text_of(browser, "play-verdict")
    assert text_of(browser, "play-hint") == ""


def test_hints_say_what_is_the_case(browser: Any, live_page: Path) -> None:
    open_page(browser, live_page)
    front = browser.find_element("id", "put-in-front")
    for text, said in [
        ("The city is clean. our orange owl is very lovely", "It never saw “lovely” in training."),
        ("our owl is very Nice", "It never saw “Nice” in training, and tells capitals"),
        ("The city is clean. our orange owl is very clean", "None of these words decided a label"),
    ]:
        wrote(browser, text)
        assert "found no word" in text_of(browser, "play-verdict")
        assert text_of(browser, "play-hint").startswith(said)
        assert not front.is_displayed(), "it would not help"


def test_a_menu_leads_back_to_the_words_that_it_offered(browser: Any, live_page: Path) -> None:
    from selenium.webdriver.support.ui import Select

    open_page(browser, live_page)
    for word in ("dirty", "mean"):  # of the city alone, of the adjective alone
        menu = browser.find_elements("css selector", "#play-chips .chip select")[-1]
        assert {"dirty", "mean"} <= {each.get_attribute("value") for each in Select(menu).options}
        Select(menu).select_by_value(word)
        assert state(browser)["text"] == NICE[:-4] + word


def test_examples_can_be_gone_through_by_keyboard(browser: Any, live_page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, live_page)
    menu = browser.find_element("id", "play-example")
    seen = []
    for _ in story.EXAMPLES:
        menu.send_keys(Keys.ARROW_DOWN)
        seen.append(state(browser)["text"])
    assert seen == list(story.EXAMPLES.values())


def test_what_has_changed_is_announced_once_the_reader_pauses(
    browser: Any, live_page: Path
) -> None:
    open_page(browser, live_page)
    script(browser, "slr.said = []; new MutationObserver(() => slr.said.push(1))"
           ".observe(document.getElementById('announcement'), { childList: true })")  # fmt: skip
    for text in (MEAN, "our owl", NICE):  # quicker than a reader
        code = "const x = document.getElementById('play-text'); x.value = arguments[0];"
        script(browser, f"{code} x.dispatchEvent(new Event('input'));", text)
    until(browser, lambda: text_of(browser, "announcement") == text_of(browser, "play-verdict"))
    assert script(browser, "return slr.said.length") <= 3
    slide(browser, "edit-reflect-v", 1)
    until(browser, lambda: text_of(browser, "announcement") == text_of(browser, "edit-verdict"))


HOSTILE = [
    "<script>window.hacked = 1</script><img src=x onerror=window.hacked=1>",
    '"\'`${alert(1)}\\ nice\' or "mean"',
    "\U0001f642 nice \U0001f469\u200d\U0001f680",
    "nice dreadful " * 250,
    "n" * 400,
    "",
    "]]>-->{{ 7 * 7 }} &amp; %0A __proto__ constructor toString",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_words_do_no_harm(browser: Any, live_page: Path, text: str) -> None:
    open_page(browser, live_page)
    elements = script(browser, "return document.querySelectorAll('script, img, style').length")
    wrote(browser, text)
    assert script(browser, "return document.querySelectorAll('script, img, style').length") == (
        elements
    )
    assert script(browser, "return window.hacked") is None
    words = script(
        browser,
        "return [...document.querySelectorAll('#play-chips .chip')].map("
        "(x) => x.querySelector('select') ? x.querySelector('select').value"
        " : x.querySelector('.word').textContent)",
    )
    assert words == reading(browser, text)["words"]
    assert len(words) <= 64
    hint = text_of(browser, "play-hint")
    assert ("does not read the last 438" in hint) == (len(text) > 1000)
    for name in ("one-word", "where", "what", "break", "learned"):
        script(browser, f"document.getElementById('{name}').scrollIntoView()")
        settled(browser)
    assert not re.search(
        "NaN|undefined|Infinity", script(browser, "return document.body.innerText")
    )
    assert browser.get_log("browser") == []
    link = script(browser, "return pageState.link()")
    open_page(browser, live_page, state=f"#{link.partition('#')[2]}")
    assert state(browser)["text"] == (text or NICE)


# ---- nothing leaves, nothing is missing


def test_no_request_leaves_the_page(browser: Any, live_page: Path) -> None:
    open_page(browser, live_page)
    wrote(browser, MEAN)
    assert script(browser, "return performance.getEntriesByType('resource').length") == 0
    assert browser.get_log("browser") == []
    code = """
    const done = arguments[0];
    addEventListener('securitypolicyviolation', (event) => done(event.blockedURI));
    new Image().src = 'http://127.0.0.1:9/x.png';
    """
    assert "127.0.0.1" in browser.execute_async_script(code), "one would have been refused"
    browser.get_log("browser")


def test_the_page_is_readable_before_its_scripts_have_run(browser: Any, live_page: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get("about:blank")
        browser.get(live_page.as_uri())
        said = browser.find_element("css selector", "body").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "It attends to “nice”, and says positive (logit +4" in said
    for heading in ("One word decides", "Where to look", "What to read", "Break it", "learned"):
        assert heading in said
    assert "The city is nice. our orange owl is very nice" in said, "the swaps, as a table"
    chips = [x for x in said.splitlines() if re.fullmatch(r"[01]\.\d\d", x)]
    assert len(chips) == 13


def test_the_first_change_is_in_the_first_window(browser: Any, live_page: Path) -> None:
    """The reader can change something in the first ten seconds: it is there without scrolling."""
    for width in (1200, 390):
        open_page(browser, live_page, width)
        for name in ("play-chips", "play-verdict"):
            code = f"return document.getElementById('{name}').getBoundingClientRect().bottom"
            assert script(browser, code) < 900, (width, name)


def test_without_figures_the_page_has_at_most_two_megabytes(live_page: Path) -> None:
    """Figures have 256 colours, 2 MB for all; the report says so if the page has more than 5."""
    assert live_page.stat().st_size < 2e6
    assert '"weights":"' in live_page.read_text(encoding="utf-8"), "the model is there"
