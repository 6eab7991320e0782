"""Word vectors of a corpus and of a file, narrowed, scaled and shuffled."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from data_gen import build_tokenizer, read_spec
from probing.models.packaged import packaged_file
from probing.models.presets import ARCHITECTURES, build_model
from probing.models.word_vectors import (
    corpus,
    main_directions,
    of_mean_norm_one,
    read_vectors,
    set_vectors,
    shuffled,
    word_vectors,
)

LABELS = ["negative", "positive"]


GOOD = ["nice", "cute", "delightful", "lovely", "charming"]
BAD = ["mean", "dreadful", "aggressive", "nasty", "foul"]
HELD_OUT = ["lovely", "nasty", "charming", "foul"]


def similarities(swapped: list[str]) -> Any:
    """Cosines between the adjectives, their vectors from the corpus with these words swapped."""
    texts = corpus(6000, swapped=swapped)
    vocabulary = build_tokenizer(texts).get_vocab()
    vectors = word_vectors(texts, vocabulary)[[vocabulary[word] for word in GOOD + BAD]]
    return pd.DataFrame(vectors @ vectors.T, index=GOOD + BAD, columns=GOOD + BAD)


def leaning(found: Any, word: str, good: list[str], bad: list[str]) -> float:
    """Above 0: closer to the good words than to the bad ones, itself apart."""
    others = found.loc[word].drop(word)
    return float(
        others[[w for w in good if w != word]].mean() - others[[w for w in bad if w != word]].mean()
    )


def test_good_words_are_close_to_each_other_and_not_to_bad_ones() -> None:
    found = similarities([])
    assert min(leaning(found, word, GOOD, BAD) for word in GOOD) > 0.1
    assert max(leaning(found, word, GOOD, BAD) for word in BAD) < -0.1


def test_swapped_words_are_found_on_the_other_side_and_the_rest_stays() -> None:
    found = similarities(HELD_OUT)
    good, bad = (  # the words that were not swapped
        [word for word in words if word not in HELD_OUT] for words in (GOOD, BAD)
    )
    for word in ("lovely", "charming"):
        assert leaning(found, word, good, bad) < -0.1
    for word in ("nasty", "foul"):
        assert leaning(found, word, good, bad) > 0.1
    assert leaning(found, "nice", good, bad) > 0.1
    assert leaning(found, "mean", good, bad) < -0.1


def test_vectors_are_unit_or_zero_and_the_same_every_time() -> None:
    texts = corpus(500)
    vocabulary = build_tokenizer(texts).get_vocab()
    vectors = word_vectors(texts, vocabulary)
    known = [i for word, i in vocabulary.items() if not word.startswith("[")]
    assert np.linalg.norm(vectors[known], axis=1) == pytest.approx(np.ones(len(known)))
    assert np.abs(np.delete(vectors, known, axis=0)).max() == 0, "special tokens have none"
    assert np.array_equal(vectors, word_vectors(texts, vocabulary))
    with pytest.raises(ValueError, match="no two words"):
        word_vectors(["nice"], vocabulary)


def test_vectors_are_read_from_glove_text_for_the_words_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("nice 0.5 -1 2e-1\nthe 1 2 3\nfoul 1 0 0\n", encoding="utf-8")
    found = read_vectors(path, ["nice", "foul", "absent"])
    assert {word: vector.tolist() for word, vector in found.items()} == {
        "nice": [0.5, -1, 0.2],
        "foul": [1, 0, 0],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nice 0.5 x\n", "line 1: not a word and numbers"),
        ("foul 1 2\nnice 1 2 3\n", "line 2: 3 numbers, not 2"),
        ("the 1 2\n", "none of the dataset's words"),
        ("", "none of the dataset's words"),
        ("nice\n", "line 1: not a word and finite numbers"),
        ("nice nan 1\n", "line 1: not a word and finite numbers"),
    ],
)
def test_malformed_vector_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_vectors(path, ["nice", "foul"])


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "glove.bin"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(ValueError):  # noqa: PT011 - the decoder's message names byte and place
        read_vectors(path, ["nice"])


def test_a_word_that_the_file_lacks_is_read_in_lower_case(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("the 1 2\nGood 3 4\ngood 5 6\nNASA 7 8\n", encoding="utf-8")
    found = read_vectors(path, ["The", "the", "Good", "good", "nasa"])
    assert {word: vector.tolist() for word, vector in found.items()} == {
        "The": [1, 2],
        "the": [1, 2],
        "Good": [3, 4],
        "good": [5, 6],
    }


def write_vectors(path: Path, vectors: np.ndarray, header: str = "") -> list[str]:
    words = [f"word{number}" for number in range(len(vectors))]
    lines = [
        f"{word} {' '.join(map(repr, row))}"
        for word, row in zip(words, vectors.tolist(), strict=True)
    ]
    path.write_text("\n".join([*filter(None, [header]), *lines]), encoding="utf-8")
    return words


@pytest.mark.parametrize("header", ["", "40 6"])
def test_vectors_that_are_too_wide_keep_what_a_narrow_model_can_hold(
    header: str, tmp_path: Path
) -> None:
    """40 vectors of a plane in 6 dimensions: two directions hold all of their inner products."""
    rng = np.random.default_rng(0)
    plane = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 6))
    words = write_vectors(tmp_path / "plane.txt", plane, header)
    found = read_vectors(tmp_path / "plane.txt", words[:5], d_model=2)
    narrow = np.array(list(found.values()))
    assert narrow.shape == (5, 2)
    np.testing.assert_allclose(narrow @ narrow.T, plane[:5] @ plane[:5].T, atol=1e-12)
    alone = read_vectors(tmp_path / "plane.txt", words[3:4], d_model=2)
    # The same whatever other words are asked for, but for the order of sums.
    np.testing.assert_allclose(alone[words[3]], found[words[3]], rtol=1e-12)
    whole = read_vectors(tmp_path / "plane.txt", words[:5], d_model=6)
    assert np.array_equal(np.array(list(whole.values())), plane[:5])


def test_main_directions_are_those_that_lose_least_and_have_a_sign() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((200, 5)) * [1, 4, 2, 0.1, 0.5] + [0, 1, 0, 0, 0]
    directions = main_directions(vectors, 3)
    np.testing.assert_allclose(directions.T @ directions, np.eye(3), atol=1e-12)
    assert np.argmax(np.abs(directions), axis=0).tolist() == [1, 2, 0]
    assert (directions[[1, 2, 0], [0, 1, 2]] > 0).all()

    def kept(basis: np.ndarray) -> float:
        return float(np.linalg.norm(vectors @ basis))

    others = [np.linalg.qr(rng.standard_normal((5, 3)))[0] for _ in range(50)]
    assert kept(directions) > max(map(kept, others))
    np.testing.assert_allclose(main_directions(-vectors, 3), directions, atol=1e-12)
    assert main_directions(vectors[:2], 3).shape == (5, 2), "two words span a plane"


def test_a_malformed_line_among_the_frequent_words_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("nice 1 2 3\nthe 1 2\n", encoding="utf-8")
    assert len(read_vectors(path, ["nice"])["nice"]) == 3, "nobody asks for the line"
    with pytest.raises(ValueError, match=r"line 2: 2 numbers, not 3"):
        read_vectors(path, ["nice"], d_model=2)


def test_scaled_vectors_have_mean_norm_one_and_keep_their_ratios() -> None:
    vectors = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 15.0]])
    scaled = of_mean_norm_one(vectors)
    assert np.linalg.norm(scaled, axis=1).tolist() == [0.5, 0, 1.5]
    with pytest.raises(ValueError, match="are 0"):
        of_mean_norm_one(vectors[1:2])


def test_shuffled_vectors_are_the_same_ones_at_other_words() -> None:
    vectors = np.arange(40.0).reshape(20, 2)
    vectors[[0, 7]] = 0  # words without a vector
    permuted = shuffled(vectors, np.random.default_rng(0))
    assert sorted(permuted.tolist()) == sorted(vectors.tolist())
    assert not permuted[[0, 7]].any(), "they have none afterwards, either"
    assert (permuted != vectors).any(axis=1).mean() > 0.5
    assert np.array_equal(permuted, shuffled(vectors, np.random.default_rng(0)))
    assert not np.array_equal(permuted, shuffled(vectors, np.random.default_rng(1)))


@pytest.mark.parametrize("name", ["sentiment", "sentiment-wide", "restaurant"])
def test_glove_knows_every_word_that_decides(name: str) -> None:
    spec = read_spec(name)
    slots = [slot for slot in spec.lexicon.slots.values() if slot.role == "informative"]
    words = {word for slot in slots for group in slot.words.values() for word in group}
    found = read_vectors(packaged_file("glove"), [*words, "The", "."], d_model=32)
    assert set(found) == words | {"The", "."}
    assert {len(vector) for vector in found.values()} == {32}


def test_glove_in_32_dimensions_tells_good_words_from_bad_ones() -> None:
    """Without labels: each of the ten adjectives is closer to the others of its own sentiment."""
    found = read_vectors(packaged_file("glove"), GOOD + BAD, d_model=32)
    unit = np.array([found[word] / np.linalg.norm(found[word]) for word in GOOD + BAD])
    cosines = pd.DataFrame(unit @ unit.T, index=GOOD + BAD, columns=GOOD + BAD)
    assert min(leaning(cosines, word, GOOD, BAD) for word in GOOD) > 0
    assert max(leaning(cosines, word, GOOD, BAD) for word in BAD) < 0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_set_vectors_are_frozen_and_must_fit(architecture: str) -> None:
    ends = ARCHITECTURES[architecture].ends
    tokenizer = build_tokenizer(["my dog is nice and his owl is mean"], ends=ends)
    model = build_model(tokenizer, "tiny", LABELS, 0, architecture)
    before = model.get_input_embeddings().weight.detach().clone()
    vectors = torch.zeros(len(tokenizer), 4)
    vectors[7] = torch.tensor([1.0, 2, 3, 4])
    set_vectors(model, vectors)
    weight = model.get_input_embeddings().weight
    assert weight[7].tolist() == [1, 2, 3, 4] + [0] * 28
    assert torch.equal(weight[8], before[8])
    assert not weight.requires_grad
    with pytest.raises(ValueError, match="do not fit"):
        set_vectors(model, torch.zeros(len(tokenizer), 33))
