"""Specs that hang, overflow or pretend: refused in one short line, or read in seconds."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from bad_input import ACCEPTED, REFUSED, at_most, call, command
from test_malformed_specs import SOUND, TRAIN

from data_gen import build_dataset, parse_spec, read_spec
from data_gen.manifest import dataset_card
from data_gen.patterns import INFORMATIVE, Element, Pattern
from data_gen.proofs import Reader, Work, common_sentence
from data_gen.quoting import quoted
from data_gen.reader.soundness import pairs_that_may_meet

THINGS = '["house", "tree"]'
FILLERS = 'fillers = { slots = ["THING"], sentences = 1000 }'


def things(words: list[str]) -> str:
    """The sound spec with other words for things."""
    return SOUND.replace(THINGS, json.dumps(words, ensure_ascii=False), 1)


def patterns(templates: list[str]) -> str:
    """The sound spec with other patterns in its training split."""
    names = [f"p{i}" for i in range(len(templates))]
    table = "".join(f'{name} = "{text}"\n' for name, text in zip(names, templates, strict=True))
    text = SOUND.replace("[patterns]\n", f"[patterns]\n{table}")
    return text.replace('["plain", "weather"]', json.dumps(names), 1)


def changed(old: str, new: str) -> str:
    assert old in SOUND
    return SOUND.replace(old, new, 1)


def about(key: str, value: str) -> str:
    return f"{key} = {value}\n{SOUND}"


MANY_SPLITS = "".join(f"[splits.s{i}]\nx = 1\n" for i in range(2000))
MANY_LABELS = "[polarity]\n" + "".join(f'l{i} = ["w{i}"]\n' for i in range(2000))

# what is wrong: the text of the spec, what the line must name
HOSTILE: dict[str, tuple[str | bytes, list[str]]] = {
    # too much work
    "10^4 patterns": (
        patterns([f"the w{i} is {{KEY}}" for i in range(10_000)]),
        ["10 001 patterns", "1 200 000 steps"],
    ),
    "3000 patterns that begin with a slot": (
        patterns([f"{{THING}} w{i} is {{KEY}}" for i in range(3_000)]),
        ["3 001 patterns", "limit"],
    ),
    "a very long pattern": (patterns(["w " * 6000 + "{KEY}"]), ["patterns.p0", "5 000"]),
    "an endless pattern": (patterns(["w " * 100_000 + "{KEY}"]), ["patterns.p0", "100 000"]),
    "60 000 words with a duplicate": (things([f"w{i}" for i in range(60_000)] + ["w7"]), ["'w7'"]),
    "a dotted key": ("a." * 100_000 + "b = 1\n", ["20 parts"]),
    "a dotted key in quotes": ('"a".' * 100_000 + "b = 1\n", ["20 parts"]),
    "a dotted key with spaces": ("a . " * 100_000 + "b = 1\n", ["20 parts"]),
    "a dotted table": ("[" + "a." * 100_000 + "b]\n", ["20 parts"]),
    "a dotted table of tables": ("[[" + "a." * 100_000 + "b]]\n", ["20 parts"]),
    "nested tables": ("a = " + "{a = " * 3000, ["nested too deeply"]),
    "too large": ("# " + "x" * 2_000_001, ["2 000 003 bytes", "limit of 2 000 000"]),
    "quotes without end": ('x = "' + '\\"' * 200_000, ["not valid TOML"]),
    "a name without end": ("a" * 400_000, ["not valid TOML"]),
    "2000 splits": (SOUND + MANY_SPLITS, ["splits", "2 002 entries", "1 000"]),
    "2000 labels": (changed("[polarity]", MANY_LABELS), ["polarity", "2 002", "1 000"]),
    "fillers for many patterns": (
        patterns([f"w{i} {{KEY}}." for i in range(1000)]).replace(TRAIN, f"{TRAIN}\n{FILLERS}", 1),
        ["splits.train.fillers", "2 000 000"],
    ),
    "a huge sample": (changed(TRAIN, f"{TRAIN}\nsample = 4000000000"), ["at most 10 000 000"]),
    "a sample of 4000 digits": (changed(TRAIN, f"{TRAIN}\nsample = {'4' * 4000}"), ["digits"]),
    "a sample of 5000 digits": (changed(TRAIN, f"{TRAIN}\nsample = {'4' * 5000}"), ["TOML"]),
    "a sample in hexadecimal": (changed(TRAIN, f"{TRAIN}\nsample = 0x{'f' * 9000}"), ["digits"]),
    # long values
    "a word of 10^6 letters": (things(["a" * 1_000_000]), ["1 000 000 characters"]),
    "a long word twice": (things(["a" * 9000] * 2), ["'aaaa", "8 940 more characters", "twice"]),
    "a long list": (about("name", "[" + "1," * 100_000 + "]"), ["name", "must be a string"]),
    "a long unknown slot": (changed("{THING} is", f"{{{'T' * 9000}}} is"), ["unknown slot"]),
    "many unknown names": (changed("{THING} is", "{N} is") + "".join(
        f'[slots.S{i}]\ntraining = ["a"]\n' for i in range(3000)
    ), ["unknown slot 'N'", "more"]),
    "a long key": (about("k" * 9000, "1"), ["name", "'kkk", "100 bytes"]),
    "a long name of a split": (SOUND.replace("splits.test", f"splits.{'s' * 300}"), ["100 bytes"]),
    "a long name in German": (SOUND.replace("test]", '"' + "\u00e4" * 60 + '"]'), ["100 bytes"]),
    "a long label": (changed("negative =", f"{'n' * 300} ="), ["polarity", "100 bytes"]),
    "a long name of a pattern": (changed("plain =", f"{'p' * 300} ="), ["patterns", "100 bytes"]),
    "many words out of balance": (
        changed('["good", "bad"]', '["good"]').replace('"fine"]', '"fine", "x"]', 1),
        ["not balanced"],
    ),
    # special tokens
    **{
        f"{token} as a word": (things(["house", token]), ["slots.THING", token, "special token"])
        for token in ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]")
    },
    "[UNK] within a word": (things(["ho[UNK]use"]), ["[UNK]", "special token"]),
    "[SEP] in a phrase": (things(["old [SEP] house"]), ["[SEP]"]),
    "[MASK] in a pattern": (changed("the {THING} is", "the [MASK] is"), ["patterns.plain"]),
    "[PAD] as an informative word": (SOUND.replace("ugly", "[PAD]"), ["polarity.negative"]),
    "[UNK] of an entry and its mark": (
        things(["house", "x[UNK"]).replace("{THING} is", "{THING}] is"),
        ["slots.THING.training", "[UNK]"],
    ),
    # signs that cannot be seen
    "a NUL": (things(["ho\0use"]), ["slots.THING", "\\x00"]),
    "an escape code": (things(["\x1b[31mred"]), ["\\x1b"]),
    "a bidirectional override": (things(["\u202ehouse"]), ["\\u202e"]),
    "a zero-width space": (things(["ho\u200buse"]), ["\\u200b"]),
    "a soft hyphen": (things(["ho\u00aduse"]), ["\\xad"]),
    "a byte order mark within": (things(["\ufeffhouse"]), ["\\ufeff"]),
    "letters of two characters": (things(["cafe\u0301", "caf\u00e9"]), ["NFC"]),
    "a no-break space": (things(["old\u00a0house"]), ["single ordinary spaces"]),
    "a line separator": (things(["old\u2028house"]), ["single ordinary spaces"]),
    "a NUL in the name": (about("name", '"a\\u0000b"'), ["name", "\\x00"]),
    "a key of control characters": (about('"\\u001b[2J"', "1"), ["printable"]),
    "a slot with a newline": (changed("[slots.THING]", '[slots."TH\\nING"]'), ["printable"]),
    # carriage returns
    "carriage returns only": (SOUND.replace("\n", "\r"), ["carriage return"]),
    "one carriage return": (changed("[patterns]\n", "[patterns]\r"), ["carriage return"]),
    "a comment that goes on": ("# mine\rname = 'x'\n" + SOUND, ["carriage return"]),
    # files that are not UTF-8 text
    "UTF-16": (SOUND.encode("utf-16"), ["not UTF-8"]),
    "UTF-16 without a mark": (SOUND.encode("utf-16-le"), ["not valid TOML"]),
    "bytes": (bytes(range(256)) * 40, ["not UTF-8"]),
    "nothing but NUL": (b"\0" * 4000, ["not valid TOML"]),
    "an empty file": ("", ["table is empty"]),
    # names that become files
    "a split outside of the folder": (SOUND.replace("splits.test", 'splits."../x"'), ["letters"]),
    "a split with a slash": (SOUND.replace("splits.test", 'splits."a/b"'), ["letters"]),
    "a split with a backslash": (SOUND.replace("splits.test", "splits.'a\\b'"), ["letters"]),
    "a split of dots": (SOUND.replace("splits.test", 'splits.".."'), ["letters"]),
    "a split without a name": (SOUND.replace("splits.test", 'splits.""'), ["letters"]),
    "a device of Windows": (SOUND.replace("splits.test", "splits.CON"), ["'CON'", "reserved"]),
    "another device": (SOUND.replace("splits.test", "splits.lpt9"), ["'lpt9'", "reserved"]),
    "splits that differ in case": (SOUND.replace("splits.test", "splits.Train"), ["only in case"]),
    "all in capitals": (SOUND.replace("splits.test", "splits.ALL"), ["reserved"]),
    # values of a wrong type
    **{
        f"{key} = {value}": (about(key, value), [key, "must be a string"])
        for key, value in {
            "name": "1979-05-27",
            "license": "inf",
            "language": "nan",
            "source": "07:32:00",
            "description": "[[]]",
        }.items()
    },
    "a date for words": (changed(THINGS, "1979-05-27T07:32:00Z"), ["list of strings"]),
    "infinity among words": (changed(THINGS, '["house", inf]'), ["list of strings"]),
    "lists in lists": (changed(THINGS, '[["house"]]'), ["list of strings"]),
    "a role that is a list": (changed('"distractor"', '["distractor"]'), ["slots.SKY.role"]),
    "a role that is a table": (changed('"distractor"', "{ a = 1 }"), ["slots.SKY.role"]),
    "a sample of infinity": (changed(TRAIN, f"{TRAIN}\nsample = inf"), ["whole number"]),
    "words that are a date": (changed(TRAIN, "words = 1979-05-27"), ["splits.train.words"]),
    "slots in an array": (changed("[slots.THING]", "[[slots.THING]]"), ["slots.THING", "table"]),
    "__proto__": (about("__proto__", "{ name = 1 }"), ["unknown key '__proto__'"]),
    "__class__ as a slot": (changed("{THING} is", "{__class__} is"), ["unknown slot"]),
    "format codes": (changed("{THING} is", "{0.__class__} is"), ["punctuation"]),
    "a slot that no list fills": (changed("[slots.THING]", "[slots.THING]\nx = 3"), ["THING.x"]),
    "a pattern of nothing": (changed('"the {THING} is {KEY}"', '""'), ["patterns.plain", "none"]),
    "a vocabulary of nothing": (changed(TRAIN, 'words = ""'), ["vocabulary of slot", "''"]),
    "half a table": (SOUND + "[splits.", ["not valid TOML"]),
    "a spec in JSON": ('{"polarity": {}}', ["not valid TOML"]),
    "a spec in YAML": ("polarity:\n  good: [a]\n", ["not valid TOML"]),
    "only comments": ("# none\n" * 1000, ["table is empty"]),
    "the same table twice": (SOUND + "[patterns]\n", ["not valid TOML"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_spec_is_refused_in_one_line(name: str, folder: Path) -> None:
    content, named = HOSTILE[name]
    path = folder / "hostile.toml"
    path.write_bytes(content if isinstance(content, bytes) else escaped(content).encode())
    ended = call(lambda: read_spec(path), within=folder)
    assert ended.outcome == REFUSED, ended
    for part in ["hostile.toml", *named]:
        assert part in ended.said


def escaped(text: str) -> str:
    """TOML has no control characters as such: those of words are written as escapes."""
    return "".join(f"\\u{ord(c):04x}" if c in "\0\x1b" else c for c in text)


def test_the_command_refuses_and_writes_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.toml")
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    (tmp_path / "hostile.toml").write_text(SOUND.replace("ugly", "[PAD]"))
    names = "fifo.toml folder.toml loop.toml hostile.toml no.toml".split()
    for spec in [*(tmp_path / name for name in names), "/dev/zero", "a" * 5000, "a\nb", ""]:
        arguments = ["--spec", spec, "--output", tmp_path / "out"]
        ended = command("generate-data", arguments, within=tmp_path, seconds=3)
        assert ended.outcome == REFUSED, (spec, ended)


FAST = {
    "2000 patterns": patterns([f"w{i} the {{THING}} is {{KEY}}" for i in range(2_000)]),
    "5000 words with a common first word": things([f"the w{i}" for i in range(5000)]),
    "twice": things([f"the w{i}" for i in range(5000)]).replace("{THING} is", "{THING} {THING} is"),
    "60 000 words": things([f"w{i}" for i in range(60_000)]),
    "a long pattern": patterns(["w " * 4000 + "{KEY}"]),
    "a slot that is always empty, often": patterns(["{NO} " * 4000 + "{KEY}"])
    + '[slots.NO]\ntraining = [""]\n',
    "Windows": SOUND.replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + SOUND,
    "joiners, which belong to words": things(
        ["\u0645\u06cc\u200c\u062e", "\U0001f469\u200d\U0001f680"]
    ),
    "many dots in a string": about("source", f'"{"a.b. c. " * 100}"'),
}


@pytest.mark.parametrize("name", FAST)
def test_a_large_or_odd_but_sound_spec_is_read_in_seconds(name: str, tmp_path: Path) -> None:
    path = tmp_path / "fast.toml"
    path.write_bytes(FAST[name].encode())
    ended = call(lambda: read_spec(path), within=tmp_path, seconds=8)
    assert ended.outcome == ACCEPTED, ended


def test_long_sentences_are_refused_before_they_are_built(tmp_path: Path) -> None:
    spec = parse_spec_text(patterns(["w " * 4000 + "{NUMBER} {NUMBER} {KEY}"]) + NUMBERS)
    ended = call(lambda: build_dataset(spec), within=tmp_path, seconds=2)
    assert ended.outcome == REFUSED, ended
    assert "characters" in ended.said


NUMBERS = f"[slots.NUMBER]\ntraining = {json.dumps([f'w{i}' for i in range(600)])}\n"


def parse_spec_text(text: str) -> Any:
    import tomllib

    return parse_spec(tomllib.loads(text))


@pytest.mark.parametrize(
    "table",
    [{1: 2}, {}, [], None, {"polarity": {1: ["a"]}, "slots": 1, "patterns": 1, "splits": 1},
     {"polarity": {"a": ["\ud800"], "b": ["x"]}, "slots": 1, "patterns": 1, "splits": 1}],
)  # fmt: skip
def test_odd_dictionaries_are_refused(table: Any, tmp_path: Path) -> None:
    assert call(lambda: parse_spec(table), within=tmp_path).outcome == REFUSED


ODD_TEXTS = [
    *("a: b", "!!python/object:os.system", "&a *a", "---\n---", "# x", "{a: [", "no", "'\"", "1e3"),
    *("\u2028\u202e", "a | b", "<script>", "@x", "%YAML", "null", "\u00e9\n\n\u00fc", "x " * 99),
]


@pytest.mark.parametrize("odd", ODD_TEXTS)
def test_a_card_says_what_the_spec_says(odd: str) -> None:
    texts = dict.fromkeys(("name", "license", "language", "description", "source"), odd)
    spec = parse_spec({**TABLE, **texts})
    numbers = {"rows": 1, "distinct": 1, "unknown_share": 0.0, "isolates": odd}
    card = dataset_card(spec, {"splits": {"train": numbers}}, {"train": "data/train.parquet"})
    _, header, body = card.split("---\n", 2)
    metadata = yaml.safe_load(header)
    line = " ".join(odd.split())
    assert metadata["pretty_name"] == metadata["license"] == line
    assert metadata["language"] == [line]
    assert metadata["dataset_info"]["features"][1]["dtype"]["class_label"]["names"]["0"] == "no"
    lines = body.splitlines()
    assert lines[0].startswith("# ")
    assert "<script" not in body
    assert sum(line.startswith("---") for line in lines) == 0
    (row,) = (line for line in lines if line.startswith("| train |"))
    assert row.count("|") == 6


TABLE: dict[str, Any] = {
    "polarity": {"no": ["bad"], "yes": ["good"]},
    "slots": {"KEY": {"role": "informative", "training": ["bad", "good"]}},
    "patterns": {"p": "so {KEY}"},
    "splits": {"train": {"patterns": ["p"], "words": "training"}},
}


def pattern(*choices: str) -> Pattern:
    words = [Element(tuple(tuple(entry.split()) for entry in each.split("/"))) for each in choices]
    key = Element((("good",), ("bad",)), INFORMATIVE, (0, 1))
    return Pattern("p", (*words, key))


def test_all_pairs_that_share_a_sentence_are_compared() -> None:
    """The pairs that are left out share no sentence, by comparing every pair."""
    starts = ["a", "b", "a/b", "a x/b y", "/a", "c d", "c/", "x/y z/"]
    readers = [Reader(pattern(one, other)) for one in starts for other in starts]
    met = set(pairs_that_may_meet([reader.first_words() for reader in readers], Work()))
    n, shared = len(readers), 0
    for i in range(n):
        for j in range(i + 1, n):
            if common_sentence(readers[i], readers[j], Work()) is not None:
                shared += 1
                assert (i, j) in met
    assert 0 < shared < len(met) < n * (n - 1) / 2, "the control: some are shared, some left out"


def test_values_are_quoted_by_their_start() -> None:
    cases: list[tuple[Any, str]] = [
        ("a" * 70, "'" + "a" * 60 + "...' and 10 more characters"),
        ("nice", "'nice'"),
        (10**5000, "a number of 5 001 digits"),
        ([10**5000], "a list"),
        ([1, 2], "[1, 2]"),
    ]
    for value, text in cases:
        assert quoted(value) == text


@pytest.mark.parametrize(
    "make",
    [lambda: "\U000e0001" * 10_000, lambda: [[[[[[[[[[0]]]]]]]]]] * 1000, lambda: {"a" * 999: "b"}],
)
def test_quoted_values_are_short_and_printable(make: Callable[[], Any]) -> None:
    with at_most(1):
        text = quoted(make())
    assert len(text) < 170
    assert text.isprintable()
