"""Probes find what was planted, and nothing where nothing is."""

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad, minimize
from scipy.special import expit, logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression

from probing.arrays import unit
from probing.probes.head import SingleLocationHead, loss_and_gradient, ragged_softmax
from probing.probes.linear import LinearProbe, shuffled_labels
from probing.probes.locate_and_read import LocateAndRead
from probing.probes.location import LocationProbe
from probing.probes.logistic import logistic_path, merge_equal_rows
from probing.probes.penalty import C_GRID, grouped_folds
from probing.states.tokens import States, Tokens

D = 20
# States have a mean and a scale in each coordinate, which the probes must see through.
MEAN, SCALE = np.linspace(-3, 3, D), np.geomspace(0.5, 2, D)
K_STAR, V_STAR = np.linalg.qr(np.random.default_rng(99).standard_normal((D, 2)))[0].T


class Pooled(NamedTuple):
    X: Any
    y: Any
    groups: Any


def pooled(n: int, seed: int, *, signal: float = 3.0) -> Pooled:
    """States whose label is read along V_STAR; the group is a word of one label."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(8, size=n)
    y = groups % 2
    X = rng.standard_normal((n, D)) + signal * np.outer(y - 0.5, V_STAR)
    return Pooled(X + MEAN, y, groups)


class Sentences(NamedTuple):
    X: Any
    tokens: Tokens


def sentences(n: int, seed: int) -> Sentences:
    """One token of each sentence lies along K_STAR, and it alone says the label, along V_STAR.

    Another one, the distractor, lies as far along V_STAR, whatever the label.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 8, size=n)
    offsets = np.append(0, np.cumsum(lengths))
    groups = rng.integers(8, size=n)
    y = groups % 2
    states = 0.5 * rng.standard_normal((offsets[-1], D))
    places = np.array([rng.permutation(length)[:2] for length in lengths])
    here, there = (offsets[:-1] + places[:, i] for i in range(2))
    states[here] += 3 * K_STAR + 3 * np.outer(2 * y - 1, V_STAR)
    states[there] += 3 * np.outer(rng.choice([-1, 1], size=n), V_STAR)
    informative = np.zeros(len(states), dtype=bool)
    informative[here] = True
    return Sentences(states * SCALE + MEAN, Tokens(offsets, informative, labels=y, words=groups))


# In the space of scaled states these are the directions that read the planted coordinates.
K_READ, V_READ = unit(K_STAR / SCALE), unit(V_STAR / SCALE)


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
NAMES = np.array(["bad", "fair", "good"])


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
    assert probe.cv_scores_.max() > 0.95


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
    assert by_row.cv_scores_.max() > 0.99
    assert by_word.cv_scores_.max() < by_row.cv_scores_.max() - 0.02


def test_each_fold_leaves_out_words_of_both_labels() -> None:
    words = np.repeat(["nice", "mean", "cute", "dreadful", "aggressive", "delightful"], 10)
    positive = np.isin(words, ["nice", "cute", "delightful"])
    folds = grouped_folds(positive, words)
    assert len(folds) == 3
    for train, test in folds:
        assert not set(words[train]) & set(words[test])
        assert set(positive[train]) == set(positive[test]) == {True, False}


def test_the_location_probe_ranks_the_planted_token_first() -> None:
    train, test = sentences(800, 0), sentences(800, 1)
    probe = LocationProbe().fit(*train)
    assert probe.score(*test) > 0.95
    # The strongest penalty that ranks as well wins, and bends the direction towards the class
    # means; one that hardly binds gives the direction itself.
    assert probe.direction_ @ K_READ > 0.8
    assert LocationProbe(C=1.0).fit(*train).direction_ @ K_READ > 0.95
    ranks = probe.ranks(*test)
    assert ranks.min() == 1
    assert probe.score(*test) == np.mean(ranks == 1)
    assert test.tokens.informative[probe.predict(*test)].mean() == probe.score(*test)


def test_a_location_probe_of_random_tokens_is_at_chance() -> None:
    train, test = sentences(800, 0), sentences(3000, 1)
    rng = np.random.default_rng(0)

    def any_token(tokens: Tokens) -> Tokens:
        chosen = np.zeros(tokens.offsets[-1], dtype=bool)
        chosen[tokens.offsets[:-1] + rng.integers(tokens.lengths)] = True
        return replace(tokens, informative=chosen)

    probe = LocationProbe(C=0.1).fit(train.X, any_token(train.tokens))
    chance = np.mean(1 / test.tokens.lengths)
    assert abs(probe.score(test.X, any_token(test.tokens)) - chance) < 0.04


def test_ties_count_against_the_location_probe() -> None:
    tokens = sentences(50, 2).tokens
    same = np.ones((tokens.offsets[-1], 2))
    probe = LocationProbe(C=1.0).fit(same, tokens)
    assert probe.score(same, tokens) == 0
    assert (probe.ranks(same, tokens) == tokens.lengths).all()


def test_special_tokens_are_not_looked_at() -> None:
    X, tokens = sentences(200, 3)
    first = tokens.offsets[:-1]
    loud = first[~tokens.informative[first]]  # some first tokens
    special = np.zeros(len(X), dtype=bool)
    special[loud] = True
    tokens = replace(tokens, special=special)
    inner = tokens.words_only()
    probe = LocationProbe(C=1.0).fit(X[~special], inner)
    X[loud] = MEAN + 100 * probe.direction_
    assert probe.score(X[~special], inner) > 0.95
    assert probe.score(X, tokens) < 0.5
    assert inner.offsets[-1] == (~special).sum()
    states = States(tokens, layers=X[:, None]).words_only()
    assert (states.at(0) == X[~special]).all()


def test_a_sample_of_the_tokens_gives_nearly_the_same_location() -> None:
    data = sentences(800, 0)
    few, same, other = (
        LocationProbe(C=0.1, max_tokens=1000, random_state=seed).fit(*data) for seed in (0, 0, 1)
    )
    assert few.direction_ @ K_READ > 0.95
    assert (few.coef_ == same.coef_).all(), "equal seeds, equal results"
    assert (few.coef_ != other.coef_).any()


@pytest.mark.parametrize("n_starts", [1, 2])
def test_the_head_recovers_k_and_v_and_attends_to_the_planted_token(n_starts: int) -> None:
    train, test = sentences(800, 0), sentences(400, 1)
    head = SingleLocationHead(n_starts=n_starts).fit(*train)
    assert head.k_hat_ @ K_READ > 0.9
    assert head.v_hat_ @ V_READ > 0.9
    assert head.score(*test) > 0.97
    attention, starts = head.attention(*test), test.tokens.offsets[:-1]
    assert_allclose(np.add.reduceat(attention, starts), 1)
    assert attention[test.tokens.informative].mean() > 0.8
    # what it says of itself: the weighted value of the states as given
    logit = np.add.reduceat(attention * (test.X @ head.v_), starts)
    assert_allclose(logit + head.intercept_, head.decision_function(*test))


def test_on_shuffled_labels_the_head_is_at_chance() -> None:
    train, test = sentences(800, 0), sentences(3000, 1)
    rng = np.random.default_rng(0)

    def shuffled(tokens: Tokens) -> Tokens:
        return replace(tokens, labels=shuffled_labels(tokens.labels, None, rng))

    head = SingleLocationHead(C=1e-2).fit(train.X, shuffled(train.tokens))
    # Its direction is random, not absent, and reads true labels with either sign: shuffle both.
    assert abs(head.score(test.X, shuffled(test.tokens)) - 0.5) < 0.04


def test_gradient_of_the_head() -> None:
    X, tokens = sentences(30, 4)
    Z, sign = (X - MEAN) / SCALE, 2.0 * tokens.labels - 1
    point = np.random.default_rng(0).standard_normal(2 * D + 1)
    error = check_grad(
        lambda p: loss_and_gradient(p, Z, tokens.offsets, sign, 0.3)[0],
        lambda p: loss_and_gradient(p, Z, tokens.offsets, sign, 0.3)[1],
        point,
    )
    assert error < 1e-5


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_head_stops_at_a_minimum(C: float) -> None:
    data = sentences(300, 6)
    head, further = (
        SingleLocationHead(C=C, tol=tol, max_iter=5000).fit(*data)
        for tol in (SingleLocationHead().tol, 1e-11)
    )
    assert head.objective_ == pytest.approx(further.objective_, rel=1e-3)


def test_a_ragged_softmax_is_the_softmax_of_each_sentence() -> None:
    scores, offsets = np.array([1000.0, 1000.0, -5.0, 0.0, np.log(3.0)]), np.array([0, 2, 3, 5])
    assert_allclose(ragged_softmax(scores, offsets), [0.5, 0.5, 1, 0.25, 0.75])


def test_equal_seeds_give_equal_heads_and_others_do_not() -> None:
    data = sentences(300, 5)
    first, again, other = (
        SingleLocationHead(C=0.1, max_sentences=200, random_state=seed).fit(*data)
        for seed in (0, 0, 1)
    )
    assert (first.k_ == again.k_).all()
    assert (first.k_ != other.k_).any()
    copy = clone(first)
    assert copy.get_params() == first.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(*data)


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


X, Y = np.zeros((4, 3)), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("C", "X", "y", "groups", "message"),
    [
        (1.0, np.zeros(4), Y, None, r"shape \(n, d\)"),
        (1.0, np.full((4, 3), np.nan), Y, None, "finite"),
        (1.0, X, Y[:3], None, "one label for each|one entry for each"),
        (1.0, X, np.zeros(4), None, "at least two labels"),
        (0.0, X, Y, None, "C must be positive"),
        (None, X, Y, None, "give groups"),
        (None, X, Y, np.zeros(3), "groups must be one per sentence|one entry for each"),
        (None, X, Y, Y, "at least two groups"),
    ],
)
def test_bad_input_to_a_probe_is_refused(
    C: float | None, X: Any, y: Any, groups: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LinearProbe(C=C).fit(X, y, groups)
    if np.ndim(X) == 2:
        with pytest.raises(ValueError, match=message):
            SingleLocationHead(C=C).fit(
                X, Tokens(np.arange(5), np.ones(4, bool), labels=y, words=groups)
            )


def test_the_head_refuses_three_labels_and_a_probe_refuses_rows_without_weight() -> None:
    tokens = Tokens(np.arange(5), np.ones(4, bool), labels=np.array([0, 1, 2, 1]))
    with pytest.raises(ValueError, match="exactly two labels, not 3"):
        SingleLocationHead(C=1.0).fit(X, tokens)
    for weight in (np.zeros(4), np.full(4, -1.0), np.ones(3)):
        with pytest.raises(ValueError, match="sample_weight"):
            LinearProbe(C=1.0).fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize(
    ("offsets", "informative", "special", "message"),
    [
        ([0, 2, 3], Y[:3], None, "4 states, but the offsets end at 3 tokens"),
        ([0, 2, 2, 4], Y, None, "no empty sentence"),
        ([0.0, 4.0], Y, None, "integers"),
        ([0, 2, 4], Y[:3], None, "informative must have one entry"),
        ([0, 2, 4], [0, 1, 0, 0], None, "no informative token"),
        ([0, 2, 4], Y, [True, True], "special must have one entry"),
        ([0, 2, 4], Y, [False, False, True, True], "no empty sentence"),
        ([0, 2, 4], np.ones(4), None, "both kinds"),
    ],
)
def test_bad_tokens_are_refused(offsets: Any, informative: Any, special: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LocationProbe(C=1.0).fit(
            X, Tokens(np.array(offsets), informative, special=special).words_only()
        )
    with pytest.raises(ValueError, match="the fit was on 3"):
        LocationProbe(C=1.0).fit(X, Tokens(np.array([0, 2, 4]), Y == 1)).decision_function(
            np.zeros((1, 4))
        )
    with pytest.raises(ValueError, match="no labels"):
        LocateAndRead(C=1.0).fit(X, Tokens(np.array([0, 2, 4]), Y == 1))


# ---- locate, then read


def two_kinds_of_token(rng: np.random.Generator, n: int = 300) -> Sentences:
    """Sentences of five tokens; the informative one is marked along e0, labels are along e1 at
    every token, right at the informative one and at random elsewhere. Words, eight of them, are
    told apart along e2.
    """
    offsets = np.arange(0, 5 * n + 1, 5)
    place = rng.integers(5, size=n) + offsets[:-1]
    informative = np.zeros(5 * n, dtype=bool)
    informative[place] = True
    words = np.arange(n) % 8
    y = words % 2
    states = 0.1 * rng.standard_normal((5 * n, D))
    states[:, 0] += np.where(informative, 2.0, -2.0)
    states[:, 1] += rng.choice([-3.0, 3.0], size=5 * n)
    states[place, 1] = np.where(y == 1, 3.0, -3.0)
    states[:, 2] += rng.integers(8, size=5 * n)
    states[place, 2] = words
    return Sentences(states, Tokens(offsets, informative, labels=y, words=words))


def test_the_reader_finds_where_and_reads_what() -> None:
    X, tokens = two_kinds_of_token(np.random.default_rng(0))
    reader = LocateAndRead().fit(X, tokens)
    assert reader.cv_scores_ is not None
    assert reader.cv_scores_.min() == 1
    # Each direction by its own coordinate, in units of how far that varies.
    assert np.argmax(np.abs(reader.k_hat_ * X.std(axis=0))) == 0
    assert np.argmax(np.abs(reader.v_hat_ * X[tokens.informative].std(axis=0))) == 1
    new, tokens = two_kinds_of_token(np.random.default_rng(1))
    assert tokens.informative[reader.located(new, tokens)].all()
    assert reader.score(new, tokens) == 1
    # The control: without the mark it reads the right word no more often than by chance.
    new[:, 0] = 0
    assert tokens.informative[reader.located(new, tokens)].mean() < 0.4
    assert reader.score(new, tokens) < 0.75


def test_the_reader_reads_three_labels() -> None:
    X, tokens = two_kinds_of_token(np.random.default_rng(0))
    y = tokens.words % 3
    X[tokens.informative, 3:6] += 3 * np.eye(3)[y]
    reader = LocateAndRead(C=1.0).fit(X, replace(tokens, labels=NAMES[y]))
    assert reader.v_hat_.shape == (3, D)
    assert reader.score(X, replace(tokens, labels=NAMES[y])) == 1
    other = shuffled_labels(NAMES[y], None, np.random.default_rng(0))  # the control
    assert reader.score(X, replace(tokens, labels=other)) < 0.5


def test_the_reader_takes_the_first_of_equal_tokens_and_checks_its_input() -> None:
    X, tokens = two_kinds_of_token(np.random.default_rng(0), n=40)
    reader = LocateAndRead(C=1.0).fit(X, tokens)
    assert reader.cv_scores_ is None
    same = np.zeros((10, D))  # scores are the intercept: equal in every sum order
    assert reader.located(same, Tokens(np.array([0, 4, 10]), np.ones(10, bool))).tolist() == [0, 4]
    with pytest.raises(ValueError, match="groups"):
        LocateAndRead().fit(X, replace(tokens, words=None))
    with pytest.raises(ValueError, match="shape"):
        reader.score(X, replace(tokens, labels=tokens.labels[:-1]))
    with pytest.raises(ValueError, match="informative"):
        nowhere = np.zeros_like(tokens.informative)
        LocateAndRead(C=1.0).fit(X, replace(tokens, informative=nowhere))


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
