"""Token probes find what was planted, and nothing where nothing is; bad input is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from planted_states import (
    K_READ,
    MEAN,
    NAMES,
    V_READ,
    D,
    Sentences,
    sentences,
)
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from probing.probes.head import SingleLocationHead
from probing.probes.linear import LinearProbe, shuffled_labels
from probing.probes.locate_and_read import LocateAndRead
from probing.probes.location import LocationProbe
from probing.probes.penalty import C_GRID, grouped_folds
from probing.states.tokens import States, Tokens


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
    states = States(tokens, {(0, "tokens"): X}).words_only()
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


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_head_stops_at_a_minimum(C: float) -> None:
    data = sentences(300, 6)
    head, further = (
        SingleLocationHead(C=C, tol=tol, max_iter=5000).fit(*data)
        for tol in (SingleLocationHead().tol, 1e-11)
    )
    assert head.objective_ == pytest.approx(further.objective_, rel=1e-3)


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


def test_a_probe_refuses_rows_without_weight() -> None:
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


@pytest.mark.parametrize("probe", [LocationProbe, LocateAndRead, SingleLocationHead])
def test_token_probes_hold_out_words_and_patterns_together(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, tokens = sentences(400, 0)
    names = np.random.default_rng(0).choice(list("abcdef"), size=400)
    tokens = replace(tokens, patterns=names)
    seen = []

    def spy(labels: Any, groups: Any, structures: Any = None) -> Any:
        folds = grouped_folds(labels, groups, structures)
        for train, test in folds:
            assert not set(groups[train]) & set(groups[test])
            assert not set(structures[train]) & set(structures[test])
        seen.append(len(structures))
        return folds

    for module in ("penalty", "locate_and_read"):
        monkeypatch.setattr(f"probing.probes.{module}.grouped_folds", spy)
    assert probe().fit(X, tokens).score(X, tokens) > 0.95
    assert seen == [400] * (3 if probe is LocateAndRead else 1)


@pytest.mark.parametrize("probe", [LocationProbe, SingleLocationHead])
@pytest.mark.parametrize("n", [60, 400])
def test_the_search_for_c_finds_what_the_whole_grid_would(
    probe: Any, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = sentences(n, 0)
    ended = probe().fit(*train)
    monkeypatch.setattr("probing.probes.penalty.PATIENCE", len(C_GRID))
    whole = probe().fit(*train)
    assert ended.C_ == whole.C_
    assert np.isnan(ended.cv_scores_).any()
    assert not np.isnan(whole.cv_scores_).any()
