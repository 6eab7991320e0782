"""Softmax attention in sequences of up to e^600 tokens, against evaluations of another kind."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from softmax_reference import many_tokens

from slr import Overlaps, Task, excess_risk, start_on_sphere
from slr.gates.softmax import at_point, attention_mass
from slr.gates.softmax_moments import LONGEST
from slr.gates.softmax_table import table
from slr.overlaps import ALIGNED, check_gram
from slr.yardsticks import bayes_at_most
from studies.theory import softmax_length as study


def length(log_L: float) -> int:
    return round(math.exp(log_L))


@pytest.mark.parametrize(
    ("d", "log_L", "gamma", "lam"),
    [(100, 40, 0.7, 3.0), (100, 100, 1.0, 3.0), (1000, 100, 0.7, 5.0), (1000, 500, 1.3, 9.0)],
)
def test_at_a_small_lam_the_noise_tokens_follow_the_law_of_large_numbers(
    d: int, log_L: float, gamma: float, lam: float
) -> None:
    """Up to (1 + 4 lam^2) exp(lam^2) / L, which is below 1e-9 here."""
    task = Task(d, length(log_L), gamma)
    generic = Overlaps(0.7, 0.4, 0.05, 0.2, 0.3)
    for overlaps in (ALIGNED, generic):
        exact = excess_risk(task, overlaps, lam, gate="softmax")
        assert_allclose(exact, many_tokens(task, overlaps, lam), rtol=1e-9)


@pytest.mark.parametrize(("d", "log_L", "gamma"), [(100, 60, 0.7), (1000, 250, 1.0)])
def test_a_weight_of_one_over_the_length_has_its_digits(d: int, log_L: float, gamma: float) -> None:
    """E[a_1] = exp(lam h kappa - lam^2 (1 - gamma^2)/2) / L where the informative one is lost."""
    task, lam, kappa = Task(d, length(log_L), gamma), 2.0, 0.05
    log_mass = lam * task.signal * kappa - lam**2 * (1 - gamma**2) / 2 - math.log(task.L)
    assert_allclose(attention_mass(task, kappa, lam), math.exp(log_mass), rtol=1e-9)
    assert table(task, lam, lam).error < 1e-9


@pytest.mark.parametrize(
    ("d", "log_L", "gamma"), [(100, 20, 0.7), (100, 25, 1.0), (1000, 250, 0.7), (1000, 240, 0.3)]
)
def test_sharp_attention_takes_the_largest_score(d: int, log_L: float, gamma: float) -> None:
    """E[a_1] tends to E[Phi(h + gamma Z)^(L-1)], with a difference of order 1/lam^2."""
    task = Task(d, length(log_L), gamma)
    z = np.linspace(-12, 12, 100_001)
    wins = np.exp(float(task.L - 1) * norm.logcdf(task.signal + gamma * z))
    largest = np.sum(norm.pdf(z) * wins) * (z[1] - z[0])
    off = [largest - at_point(task, 1.0, lam)[0].m1 for lam in (1e3, 1e4)]
    assert 0 < off[1] < 2e-7
    assert off[0] / off[1] == pytest.approx(100, rel=0.05)


def test_at_the_freezing_point_the_mass_matches_high_precision() -> None:
    """Made once with mpmath (30 digits, other nodes, 80 s each): int A_1(s + mu) psi_0(s)^n ds."""
    for log_L, lam, mass in ((24, 7.0, 0.6292488739704217), (30, 6.0, 0.11210935013104835)):
        task = Task(100, math.floor(math.exp(log_L)), 0.7)
        assert_allclose(at_point(task, 1.0, lam)[0].m1, mass, rtol=1e-12)


def test_a_length_beyond_the_floats_is_refused() -> None:
    task = Task(1000, 3 ** math.ceil(LONGEST / math.log(3) + 1), 0.7)
    with pytest.raises(ValueError, match=r"^softmax attention needs L of at most e\^600$"):
        excess_risk(task, ALIGNED, 1.0, gate="softmax")


# ---- the study


@pytest.mark.parametrize("gamma", [0.1, 1.0])
def test_the_oracle_stops_where_the_largest_noise_score_is_the_signal(gamma: float) -> None:
    """sqrt(2 log L) = h, so (log L)/d = 1/4, with a difference that vanishes with d."""
    near, far = (abs(study.boundary(d, gamma)[0]["oracle"] - 0.25) for d in (400, 50))
    assert near < 0.015
    assert near < far / 2


@pytest.mark.parametrize("gamma", [0.5, 1.0, 1.5])
def test_bayes_goes_as_far_as_the_divergence_of_the_tokens(gamma: float) -> None:
    """The upper bound of Bayes' risk jumps there, within 3 standard deviations of log w_1."""
    rng = np.random.default_rng(0)
    d = round(600 / 1.3 / study.bayes_boundary(gamma))  # the longest sequences have e^600 tokens
    for factor, low, high in ((0.7, 0, 0.01), (1.3, 0.95, 1.05)):
        log_L = factor * study.bayes_boundary(gamma) * d
        task = Task(d, 3 ** round(log_L / math.log(3)), gamma)
        assert low <= bayes_at_most(task, 2000, rng).value / gamma**2 < high


def test_at_the_rule_the_oracle_works_up_to_the_boundary_and_not_beyond() -> None:
    for share, works in ((0.02, True), (0.1, True), (0.2, True), (0.3, False), (0.9, False)):
        task = study.task_of(400, share * 400, 0.5)
        risk = at_point(task, 1.0, study.rule(task))[0].loss
        assert (risk < study.HALF * task.gamma**2) == works


def test_a_lifted_start_is_a_start_with_that_kappa() -> None:
    task, kappa = Task(50, 10, 0.7), np.linspace(0.1, 1, 8)
    start = start_on_sphere(task, 8, np.random.default_rng(0))
    lifted = study.lifted(start, kappa)
    check_gram(task, lifted)
    assert_allclose(lifted.kappa, kappa)
    assert_allclose(lifted.nu, start.nu)
    same = study.lifted(start, start.kappa)
    assert_allclose(np.array(same), np.array(start), atol=1e-15)


def test_the_growth_of_a_power_law_is_found() -> None:
    log_L = np.arange(2.0, 8.0)
    steps = np.where(log_L < 6, 7 * np.exp(1.3 * log_L), np.inf)
    rows = {"d": 100, "gamma": 1.0, "training": "lambda constant", "log_L": log_L}
    (row,) = study.growth(pd.DataFrame(rows | {"steps_to_learn": steps})).itertuples()
    assert row.exponent == pytest.approx(1.3)
    assert (row.longest, row.lengths) == (5.0, 4)


@pytest.fixture(scope="module")
def tables() -> dict[str, Any]:
    """Tables in which every prediction holds."""
    keys = pd.DataFrame({"d": [100, 1000], "gamma": [1.0, 1.0]})
    warm = pd.DataFrame({"d": 1000, "kappa": [0.4, 0.8, 1.0], "share": [0.04, 0.16, 0.24]})
    warm = pd.concat([warm.assign(v=v) for v in ("random", "v*")]).assign(risk=0.1, gamma=0.5)
    return {
        "boundary": keys.assign(oracle=[0.24, 0.251], bayes=0.25),
        "limits": keys.assign(late=7.0),
        "training": keys.assign(steps=100),
        "growth": keys.assign(training="lambda constant", exponent=1.1),
        "warm": warm,
    }


@pytest.mark.parametrize(
    ("prediction", "name", "column", "wrong"),
    [
        (0, "boundary", "oracle", 0.28),
        (1, "limits", "late", 60.0),
        (2, "growth", "exponent", 2.0),
        (3, "warm", "risk", 0.9),
    ],
)
def test_a_prediction_holds_on_a_right_table_and_fails_on_a_wrong_one(
    prediction: int, name: str, column: str, wrong: float, tables: dict[str, Any]
) -> None:
    assert all(finding.holds for finding in study.findings(tables))  # type: ignore[arg-type]
    broken = tables | {name: tables[name].assign(**{column: wrong})}
    missed = list(study.findings(broken))[prediction]  # type: ignore[arg-type]
    assert missed.verdict == "missed"
