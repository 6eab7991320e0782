"""One's own sentences: files with the informative word named, and what is wrong with them."""

import json
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest

from data_gen import read_data
from data_gen.dataset import DatasetError
from probing.sentences import informative_words
from studies.making import make
from studies.practice import dataset as dataset_study
from studies.practice import probes
from studies.settings import settings_of
from studies.storage.results import is_current

GOOD = ["tasty", "lovely", "crisp", "superb", "fine"]
BAD = ["stale", "awful", "soggy", "bland", "foul"]
ROWS = [
    {"text": f"The {dish} was {word}, they said", "label": label, "word": word}
    for label, words in (("good", GOOD), ("bad", BAD))
    for word in words
    for dish in ("soup", "bread", "curry")
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_file_becomes_a_dataset_with_the_usual_columns(tmp_path: Path, suffix: str) -> None:
    dataset = read_data(write(tmp_path / f"own{suffix}", ROWS))
    assert set(dataset) == {"train", "test"}
    assert sum(map(len, dataset.values())) == len(ROWS)
    for split in dataset.values():
        for row in split:
            start, end = row["span"]
            word = row["text"][start:end]
            assert word in (GOOD + BAD)
            assert row["words"][row["location"]] == word + ","
            assert row["roles"].count("informative") == 1
            assert split.features["label"].int2str(row["label"]) == (
                "good" if word in GOOD else "bad"
            )
    held, seen = ({row["text"].split()[3] for row in dataset[name]} for name in ("test", "train"))
    assert len(held) == 2, "one word of each label"
    assert not held & seen


def test_given_splits_and_places_are_kept(tmp_path: Path) -> None:
    rows = [
        {"text": "nice and nice", "label": 1, "start": 9, "end": 13, "split": "train"},
        {"text": "bad and bad", "label": 0, "start": 0, "end": 3, "split": "train"},
        {"text": "bad, not bad", "label": 0, "start": 0, "end": 3, "split": "new"},
    ]
    dataset = read_data(write(tmp_path / "own.jsonl", rows))
    assert dataset["train"][0]["location"] == 2
    assert dataset["new"][0]["location"] == 0


def test_three_labels_hold_out_words_of_each(tmp_path: Path) -> None:
    fair = [
        {"text": f"The {dish} was {word}, they said", "label": "fair", "word": word}
        for word in ("usual", "plain", "common", "mild", "average")
        for dish in ("soup", "bread", "curry")
    ]
    dataset = read_data(write(tmp_path / "own.csv", [*ROWS, *fair]))
    assert dataset["train"].features["label"].names == ["bad", "fair", "good"]
    for label in range(3):
        words = {
            name: {
                word
                for word, y in zip(informative_words(split), split["label"][:], strict=True)
                if y == label
            }
            for name, split in dataset.items()
        }
        assert (len(words["train"]), len(words["test"])) == (4, 1)
        assert not words["train"] & words["test"]


def test_few_words_are_split_by_sentence(tmp_path: Path) -> None:
    rows = [{**row, "word": row["word"]} for row in ROWS if row["word"] in ("tasty", "stale")] * 5
    dataset = read_data(write(tmp_path / "own.csv", rows))
    assert len(dataset["test"]) == len(rows) // 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"word": "purple"}, "the word 'purple' is not in"),
        ({"word": "said", "text": "said he said"}, "is 2 times in"),
        ({"word": ""}, "the word is empty"),
        ({"text": "The  soup was tasty"}, "single spaces"),
        ({"start": 5, "end": 99}, "start and end must enclose"),
        ({"start": "x", "end": "y"}, "start and end must enclose"),
        ({"split": "test"}, "no 'split'"),
    ],
)
def test_bad_sentences_are_one_clear_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    rows = [ROWS[0] | change, *ROWS[1:]]
    with pytest.raises(DatasetError, match=message) as error:
        read_data(write(tmp_path / "own.jsonl", rows))
    assert "\n" not in str(error.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="does not exist"):
        read_data(tmp_path / "none.csv")
    (tmp_path / "empty.csv").write_text("text,label,word\n")
    with pytest.raises(DatasetError, match="no sentences"):
        read_data(tmp_path / "empty.csv")
    (tmp_path / "broken.jsonl").write_text('{"text": ')
    with pytest.raises(DatasetError, match="line 1 is not JSON"):
        read_data(tmp_path / "broken.jsonl")
    with pytest.raises(DatasetError, match=r"generate_data\.py"):
        read_data(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("own.csv", "text,label,word\nGood, she said,good,Good\n", "more cells than"),
        ("own.csv", "text,label,word\nCaf\xe9 noir,good,noir\n", "not UTF-8 text"),
        ("own.tsv", "text\tlabel\tword\n", "must be a CSV"),
        (
            "own.CSV",
            "text,label,word,split\nso good,good,good,train\nso bad,bad,bad,test\n",
            "'bad'",
        ),
        ("own.csv", "text,label,word\nso good,good,good\nso fine,good,fine\n", "two labels"),
    ],
    ids=["commas", "latin-1", "tabs", "one label to learn from", "one label"],
)
def test_odd_files_are_one_clear_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(DatasetError, match=message) as error:
        read_data(tmp_path / name)
    assert name in str(error.value)


def test_capitals_and_punctuation_make_no_new_word(tmp_path: Path) -> None:
    rows = [
        {"text": text, "label": label, "word": word}
        for word, label in (("good", 1), ("bad", 0))
        for text in (f"it was {word} today", f"it was {word}.")
    ]
    rows.append({"text": "Good it was", "label": 1, "word": "Good"})
    dataset = read_data(write(tmp_path / "own.csv", [row | {"split": "train"} for row in rows]))
    assert set(informative_words(dataset["train"])) == {"good", "bad"}


def test_a_generated_folder_is_read_back(tmp_path: Path, sentiment: Any) -> None:
    kinds: tuple[Literal["parquet", "jsonl"], ...] = ("parquet", "jsonl")
    for kind in kinds:
        folder = tmp_path / kind
        options = dataset_study.Options(spec="restaurant", output=folder, format=kind)
        make(dataset_study.STUDY, options)
        dataset = read_data(folder)
        expected = read_data("restaurant")
        assert set(dataset) == set(expected)
        assert dataset["test"][5]["text"] == expected["test"][5]["text"]
        assert list(dataset["test"][5]["span"]) == list(expected["test"][5]["span"])


def test_own_sentences_are_probed_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(tmp_path / "own.csv", ROWS)
    options: dict[str, Any] = {"data": str(data), "layers": (3,), "no_controls": True, "jobs": 1}
    wanted = probes.Options(**options, output=tmp_path / "out")
    make(probes.STUDY, wanted)
    table = pd.read_parquet(tmp_path / "out" / "probes.parquet")
    assert set(table["probe"]) == {"summary", "mean", "value", "location", "reader", "head"}
    assert set(table["split"]) == {"train", "test"}
    train = table[table["split"] == "train"].set_index(["probe", "layer"])["accuracy"]
    assert train["value", 3] == train["location", 3] == 1.0
    assert "note: " not in capsys.readouterr().out
    assert is_current(tmp_path / "out", settings_of(probes.STUDY, wanted))
    write(data, ROWS[1:])
    assert not is_current(tmp_path / "out", settings_of(probes.STUDY, wanted)), "other sentences"


def test_a_label_with_one_word_cannot_be_probed(tmp_path: Path) -> None:
    rows = [row | {"split": "train"} for row in ROWS if row["word"] not in GOOD[1:]]
    data = write(tmp_path / "own.csv", rows)
    with pytest.raises(ValueError, match="only one informative word for 'good'"):
        make(probes.STUDY, probes.Options(data=str(data), output=tmp_path / "out"))
    assert not (tmp_path / "out").exists()
