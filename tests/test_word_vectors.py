"""Word vectors of a corpus and of a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from data_gen import build_tokenizer
from probing.models.presets import ARCHITECTURES, build_model
from probing.models.word_vectors import corpus, read_vectors, set_vectors, word_vectors

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
        ("foul 1 2\nnice 1 2 3\n", "line 2: not as many numbers"),
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
