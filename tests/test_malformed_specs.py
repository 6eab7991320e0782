"""A spec that could not be a sound dataset is refused in one line, and nothing is written."""

from pathlib import Path

import pytest

from studies.command_line import run
from studies.making import make
from studies.practice import dataset

SOUND = """
[polarity]
negative = ["bad", "ugly"]
positive = ["good", "fine"]

[slots.THING]
training = ["house", "tree"]
held_out = ["boat"]

[slots.SKY]
role = "distractor"
training = ["blue", "grey"]
held_out = ["blue"]

[slots.KEY]
role = "informative"
training = ["good", "bad"]
held_out = ["fine", "ugly"]

[patterns]
plain = "the {THING} is {KEY}"
weather = "sky is {SKY} the {THING} is {KEY}"

[splits.train]
patterns = ["plain", "weather"]
words = "training"

[splits.test]
patterns = ["plain"]
words = { default = "held_out", KEY = "training" }
"""

OWN_LISTS = 'training = ["blue", "grey"]\nheld_out = ["blue"]'
TRAIN = 'words = "training"'

# (what is wrong, text to replace, its replacement, what the message must name)
MALFORMED = [
    ("not TOML", "[polarity]", "[polarity", ["not valid TOML", "line 2"]),
    ("no polarity table", "[polarity]", "[other]", ["polarity", "missing"]),
    ("a mistyped table", "[patterns]", "[pattern]\n[patterns]", ["'pattern'", "'patterns'?"]),
    ("one label only", 'negative = ["bad", "ugly"]', "", ["polarity", "two labels"]),
    ("two polarities", '["good", "fine"]', '["good", "fine", "bad"]', ["'bad'", "two polarities"]),
    ("no polarity", '["good", "fine"]', '["good"]', ["slots.KEY.held_out", "'fine'"]),
    ("an empty label", '["good", "fine"]', "[]", ["polarity.positive", "empty"]),
    ("an empty slot", '["house", "tree"]', "[]", ["slots.THING.training", "empty"]),
    (
        "a slot without words",
        'training = ["blue", "grey"]\nheld_out = ["blue"]',
        "",
        ["slots.SKY", "no words"],
    ),
    ("words that are no list", '["house", "tree"]', '"house"', ["slots.THING", "list of strings"]),
    ("words that are no strings", '["house", "tree"]', "[1, 2]", ["slots.THING", "[1, 2]"]),
    ("a word twice", '["house", "tree"]', '["tree", "tree"]', ["slots.THING", "'tree'", "twice"]),
    ("loose white space", '["house", "tree"]', '["tree "]', ["slots.THING", "'tree '"]),
    ("an unknown role", '"distractor"', '"noise"', ["slots.SKY.role", "'noise'"]),
    ("an informative phrase", '["fine", "ugly"]', '["so fine", "ugly"]', ["one word", "'so fine'"]),
    ("an empty informative word", '["fine", "ugly"]', '["", "ugly"]', ["slots.KEY", "one word"]),
    ("an unknown slot", "the {THING} is {KEY}", "the {THNG} is {KEY}", ["patterns.plain", "THNG"]),
    ("letters behind a slot", "the {THING} is", "the {THING}s is", ["'{THING}s'", "punctuation"]),
    ("a mark before a slot", "the {THING} is", "the ({THING} is", ["'({THING}'", "punctuation"]),
    ("two glued slots", "the {THING} is", "{THING}{THING} is", ["patterns.plain", "punctuation"]),
    ("an open slot", "the {THING} is", "the {THING is", ["patterns.plain", "punctuation"]),
    (
        "a mark behind nothing",
        '"sky is {SKY} the {THING} is {KEY}"',
        '"sky is {OPTIONAL}, the {THING} is {KEY}"\n[slots.OPTIONAL]\ntraining = ["", "grey"]',
        ["slots.OPTIONAL.training", "'{OPTIONAL},'", "alone"],
    ),
    ("like an unknown slot", OWN_LISTS, 'like = "THNG"', ["slots.SKY.like", "'THNG'", "'THING'?"]),
    ("like no slot", OWN_LISTS, "like = 3", ["slots.SKY.like", "string"]),
    ("like itself", OWN_LISTS, 'like = "SKY"', ["slots.SKY.like", "'SKY'"]),
    (
        "a cycle of likes",
        OWN_LISTS,
        'like = "OTHER"\n[slots.OTHER]\nlike = "SKY"',
        ["slots.SKY.like", "'OTHER'", "another slot"],
    ),
    (
        "a chain of likes",
        OWN_LISTS,
        'like = "OTHER"\n[slots.OTHER]\nlike = "THING"',
        ["slots.SKY.like", "'OTHER'", "another slot"],
    ),
    (
        "like words without a polarity",
        f'role = "distractor"\n{OWN_LISTS}',
        'role = "informative"\nlike = "THING"',
        ["slots.SKY.training", "'house'"],
    ),
    ("a negative sample", TRAIN, TRAIN + "\nsample = -4", ["train.sample", "whole number", "-4"]),
    ("half a sample", TRAIN, TRAIN + "\nsample = 4.0", ["train.sample", "whole number", "4.0"]),
    ("a sample in words", TRAIN, TRAIN + '\nsample = "4"', ["train.sample", "whole number"]),
    ("a sample that is a flag", TRAIN, TRAIN + "\nsample = true", ["train.sample", "whole number"]),
    (
        "a sample that is not balanced",  # two patterns with two words each
        TRAIN,
        TRAIN + "\nsample = 6",
        ["splits.train.sample", "multiple of 4", "per pattern and word", "not 6"],
    ),
    (
        "a sample larger than a pattern",  # two sentences with each word
        TRAIN,
        TRAIN + "\nsample = 12",
        ["splits.train.sample", "3 per pattern and word", "'plain' has only 2"],
    ),
    *(
        (f"fillers: {what}", TRAIN, f"{TRAIN}\nfillers = {value}", ["splits.train.fillers", *named])
        for what, value, named in [
            ("a number alone", "3", ["table", "3"]),
            ("no number", '{ slots = ["THING"] }', ["'sentences'", "missing"]),
            ("a mistyped key", '{ slot = ["THING"], sentences = 2 }', ["'slots'", "missing"]),
            ("none of them", '{ slots = ["THING"], sentences = 0 }', ["sentences", "1 to 1000"]),
            ("a flag", '{ slots = ["THING"], sentences = true }', ["sentences", "True"]),
            ("half a sentence", '{ slots = ["THING"], sentences = 2.5 }', ["sentences", "2.5"]),
            ("too many", '{ slots = ["THING"], sentences = 1001 }', ["sentences", "1001"]),
            ("no slots", "{ slots = [], sentences = 2 }", ["slots", "empty"]),
            ("an unknown slot", '{ slots = ["THNG"], sentences = 2 }', ["slots", "'THING'?"]),
            ("one that decides", '{ slots = ["KEY"], sentences = 2 }', ["'KEY'", "neutral"]),
            ("distractors", '{ slots = ["SKY"], sentences = 2 }', ["'SKY'", "neutral"]),
        ]
    ),
    (
        "fillers without words of the split",
        '"held_out", KEY = "training" }',
        '"held_out", KEY = "training" }\nfillers = { slots = ["NEW"], sentences = 2 }\n'
        '[slots.NEW]\ntraining = ["So it is."]',
        ["splits.test.words", "slot NEW", "'held_out'"],
    ),
    (
        "fillers behind nothing",
        '"sky is {SKY} the {THING} is {KEY}"',
        '"a {KEY} {OPTIONAL}"\n[slots.OPTIONAL]\ntraining = ["", "now"]\n[splits.long]\n'
        'patterns = ["weather"]\nwords = "training"\n'
        'fillers = { slots = ["THING"], sentences = 2 }',
        ["splits.long.fillers", "'weather'", "full stop"],
    ),
    (
        "fillers that make too many sentences",
        TRAIN,
        f'{TRAIN}\nsample = 8\nfillers = {{ slots = ["THING"], sentences = 70 }}',
        ["splits.train", "2^62"],
    ),
    (
        "fillers that can be taken for each other",
        TRAIN,
        f'{TRAIN}\nfillers = {{ slots = ["MAYBE"], sentences = 2 }}\n'
        '[slots.MAYBE]\ntraining = ["", "So it is."]',
        ["splits.train.patterns", "two ways", "So it is."],
    ),
    ("no informative slot", "{THING} is {KEY}", "{THING} is", ["patterns.plain", "has none"]),
    (
        "two informative slots",
        "the {THING} is {KEY}",
        "the {KEY} {THING} is {KEY}",
        ["patterns.plain", "KEY and KEY"],
    ),
    ("a pattern that is no string", '"the {THING} is {KEY}"', "3", ["patterns.plain", "string"]),
    ("an unknown pattern", '["plain", "weather"]', '["plain", "wether"]', ["train", "'wether'"]),
    ("no pattern", '["plain", "weather"]', "[]", ["splits.train.patterns", "empty"]),
    ("no training split", "[splits.train]", "[splits.learn]", ["splits", "named train"]),
    ("an odd split name", "[splits.test]", '[splits."my test"]', ["splits.my test", "letters"]),
    ("no words", 'words = "training"', "", ["splits.train", "'words'", "missing"]),
    ("an unknown vocabulary", 'words = "training"', 'words = "new"', ["slot THING", "'new'"]),
    ("a list of vocabularies", 'words = "training"', 'words = ["training"]', ["train.words"]),
    ("an extended train", 'words = "training"', 'words = "training"\nextended = true', ["always"]),
    ("a reserved split name", "[splits.test]", "[splits.all]", ["splits.all", "rename"]),
    ("a label of no letters", "negative = ", '"" = ', ["polarity.", "letters"]),
    ("deep nesting", "[polarity]", f"x = {'[' * 3000}\n[polarity]", ["nested too deeply"]),
    ("words of no slot", "KEY = ", "KEYS = ", ["splits.test.words", "'KEYS'"]),
    ("an unknown option", 'words = "training"', 'words = "training"\nx = 1', ["train", "'x'"]),
    (
        "a flag that is none",
        'words = "training"',
        'words = "training"\nextended = "yes"',
        ["splits.train.extended", "true or false"],
    ),
    (
        "an unbalanced split",
        '["good", "bad"]',
        '["good"]',
        ["splits.train", "not balanced", "good"],
    ),
    (
        "the slip of the released data",
        '["plain", "weather"]',
        '["plain", "plain"]',
        ["splits.train.patterns", "'plain' and 'plain'", "the house is bad"],
    ),
    (
        "two patterns that can say the same",
        '"sky is {SKY} the {THING} is {KEY}"',
        '"{OPTIONAL} the {THING} is {KEY}"\n[slots.OPTIONAL]\ntraining = ["", "look:"]',
        ["'plain' and 'weather'", "the house is bad"],
    ),
    (
        "a pattern that says the same twice",
        '"sky is {SKY} the {THING} is {KEY}"',
        '"sky {VERY} {VERY} {KEY}"\n[slots.VERY]\ntraining = ["", "very"]',
        ["'weather'", "sky very bad", "two ways"],
    ),
    (
        "a sentence in two splits",
        '"held_out", KEY = "training"',
        '"training", KEY = "training"',
        ["train (plain) and test (plain)", "the house is bad"],
    ),
    (
        "more sentences than a 64-bit index",
        '"sky is {SKY} the {THING} is {KEY}"',
        f'"{"{THING} " * 1100}{{KEY}}"',
        ["splits.train", "2^62"],
    ),
]


def refusal(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as stop:
        run("generate-data", arguments, prog="generate_data.py")
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_the_spec_without_a_fault_is_sound(tmp_path: Path) -> None:
    (tmp_path / "sound.toml").write_text(SOUND)
    output = tmp_path / "output"
    make(dataset.STUDY, dataset.Options(output=output, spec=str(tmp_path / "sound.toml")))
    assert (output / "data" / "train-00000-of-00001.parquet").is_file()


@pytest.mark.parametrize(
    ("replaced", "replacement", "named"),
    [case[1:] for case in MALFORMED],
    ids=[case[0] for case in MALFORMED],
)
def test_a_malformed_spec_gives_one_line_and_exit_code_2(
    replaced: str,
    replacement: str,
    named: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert replaced in SOUND
    spec = tmp_path / "broken.toml"
    spec.write_text(SOUND.replace(replaced, replacement, 1))
    output = tmp_path / "output"
    assert refusal(["--spec", str(spec), "--output", str(output)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    for part in ["error: ", "broken.toml", *named]:
        assert part in line
    assert list(tmp_path.iterdir()) == [spec], "nothing was written"


@pytest.mark.parametrize("spec", ["nowhere.toml", ".", "sentimnt"])
def test_a_spec_that_is_not_there_is_named(
    spec: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert refusal(["--spec", spec, "--output", str(tmp_path / "x")]) == 2
    assert "no such spec" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_spec_in_another_encoding_is_refused_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "latin.toml"
    spec.write_bytes(SOUND.replace("tree", "for\u00eat").encode("latin-1"))
    assert refusal(["--spec", str(spec), "--output", str(tmp_path / "x")]) == 2
    assert "not UTF-8" in capsys.readouterr().err
