"""The published dataset: its sizes, its rows in their order, and what each split isolates."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from data_gen import DatasetError, build_dataset, builtin_specs, parse_spec, read_spec
from data_gen import stream_dataset as stream
from data_gen.dataset import chosen_splits, features
from data_gen.manifest import describe_split
from data_gen.patterns import INFORMATIVE

PUBLISHED_ROWS = {
    "train": 15_552,
    "test": 4_608,
    "ood_tokens": 3_072,
    "ood_structure": 144,
    "ood_structure_tokens": 96,
}

# The sha256 of the rows as JSON lines (the manifest's), from before specs had samples.
SHA256 = {
    "train": "8715b88676334b22",
    "test": "5181443c4905a9a8",
    "ood_tokens": "28dfa1edfb2556a7",
    "ood_structure": "1d08b525a05085fc",
    "ood_structure_tokens": "831bfc1d36ba4016",
}
RELEASED_SHA256 = {
    "sentiment": SHA256,
    "sentiment-as-released": SHA256 | {"test": "0e9e212ae89bf877"},
}

# The words of the paper's appendix, in the released order, written down a second time.
CITIES = ["nice.", "dreadful.", "clean.", "dirty."]
PRONOUNS = ["my", "his", "her", "our"], ["their", "your"]
COLORS = ["", "blue", "orange", "beige", "green", "red"], ["purple", "gray"]
ANIMALS = ["dog", "owl", "cow"], ["cat", "eagle", "goat"]
ADVERBS = ["", "very", "extremely"], ["", "especially"]
SIZES = ["tiny", "giant"], ["big", "little", "mini", "enormous"]
ADJECTIVES = (
    ["nice", "mean", "cute", "dreadful", "aggressive", "delightful"],
    ["lovely", "nasty", "charming", "foul"],
)
POSITIVE = {"nice", "cute", "delightful", "lovely", "charming"}


def join(*words: str) -> str:
    return " ".join(word for word in words if word)


def predicate(new: int, new_adjective: int) -> Iterator[tuple[str, int]]:
    for c, p, o, a, v, j in product(
        CITIES, PRONOUNS[new], COLORS[new], ANIMALS[new], ADVERBS[new], ADJECTIVES[new_adjective]
    ):
        yield join("The city is", c, p, o, a, "is", v, j), int(j in POSITIVE)


def attribute(new: int, new_adjective: int) -> Iterator[tuple[str, int]]:
    slots = PRONOUNS[new], COLORS[new], ADJECTIVES[new_adjective], ANIMALS[new], ADVERBS[new]
    for c, p, o, j, a, v, s in product(CITIES, *slots, SIZES[new]):
        yield join("The city is", c, p, o, j, a, "is", v, s), int(j in POSITIVE)


def sized_predicate() -> Iterator[tuple[str, int]]:
    slots = PRONOUNS[1], SIZES[1], COLORS[1], ANIMALS[1], ADVERBS[1], ADJECTIVES[0]
    for c, p, s, o, a, v, j in product(CITIES, *slots):
        yield join("The city is", c, p, s, o, a, "is", v, j), int(j in POSITIVE)


def evening() -> Iterator[tuple[str, int]]:
    slots = PRONOUNS[1], SIZES[1], COLORS[1], ANIMALS[1], ADVERBS[1], ADJECTIVES[1]
    for c, p, s, o, a, v, j in product(CITIES, *slots):
        yield join("The city is", c, "Good evening,", p, s, o, a, "is", v, j), int(j in POSITIVE)
    slots = PRONOUNS[1], ADJECTIVES[1], COLORS[1], ANIMALS[1], ADVERBS[1], SIZES[1]
    for c, p, j, o, a, v, s in product(CITIES, *slots):
        yield join("The city is", c, "Good evening,", p, j, o, a, "is", v, s), int(j in POSITIVE)


def greeting(new_adjective: int) -> Iterator[tuple[str, int]]:
    slots = PRONOUNS[1], COLORS[1], ANIMALS[1], ADVERBS[1], ADJECTIVES[new_adjective]
    for p, o, a, v, j in product(*slots):
        hello = "Hello, how are you? Good evening,"
        yield join(hello, p, o, a, "is", v, j), int(j in POSITIVE)


def published(*, corrected: bool) -> dict[str, list[tuple[str, int]]]:
    first_test_pattern = sized_predicate() if corrected else attribute(1, 0)
    return {
        "train": [*predicate(0, 0), *attribute(0, 0)],
        "test": [*first_test_pattern, *attribute(1, 0)],
        "ood_tokens": list(evening()),
        "ood_structure": list(greeting(0)),
        "ood_structure_tokens": list(greeting(1)),
    }


@pytest.mark.parametrize("name", ["sentiment", "sentiment-as-released"])
def test_rows_are_the_published_ones_in_the_released_order(name: str) -> None:
    dataset = build_dataset(name)
    expected = published(corrected=name == "sentiment")
    assert {split: rows.num_rows for split, rows in dataset.items()} == PUBLISHED_ROWS
    for split, rows in expected.items():
        found = zip(dataset[split]["text"][:], dataset[split]["label"][:], strict=True)
        assert list(found) == rows


@pytest.mark.parametrize("name", RELEASED_SHA256)
def test_rows_are_those_of_earlier_versions_in_every_column(name: str) -> None:
    """Specs may gain keys and tokenizers may change; these rows do not."""
    dataset = build_dataset(name)
    found = {split: describe_split(rows)["sha256"][:16] for split, rows in dataset.items()}
    assert found == RELEASED_SHA256[name]


@pytest.mark.parametrize(
    ("name", "distinct"), [("sentiment", 4_608), ("sentiment-as-released", 2_304)]
)
def test_distinct_test_sentences(name: str, distinct: int) -> None:
    assert len(set(build_dataset(name)["test"]["text"][:])) == distinct


def test_every_split_is_exactly_balanced(sentiment: Any) -> None:
    for split in sentiment.values():
        assert 2 * sum(split["label"][:]) == split.num_rows


def test_columns_are_those_of_the_hub(sentiment: Any) -> None:
    train = sentiment["train"]
    assert train.features == features(read_spec("sentiment").lexicon.labels)
    assert train.features["label"].names == ["negative", "positive"]
    row = train[-1]
    assert row == {
        "text": "The city is dirty. our red delightful cow is extremely giant",
        "label": 1,
        "words": "The city is dirty. our red delightful cow is extremely giant".split(),
        "roles": ["neutral"] * 3
        + ["distractor", "neutral", "neutral", "informative"]
        + ["neutral"] * 4,
        "location": 6,
        "span": [27, 37],
        "pattern": "attribute",
    }


def words_of(split: Any, *, informative: bool) -> set[str]:
    return {
        word
        for words, roles in zip(split["words"][:], split["roles"][:], strict=True)
        for word, role in zip(words, roles, strict=True)
        if (role == INFORMATIVE) == informative
    }


def test_each_extended_split_changes_one_thing(sentiment: Any) -> None:
    train = sentiment["train"]
    known = {informative: words_of(train, informative=informative) for informative in (True, False)}
    locations, patterns = set(train["location"][:]), set(train["pattern"][:])
    cities = {"nice.", "dreadful.", "clean.", "dirty."}

    def facts(name: str) -> dict[str, Any]:
        split = sentiment[name]
        return {
            "new adjectives": words_of(split, informative=True) - known[True],
            "new words": words_of(split, informative=False) - known[False],
            "distractors": {roles.count("distractor") for roles in split["roles"][:]},
            "known places": set(split["location"][:]) & locations,
            "new places": set(split["location"][:]) - locations,
            "known patterns": set(split["pattern"][:]) <= patterns,
        }

    unchanged = facts("train")
    assert not unchanged["new words"] | unchanged["new adjectives"] | unchanged["new places"]

    def differences(name: str) -> dict[str, Any]:
        found = facts(name)
        del found["known places"]
        return {fact: value for fact, value in found.items() if value != unchanged[fact]}

    assert differences("ood_greeting") == {
        "new words": set("Hello, how are you? Good evening,".split()),
        "known patterns": False,
    }
    assert differences("ood_neutral_city") == {"distractors": {0}, "known patterns": False}
    assert differences("ood_adjective") == {
        "new adjectives": {"lovely", "nasty", "charming", "foul"}
    }
    position = differences("ood_position")
    assert position == {"new places": {1, 2}, "known patterns": False}
    assert not facts("ood_position")["known places"], "no place is one of training"
    context = differences("ood_context")
    assert set(context) == {"new words"}
    slots = {word for new in (PRONOUNS, COLORS, ANIMALS, ADVERBS) for word in new[1]} - {""}
    assert context["new words"] == slots
    # Dropping the sentence moves the others, as documented; beyond that nothing changes:
    alone = differences("ood_no_distractor")
    assert set(alone) == {"distractors", "new places", "known patterns"}
    texts = sentiment["ood_no_distractor"]["text"][:]
    assert {f"The city is {city} {text}" for city in cities for text in texts} == set(
        train["text"][:]
    )


def test_restaurant_has_two_distractors() -> None:
    dataset = build_dataset("restaurant")
    assert {row["roles"].count("distractor") for row in dataset["train"]} == {2}
    assert set(dataset) == set(PUBLISHED_ROWS)


@pytest.mark.parametrize("name", builtin_specs())
def test_extended_splits_come_only_when_asked_for(name: str) -> None:
    spec = read_spec(name)
    plain = [split.name for split in spec.splits.values() if not split.extended]
    assert [split.name for split in chosen_splits(spec, extended=False)] == plain
    if len(plain) == len(spec.splits):
        with pytest.raises(DatasetError, match="no extended splits"):
            build_dataset(name, extended=True)


def huge_spec() -> Any:
    """2 x 10^12 sentences a split."""
    letters = [f"SLOT{i}" for i in range(12)]
    slots = {
        name: {"training": [f"{name}-{i}" for i in range(10)], "held_out": [f"x{name}"] * 1}
        for name in letters
    }
    template = " ".join(f"{{{name}}}" for name in [*letters, "KEY"])
    return parse_spec(
        {
            "polarity": {"negative": ["bad"], "positive": ["good"]},
            "slots": slots | {"KEY": {"role": "informative", "training": ["good", "bad"]}},
            "patterns": {"only": template},
            "splits": {"train": {"patterns": ["only"], "words": "training"}},
        }
    )


def test_a_grammar_of_2e12_sentences_streams_and_does_not_build() -> None:
    spec = huge_spec()
    with pytest.raises(DatasetError, match="stream_dataset"):
        build_dataset(spec)
    rows = list(stream(spec, seed=0, n_shards=4).take(500))
    assert len({row["text"] for row in rows}) == 500
    assert {row["label"] for row in rows} == {0, 1}
    assert rows == list(stream(spec, seed=0, n_shards=4).take(500))
    assert rows != list(stream(spec, seed=1, n_shards=4).take(500))


def test_a_stream_holds_the_dataset_and_its_shards_partition_it() -> None:
    built = build_dataset("restaurant")["ood_structure"]
    assert list(stream("restaurant", "ood_structure")) == list(built)
    shuffled = stream("restaurant", "ood_structure", seed=3, n_shards=3)
    assert shuffled.features == built.features
    assert shuffled.num_shards == 3
    shards = [shuffled.shard(num_shards=3, index=i) for i in range(3)]
    texts = [row["text"] for shard in shards for row in shard]
    assert sorted(texts) == sorted(built["text"][:])
    assert texts != built["text"][:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "training"}, "no split 'training'"),
        ({"n_shards": 0}, "n_shards must be"),
        ({"seed": -1}, "must not be negative"),
    ],
)
def test_streaming_refuses_what_it_cannot_do(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        stream("sentiment", **options)
