"""Word vectors from an unlabelled corpus: positive pointwise mutual information, then an SVD.

A word-level model cannot know what a new adjective means, but these vectors can. They carry
sentiment because the corpus puts positive adjectives in positive contexts. This is distant
supervision, so every result has a control, ``swapped_corpus``, in which the contexts of the new
adjectives are exchanged.
"""

import tomllib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from data_gen import Spec, parse_spec, read_spec, split_words

RANK, WINDOW, N_SENTENCES = 16, 3, 30_000


def corpus(n: int = N_SENTENCES, *, swapped: Iterable[str] = (), seed: int = 0) -> list[str]:
    """n sentences of the built-in corpus; words in ``swapped`` occur in the opposite contexts."""
    spec = swapped_corpus(swapped) if swapped else read_spec("sentiment-corpus")
    sentences = spec.splits["train"].iter_shard(0, 1, seed)
    return [sentence.text for _, sentence in zip(range(n), sentences, strict=False)]


def swapped_corpus(words: Iterable[str]) -> Spec:
    """The spec of the corpus with these words in contexts of the opposite sentiment."""
    words = set(words)
    table = tomllib.loads(read_spec("sentiment-corpus").text)
    good, bad = (table["slots"][slot]["all"] for slot in ("GOOD", "BAD"))
    sides = {"GOOD": ("positive", good, bad), "BAD": ("negative", bad, good)}
    for slot, (label, same, opposite) in sides.items():
        stay, move = [w for w in same if w not in words], [w for w in opposite if w in words]
        table["slots"][slot]["all"] = table["polarity"][label] = stay + move
    return parse_spec(table, file="swapped sentiment-corpus")


def word_vectors(texts: Sequence[str], vocabulary: dict[str, int]) -> np.ndarray:
    """Unit vectors, shape (vocabulary, RANK); zero for words that the texts do not contain."""
    size = len(vocabulary)
    counts = np.zeros((size, size))
    for text in texts:
        ids = [vocabulary[word] for word in split_words(text) if word in vocabulary]
        for gap in range(1, WINDOW + 1):
            np.add.at(counts, (ids[gap:], ids[: max(0, len(ids) - gap)]), 1.0)
    counts += counts.T
    total, of_word = counts.sum(), counts.sum(axis=1)
    if total == 0:
        raise ValueError("the texts have no two words of the vocabulary next to each other")
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(counts * total / np.outer(of_word, of_word))
    positive = np.where(counts > 0, np.maximum(information, 0), 0)
    start = np.random.default_rng(0).standard_normal(size)  # the same vectors every time
    u, s, _ = svds(csr_array(positive), k=RANK, v0=start)
    vectors = u * np.sqrt(s)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 1e-9)


def read_vectors(path: Path, words: Collection[str]) -> dict[str, np.ndarray]:
    """The vectors of these words from a text file of lines "word x1 x2 ..." (GloVe's format)."""
    vectors: dict[str, np.ndarray] = {}
    wanted = set(words)
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            word, *numbers = line.rstrip().split(" ")
            if word not in wanted:
                continue
            try:
                vectors[word] = np.array(numbers, dtype=float)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: not a word and numbers") from error
            if not numbers or not np.isfinite(vectors[word]).all():
                raise ValueError(f"{path}, line {number}: not a word and finite numbers")
            if len(vectors[word]) != len(next(iter(vectors.values()))):
                raise ValueError(f"{path}, line {number}: not as many numbers as before")
    if not vectors:
        raise ValueError(f"{path} holds none of the dataset's words in lines 'word x1 x2 ...'")
    return vectors


def set_vectors(model: Any, vectors: torch.Tensor) -> None:
    """Freeze the vectors as the model's word embeddings: its first dimensions; the rest is 0."""
    weight = model.get_input_embeddings().weight
    if vectors.shape[0] != weight.shape[0] or vectors.shape[1] > weight.shape[1]:
        raise ValueError(
            f"vectors of shape {tuple(vectors.shape)} do not fit embeddings of shape "
            f"{tuple(weight.shape)}; use a larger preset or shorter vectors"
        )
    known = vectors.norm(dim=1) > 0
    with torch.no_grad():
        weight[known] = 0.0  # special tokens and words without a vector keep their own
        weight[known, : vectors.shape[1]] = vectors[known]
    weight.requires_grad_(False)
