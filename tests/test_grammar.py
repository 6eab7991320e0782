"""A grammar is its sentences: indexing, labels, spans and proofs, against plain enumeration."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_specs import patterns, spec_tables

from data_gen import Sentence, parse_spec
from data_gen.patterns import DISTRACTOR, INFORMATIVE, Element, Pattern
from data_gen.permutation import permute, shuffled
from data_gen.proofs import Reader, Work, common_sentence
from data_gen.spec import Spec
from data_gen.splits import Sample, Split

SIDES = ("before", "behind")


def enumerate_plainly(pattern: Pattern) -> list[tuple[str, int]]:
    """Text and label of every sentence, by the definition and nothing else."""
    rows = []
    for choices in itertools.product(*(range(len(e.choices)) for e in pattern.elements)):
        words: list[str] = []
        for element, choice in zip(pattern.elements, choices, strict=True):
            words += element.choices[choice]
            if element.labels is not None:
                label = element.labels[choice]
        rows.append((" ".join(words), label))
    return rows


def shared_sentence(a: Pattern, b: Pattern) -> str | None:
    return common_sentence(Reader(a), Reader(b), Work())


def repeated_sentence(pattern: Pattern) -> str | None:
    reader = Reader(pattern)
    return common_sentence(reader, reader, Work())


def all_sentences(spec: Spec) -> list[Sentence]:
    return [sentence for split in spec.splits.values() for sentence in split]


@given(patterns())
def test_indexing_equals_enumeration(pattern: Pattern) -> None:
    expected = enumerate_plainly(pattern)
    assert [(s.text, s.label) for s in pattern] == expected
    assert [(pattern[i].text, pattern[i].label) for i in range(len(pattern))] == expected
    assert pattern[-1] == pattern[len(pattern) - 1]
    with pytest.raises(IndexError):
        pattern[len(pattern)]


def test_fragment_tables_do_not_change_the_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> Pattern:
        slot = Element((*((f"w{i}",) for i in range(5)), ()))
        key = Element((("good",), ("bad",)), INFORMATIVE, (1, 0))
        return Pattern("p", (slot, slot, key, slot, slot))

    whole = list(make())
    for size in (1, 2, 12, 40):
        monkeypatch.setattr("data_gen.patterns.MAX_FRAGMENTS", size)
        assert list(make()) == whole


@given(spec_tables())
def test_split_indexing_equals_its_patterns_one_after_the_other(table: dict[str, object]) -> None:
    for split in parse_spec(table).splits.values():
        expected = [row for pattern in split.patterns for row in enumerate_plainly(pattern)]
        assert [(split[i].text, split[i].label) for i in range(len(split))] == expected
        assert list(split) == split[:] == [split[i] for i in range(len(split))]


@given(spec_tables())
def test_the_label_is_the_polarity_of_the_word_at_the_location(table: dict[str, object]) -> None:
    spec = parse_spec(table)
    for sentence in all_sentences(spec):
        word = sentence.text[slice(*sentence.span)]
        assert sentence.label == spec.lexicon.polarity[word]
        assert sentence.roles[sentence.location] == INFORMATIVE
        assert sentence.roles.count(INFORMATIVE) == 1


@given(spec_tables())
def test_words_spell_the_text_and_spans_the_informative_word(table: dict[str, object]) -> None:
    for sentence in all_sentences(parse_spec(table)):
        assert " ".join(sentence.words) == sentence.text
        assert len(sentence.roles) == len(sentence.words)
        word = sentence.words[sentence.location]
        assert sentence.text[slice(*sentence.span)] == word.rstrip(".,?!")
        before = " ".join(sentence.words[: sentence.location])
        assert sentence.span[0] == len(before) + bool(before)


@given(spec_tables())
def test_marks_behind_a_slot_stand_behind_each_of_its_words(table: Any) -> None:
    """By plain replacement of every {SLOT} in the template by every word."""
    spec = parse_spec(table)
    for name, vocabulary in (("train", "training"), ("test", "held_out")):
        for pattern in spec.splits[name].patterns:
            texts = [table["patterns"][pattern.name]]
            for slot, lists in table["slots"].items():
                texts = [
                    text.replace(f"{{{slot}}}", word)
                    for text in texts
                    for word in lists[vocabulary]
                ]
            plain = [" ".join(text.split()) for text in texts]
            assert sorted(sentence.text for sentence in pattern) == sorted(plain)


@given(spec_tables(), st.data())
def test_changing_any_other_word_never_changes_the_label(
    table: dict[str, object], data: st.DataObject
) -> None:
    pattern = data.draw(st.sampled_from(parse_spec(table).splits["train"].patterns))
    sizes = [len(element.choices) for element in pattern.elements]
    place = data.draw(st.integers(0, len(sizes) - 1))
    below = math.prod(sizes[place + 1 :])
    index = data.draw(st.integers(0, len(pattern) - 1))
    base = index - index // below % sizes[place] * below
    labels = [pattern[base + choice * below].label for choice in range(sizes[place])]
    if pattern.elements[place].role != INFORMATIVE:
        assert set(labels) == {pattern[index].label}
    else:  # the control: this word does change it
        assert tuple(labels) == pattern.informative.labels
        assert len(set(labels)) > 1


@given(spec_tables())
def test_splits_are_disjoint_and_balanced(table: dict[str, object]) -> None:
    spec = parse_spec(table)
    texts = [sentence.text for sentence in all_sentences(spec)]
    assert len(set(texts)) == len(texts)
    for split in spec.splits.values():
        counts = Counter(sentence.label for sentence in split)
        assert [counts[i] for i in range(len(spec.lexicon.labels))] == split.label_counts(
            len(spec.lexicon.labels)
        )
        assert len(set(counts.values())) == 1


@given(spec_tables(), st.integers(1, 3))
def test_fillers_stand_before_and_behind_and_change_nothing_else(table: Any, n: int) -> None:
    table["slots"] |= {"F": {"held_out": ["Then we go.", "So it is."]}, "G": {"held_out": ["Or."]}}
    table["splits"]["long"] = table["splits"]["test"] | {
        "fillers": {"slots": ["F", "G"], "sentences": n}
    }
    if any("" in entries for slot in table["slots"].values() for entries in slot.values()):
        return  # a full stop could stand alone: refused, if at the end
    short, long = (parse_spec(table).splits[name] for name in ("test", "long"))
    assert len(long) == 2 * len(short) * 2 ** ((n + 1) // 2)
    expected = {f"{pattern.name}, {n} {side}" for pattern in short.patterns for side in SIDES}
    assert {pattern.name for pattern in long.patterns} == expected
    bases = {sentence.text: sentence for sentence in short}
    for sentence in long:
        pattern, _, side = sentence.pattern.replace(",", "").split()
        fillers = sentence.text
        for text, base in bases.items():
            if base.pattern == pattern and side == "before" and fillers.endswith(f" {text}"):
                shift, fillers = len(fillers) - len(text), fillers.removesuffix(f" {text}")
                break
            ended = text if text[-1] in ".!" else f"{text}."
            if base.pattern == pattern and side == "behind" and fillers.startswith(f"{ended} "):
                shift, fillers = 0, fillers.removeprefix(f"{ended} ")
                break
        assert fillers.count(".") == n
        assert set(fillers.replace(".", "").split()) <= {"Then", "we", "go", "So", "it", "is", "Or"}
        assert sentence.label == base.label
        a, b = base.span
        assert sentence.span == (a + shift, b + shift)
        start, end = sentence.span
        assert sentence.text[start:end] == text[a:b]
        assert sentence.words[sentence.location].startswith(text[a:b])
        for role in (INFORMATIVE, DISTRACTOR):
            assert sentence.roles.count(role) == base.roles.count(role)


@given(patterns(), patterns())
def test_shared_sentence_finds_one_iff_there_is_one(a: Pattern, b: Pattern) -> None:
    shared = {text for text, _ in enumerate_plainly(a)} & {text for text, _ in enumerate_plainly(b)}
    found = shared_sentence(a, b)
    assert found in shared if shared else found is None


@given(patterns())
def test_repeated_sentence_finds_one_iff_there_is_one(pattern: Pattern) -> None:
    counts = Counter(text for text, _ in enumerate_plainly(pattern))
    repeated = {text for text, count in counts.items() if count > 1}
    found = repeated_sentence(pattern)
    assert found in repeated if repeated else found is None


@given(spec_tables())
def test_like_is_the_same_as_writing_the_lists_again(table: Any) -> None:
    key = table["slots"]["KEY"]
    lists = {name: words for name, words in key.items() if name != "role"}
    table["patterns"] = {name: f"{text} {{COPY}}!" for name, text in table["patterns"].items()}

    def texts(copy: dict[str, Any]) -> dict[str, list[Sentence]]:
        slots = table["slots"] | {"COPY": {"role": "distractor", **copy}}
        return {
            name: list(split) for name, split in parse_spec(table | {"slots": slots}).splits.items()
        }

    assert texts({"like": "KEY"}) == texts(lists)
    own = {"training": ["other"]}
    assert texts({"like": "KEY", **own}) == texts(lists | own), "a list beside it comes first"


# ---- samples


def word_of(sentence: Sentence) -> str:
    return sentence.text[slice(*sentence.span)]


@given(spec_tables(), st.data())
def test_a_sample_is_balanced_and_part_of_the_whole(
    table: dict[str, Any], data: st.DataObject
) -> None:
    whole = parse_spec(table).splits["train"]
    n_words = len(whole.patterns[0].informative.choices)
    most = min(len(pattern) for pattern in whole.patterns) // n_words
    per_word = data.draw(st.integers(1, most))
    n = per_word * n_words * len(whole.patterns)
    table["splits"]["train"]["sample"] = n
    split = parse_spec(table).splits["train"]
    drawn = list(split)
    assert len(drawn) == len(split) == n
    counts = Counter((sentence.pattern, word_of(sentence)) for sentence in drawn)
    assert len(counts) == n_words * len(whole.patterns)
    assert set(counts.values()) == {per_word}
    assert len(set(drawn)) == n, "without repeats"
    assert set(drawn) <= set(whole)
    n_labels = len(table["polarity"])
    labels = Counter(sentence.label for sentence in drawn)
    assert [labels[i] for i in range(n_labels)] == split.label_counts(n_labels)
    assert drawn == [split[i] for i in range(n)] == split[:], "random access equals iteration"
    assert drawn == list(parse_spec(table).splits["train"]), "the same every time"
    assert sorted(split.iter_shard(0, 1, seed=0)) == sorted(drawn)


def test_a_sample_of_all_sentences_is_all_of_them() -> None:
    pattern = huge_pattern(slots=2)
    whole = Split("s", (pattern,))
    assert sorted(Split("s", (pattern,), sample=len(pattern))) == sorted(whole)


def test_every_sentence_is_drawn_equally_often_whatever_the_word() -> None:
    """100 contexts of two words; 10 of each word are drawn, 2000 times."""
    pattern = huge_pattern(slots=2)
    n, share = 2000, 10 / 100
    drawn = [set(Sample(pattern, 10, seed)) for seed in range(n)]
    counts = Counter(sentence for sample in drawn for sentence in sample)
    assert set(counts) == set(pattern)
    # Variance n share (1 - share); the largest of 200 counts lies within 4.5 standard errors.
    stderr = math.sqrt(n * share * (1 - share))
    assert all(abs(count - n * share) < 4.5 * stderr for count in counts.values())
    # Contexts of one word do not tell those of the other: of 10 drawn, one is common on average,
    # with the variance of the hypergeometric law.
    common = [
        len({s.text.replace("bad", "good") for s in sample if word_of(s) == "bad"} & good)
        for sample in drawn
        if (good := {s.text for s in sample if word_of(s) == "good"})
    ]
    variance = 10 * 0.1 * 0.9 * 90 / 99
    assert abs(np.mean(common) - 1) < 4 * math.sqrt(variance / n)


def test_patterns_of_a_split_are_sampled_apart() -> None:
    """The same numbers would be drawn of both if their samples had one seed."""
    a, b = huge_pattern(slots=4), huge_pattern("w1", slots=4)
    first, second = Split("s", (a, b), sample=400).parts
    contexts = [{sentence.text[3:] for sentence in part} for part in (first, second)]
    assert len(contexts[0] & contexts[1]) < 20, "200 of 20000 each: two on average"


def test_a_sample_of_2e12_sentences_is_drawn_at_once() -> None:
    split = Split("s", (huge_pattern(), huge_pattern("other")), sample=4000)
    assert len({sentence.text for sentence in split}) == len(split) == 4000
    assert split[3999] == list(split)[3999]


def huge_pattern(first_word: str = "w0", slots: int = 12) -> Pattern:
    """10^slots contexts of two informative words."""
    slot = Element(tuple((f"w{i}",) for i in range(10)))
    key = Element((("good",), ("bad",)), INFORMATIVE, (1, 0))
    start = Element(((first_word,),))
    return Pattern("huge", (start, *(slot,) * (slots // 2), key, *(slot,) * (slots // 2)))


def test_a_grammar_of_2e12_sentences_is_indexed_and_proved_disjoint_at_once() -> None:
    pattern = huge_pattern()
    assert len(pattern) == 2 * 10**12
    assert pattern[0].text == "w0 " * 7 + "good" + " w0" * 6
    # 1 2 3 4 5 6 | bad | 7 8 9 0 1 2 in mixed radix: the word is one digit of radix 2.
    index = (123456 * 2 + 1) * 10**6 + 789012
    words = pattern[index].words
    assert words[1:7] == tuple(f"w{i}" for i in (1, 2, 3, 4, 5, 6))
    assert words[7] == "bad"
    assert words[8:] == tuple(f"w{i}" for i in (7, 8, 9, 0, 1, 2))
    assert shared_sentence(pattern, huge_pattern("other")) is None
    assert shared_sentence(pattern, huge_pattern("w0")) is not None
    assert repeated_sentence(pattern) is None


@given(st.integers(1, 700), st.integers(0, 2**32))
def test_the_shuffled_order_is_a_permutation(n: int, seed: int) -> None:
    assert sorted(shuffled(range(n), n, seed)) == list(range(n))


def test_the_shuffled_order_is_uniform() -> None:
    # Where does entry 0 of 0..7 go? 8000 seeds, chi-square with 7 degrees of freedom: 24.3 is
    # exceeded with probability 0.001, and the seeds are fixed.
    places = [int(permute(np.array([0], np.uint64), 8, seed)[0]) for seed in range(8000)]
    chi_square = sum((count - 1000) ** 2 / 1000 for count in np.bincount(places, minlength=8))
    assert chi_square < 24.3
    # Neighbours in the order are not neighbours in the grammar: correlation within 4 std errors.
    order = np.array(list(shuffled(range(20_000), 10**12, seed=0)), dtype=float)
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 4 / math.sqrt(len(order))
    assert len(set(order)) == len(order)


@given(st.integers(1, 5), st.integers(0, 3))
def test_shards_partition_the_split_whatever_their_number(n_shards: int, seed: int) -> None:
    split = Split("s", (huge_pattern(slots=2), huge_pattern("w1", slots=2)))
    whole = list(split.iter_shard(0, 1, seed))
    shards = [list(split.iter_shard(i, n_shards, seed)) for i in range(n_shards)]
    assert sorted(itertools.chain(*shards)) == sorted(whole) == sorted(split)
    assert shards[0] == whole[::n_shards]
    assert whole != list(split)
    assert whole != list(split.iter_shard(0, 1, seed + 1))
    assert list(split.iter_shard(0, 1)) == list(split)
