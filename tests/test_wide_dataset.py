"""The wide dataset: many words, many structures, and distractors of the same words."""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import chain, combinations
from math import sqrt
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

from data_gen import build_tokenizer, read_spec, split_words, unknown_shares
from data_gen.manifest import describe_split
from data_gen.patterns import DISTRACTOR, INFORMATIVE, Pattern
from data_gen.spec import Spec
from probing.models.packaged import PACKAGED, packaged_file
from probing.models.pretrained import load_model

ROWS = {
    "train": 15_360,
    "test": 1_536,
    "ood_tokens": 1_800,
    "ood_structure": 1_280,
    "ood_structure_tokens": 1_500,
    "ood_greeting": 1_024,
    "ood_no_distractor": 1_024,
    "ood_neutral_city": 1_024,
    "ood_position": 1_024,
    "ood_adjective": 1_800,
    "train_long_2": 1_536,
    "ood_long_2": 1_536,
    "ood_long_4": 1_536,
    "ood_long_8": 1_536,
    "ood_long_16": 1_536,
}
LONG = {n: f"ood_long_{n}" for n in (2, 4, 8, 16)}  # by the number of fillers
NEW_STRUCTURES = ("ood_structure", "ood_structure_tokens")
NEW_ADJECTIVES = ("ood_tokens", "ood_structure_tokens", "ood_adjective")
NO_DISTRACTOR = ("ood_no_distractor", "ood_neutral_city")


@pytest.fixture(scope="module")
def spec() -> Spec:
    return read_spec("sentiment-wide")


@pytest.fixture(scope="module")
def adjectives(spec: Spec) -> Mapping[str, tuple[str, ...]]:
    return spec.lexicon.slots["ADJECTIVE"].words


def informative_words(split: Any) -> list[str]:
    return [text[a:b] for text, (a, b) in zip(split["text"][:], split["span"][:], strict=True)]


def distractors(split: Any) -> list[list[str]]:
    """The distractors of each sentence, without the marks behind them."""
    return [
        [word.strip(".,") for word, role in zip(*pair, strict=True) if role == DISTRACTOR]
        for pair in zip(split["words"][:], split["roles"][:], strict=True)
    ]


# ---- words


def test_there_are_enough_adjectives_and_none_is_on_both_sides(
    spec: Spec, adjectives: Mapping[str, tuple[str, ...]]
) -> None:
    training, held_out = adjectives["training"], adjectives["held_out"]
    assert len(training) >= 60
    assert len(held_out) >= 150
    assert not set(training) & set(held_out)
    for words in (training, held_out):
        counts = Counter(spec.lexicon.polarity[word] for word in words)
        assert counts[0] == counts[1] == len(words) / 2
    assert len(held_out) / 2 == 75
    assert set(spec.lexicon.polarity) == {*training, *held_out}, "no word is without a use"
    published = read_spec("sentiment").lexicon.slots["ADJECTIVE"].words
    for side, words in published.items():
        assert set(words) <= set(adjectives[side]), "the published words keep their sides"


def test_adjectives_have_stems_of_their_own_and_no_other_use(
    spec: Spec, adjectives: Mapping[str, tuple[str, ...]]
) -> None:
    """Words of one stem, as "horrible" and "horrid", would not be new to a tokenizer of pieces."""
    words = [*adjectives["training"], *adjectives["held_out"]]
    assert len({word[:5] for word in words}) == len(words)
    assert all(word.isalpha() and word.islower() for word in words)
    others = {
        word
        for slot in spec.lexicon.slots.values()
        if slot.role not in (INFORMATIVE, DISTRACTOR)
        for entries in slot.words.values()
        for entry in entries
        for word in entry.split()
    }
    literals = set(re.findall(r"\w+", re.sub(r"\{\w+\}", "", str(templates(spec)))))
    assert not set(words) & (others | literals)


def test_minilm_spells_some_adjectives_in_one_token_and_some_in_several(
    adjectives: Mapping[str, tuple[str, ...]],
) -> None:
    if PACKAGED["minilm"].folder() is None:
        pytest.skip("MiniLM is not installed")
    folder = packaged_file("minilm").parent
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    for words in adjectives.values():
        lengths = [len(tokenizer.tokenize(word)) for word in words]
        assert lengths.count(1) >= len(words) / 4
        assert sum(length > 1 for length in lengths) >= 10


def test_every_adjective_decides_in_some_sentences_and_distracts_in_others(
    spec: Spec, wide: Any, adjectives: Mapping[str, tuple[str, ...]]
) -> None:
    """So neither "this word" nor "a sentiment word" means "the label"."""
    for name, split in spec.splits.items():
        lists = {
            INFORMATIVE: "held_out" if name in NEW_ADJECTIVES else "training",
            DISTRACTOR: "held_out" if name in NEW_ADJECTIVES[:2] else "training",
        }
        for pattern in split.patterns:
            for element in pattern.elements:
                if element.role in lists:
                    words = {choice[0].removesuffix(element.suffix) for choice in element.choices}
                    assert words == set(adjectives[lists[element.role]])
    # In the samples, too: no word only ever distracts, or only ever decides.
    for name, words_of in (("train", "training"), ("ood_tokens", "held_out")):
        split, expected = wide[name], set(adjectives[words_of])
        assert set(informative_words(split)) == expected
        assert {word for words in distractors(split) for word in words} == expected


def test_the_sentiment_of_distractors_says_nothing_about_the_label(spec: Spec, wide: Any) -> None:
    for name, split in wide.items():
        pairs = [
            (spec.lexicon.polarity[word], label)
            for words, label in zip(distractors(split), split["label"][:], strict=True)
            for word in words
        ]
        assert bool(pairs) == (name not in NO_DISTRACTOR)
        if pairs:
            share = np.mean([polarity == label for polarity, label in pairs])
            assert abs(share - 0.5) < 4 * 0.5 / sqrt(len(pairs)), name


# ---- structures


def templates(spec: Spec) -> dict[str, str]:
    """The templates of a spec's text, by the name of the pattern."""
    section = spec.text.partition("[patterns]")[2].partition("\n[splits")[0]
    return dict(re.findall(r'^(\w+) = "(.*)"$', section, flags=re.MULTILINE))


def structure(pattern: Pattern) -> tuple[str, ...]:
    """Roles and literal words: what is left of a pattern once the words of slots are forgotten."""
    return tuple(
        f"{element.role}{element.suffix}" if len(element.choices) > 1 else element.choices[0][0]
        for element in pattern.elements
    )


def test_there_are_enough_structures_and_held_out_ones_are_new(spec: Spec, wide: Any) -> None:
    trained = spec.splits["train"].patterns
    known = {structure(pattern) for pattern in trained}
    assert len(known) == len(trained) >= 8
    for name in NEW_STRUCTURES:
        patterns = spec.splits[name].patterns
        new = {structure(pattern) for pattern in patterns}
        assert len(new) == len(patterns) >= 8
        assert not new & known
        assert not {pattern.name for pattern in patterns} & {pattern.name for pattern in trained}
    for name in ("test", "ood_tokens", "ood_adjective"):  # these hold out words alone
        assert {structure(pattern) for pattern in spec.splits[name].patterns} == known
    for name, split in wide.items():
        assert set(split["pattern"][:]) == {pattern.name for pattern in spec.splits[name].patterns}


def test_distractors_stand_before_and_behind_the_word_that_decides(spec: Spec) -> None:
    """In training and in the held-out structures: none, one or two, on either side."""
    for name in ("train", *NEW_STRUCTURES):
        sides = set()
        for pattern in spec.splits[name].patterns:
            roles = [element.role for element in pattern.elements]
            place = roles.index(INFORMATIVE)
            sides.add((roles[:place].count(DISTRACTOR), roles[place:].count(DISTRACTOR)))
        assert {(0, 0), (1, 0), (0, 1), (2, 0), (1, 1)} <= sides


def test_most_places_decide_in_some_sentences_and_distract_in_others(wide: Any) -> None:
    """So a place alone does not tell the informative word, as it does in the published data."""
    places = {
        role: Counter(
            place
            for roles in wide["train"]["roles"][:]
            for place, own in enumerate(roles)
            if own == role
        )
        for role in (INFORMATIVE, DISTRACTOR)
    }
    shared = places[INFORMATIVE].keys() & places[DISTRACTOR].keys()
    assert len(shared) >= 10
    of_shared = sum(places[INFORMATIVE][place] for place in shared)
    assert of_shared > len(wide["train"]) / 2


# ---- splits


def test_splits_have_their_rows_and_are_balanced_and_disjoint(wide: Any) -> None:
    assert {name: len(split) for name, split in wide.items()} == ROWS
    texts = {name: set(split["text"][:]) for name, split in wide.items()}
    for name, split in wide.items():
        assert len(texts[name]) == len(split), "no sentence twice"
        assert 2 * sum(split["label"][:]) == len(split)
        cells = Counter(zip(split["pattern"][:], informative_words(split), strict=True))
        assert len(set(cells.values())) == 1, "equally many sentences per structure and word"
    for a, b in combinations(texts.values(), 2):
        assert not a & b


def test_places_of_ood_position_are_never_reached_in_training(wide: Any) -> None:
    trained, late = wide["train"], wide["ood_position"]
    assert min(late["location"][:]) > max(trained["location"][:])
    # Nor in tokens, with punctuation counted.
    tokenizer = build_tokenizer(trained["text"][:])

    def tokens_before(split: Any) -> list[int]:
        cut = [text[:a] for text, (a, _) in zip(split["text"][:], split["span"][:], strict=True)]
        return [len(ids) for ids in tokenizer(cut)["input_ids"]]

    assert min(tokens_before(late)) > max(tokens_before(trained))


def test_one_factor_splits_change_one_factor(wide: Any, spec: Spec) -> None:
    tokenizer = build_tokenizer(wide["train"]["text"][:])
    shares = unknown_shares(tokenizer, wide)
    assert shares["train"] == shares["ood_position"] == shares["ood_neutral_city"] == 0
    known = set(wide["train"]["location"][:])
    assert set(wide["ood_neutral_city"]["location"][:]) <= known
    # Where words are new, they are those of the split's one factor.
    new = {
        name: {
            word
            for text in wide[name]["text"][:]
            for word in split_words(text)
            if word not in tokenizer.get_vocab()
        }
        for name in ("ood_greeting", "ood_no_distractor", "ood_adjective")
    }
    assert new["ood_greeting"] == set("Hello , how are you ? Good evening ,".split())
    assert new["ood_no_distractor"] == {"Yesterday", "we", "saw", "that", "met", "was"}
    assert new["ood_adjective"] == set(spec.lexicon.slots["ADJECTIVE"].words["held_out"])


def test_the_sample_is_the_same_on_every_machine(wide: Any) -> None:
    found = {name: describe_split(wide[name])["sha256"][:16] for name in ("train", "ood_tokens")}
    assert found == {"train": "46c9090d0c0dc916", "ood_tokens": "7f841ea5ffcb17d3"}


# ---- longer texts


def fillers(spec: Spec) -> list[str]:
    slots = (slot for name, slot in spec.lexicon.slots.items() if name.startswith("FILLER"))
    return [sentence for slot in slots for sentence in slot.words["held_out"]]


def test_fillers_are_sentences_without_a_word_that_could_decide(spec: Spec) -> None:
    """No adjective of the lists, no animal, and nothing about the city or the weather."""
    sentences = fillers(spec)
    assert len(sentences) == len(set(sentences)) == 16
    slots = spec.lexicon.slots
    words = {*spec.lexicon.polarity, "city", "weather"} | {
        word
        for name in ("ANIMAL", "COLOR", "SIZE", "HUE")
        for word in chain(*slots[name].words.values())
    }
    for sentence in sentences:
        assert sentence[0].isupper()
        assert sentence.endswith(".")
        assert sentence.count(".") == 1
        assert not {word.lower() for word in split_words(sentence)} & words


def test_longer_texts_are_sentences_of_test_with_fillers_on_one_side(
    wide: Any, spec: Spec, adjectives: Mapping[str, tuple[str, ...]]
) -> None:
    known = set(fillers(spec))
    structures = {pattern.name for pattern in spec.splits["test"].patterns}
    for n, name in LONG.items():
        rows = wide[name][:]
        assert set(rows["pattern"]) == {
            f"{structure}, {n} {side}" for structure in structures for side in ("before", "behind")
        }
        columns = (rows[key] for key in ("text", "span", "pattern", "roles", "words", "location"))
        for text, (a, b), pattern, roles, words, location in zip(*columns, strict=True):
            sentences, before = re.split(r"(?<=\.) ", text), pattern.endswith("before")
            side, rest = (
                (sentences[:n], sentences[n:]) if before else (sentences[-n:], sentences[:-n])
            )
            assert set(side) <= known
            assert not set(rest) & known
            assert text[a:b] == words[location].rstrip(".")
            assert text[a:b] in adjectives["training"]
            assert text[a:b] in " ".join(rest)
            size = len(" ".join(side).split())
            assert set(roles[:size] if before else roles[-size:]) == {"neutral"}
            assert roles.count(INFORMATIVE) == 1


@pytest.mark.parametrize("model", ["minilm", "smollm2"])
def test_longer_texts_fit_into_512_tokens(wide: Any, model: str) -> None:
    if PACKAGED[model].folder() is None:
        pytest.skip(f"{model} is not installed")
    _, tokenizer = load_model(model)

    def lengths(name: str) -> list[int]:
        return [len(ids) for ids in tokenizer(wide[name]["text"][:])["input_ids"]]

    means = {n: np.mean(lengths(name)) for n, name in {0: "test", **LONG}.items()}
    for n in LONG:
        assert 24 * n < means[n] - means[0] < 28 * n
    assert 400 < min(lengths("ood_long_16"))
    assert max(lengths("ood_long_16")) <= 512
