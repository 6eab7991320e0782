"""The page in a browser: what a reader does with the sentence and the five steps."""

import csv
import io
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import numpy as np
import pytest
from page import open_page, settled, text_of

from probing.circuits.causal import Trial, causal_table
from probing.models.pretrained import load_model
from probing.sentences import draw_by_word
from probing.states.tokens import tokenise
from studies.pages import report, story

NICE = "The city is dreadful. our orange owl is very nice"
MEAN = "The city is nice. my red cow is extremely mean"
LAST = 243  # step of the training
MINUS = "\N{MINUS SIGN}"
NONE = {"erase-v": 0, "reflect-v": 0, "steer-v": 0, "erase-k": 0}
PRESET = NONE | {"reflect-v": 1}  # of step 4, until the reader edits


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


# ---- the address


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
        "text=&step=&edits=&word=4.5&at=&=&%&%zz&lam=x&gate=none&start=%00&view=9&sentence=1e99",
        "step[]=1&edits=,,,:::&word=0x1f&at=body&d=NaN&L=-1&kappa=Infinity",
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


# ---- the steps


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
