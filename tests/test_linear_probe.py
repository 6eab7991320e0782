"""The linear probe finds what was planted, at the least objective, for two labels or more."""

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from planted_states import (
    MEAN,
    NAMES,
    V_STAR,
    D,
    Pooled,
    pooled,
)
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from probing.arrays import unit
from probing.probes.linear import LinearProbe, shuffled_labels
from probing.probes.logistic import logistic_path, merge_equal_rows
from probing.probes.penalty import C_GRID, choose_penalty, grouped_folds


def test_a_linear_probe_recovers_a_planted_direction() -> None:
    probe = LinearProbe().fit(*pooled(2000, 0))
    assert probe.direction_ @ V_STAR > 0.95
    assert np.linalg.norm(probe.direction_) == pytest.approx(1)
    X, y, _ = pooled(2000, 1)
    assert probe.score(X, y) > 0.9
    assert ((probe.decision_function(X) > 0) == (probe.predict(X) == 1)).all()


def test_on_shuffled_labels_a_linear_probe_is_at_chance() -> None:
    X, y, _ = pooled(2000, 0)
    shuffled = shuffled_labels(y, None, np.random.default_rng(0))
    test = pooled(4000, 1)
    # four standard errors of 4000 sentences
    assert abs(LinearProbe(C=1.0).fit(X, shuffled).score(test.X, shuffled_test(test)) - 0.5) < 0.04


def shuffled_test(test: Pooled) -> Any:
    return shuffled_labels(test.y, None, np.random.default_rng(1))


def test_once_the_direction_is_projected_out_a_linear_probe_is_at_chance() -> None:
    train, test = pooled(2000, 0), pooled(4000, 1)
    erase = np.eye(D) - np.outer(V_STAR, V_STAR)
    probe = LinearProbe(C=1.0).fit(train.X @ erase, train.y)
    assert abs(probe.score(test.X @ erase, test.y) - 0.5) < 0.04
    random = unit(np.random.default_rng(0).standard_normal(D))
    other = np.eye(D) - np.outer(random, random)  # the control: another direction does no harm
    assert LinearProbe(C=1.0).fit(train.X @ other, train.y).score(test.X @ other, test.y) > 0.85


def objective(coef: Any, intercept: Any, X: Any, y: Any, C: float) -> float:
    """The sum of the losses and |coef|^2 / (2 C), written out for each row's label."""
    logit = X @ np.transpose(coef) + intercept
    if logit.ndim == 1:
        logit = np.stack([np.zeros(len(y)), logit], axis=1)
    return float((logsumexp(logit, axis=1) - logit[np.arange(len(y)), y]).sum()) + float(
        np.sum(np.square(coef)) / (2 * C)
    )


def least(X: Any, y: Any, C: float) -> float:
    """The minimum of the objective of two labels, by second-order steps on the formula for two."""
    rows, sign = np.column_stack([X, np.ones(len(X))]), 2 * y - 1
    penalty = np.append(np.full(X.shape[1], 1 / C), 0)

    def value_and_slope(w: Any) -> tuple[float, Any]:
        margin = sign * (rows @ w)
        value = np.logaddexp(0, -margin).sum() + penalty @ w**2 / 2
        return value, rows.T @ (-sign * expit(-margin)) + penalty * w

    def curvature(w: Any) -> Any:
        wrong = expit(-sign * (rows @ w))
        return (rows.T * (wrong * (1 - wrong))) @ rows + np.diag(penalty)

    minimum = minimize(
        value_and_slope,
        np.zeros(rows.shape[1]),
        jac=True,
        hess=curvature,
        method="trust-exact",
        options={"gtol": 1e-12, "maxiter": 1000},
    )
    assert np.abs(minimum.jac).max() < 1e-5 * minimum.fun
    return float(minimum.fun)


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("signal", [3.0, 12.0])  # labels overlap; labels are separable
def test_two_labels_are_fitted_to_the_least_objective(C: float, dtype: Any, signal: float) -> None:
    X, y, _ = pooled(1000, 2, signal=signal)
    probe = LinearProbe(C=C, standardize=False).fit(X.astype(dtype), y)
    reached = objective(probe.coef_, probe.intercept_, X, y, C)
    assert reached == pytest.approx(least(X - X.mean(0), y, C), rel=2e-4)
    assert probe.objective_ == pytest.approx(reached, rel=1e-4)
    assert probe.coef_.shape == (D,)
    assert isinstance(probe.intercept_, float)


def test_the_unit_of_the_states_does_not_matter() -> None:
    """States a thousand times smaller, coefficients a thousand times larger, the same penalty."""
    X, y, _ = pooled(500, 3)
    probe = LinearProbe(C=0.1, standardize=False).fit(X, y)
    small = LinearProbe(C=0.1 * 1e6, standardize=False).fit(X / 1e3, y)
    assert_allclose(small.coef_ / 1e3, probe.coef_, rtol=1e-6)
    assert small.objective_ == pytest.approx(probe.objective_)
    assert probe.n_iter_ == small.n_iter_ > 0


def test_a_fit_along_a_path_is_as_good_as_a_fit_of_its_own() -> None:
    X, y, _ = pooled(1000, 2, signal=12.0)
    path = logistic_path(X, y, np.ones(1000), C_GRID, standardize=False)
    for C, fitted in zip(C_GRID, path, strict=True):
        alone = LinearProbe(C=C, standardize=False).fit(X, y)
        assert fitted.objective == pytest.approx(alone.objective_, rel=2e-4)


def test_fewer_rows_than_dimensions_and_a_weak_penalty_are_no_obstacle() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 40)).astype(np.float32), np.arange(12) % 2
    probe = LinearProbe(C=1e6).fit(X, y)
    assert probe.score(X, y) == 1
    assert np.isfinite(probe.coef_).all()
    Z = (X - X.mean(0)) / X.std(0)
    assert probe.objective_ == pytest.approx(least(Z.astype(float), y, 1e6), rel=1e-3)


def test_a_fit_that_runs_out_of_iterations_says_so() -> None:
    X, y, _ = pooled(500, 2)
    with pytest.warns(ConvergenceWarning, match="1 iteration"):
        probe = LinearProbe(C=100.0, max_iter=1).fit(X, y)
    assert probe.n_iter_ == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LinearProbe(C=100.0).fit(X, y).objective_ < probe.objective_


def test_equal_rows_are_merged_exactly_and_in_order() -> None:
    X, y, _ = pooled(50, 4)
    X, y = X.astype(np.float32), y.copy()
    rows = np.random.default_rng(0).integers(50, size=400)
    weight = np.random.default_rng(1).random(400)
    merged, labels, total = merge_equal_rows(X[rows], y[rows], weight)
    order = list(dict.fromkeys(rows.tolist()))
    assert (merged == X[order]).all()
    assert (labels == y[order]).all()
    assert_allclose(total, [weight[rows == row].sum() for row in order])
    again = merge_equal_rows(merged, labels, total)
    assert all(a is b for a, b in zip(again, (merged, labels, total), strict=True))
    # A state that occurs with two labels stays two rows.
    assert len(merge_equal_rows(np.ones((4, 2)), np.array([0, 1, 0, 1]), np.ones(4))[0]) == 2


# ---- more than two labels

DIRECTIONS = np.linalg.qr(np.random.default_rng(98).standard_normal((D, 3)))[0].T


def three_labels(n: int, seed: int) -> Pooled:
    """Each of three labels moves the states along a direction of its own."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(12, size=n)
    y = groups % 3
    X = rng.standard_normal((n, D)) + 4 * DIRECTIONS[y]
    return Pooled(X + MEAN, NAMES[y], groups)


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_three_labels_are_fitted_as_scikit_learn_fits_them(C: float) -> None:
    X, y, _ = three_labels(1500, 0)
    probe = LinearProbe(C=C).fit(X, y)
    Z, codes = (X - X.mean(0)) / X.std(0), np.searchsorted(NAMES, y)
    plain = LogisticRegression(C=C, tol=1e-9, max_iter=10_000).fit(Z, y)
    expected = objective(plain.coef_, plain.intercept_, Z, codes, C)
    assert probe.objective_ == pytest.approx(expected, rel=1e-4)
    coef = probe.coef_ * X.std(0)  # in the space where it is penalised
    assert objective(coef, probe.intercept_ + probe.coef_ @ X.mean(0), Z, codes, C) == (
        pytest.approx(expected, rel=1e-4)
    )
    assert_allclose(coef, plain.coef_, rtol=0.02, atol=0.02 * np.abs(plain.coef_).max())
    assert (probe.predict(X) == plain.predict(Z)).mean() > 0.998
    assert probe.decision_function(X).shape == (1500, 3)
    assert (probe.classes_ == NAMES).all()


def test_directions_of_three_labels_are_found() -> None:
    probe = LinearProbe().fit(*three_labels(3000, 0))
    assert probe.direction_.shape == (3, D)
    assert_allclose(np.linalg.norm(probe.direction_, axis=1), 1)
    # With equally frequent labels and noise that is alike everywhere, a logit reads its own mean
    # against the mean of all.
    expected = DIRECTIONS - DIRECTIONS.mean(0)
    cosines = probe.direction_ @ (expected / np.linalg.norm(expected, axis=1)[:, None]).T
    assert cosines.diagonal().min() > 0.95
    assert cosines[~np.eye(3, dtype=bool)].max() < 0
    X, y, _ = three_labels(3000, 1)
    assert probe.score(X, y) > 0.95
    assert np.nanmax(probe.cv_scores_) > 0.95


def test_on_three_shuffled_labels_a_linear_probe_is_at_chance() -> None:
    rng = np.random.default_rng(0)
    (X, y, _), test = three_labels(3000, 0), three_labels(4000, 1)
    probe = LinearProbe(C=1.0).fit(X, shuffled_labels(y, None, rng))
    # four standard errors of 4000 sentences are .03
    assert abs(probe.score(test.X, shuffled_labels(test.y, None, rng)) - 1 / 3) < 0.03


def test_three_labels_shuffled_over_words_are_not_the_same_under_other_names() -> None:
    groups = np.arange(6)
    y, rng = NAMES[groups % 3], np.random.default_rng(0)
    for _ in range(50):
        drawn = shuffled_labels(y, groups, rng)
        assert sorted(drawn) == sorted(y)
        assert (drawn[:3] != drawn[3:]).any(), "words of one label would keep one label"


def test_constant_states_say_nothing_of_three_labels() -> None:
    y = NAMES[np.array([0, 1, 2, 2])]
    probe = LinearProbe(C=1.0).fit(np.full((4, 3), 0.1, dtype=np.float32), y)
    assert (probe.direction_ == 0).all()
    assert (probe.predict(np.full((4, 3), 0.1)) == "good").all(), "the most frequent one"


def test_repeated_states_count_as_often_as_they_occur() -> None:
    X, y, _ = pooled(200, 4)
    times = np.random.default_rng(0).integers(1, 5, size=200)
    probe = LinearProbe(C=0.1, tol=1e-8)
    once = clone(probe).fit(X, y)
    weighted = clone(probe).fit(X, y, sample_weight=times)
    repeated = clone(probe).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(repeated.coef_, weighted.coef_, atol=1e-6)
    assert not np.allclose(repeated.coef_, once.coef_, atol=1e-2)


def test_constant_states_say_nothing() -> None:
    """As [CLS] at layer 0: its state is the same in every sentence."""
    y = np.arange(40) % 2
    probe = LinearProbe().fit(
        np.full((40, 3), 0.1, dtype=np.float32), y, np.arange(40) // 4 * 2 + y
    )
    assert (probe.direction_ == 0).all()
    assert probe.score(np.full((40, 3), 0.1), y) == 0.5
    assert probe.C_ == C_GRID[0], "a tie goes to the strongest penalty"


def test_a_dead_coordinate_is_not_magnified() -> None:
    """MiniLM has one of size 1e-33: scaled to 1, its weight would be 1e31."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 5)), np.arange(200) % 2
    X[:, 0] += y
    X[:, 4] *= 1e-33
    probe = LinearProbe(C=1.0).fit(X, y)
    without = LinearProbe(C=1.0).fit(X[:, :4], y)
    assert probe.coef_[:4] == pytest.approx(without.coef_, abs=1e-5)
    assert abs(probe.coef_[4]) < 1e-5


def test_cross_validation_goes_by_groups() -> None:
    """Small coordinates that name the word let a weak penalty learn words by heart.

    Within words that looks excellent, on other words it is worth nothing. Left out by group, the
    strong penalty wins; with groups that cut across the words (ordinary cross-validation, the
    positive control) the weak one does.
    """
    rng = np.random.default_rng(5)
    n, n_words = 600, 6
    words = np.arange(n) % n_words
    y = words % 2
    means = rng.standard_normal((n_words, 40))  # what a word looks like, label aside
    X = 1.0 * means[words] + 0.8 * rng.standard_normal((n, 40))
    X[:, :20] = 0.35 * (2 * y - 1)[:, None] + rng.standard_normal((n, 20))  # weak, but true
    by_word = LinearProbe().fit(X, y, words)
    by_row = LinearProbe().fit(X, y, np.arange(n))
    assert by_word.C_ < by_row.C_
    assert np.nanmax(by_row.cv_scores_) > 0.99
    assert np.nanmax(by_word.cv_scores_) < np.nanmax(by_row.cv_scores_) - 0.02


def test_each_fold_leaves_out_words_of_both_labels() -> None:
    words = np.repeat(["nice", "mean", "cute", "dreadful", "aggressive", "delightful"], 10)
    positive = np.isin(words, ["nice", "cute", "delightful"])
    folds = grouped_folds(positive, words)
    assert len(folds) == 3
    for train, test in folds:
        assert not set(words[train]) & set(words[test])
        assert set(positive[train]) == set(positive[test]) == {True, False}


def crossed(n_words: int, n_structures: int, times: int = 3) -> tuple[Any, Any, Any]:
    """Labels, words and structures of sentences: every word in every structure, in random order."""
    words, structures = (
        x.ravel() for x in np.meshgrid(np.arange(n_words), np.arange(n_structures))
    )
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(len(words)), times))
    return words[order] % 2, words[order], structures[order]


@pytest.mark.parametrize(("n_words", "n_structures"), [(6, 4), (8, 5), (64, 12), (10, 5)])
def test_words_and_structures_are_held_out_together(n_words: int, n_structures: int) -> None:
    labels, words, structures = crossed(n_words, n_structures)
    folds = grouped_folds(labels, words, structures)
    by_word = grouped_folds(labels, words)
    assert len(folds) == len(by_word) == min(5, n_words // 2)
    for (train, test), (_, whole) in zip(folds, by_word, strict=True):
        assert not set(words[train]) & set(words[test])
        assert not set(structures[train]) & set(structures[test])
        assert set(words[train]) | set(words[test]) == set(range(n_words))
        assert set(structures[train]) | set(structures[test]) == set(range(n_structures))
        assert set(words[test]) == set(words[whole]), "every word of its fold is tested"
        # What is left out of both is what would have had a word or a structure on both sides.
        lost = np.setdiff1d(np.arange(len(labels)), np.concatenate([train, test]))
        assert all((words[i] in words[test]) != (structures[i] in structures[test]) for i in lost)
        if n_words % (2 * len(folds)) == 0:  # as many words of each label in every fold
            assert labels[train].mean() == labels[test].mean() == 0.5
        else:
            assert abs(labels[test].mean() - 0.5) <= 0.5 / len(set(words[test]))
    tested = np.concatenate([test for _, test in folds])
    assert len(set(tested)) == len(tested)
    assert set(words[tested]) == set(range(n_words))
    assert set(structures[tested]) == set(range(n_structures))


def test_few_or_uncrossed_structures_leave_folds_of_words() -> None:
    labels, words, structures = crossed(10, 5)
    by_word = grouped_folds(labels, words)

    def same(found: Any) -> bool:
        return all(
            np.array_equal(*pair)
            for fold in zip(found, by_word, strict=True)
            for pair in zip(*fold, strict=True)
        )

    assert not same(grouped_folds(labels, words, structures)), "the control"
    assert same(grouped_folds(labels, words, None))
    assert same(grouped_folds(labels, words, structures % 3)), "too few"
    assert same(grouped_folds(labels, words, structures % 4)), "fewer than folds"
    assert same(grouped_folds(labels, words, words)), "a structure of its own for each word"
    of_one_label = np.where(labels == 1, structures, structures + 5)
    assert same(grouped_folds(labels, words, of_one_label % 9)), "a part would lack a label"
    with pytest.raises(ValueError, match="structures must be one per sentence"):
        grouped_folds(labels, words, structures[1:])


def test_a_rule_that_holds_in_its_own_structures_only_is_not_chosen() -> None:
    """Each structure writes the label along a small direction of its own: a weak penalty learns it.

    In other structures that is worth nothing. With structures held out, the strong penalty wins,
    which reads large coordinates that say the same everywhere; by words alone the weak one does.
    """
    labels, words, structures = crossed(10, 10, times=6)
    rng, n = np.random.default_rng(0), len(labels)
    sign = 2.0 * labels[:, None] - 1
    common = 0.2 * sign + rng.standard_normal((n, 20))
    own = sign * rng.standard_normal((10, 40))[structures] + 0.5 * rng.standard_normal((n, 40))
    X = np.concatenate([common, 0.1 * own], axis=1)
    by_word = LinearProbe(standardize=False).fit(X, labels, words)
    by_both = LinearProbe(standardize=False).fit(X, labels, words, structures=structures)
    assert by_both.C_ < by_word.C_
    assert np.nanmax(by_word.cv_scores_) > 0.95
    assert np.nanmax(by_both.cv_scores_) < 0.9


GRIDS = {  # scores along C_GRID: the best, and how many of them are computed
    "rises": ([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99], 6, 7),
    "falls": ([0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.5], 0, 3),
    "a peak": ([0.5, 0.7, 0.9, 0.8, 0.8, 0.7, 0.7], 2, 5),
    "a dip": ([0.8, 0.7, 0.9, 0.8, 0.7, 0.6, 0.6], 2, 5),
    "a tie": ([0.7, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9], 1, 4),
    "perfect at once": ([1.0, 1, 1, 1, 1, 1, 1], 0, 3),
    "a flat start": ([0.8, 0.8, 0.8, 0.8, 0.9, 0.85, 0.8], 4, 7),
    "a flat start, a dip": ([0.8, 0.8, 0.8, 0.79, 0.9, 0.8, 0.8], 4, 7),
    "flat": ([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], 0, 7),
}


@pytest.mark.parametrize("name", GRIDS)
def test_the_search_ends_when_two_penalties_in_a_row_do_not_help(name: str) -> None:
    scores, best, computed = GRIDS[name]
    labels, words, _ = crossed(10, 1)
    C, found = choose_penalty(
        None, lambda train: iter(scores), lambda fit, test: fit, labels, words
    )
    assert C == C_GRID[best]
    assert found is not None
    assert found[:computed] == pytest.approx(scores[:computed])
    assert np.isnan(found[computed:]).all()


@pytest.mark.parametrize("n", [60, 120, 400])
@pytest.mark.parametrize("signal", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("share", [0.5, 0.85])  # of the larger label
def test_the_search_finds_what_the_whole_grid_would(
    n: int, signal: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, groups = pooled(4 * n, 0, signal=signal)
    kept = np.random.default_rng(1).random(4 * n) < (1 - share) / share
    rows = np.flatnonzero((y == 1) | kept)[:n]
    ended = LinearProbe().fit(X[rows], y[rows], groups[rows])
    monkeypatch.setattr("probing.probes.penalty.PATIENCE", len(C_GRID))
    whole = LinearProbe().fit(X[rows], y[rows], groups[rows])
    assert ended.C_ == whole.C_
    assert not np.isnan(whole.cv_scores_).any()
    assert np.nanmax(ended.cv_scores_) == whole.cv_scores_.max()


def test_labels_shuffled_over_words_stay_one_per_word() -> None:
    _, y, groups = pooled(400, 6)
    rng = np.random.default_rng(0)
    by_word, by_row = shuffled_labels(y, groups, rng), shuffled_labels(y, None, rng)
    assert all(len(set(by_word[groups == group])) == 1 for group in set(groups))
    assert any(len(set(by_row[groups == group])) == 2 for group in set(groups))
    assert by_row.sum() == y.sum()
    assert (by_word != y).any()
    with pytest.raises(ValueError, match="both labels"):
        shuffled_labels(y, np.zeros(400), rng)


@pytest.mark.parametrize(("standardize", "C"), [(False, 1.0), (True, 1e-4)])
def test_a_strong_penalty_is_solved_relative_to_what_it_leaves_to_gain(
    standardize: bool, C: float
) -> None:
    """Small raw states: the objective stays near that of guessing, and its excess would look small.

    In single precision such a fit ended 10% of the gain above the minimum, with other predictions.
    """
    rng = np.random.default_rng(0)
    y = np.arange(1501) % 2
    spread = 2.5e-4 * (rng.standard_normal((1501, 40)) + 0.1 * y[:, None])
    X = (rng.standard_normal(40) + spread).astype(np.float32)
    fitted = LinearProbe(C=C, standardize=standardize).fit(X, y)
    Z = X.astype(float)
    scale = Z.std(0) if standardize else np.ones(40)

    def objective(w: Any) -> Any:
        logit = (Z - Z.mean(0)) / scale @ w[:-1] + w[-1]
        return np.logaddexp(0, (1 - 2 * y) * logit).sum() + w[:-1] @ w[:-1] / (2 * C)

    found = np.append(fitted.coef_ * scale, fitted.intercept_ + fitted.coef_ @ Z.mean(0))
    least = minimize(objective, found, method="BFGS", options={"gtol": 1e-9}).fun
    gain = objective(np.zeros(41)) - least
    assert gain < 0.01 * least, "a strong penalty"
    assert objective(found) - least < 1e-3 * gain
