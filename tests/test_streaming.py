"""Probes from sums are those of all states at once, in memory that does not grow."""

import tracemalloc
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid

from data_gen import read_spec, stream_dataset
from data_gen.dataset import DatasetError
from probing.circuits.interventions import Leace
from probing.probes.linear import LinearProbe
from probing.probes.streaming import Moments

D = 8
MEAN = 50.0  # states vary little around a large mean


def drawn(n: int, n_labels: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = rng.choice(n_labels, n, p=np.arange(1, n_labels + 1) / np.arange(1, n_labels + 1).sum())
    mixing = rng.standard_normal((D, D))
    X = MEAN + rng.standard_normal((n, D)) @ mixing + 1.5 * rng.standard_normal((n_labels, D))[y]
    return X, y


def gathered(X: Any, y: Any, chunk: int = 37) -> Moments:
    moments = Moments(np.unique(y))
    for first in range(0, len(X), chunk):
        moments.update(X[first : first + chunk], y[first : first + chunk])
    return moments


def test_moments_are_those_of_all_states_at_once() -> None:
    X, y = drawn(1000, 3)
    moments = gathered(X, y)
    assert len(moments) == 1000
    assert_array_equal(moments.counts, np.bincount(y))
    assert_allclose(moments.mean, X.mean(0))
    assert_allclose(moments.scatter, 1000 * np.cov(X.T, bias=True))
    assert_allclose(
        moments.within, sum(np.cov(X[y == c].T, bias=True) * (y == c).sum() for c in range(3))
    )
    one_hot = np.eye(3)[y]
    assert_allclose(moments.cross, (X - X.mean(0)).T @ (one_hot - one_hot.mean(0)), atol=1e-9)


def test_parts_of_several_workers_add_up_in_any_order() -> None:
    X, y = drawn(600, 2)
    parts = [gathered(X[i::3], y[i::3]) for i in range(3)]
    whole = gathered(X, y)
    for order in ([0, 1, 2], [2, 0, 1]):
        total = sum((parts[i] for i in order), Moments([0, 1]))
        assert_allclose(total.within, whole.within)
        assert_allclose(total.means, whole.means)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_probes_are_those_of_scikit_learn(n_labels: int) -> None:
    X, y = drawn(2000, n_labels)
    new, _ = drawn(500, n_labels, seed=1)
    moments = gathered(X, y)
    lda = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    ours = moments.probe("lda", shrinkage=0.0)
    margins = lda.decision_function(new)
    if n_labels > 2:
        margins = margins - margins.mean(1, keepdims=True)
    assert_allclose(ours.decision_function(new), margins, atol=1e-6)
    assert_array_equal(
        moments.probe("mean difference").predict(new), NearestCentroid().fit(X, y).predict(new)
    )


def test_ridge_is_penalised_least_squares() -> None:
    X, y = drawn(2000, 2)
    X = (X - X.mean(0)) / X.std(0)  # variances of 1: a share of the variance is a number
    ridge = Ridge(alpha=0.1 * len(X)).fit(X, 2.0 * y - 1)
    ours = gathered(X, y).probe("ridge", shrinkage=0.1)
    assert_allclose(ours.decision_function(X), ridge.predict(X), atol=1e-9)


def test_a_probe_from_sums_reads_what_a_stored_fit_reads() -> None:
    X, y = drawn(4000, 2)
    new, labels = drawn(4000, 2)
    stored = LinearProbe(C=1.0).fit(X, y).score(new, labels)
    streamed = gathered(X, y).probe("lda").score(new, labels)
    assert stored > 0.7, "there is something to read"
    assert abs(streamed - stored) < 0.02


@pytest.mark.parametrize("n_labels", [2, 3])
def test_leace_from_sums_is_leace(n_labels: int) -> None:
    X, y = drawn(1500, n_labels)
    erased = Leace.from_moments(gathered(X, y))(torch.from_numpy(X)).numpy()
    concept = y.astype(float) if n_labels == 2 else np.eye(n_labels)[y]
    assert_allclose(erased, Leace.fit(X, concept)(torch.from_numpy(X)).numpy(), atol=1e-8)
    means = [erased[y == label].mean(0) for label in range(n_labels)]
    assert np.ptp(means, axis=0).max() < 1e-6, "no linear probe can tell labels of equal means"
    assert np.ptp([X[y == label].mean(0) for label in range(n_labels)], axis=0).max() > 0.5


def test_a_coordinate_that_never_varies_has_no_weight() -> None:
    X, y = drawn(300, 2)
    X[:, 3] = 7.0
    for kind in ("lda", "ridge"):
        assert gathered(X, y).probe(kind).coef_[3] == 0


def test_memory_does_not_grow_with_the_sentences() -> None:
    moments, rng, peaks = Moments([0, 1]), np.random.default_rng(0), []
    for n in (1000, 20_000, 200_000):
        tracemalloc.start()
        for _ in range(n // 1000):
            X = rng.standard_normal((1000, 50))
            moments.update(X, (X[:, 0] > 0).astype(int))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.1 * peaks[1]


def test_bad_sums_are_refused() -> None:
    X, y = drawn(50, 2)
    with pytest.raises(ValueError, match="two or more labels, each once"):
        Moments([0])
    with pytest.raises(ValueError, match="one of the labels 0, 1"):
        Moments([0, 1]).update(X, y + 1)
    with pytest.raises(ValueError, match="a label has no sentence yet"):
        Moments([0, 1]).update(X, np.zeros(50)).probe()
    with pytest.raises(ValueError, match="8 dimensions"):
        Moments([0, 1]).update(X[:, :5], y).update(X, y)
    with pytest.raises(ValueError, match="other labels"):
        Moments([0, 1]) + Moments([0, 1, 2])


# ---- all sentences of a split that a spec samples


def test_a_whole_split_streams_what_the_sample_is_drawn_from() -> None:
    sampled = read_spec("sentiment-wide").splits["train"]
    rows = list(islice(stream_dataset("sentiment-wide", "train", seed=0, whole=True), 2000))
    texts = {row["text"] for row in rows}
    assert len(texts) == 2000, "no sentence comes twice"
    assert len(texts - {sentence.text for sentence in sampled}) > 1900, "most are not in the sample"
    patterns = {row["pattern"] for row in rows}
    assert len(patterns) > 4
    assert patterns <= {pattern.name for pattern in sampled.patterns}
    whole = sum(pattern.n_sentences for pattern in sampled.patterns)
    with pytest.raises(DatasetError, match=f"from 1 to the {whole} sentences"):
        stream_dataset("sentiment-wide", "train", n_shards=whole + 1, whole=True)
