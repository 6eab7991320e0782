"""Word vectors of an unlabelled corpus of ours, or of a text file such as GloVe's.

A word-level model cannot know what a new adjective means, but word vectors can. Those of our corpus
(positive pointwise mutual information, then an SVD) carry sentiment because the corpus puts
positive adjectives in positive contexts. This is distant supervision, so every result has a
control, ``swapped_corpus``, in which the contexts of the new adjectives are exchanged. GloVe comes
from texts that nobody wrote for this purpose. Its control is ``shuffled``: the same vectors, each
at another word.
"""

import tomllib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from data_gen import Spec, parse_spec, read_spec, split_words

RANK, WINDOW, N_SENTENCES = 16, 3, 30_000
N_FREQUENT = 20_000  # words of a file, which has the most frequent first, for its main directions
LONGEST_LINE = 2**18  # bytes: thousands of numbers
WIDEST = 4096  # numbers of a vector
LARGEST = 1e9  # number of a vector; the square of a much larger one is not a float32


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


def read_vectors(
    path: Path, words: Collection[str], *, d_model: int | None = None
) -> dict[str, np.ndarray]:
    """The vectors of these words from a text file of lines "word x1 x2 ..." (GloVe's format).

    A word that the file lacks has the vector of its lower-case form: GloVe is in lower case, so
    that "The" is read as "the". Vectors with more than ``d_model`` numbers are projected on the
    main directions of the file's first words, which are neither labelled nor those of a dataset.

    >>> read_vectors(packaged_file("glove"), ["The", "nice"], d_model=32)
    """
    wanted = {form.encode() for word in words for form in (word, word.lower())}
    first_lines: list[bytes] = []
    lines: dict[bytes, tuple[int, bytes]] = {}
    for number, line in enumerate(_lines(path), 1):
        if number <= N_FREQUENT:
            first_lines.append(line)
        if (word := line.partition(b" ")[0].rstrip()) in wanted:
            if word in lines:
                twice = f"lines {lines[word][0]} and {number} have the same word"
                raise ValueError(f"{path}: {twice}, {word.decode()!r}; delete one of them")
            lines[word] = number, line
    if not lines:
        raise ValueError(f"{path} holds none of the dataset's words in lines 'word x1 x2 ...'")
    vectors = _parsed(path, lines.values())
    if d_model is not None and vectors.shape[1] > d_model:
        fields = first_lines[0].split()  # "400000 50", of word2vec's text files
        header = len(fields) == 2 and all(field.isdigit() for field in fields)
        rest = enumerate(first_lines[header:], 1 + header)
        frequent = _parsed(path, rest, width=vectors.shape[1])
        vectors = vectors @ main_directions(frequent, d_model)
    found = dict(zip(lines, vectors, strict=True))
    forms = ((word, (word.encode(), word.lower().encode())) for word in words)
    return {
        word: found[exact if exact in found else lower]
        for word, (exact, lower) in forms
        if exact in found or lower in found
    }


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of the file as bytes: to decode 400 000 takes longer than to find a few."""
    if not path.is_file():  # a pipe would never end, nor a device
        raise ValueError(f"{path} is not a file of word vectors")
    with path.open("rb") as file:
        for line in iter(partial(file.readline, LONGEST_LINE), b""):
            if len(line) == LONGEST_LINE:
                raise ValueError(f"{path} has a line of more than {LONGEST_LINE} bytes; shorten it")
            yield line


def _parsed(path: Path, lines: Iterable[tuple[int, bytes]], width: int | None = None) -> np.ndarray:
    """The numbers of these lines, shape (lines, width); all have as many as the first."""
    rows: list[np.ndarray] = []
    for number, line in lines:
        try:
            rows.append(np.array(line.rstrip().split(b" ")[1:], dtype=float))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: not a word and numbers") from error
        size = rows[-1].size
        if not size or not (np.abs(rows[-1]) <= LARGEST).all():  # nor is nan
            raise ValueError(f"{path}, line {number}: not a word and finite numbers below 1e9")
        if size > WIDEST:
            raise ValueError(f"{path}, line {number}: {size} numbers, more than {WIDEST}")
        width = width or len(rows[-1])
        if len(rows[-1]) != width:
            raise ValueError(f"{path}, line {number}: {len(rows[-1])} numbers, not {width}")
    return np.array(rows)


def main_directions(vectors: np.ndarray, n: int) -> np.ndarray:
    """The n directions that hold most of the squared norms of these vectors; shape (d, n).

    They are principal components without centring. So the map is linear, and the vectors that a
    narrow model gets are the closest ones, in inner products as well, to those that a wide model
    gets whole. The mean, which tells no two words apart, takes about one direction. The entry of
    largest modulus is positive in each direction, whose sign is otherwise arbitrary.
    """
    directions = np.linalg.svd(vectors, full_matrices=False)[2][:n].T
    largest = np.abs(directions).argmax(axis=0)
    return directions * np.sign(directions[largest, np.arange(directions.shape[1])])


def of_mean_norm_one(vectors: np.ndarray) -> np.ndarray:
    """The vectors on the scale on which their mean norm is 1; vectors of 0, of no word, stay 0.

    The noise of training, 0.05 in each dimension, was chosen for the unit vectors of our corpus.
    Norms of GloVe are about 5. They are scaled together, so that words keep their differences in
    norm; the noise is not scaled up, since positions would then be small beside both.
    """
    norms = np.linalg.norm(vectors, axis=1)
    if not norms.any():
        raise ValueError("the vectors of all words of the dataset are 0")
    return vectors / norms[norms > 0].mean()


def shuffled(vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The control: the same vectors, permuted among the words that have one."""
    known = np.flatnonzero(np.linalg.norm(vectors, axis=1) > 0)
    permuted = vectors.copy()
    permuted[known] = vectors[rng.permutation(known)]
    return permuted


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
