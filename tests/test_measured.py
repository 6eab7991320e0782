"""Every number that a document says was measured is the one that the page of results has there."""

import re
from pathlib import Path

import pytest
from measured import NUMBER, agree, blocks, look_up, objections, sections

from studies.pages.results import is_as_generated

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("README.md", "docs/probing.md", "docs/theory.md")
PAGE = (ROOT / "docs" / "results.md").read_text()


def planted(number: str) -> str:
    """The same number with another last digit, too far away for rounding."""
    digits, exponent = re.fullmatch(r"(.*?)(e.*)?", number).groups("")  # type: ignore[union-attr]
    return f"{digits[:-1]}{(int(digits[-1]) + 5) % 10}{exponent}"


def without(document: str, position: int, old: str, new: str) -> str:
    assert document.startswith(old, position)
    return document[:position] + new + document[position + len(old) :]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_measured_numbers_are_those_of_the_results(name: str) -> None:
    document = (ROOT / name).read_text()
    assert (
        document.count("<!-- measured") == document.count("<!-- /measured") == len(blocks(document))
    )
    assert sum(len(entry.places) for entries, _ in blocks(document) for entry in entries) > 5
    assert objections(document, PAGE) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_wrong_number_in_the_text_is_seen(name: str) -> None:
    document = (ROOT / name).read_text()
    tried = 0
    for _, text in blocks(document):
        start = document.index(text)
        for match in NUMBER.finditer(text):
            if "." in match[0]:
                tried += 1
                wrong = without(document, start + match.start(), match[0], planted(match[0]))
                assert objections(wrong, PAGE), match[0]
    assert tried > 5


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_wrong_number_in_text_and_comment_is_seen(name: str) -> None:
    """Who changes the comment along with the text is stopped by the page."""
    for entries, text in blocks((ROOT / name).read_text()):
        for entry in entries:
            number = planted(entry.number)
            for heading, reference in entry.places:
                block = f"## {heading}\n{number} = {reference}\n-->{number}"
                wrong = f"<!-- measured\n{block}<!-- /measured -->"
                assert objections(wrong, PAGE), (reference, text)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_wrong_number_in_the_results_is_seen(name: str) -> None:
    """For each reference: the page with another number there."""
    document = (ROOT / name).read_text()
    known = sections(PAGE)
    for entries, _ in blocks(document):
        for heading, reference in (place for entry in entries for place in entry.places):
            for number in set(look_up(known[heading], reference)):
                body = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
                another = re.sub(r"\d", r"7\g<0>", number, count=1)
                wrong = PAGE.replace(body, body.replace(number, another))
                assert objections(document, wrong), (heading, reference)


def test_a_hand_edit_of_the_page_is_seen() -> None:
    assert is_as_generated(PAGE)
    numbers = [match for match in NUMBER.finditer(PAGE) if "." in match[0]]
    assert len(numbers) > 500
    for match in numbers:
        assert not is_as_generated(without(PAGE, match.start(), match[0], planted(match[0])))
    assert not is_as_generated(PAGE + "1.00\n")
    assert not is_as_generated(PAGE.rsplit("<!--", 1)[0])


@pytest.mark.parametrize(
    ("block", "objection"),
    [
        ("## A\n0.5 = x / a\n--> 0.5 and 0.6", "the text has 0.6"),
        ("## A\n0.5 = x / a\n--> nothing", "the comment has 0.5"),
        ("## A\n0.6 = x / a\n--> 0.6", "is 0.50, not 0.6"),
        ("## A\n0.500 = x / a\n--> 0.500", "is 0.50, not 0.500"),
        ("## A\n0.5 = y / a\n--> 0.5", "means no number"),
        ("## A\n0.5 = x / c\n--> 0.5", "means no number"),
        ("## A\n0.5 = one / a\n--> 0.5", "means 2 places"),
        ("## A\n0.5 = x / *\n--> 0.5", "is 0.75, not 0.5"),
        ("## A\n0.5 = mass\n--> 0.5", "is 0.25, not 0.5"),
        ("## B\n0.5 = x / a\n--> 0.5", "no heading 'B'"),
    ],
)
def test_what_is_objected_to(block: str, objection: str) -> None:
    page = "# P\n\n## A\n\nThe mass 0.25 (to 0.5).\n\n"
    page += "| row | n | a | b |\n| --- | --- | --- | --- |\n"
    page += "| x | one | 0.50 (0.25 to 0.75) | 0.75 |\n| z | one | 1 | 2 |\n"
    (said,) = objections(f"<!-- measured: by whom\n{block}<!-- /measured -->", page)
    assert objection in said
    right = "## A\n0.5 = x / a\n0.75 = x / a #3\n0.2: a setting\n0.5 = mass #2\n0.25 = mass\n"
    text = "5 of 0.5 and 0.75 at 0.2, mass 0.5 or 0.25"
    assert objections(f"<!-- measured\n{right}-->{text}<!-- /measured -->", page) == []


def test_a_comment_that_says_nothing_is_refused() -> None:
    for line in ("trained / accuracy", "= x / a"):
        with pytest.raises(ValueError, match="neither a heading nor a number"):
            objections(f"<!-- measured\n{line}\n--><!-- /measured -->", PAGE)


@pytest.mark.parametrize(
    ("said", "measured", "right"),
    [
        ("0.13", "0.1295", True),
        ("0.12", "0.1295", False),
        (".35", "0.35", True),
        ("8.3e3", "8,320", True),
        ("8.4e3", "8,320", False),
        ("−0.84", "-0.84", True),  # noqa: RUF001
        ("0.84", "-0.84", False),
        ("0.999", "1.00", False),  # more digits than were written down
    ],
)
def test_a_number_agrees_if_it_is_the_rounded_one(said: str, measured: str, right: bool) -> None:
    assert agree(said, measured) == right
