"""Intervals cover as often as they claim when observations come in clusters."""

from typing import Any

import numpy as np
import pytest

from probing.statistics import Interval, cluster_bootstrap

N_SIMULATIONS = 300  # a true coverage of .95 is then seen within .95 +- .04


def clustered(rng: np.random.Generator, n_clusters: int = 40, size: int = 25) -> tuple[Any, Any]:
    """Values of mean 0: what is common to a cluster is as large as what is not."""
    clusters = np.repeat(np.arange(n_clusters), size)
    return rng.standard_normal(n_clusters)[clusters] + rng.standard_normal(len(clusters)), clusters


def test_the_cluster_bootstrap_covers_as_often_as_it_says() -> None:
    """And one that draws rows, the positive control, does not: it is several times too narrow."""
    rng = np.random.default_rng(0)
    covered = {"cluster": 0, "row": 0}
    for _ in range(N_SIMULATIONS):
        values, clusters = clustered(rng)
        covered["cluster"] += 0.0 in cluster_bootstrap(values, clusters, n_resamples=500, rng=rng)
        covered["row"] += 0.0 in cluster_bootstrap(
            values, np.arange(len(values)), n_resamples=200, rng=rng
        )
    assert 0.90 <= covered["cluster"] / N_SIMULATIONS <= 0.99
    assert covered["row"] / N_SIMULATIONS < 0.6


def test_crossed_clusters_need_both_keys() -> None:
    """A word's effect and a pattern's: drawing pairs of them is too narrow (positive control)."""
    rng = np.random.default_rng(1)
    words, patterns = (a.ravel() for a in np.mgrid[:30, :25])
    pairs = words * 25 + patterns
    covered = {"both": 0, "pairs": 0}
    for _ in range(N_SIMULATIONS):
        values = rng.standard_normal(30)[words] + rng.standard_normal(25)[patterns]
        values += rng.standard_normal(len(words))
        both = cluster_bootstrap(values, (words, patterns), n_resamples=500, rng=rng)
        covered["both"] += 0.0 in both
        covered["pairs"] += 0.0 in cluster_bootstrap(values, pairs, n_resamples=200, rng=rng)
    assert 0.90 <= covered["both"] / N_SIMULATIONS <= 0.99
    assert covered["pairs"] / N_SIMULATIONS < 0.6


def test_the_vectorised_interval_is_that_of_the_definition() -> None:
    rng = np.random.default_rng(2)
    values, clusters = clustered(rng, n_clusters=12, size=5)
    keep = rng.random(len(values)) < 0.7  # clusters of different sizes
    values, clusters = values[keep], clusters[keep]
    members = [values[clusters == c] for c in np.unique(clusters)]
    means = []
    for _ in range(20_000):
        drawn = rng.integers(len(members), size=len(members))
        means.append(np.concatenate([members[i] for i in drawn]).mean())
    interval = cluster_bootstrap(values, clusters, n_resamples=20_000, rng=rng)
    assert interval.value == pytest.approx(values.mean())
    # 20 000 samples place a 2.5% quantile to about .03 standard deviations
    tolerance = 0.1 * float(np.std(means))
    assert [interval.low, interval.high] == pytest.approx(
        np.quantile(means, [0.025, 0.975]), abs=tolerance
    )


def test_labels_may_be_words_and_a_key_of_one_label_changes_nothing() -> None:
    values = np.array([1, 0, 1, 1, 0, 1])
    words = ["good", "bad", "good", "nice", "bad", "nice"]
    one = cluster_bootstrap(values, words, rng=np.random.default_rng(3))
    assert one == cluster_bootstrap(values, (words,), rng=np.random.default_rng(3))
    assert one == cluster_bootstrap(values, (words, ["only"] * 6), rng=np.random.default_rng(3))
    assert (one.low, one.high) == (0.0, 1.0)


def test_a_perfect_score_has_no_width_and_a_wider_level_is_wider() -> None:
    rng = np.random.default_rng(4)
    assert cluster_bootstrap(np.ones(6), np.arange(6), rng=rng) == Interval(1.0, 1.0, 1.0)
    values, clusters = clustered(rng)
    narrow, wide = (cluster_bootstrap(values, clusters, level=x, rng=rng) for x in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


def test_equal_seeds_give_equal_intervals_and_others_do_not() -> None:
    values, clusters = clustered(np.random.default_rng(5))
    first, again, other = (
        cluster_bootstrap(values, clusters, rng=np.random.default_rng(seed)) for seed in (6, 6, 7)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("values", "clusters", "options", "message"),
    [
        ([], [], {}, "values must be"),
        (np.ones((2, 2)), [0, 1], {}, "values must be"),
        ([1.0, np.nan], [0, 1], {}, "finite"),
        ([1.0, 0.0], [0, 1, 2], {}, "one label for each"),
        ([1.0, 0.0], [0, 0], {}, "two clusters"),
        ([1.0, 0.0], ([0, 1], [0, 1], [0, 1]), {}, "or two"),
        ([1.0, 0.0], [0, 1], {"level": 95}, "level"),
        ([1.0, 0.0], [0, 1], {"n_resamples": 0}, "n_resamples"),
    ],
)
def test_bad_input_is_refused(
    values: Any, clusters: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        cluster_bootstrap(values, clusters, rng=np.random.default_rng(0), **options)
