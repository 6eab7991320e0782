"""Files of sentences that are damaged, contradictory or too large: refused in one short line."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from bad_input import ACCEPTED, REFUSED, call
from test_malformed_specs import SOUND

from data_gen import own_dataset, read_data, read_texts
from studies.making import make
from studies.practice import dataset as dataset_study
from studies.settings import key_of
from studies.subject import Subject

WORDS = {"good": ("tasty", "fresh"), "bad": ("stale", "burnt")}
ROWS: list[dict[str, Any]] = [
    {"text": f"The {dish} was {word} today", "label": label, "word": word}
    for label, words in WORDS.items()
    for word in words
    for dish in ("soup", "bread", "curry", "rice", "cake", "tea", "pie", "jam")
]
FIRST = ROWS[0]
INFINITE, NAN = float("inf"), float("nan")
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]


def placed(start: Any, end: Any) -> dict[str, Any]:
    """The first row with start and end instead of the word."""
    return {"text": FIRST["text"], "label": "good", "start": start, "end": end}


# what is wrong: the values of the first row that differ, what the line must name
VALUES: dict[str, tuple[dict[str, Any], str]] = {
    "a label that is a list": ({"label": ["good"]}, "label must be a string or a number"),
    "a label that is a dictionary": ({"label": {"a": 1}}, "label must be a string or a number"),
    "a label that is NaN": ({"label": NAN}, "label is nan"),
    "a label that is infinite": ({"label": -INFINITE}, "label is -inf"),
    "a label that is missing": ({"label": None}, "sentence 1: the label is empty"),
    "a label that is empty": ({"label": ""}, "sentence 1: the label is empty"),
    "a label of spaces": ({"label": "  "}, "the label is empty"),
    "a label with a space": ({"label": "good "}, "'good '"),
    "a label with a newline": ({"label": "go\nod"}, "odd spaces or signs"),
    "a label in other case": ({"label": "Good"}, "differ only in case"),
    "labels of two types": ({"label": 1}, "two types"),
    "a label that is a flag": ({"label": True}, "two types"),
    "a label of bytes": ({"label": b"good"}, "label must be"),
    "a label of 5000 digits": ({"label": 10**5000}, "5 001 digits"),
    "a label of a novel": ({"label": "good " * 99_999 + "x"}, "characters; at most 100"),
    "a nested label": ({"label": DEEP}, "label must be"),
    "half a span": ({"start": 3}, "no 'end'"),
    "a span at 3.7": (placed(3.7, 9), "start is 3.7"),
    "a span to 9.5": (placed(3, 9.5), "end is 9.5"),
    "an infinite span": (placed(0, INFINITE), "end is inf"),
    "a span of NaN": (placed(NAN, 5), "start is nan"),
    "a span of lists": (placed([3], [9]), "start is [3]"),
    "a span of a dictionary": (placed({"a": 1}, 9), "whole numbers"),
    "a span of flags": (placed(False, True), "start is False"),
    "a span of words": (placed("three", "nine"), "start is 'three'"),
    "a span with underscores": (placed("1_3", "1_8"), "'1_3'"),
    "a span in Arabic digits": (placed("٣", "٩"), "whole numbers"),
    "a negative span": (placed(-5, -1), "start is -5"),
    "a span of 5000 digits": (placed(0, 10**5000), "5 001 digits"),
    "a span beyond the text": (placed(13, 999), "must enclose a word"),
    "an empty span": (placed(13, 13), "must enclose a word"),
    "a span backwards": (placed(18, 13), "must enclose a word"),
    "a span from one word into the next": (placed(10, 15), "cuts a word in two"),
    "a span with a space": (placed(12, 18), "must enclose a word"),
    "a span of another word": ({"start": 4, "end": 8}, "enclose 'soup', but the word is 'tasty'"),
    "a text that is a number": ({"text": 5}, "text must be a string, not 5"),
    "a text that is a list": ({"text": ["tasty"]}, "text must be a string"),
    "a text of spaces": ({"text": "   "}, "the text is empty"),
    "a text that is missing": ({"text": None}, "the text is empty"),
    "a text with two spaces": ({"text": "so  tasty"}, "single spaces"),
    "a text with a tab": ({"text": "so\ttasty"}, "single spaces"),
    "a text that begins with a space": ({"text": " so tasty"}, "single spaces"),
    "a text with a NUL": ({"text": "so tasty\0"}, "NUL"),
    "half a character": ({"text": "so tasty \ud800"}, "half a character"),
    "a text without end": ({"text": "so tasty" + "a" * 1_000_000}, "at most 1 000 000"),
    "a word that is a number": ({"word": 5}, "word must be a string, not 5"),
    "a word that is a list": ({"word": ["tasty"]}, "word must be a string"),
    "a word of 10^5 letters": ({"word": "a" * 100_000}, "at most 100"),
    "a word that is elsewhere": ({"word": "purple"}, "'purple' is not in"),
    "a word in another form": ({"text": "caf\u00e9 so", "word": "cafe\u0301"}, "NFC"),
    "a split that is a list": ({"split": ["train"]}, "split must be a string"),
    "a pattern that is a list": ({"pattern": ["a"]}, "pattern must be a string"),
    **{
        f"{token} in a text": ({"text": f"so {token} tasty"}, token)
        for token in ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]")
    },
}
SPLITS = {
    "a split outside of the folder": ("../x", "'../x'"),
    "a split with a space": ("my test", "letters"),
    "a split in other case": ("Train", "only in case"),
    "a split of a novel": ("s" * 300, "at most 100"),
    "a split with a newline": ("a\nb", "letters"),
}
HEADER = "text,label,word\n"
BODY = "".join(f"{row['text']},{row['label']},{row['word']}\n" for row in ROWS)
NO_LABEL = "sentence 33: the label is empty"
LONG_KEY = '"' + "k" * 9999 + '": 1'
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)

# what is wrong: the name of the file, its content, what the line must name
FILES: dict[str, tuple[str, str | bytes, str]] = {
    "semicolons": ("a.csv", (HEADER + BODY).replace(",", ";"), "separated by ';'; save it with"),
    "tabs": ("a.csv", (HEADER + BODY).replace(",", "\t"), "separated by tabs"),
    "bars": ("a.csv", (HEADER + BODY).replace(",", "|"), "separated by '|'"),
    "an empty label": ("a.csv", HEADER + BODY + "so it is,,so\n", NO_LABEL),
    "a cell too few": ("a.csv", HEADER + BODY + "so it is\n", NO_LABEL),
    "a cell too many": ("a.csv", HEADER + "a, b,good,a\n", "more cells"),
    "a header only": ("a.csv", HEADER, "no sentences"),
    "no header": ("a.csv", BODY, "no column 'text'; its first line names"),
    "nothing": ("a.csv", "", "no sentences"),
    "blank lines": ("a.csv", "\n\n\n", "no sentences"),
    "a column twice": ("a.csv", "text,label,label,word\n" + BODY, "two columns 'label'"),
    "a column with a space": ("a.csv", "text, label, word\n" + BODY, "' label'"),
    "columns in capitals": ("a.csv", HEADER.upper() + BODY, "no column 'text'"),
    "10^4 columns": ("a.csv", ",".join(f"c{i}" for i in range(3_000)), "and 2 992 more"),
    "no label": ("a.csv", "text,word\nso fine,fine\n", "no 'label'; its columns are text, word"),
    "a cell above the limit": ("a.csv", HEADER + "x" * 200_000 + ",a,x\n", "field larger than"),
    "a quote without end": ("a.csv", HEADER + BODY + '"so it is,good,so\n', "quotes"),
    "a quote that ends early": ("a.csv", HEADER + BODY + '"so" it is,good,so\n', "quotes"),
    "NUL": ("a.csv", HEADER + "so\0fine,good,fine\n", "NUL"),
    "UTF-16": ("a.csv", (HEADER + BODY).encode("utf-16"), "not UTF-8"),
    "UTF-16 without a mark": ("a.csv", (HEADER + BODY).encode("utf-16-le"), "NUL"),
    "latin-1": ("a.csv", (HEADER + "so déjà,good,so\n").encode("latin-1"), "not UTF-8"),
    "a picture": ("a.csv", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "not UTF-8"),
    "a label per sentence": (
        "a.csv",
        HEADER + "".join(f"so w{i},because of {i},w{i}\n" for i in range(5_000)),
        "5 000 labels in 5 000 sentences: is the column 'label' free text",
    ),
    "one sentence of a label": ("a.csv", HEADER + BODY + "so it is,fair,so\n", "'fair' has one"),
    "one label": ("a.csv", HEADER + BODY.replace("bad", "good"), "at least two labels"),
    "nested too deeply": ("a.jsonl", '{"text": ' + "[" * 100_000, "nested too deeply"),
    "a number of 5000 digits": ("a.jsonl", f'{{"label": {"9" * 5000}}}', "digits"),
    "a key twice": ("a.jsonl", '{"text": "a", "text": "b"}', "the key 'text' is there twice"),
    "a long key twice": ("a.jsonl", f"{{{LONG_KEY}, {LONG_KEY}}}", "characters is there twice"),
    "a list": ("a.jsonl", "[1, 2]\n", "must be an object"),
    "a whole file as one list": ("a.jsonl", json.dumps(ROWS, indent=1), "line 1"),
    "text that is not JSON": ("a.jsonl", "text: so\n", "line 1 is not JSON"),
    "half a line": ("a.jsonl", LINES + '{"text": ', "line 33 is not JSON"),
    "single quotes": ("a.jsonl", str(FIRST) + "\n", "line 1 is not JSON"),
    "a raw control character": ("a.jsonl", '{"text": "a\x1cb"}\n', "control character"),
    "NaN as a label": ("a.jsonl", '{"text": "so", "label": NaN, "word": "so"}', "label is nan"),
    "a span in JSON": ("a.jsonl", LINES + json.dumps(placed(0, INFINITE)), "end is inf"),
    "null": ("a.jsonl", "null\n", "must be an object"),
    "another kind": ("a.xlsx", b"PK\x03\x04", "must be a CSV"),
    "no kind": ("sentences", "so it is", "must be a CSV"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.mark.parametrize("name", VALUES)
def test_a_bad_value_is_refused_in_one_line(name: str, folder: Path) -> None:
    change, named = VALUES[name]
    first = change if "start" in change and "text" in change else FIRST | change
    ended = call(lambda: own_dataset([first, *ROWS[1:]], "mine"), within=folder)
    assert ended.outcome == REFUSED, ended
    assert ended.said.startswith("mine")
    assert named in ended.said


@pytest.mark.parametrize("name", SPLITS)
def test_a_bad_split_is_refused_in_one_line(name: str, folder: Path) -> None:
    split, named = SPLITS[name]
    rows = [row | {"split": "train"} for row in ROWS]
    ended = call(lambda: own_dataset([ROWS[0] | {"split": split}, *rows]), within=folder)
    assert ended.outcome == REFUSED, ended
    assert named in ended.said


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_refused_in_one_line(name: str, folder: Path) -> None:
    file, content, named = FILES[name]
    path = folder / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    ended = call(lambda: read_data(path), within=folder)
    assert ended.outcome == REFUSED, ended
    assert file in ended.said
    assert named in ended.said


def test_what_is_not_a_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.csv")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder.csv").mkdir()
    names = "fifo.csv fifo folder.csv no.csv".split()
    paths = [str(tmp_path / name) for name in names]
    for data in [*paths, "/dev/zero", "a" * 5000 + ".csv", "a\0.csv"]:
        ended = call(lambda data=data: read_data(data), within=tmp_path, seconds=2)  # type: ignore[misc]
        assert ended.outcome == REFUSED, (data, ended)
        keyed = call(lambda data=data: key_of("data", data), within=tmp_path, seconds=2)  # type: ignore[misc]
        assert keyed.outcome in (REFUSED, ACCEPTED), "before it is read, its hash is asked for"


@pytest.mark.parametrize("rows", [[], [3], ["text"], [None], [[1]], [FIRST, 3]])
def test_rows_that_are_not_sentences_are_refused(rows: Any, folder: Path) -> None:
    assert call(lambda: own_dataset(rows), within=folder).outcome == REFUSED


def test_texts_for_a_probe_are_as_strict(folder: Path) -> None:
    os.mkfifo(folder / "fifo.txt")
    for name, content in {
        "blank.txt": "\n \n",
        "mask.txt": "so [MASK] it is\n",
        "nul.txt": "so\0",
        "tabs.csv": "id\ttext\n1\tso\n",
        "list.jsonl": '{"text": ["so"]}',
        "label.jsonl": '{"text": "so", "label": [1]}',
        "text.pdf": "so",
    }.items():
        (folder / name).write_text(content)
        ended = call(lambda name=name: read_texts(folder / name), within=folder)  # type: ignore[misc]
        assert ended.outcome == REFUSED, (name, ended)
    assert call(lambda: read_texts(folder / "fifo.txt"), within=folder).outcome == REFUSED


# ---- what looks odd and is sound


def test_separators_of_lines_may_stand_within_a_text(tmp_path: Path) -> None:
    texts = ["so\u2028it is tasty", "so\u0085it is tasty", "so \u3000it is tasty"]
    rows = [FIRST | {"text": text} for text in texts]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\r\n" for row in [*rows, *ROWS])
    (tmp_path / "a.jsonl").write_bytes(lines.encode())
    ended = call(lambda: read_data(tmp_path / "a.jsonl"), within=tmp_path)
    assert ended.outcome == ACCEPTED, ended
    read = [row for split in ended.value.values() for row in split]
    assert set(texts) < {row["text"] for row in read}
    for row in read:
        assert row["words"] == row["text"].split(" ")
        assert row["words"][row["location"]] == row["text"][slice(*row["span"])] == row["words"][
            -1
        ] or (row["text"] not in texts)
    (tmp_path / "a.txt").write_bytes("so\u2028it is\nnext\rlast\r\n".encode())
    assert read_texts(tmp_path / "a.txt")["text"] == ["so\u2028it is", "next", "last"]


@pytest.mark.parametrize(
    ("start", "end"), [(13, 18), (13.0, 18.0), ("13", " 18 "), (np.int64(13), np.int32(18))]
)
def test_whole_numbers_of_any_type_are_a_span(start: Any, end: Any) -> None:
    data = own_dataset([placed(start, end), *ROWS])
    assert [13, 18] in [list(span) for split in data.values() for span in split["span"]]


def test_numbers_and_flags_are_labels() -> None:
    for good, bad in [(1, 0), (True, False), (1.5, 2.5), (np.int64(3), np.int64(4))]:
        rows = [row | {"label": good if row["label"] == "good" else bad} for row in ROWS]
        names = own_dataset(rows)["train"].features["label"].names
        assert names == sorted([str(good), str(bad)])


# ---- what is held out


def test_a_balanced_file_has_balanced_splits_and_says_what_was_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = own_dataset(ROWS)
    assert {name: Counter(split["label"][:]) for name, split in data.items()} == {
        "train": {0: 13, 1: 13},
        "test": {0: 3, 1: 3},
    }
    pd.DataFrame(ROWS).to_csv(tmp_path / "a.csv", index=False)
    Subject(data=str(tmp_path / "a.csv")).read_data()
    printed = capsys.readouterr().out.splitlines()
    assert "a fifth of the sentences of each label" in printed[1]
    assert printed[1].endswith("6 of 32 sentences")
    own_dataset([row | {"split": "train"} for row in ROWS])
    named = own_dataset([row | {"split": "train"} for row in ROWS])
    assert named["train"].info.description == "", "the control: nothing was split"


def test_every_label_is_in_both_splits_whatever_its_words() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        n_labels, n_words = rng.integers(2, 6), rng.integers(1, 12)
        rows = []
        for label in range(n_labels):
            for i in range(rng.integers(2, 30)):
                word = f"w{rng.integers(n_words)}"  # the same words carry several labels
                rows.append(
                    {"text": f"number {label} {i} x{word}", "label": label, "word": "x" + word}
                )
        data = own_dataset(rows)
        for split in data.values():
            assert set(split["label"][:]) == set(range(n_labels))


def test_words_are_held_out_and_counted() -> None:
    rows = [
        {"text": f"The {dish} was w{i}", "label": i % 2, "word": f"w{i}"}
        for i in range(20)
        for dish in ("soup", "tea")
    ]
    note = own_dataset(rows)["test"].info.description
    assert note == "no column split: test has 4 of 20 informative words, 8 of 40 sentences"


# ---- a generated folder


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("generated")
    (folder / "sound.toml").write_text(SOUND)
    for kind in ("parquet", "jsonl"):
        spec = str(folder / "sound.toml")
        options: dict[str, Any] = {"spec": spec, "output": folder / kind, "format": kind}
        make(dataset_study.STUDY, dataset_study.Options(**options))
    return {kind: folder / kind for kind in ("parquet", "jsonl")}


def test_a_folder_that_cannot_be_read_names_its_file_and_the_command(
    generated: dict[str, Path],
) -> None:
    assert (
        call(lambda: read_data(generated["jsonl"]), within=generated["jsonl"]).outcome == ACCEPTED
    )
    folder = generated["parquet"]
    file = folder / "data" / "test-00000-of-00001.parquet"
    content, table = file.read_bytes(), pq.read_table(file)
    assert call(lambda: read_data(folder), within=folder).outcome == ACCEPTED, "the control"
    file.write_bytes(content[: len(content) // 2])  # a download that was cut off
    halved = call(lambda: read_data(folder), within=folder)
    pq.write_table(table.drop_columns(["label"]), file)
    without = call(lambda: read_data(folder), within=folder)
    file.write_bytes(content)
    for ended in (halved, without):
        assert ended.outcome == REFUSED, ended
        assert file.name in ended.said
        assert "generate_data.py --overwrite" in ended.said
