"""The mathematics of the page's phase portrait is that of slr: JavaScript against Python."""

import dataclasses
import json
import math
import re
from typing import Any, get_args

import numpy as np
import pytest
from page import in_node
from scipy.integrate import quad_vec, solve_ivp
from scipy.optimize import brentq

from slr import Overlaps, Task, excess_risk, fixed_points, pgd, risk_gradient
from slr.dynamics.experiment import EXPERIMENTS, PUBLISHED_STARTS, published_start
from slr.dynamics.portrait import flow
from slr.dynamics.scaling import flow_velocity
from slr.dynamics.stability import slope_on_spheres, smallest_slope_at_v_star
from slr.dynamics.steps import embedding, overlaps_of
from slr.risks import RiskGate, gate_module
from studies.pages.portrait import portrait_values

GATES = get_args(RiskGate)
MATHEMATICS = [
    "shared/special.js",
    *(f"portrait/{name}.js" for name in ("erf", "softmax", "flow", "stiff", "swapped")),
]
PAPER = {"d": 400, "L": 10, "gamma": math.sqrt(0.5), "lam": 0.1}
LONG = {**PAPER, "L": 10**6}


def node(code: str) -> Any:
    """The value of an expression in the scope of the portrait's mathematics."""
    return in_node(MATHEMATICS, code)


def task_of(p: dict[str, float]) -> Task:
    return Task(d=int(p["d"]), L=int(p["L"]), gamma=p["gamma"])


# ---- the invariant manifold: JavaScript against Python


def random_points(n: int) -> list[dict[str, float]]:
    rng = np.random.default_rng(0)
    return [
        {
            "kappa": rng.uniform(-1, 1),
            "nu": rng.uniform(-1, 1),
            "lam": 10 ** rng.uniform(-2, 0.5),
            "gamma": rng.uniform(0.1, 2),
            "d": int(10 ** rng.uniform(0.5, 5)),
            "L": int(rng.integers(1, 100)),
        }
        for _ in range(n)
    ]


def risk_and_flow(gate: str, points: list[dict[str, float]]) -> Any:
    """Excess risk, d kappa/dt and d nu/dt of the page, one row per point."""
    return node(
        f"{json.dumps(points)}.map((p) => {{ const gate = {gate}Gate(p); "
        "return [gate.excessRisk(p.kappa, p.nu), ...velocity(gate, p.kappa, p.nu)]; })"
    )


def test_risk_and_flow_of_the_page_are_those_of_slr() -> None:
    points = random_points(300)
    for p, (risk, by_kappa, by_nu) in zip(points, risk_and_flow("erf", points), strict=True):
        task = task_of(p)
        expected = excess_risk(task, Overlaps(p["kappa"], p["nu"], 0.0, 0.0, 0.0), p["lam"])
        assert math.isclose(risk, float(expected), rel_tol=1e-12)
        velocity = flow(task, p["kappa"], p["nu"], p["lam"])
        # exp(-a^2) for a of hundreds is 1e-300 or 0: both stand still.
        assert np.allclose([by_kappa, by_nu], velocity, rtol=1e-10, atol=1e-100)


def test_paths_of_the_page_are_those_of_small_pgd_steps() -> None:
    """The flow is the limit of PGD: with steps of 1e-4 they part by less than 1e-3."""
    task, lam, time = Task(d=400, L=10, gamma=math.sqrt(0.5)), 0.1, 3.0
    start = Overlaps(np.array([-0.3]), np.array([0.6]), 0.0, 0.0, 0.0)
    run = pgd(task, start, lam=lam, step_size=1e-4, n_steps=int(time / 1e-4), log_every=1000)
    rows = node(
        f"trajectory(erfGate({{d: 400, L: 10, gamma: Math.sqrt(0.5), lam: {lam}}}), "
        f"-0.3, 0.6, {{end: {time}}})"
    )
    t, kappa, nu = np.array(rows).T
    steps = run.step * 1e-4
    assert math.isclose(t[-1], time)
    # Between its points a path is a straight line of length 0.05 at most: bends count.
    assert np.abs(np.interp(steps, t, kappa) - run.overlaps.kappa[0]).max() < 1e-3
    assert np.abs(np.interp(steps, t, nu) - run.overlaps.nu[0]).max() < 1e-3


@pytest.mark.parametrize(("lam", "d"), [(0.1, 400), (0.5, 40), (1.0, 10)])
def test_fixed_points_of_the_page_are_those_of_slr(lam: float, d: int) -> None:
    expected = [dataclasses.asdict(one) for one in fixed_points(Task(d, 10, 0.7), lam)]
    found = node(f"erfGate({{d: {d}, L: 10, gamma: 0.7, lam: {lam}}}).fixedPoints()")
    assert sorted(found, key=lambda p: (p["kappa"], p["nu"])) == expected


# ---- the softmax gate of the phase portrait, against its definition


def softmax_by_definition(p: dict[str, float], step: float) -> Any:
    """Risk, R_kappa, R_nu and the size of R_kappa's terms: means over all scores, on a grid.

    Given the weights a the excess risk is g^2 (1 - 2 nu a_1 + a_1^2) + sum_{l>1} a_l^2.
    """
    g2, nu, strength = p["gamma"] ** 2, p["nu"], p["lam"] * math.sqrt(p["d"] / 2)
    reach = 8 + 2 * p["lam"] * max(1, p["gamma"])  # E[exp(2 lam Z)] has its mass at 2 lam
    z = np.arange(-reach, reach + step, step)
    density = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    chances = math.prod(np.meshgrid(*[density] * int(p["L"]), sparse=True))
    scores = [p["lam"] * axis for axis in np.meshgrid(*[z] * int(p["L"]), sparse=True)]
    scores[0] = strength * p["kappa"] + p["gamma"] * scores[0]
    tokens = np.array(np.broadcast_arrays(*scores))
    powers = np.exp(tokens - tokens.max(axis=0))
    first, *others = powers / powers.sum(axis=0)
    rest, squares = sum(others), sum(other**2 for other in others)  # rest = 1 - a_1
    means = [
        g2 * (rest**2 + 2 * (1 - nu) * first) + squares,
        first * rest,  # = d a_1 / d mu; and d a_l / d mu = -a_1 a_l
        2 * first * (g2 * rest**2 + squares),
        first,
    ]
    risk, slope, gain, weight = (float((chances * values).sum()) for values in means)
    slope *= 2 * g2 * (1 - nu)
    return risk, strength * (slope - gain), -2 * g2 * weight, strength * (slope + gain)


def softmax_by_laplace(p: dict[str, float]) -> float:
    """The risk on the manifold from E[a_1], E[a_1^2] and E[Q], each an integral over t."""
    lam, n, g2 = p["lam"], p["L"] - 1, p["gamma"] ** 2
    z, weights = np.polynomial.hermite_e.hermegauss(100)
    weights = weights / weights.sum()
    noise = np.exp(lam * z)
    signal = np.exp(lam * (math.sqrt(p["d"] / 2) * p["kappa"] + p["gamma"] * z))

    def integrands(s: float) -> Any:
        t = math.exp(s)
        a, f = weights * np.exp(-t * signal), weights * np.exp(-t * noise)
        f0 = f.sum()
        first = t * (a @ signal) * f0**n
        square = t**2 * (a @ signal**2) * f0**n
        others = n * t**2 * a.sum() * (f @ noise**2) * f0 ** (n - 1)
        return np.array([first, square, others])

    first, square, others = quad_vec(integrands, -40, 15, epsrel=1e-11, epsabs=1e-14)[0]
    return float(g2 * (1 - 2 * p["nu"] * first + square) + others)


def softmax_points(n: int, L: int, *, max_lam: float) -> list[dict[str, float]]:
    """Random points with |mu| up to 50, beyond which nothing can be seen."""
    points = [{**point, "L": L, "lam": min(point["lam"], max_lam)} for point in random_points(n)]
    return [{**p, "d": min(int(p["d"]), int(5000 / p["lam"] ** 2))} for p in points]


SATURATED = [  # mu = lam sqrt(d/2) kappa from -150 to 150: before and after the end of the table
    {"d": 10**5, "L": 2, "gamma": gamma, "lam": lam, "nu": 0.3}
    | {"kappa": mu / (lam * math.sqrt(5e4))}
    for lam, gamma in [(1.0, 0.3), (3.16, 0.5), (3.16, 2.0)]
    for mu in (-150, -60, -20, 20, 60, 150)
]


def points_of_all_lengths(n: int) -> list[dict[str, float]]:
    lengths = 10 ** np.random.default_rng(1).uniform(0, 6, n)
    return [{**p, "L": int(L)} for p, L in zip(random_points(n), lengths, strict=True)]


@pytest.mark.parametrize(
    ("L", "max_lam", "step"),
    # With lam gamma = 6.3 the weights vary on the scale pi / 6.3 of Z: steps well below it.
    [(2, 3.16, 0.05), (3, 0.6, 0.2)],
)
def test_softmax_of_the_page_is_the_mean_over_all_scores(
    L: int, max_lam: float, step: float
) -> None:
    points = softmax_points(25, L, max_lam=max_lam)
    if L == 2:
        points += SATURATED
    for p, (risk, *velocity) in zip(points, risk_and_flow("softmax", points), strict=True):
        expected, by_kappa, by_nu, size = softmax_by_definition(p, step)
        # The page interpolates its table, which is good to 3e-8.
        assert math.isclose(risk, expected, rel_tol=1e-7)
        assert math.isclose(velocity[0], -(1 - p["kappa"] ** 2) * by_kappa, abs_tol=1e-7 * size)
        assert math.isclose(velocity[1], -(1 - p["nu"] ** 2) * by_nu, rel_tol=1e-7)


@pytest.mark.parametrize("L", [10, 1000])
def test_softmax_of_the_page_is_right_for_long_sequences(L: int) -> None:
    """The gradient against central differences of the risk, whose error is 1e-7 or 1e-5 of it."""
    points = softmax_points(8, L, max_lam=0.6)
    for p, (risk, *velocity) in zip(points, risk_and_flow("softmax", points), strict=True):
        assert math.isclose(risk, softmax_by_laplace(p), rel_tol=1e-7)
        for name, found in zip(("kappa", "nu"), velocity, strict=True):
            step = 1e-4 / max(1, p["lam"] * math.sqrt(p["d"] / 2))
            high, low = ({**p, name: p[name] + sign * step} for sign in (1, -1))
            slope = (softmax_by_laplace(high) - softmax_by_laplace(low)) / (2 * step)
            expected = -(1 - p[name] ** 2) * slope
            assert math.isclose(found, expected, rel_tol=1e-5, abs_tol=1e-7)


def test_softmax_of_the_page_is_that_of_slr() -> None:
    points = [p for p in points_of_all_lengths(100) if p["L"] > 1]
    for p, (risk, *velocity) in zip(points, risk_and_flow("softmax", points), strict=True):
        task = task_of(p)
        overlaps = Overlaps(p["kappa"], p["nu"], 0.0, 0.0, 0.0)
        expected = float(excess_risk(task, overlaps, p["lam"], gate="softmax"))
        assert math.isclose(risk, expected, rel_tol=1e-6, abs_tol=1e-12)
        size = p["lam"] * math.sqrt(p["d"] / 2) * (1 + p["gamma"] ** 2)
        by_slr = flow(task, p["kappa"], p["nu"], p["lam"], gate="softmax")
        assert np.allclose(velocity, by_slr, rtol=1e-6, atol=1e-7 * size)


def test_softmax_is_finite_and_its_risk_falls_wherever_the_page_says_so() -> None:
    """In nu everywhere, and in kappa at nu = 1: more attention pays whatever the setting."""
    points = points_of_all_lengths(200)
    kappas = np.linspace(-1, 1, 41).tolist()
    rows = node(
        f"{json.dumps(points)}.map((p) => {{ const gate = softmaxGate(p); return "
        f"{kappas}.map((kappa) => [gate.excessRisk(kappa, 1), ...gate.riskGradient(kappa, 1)]); }})"
    )
    values = np.array(rows, float)  # a NaN would be null in JSON, and here NaN again
    assert np.isfinite(values).all()
    several = np.array([p["L"] > 1 for p in points])
    risk, by_kappa, by_nu = np.moveaxis(values[..., :3], 2, 0)
    assert (by_nu < 0).all()
    # 0 where exp(-2 mu) is below the smallest number
    assert (by_kappa <= 0).all()
    assert (by_kappa[several, 0] < 0).all()
    assert (np.diff(risk) <= 1e-7 * risk[:, 1:]).all()


def test_one_token_has_all_the_softmax() -> None:
    points = random_points(20)
    for p, row in zip(
        points, risk_and_flow("softmax", [{**p, "L": 1} for p in points]), strict=True
    ):
        g2, nu = p["gamma"] ** 2, p["nu"]
        assert np.allclose(row, [2 * g2 * (1 - nu), 0, 2 * g2 * (1 - nu**2)], rtol=1e-12, atol=0)
    edges = node("softmaxGate({d: 400, L: 1, gamma: 0.7, lam: 0.1}).fixedPoints()")
    assert [(p["nu"], p["kind"], p["edge"]) for p in edges] == [
        (1, "minimum", True),
        (-1, "maximum", True),
    ]


SOFTMAX_SETTINGS = {  # d, L, gamma, lam, and the kinds on nu = -1 from left to right
    (400, 10, 0.707, 0.1): ["saddle", "maximum"],
    (40, 2, 0.6, 0.5): ["maximum", "saddle", "maximum"],
    (400, 2, 0.6, 0.5): ["maximum", "saddle", "maximum"],
    (40, 2, 0.3, 0.05): ["maximum", "saddle"],
    (10, 5, 1.5, 1.0): ["saddle", "maximum"],
}


@pytest.mark.parametrize("setting", SOFTMAX_SETTINGS)
def test_softmax_fixed_points_are_at_rest_and_of_their_kind(
    setting: tuple[int, int, float, float],
) -> None:
    d, L, gamma, lam = setting
    task = {"d": d, "L": L, "gamma": gamma, "lam": lam}
    points = node(f"softmaxGate({json.dumps(task)}).fixedPoints()")
    velocities = risk_and_flow("softmax", [{**task, **point} for point in points])
    assert np.abs(np.array(velocities)[:, 1:]).max() < 1e-9
    inner = 1e-4  # a short way from the point into the square
    attracted = {"minimum": 2, "saddle": 1, "maximum": 0}
    for point in points:
        moved = []
        for name in ("kappa", "nu"):
            step = -inner if point[name] > 0 else inner
            moved.append((step, {**task, **point, name: point[name] + step}))
        rows = risk_and_flow("softmax", [there for _, there in moved])
        back = [step * rows[i][1 + i] < 0 for i, (step, _) in enumerate(moved)]
        assert sum(back) == attracted[point["kind"]], point
    above = {(p["kappa"], p["kind"]) for p in points if p["nu"] == 1}
    assert above == {(1, "minimum"), (-1, "saddle")}
    below = sorted((p["kappa"], p["kind"]) for p in points if p["nu"] == -1)
    assert [kind for _, kind in below] == SOFTMAX_SETTINGS[setting]
    if L == 2:

        def slope(kappa: float) -> float:
            return float(softmax_by_definition({**task, "kappa": kappa, "nu": -1}, 0.1)[1])

        grid = np.linspace(-1, 1, 41)
        signs = np.sign([slope(kappa) for kappa in grid])
        roots = [brentq(slope, *grid[i : i + 2]) for i in np.flatnonzero(np.diff(signs))]
        assert np.allclose([kappa for kappa, _ in below[1:-1]], roots, atol=1e-6)


@pytest.mark.parametrize(("d", "L", "lam"), [(400, 10, 0.1), (40, 2, 0.5), (50, 100, 0.6)])
def test_every_softmax_path_ends_at_the_one_minimum(d: int, L: int, lam: float) -> None:
    starts = [[p["kappa"], p["nu"]] for p in random_points(30)] + [[-0.99, -0.99], [0.99, -0.99]]
    task = {"d": d, "L": L, "gamma": 0.707, "lam": lam}
    ends = node(
        f"(() => {{ const gate = softmaxGate({json.dumps(task)}); return {starts}.map((start) => "
        "trajectory(gate, ...start, { end: 1e5 }).at(-1)); })()"
    )
    assert np.allclose([end[1:] for end in ends], 1, atol=1e-3)


# ---- all five overlaps


def points_off_the_manifold(n: int) -> list[dict[str, Any]]:
    """Random settings, with the overlaps of unit vectors in R^4 of any directions."""
    rng = np.random.default_rng(2)
    points: list[dict[str, Any]] = []
    for p in points_of_all_lengths(n):
        k, v = (x / np.linalg.norm(x) for x in rng.normal(size=(2, 4)))
        overlaps = [k[0], v[1], v[0], k[1], k @ v]
        points.append({**p, "L": max(2, p["L"]), "overlaps": [float(x) for x in overlaps]})
    return points


def tolerance_of(gate: str) -> float:
    """The closed form is exact to round-off; the page interpolates its table of softmax."""
    return 1e-10 if gate == "erf" else 1e-6


@pytest.mark.parametrize("gate", GATES)
def test_risk_and_gradient_of_five_overlaps_are_those_of_slr(gate: RiskGate) -> None:
    points = points_off_the_manifold(150)
    rows = node(
        f"{json.dumps(points)}.map((p) => {{ const gate = {gate}Gate(p); "
        "return [gate.excessRisk(...p.overlaps), ...gate.riskGradient(...p.overlaps)]; })"
    )
    for p, (risk, *gradient) in zip(points, rows, strict=True):
        task, overlaps = task_of(p), Overlaps(*p["overlaps"])
        expected = float(excess_risk(task, overlaps, p["lam"], gate))
        exact = np.array([float(x) for x in risk_gradient(task, overlaps, p["lam"], gate)])
        # Its terms are as large as the risk, times the derivative of a score in the overlap.
        size = abs(exact) + max(1, p["lam"]) * math.sqrt(p["d"] / 2) * expected
        assert math.isclose(risk, expected, rel_tol=tolerance_of(gate), abs_tol=1e-12)
        assert (abs(np.array(gradient) - exact) <= tolerance_of(gate) * size).all(), p


@pytest.mark.parametrize("gate", GATES)
def test_the_flow_of_five_overlaps_is_that_of_vectors(gate: RiskGate) -> None:
    points = points_off_the_manifold(60)
    rows = node(f"{json.dumps(points)}.map((p) => fullVelocity({gate}Gate(p), p.overlaps))")
    for p, found in zip(points, rows, strict=True):
        y = embedding(Overlaps(*p["overlaps"])).ravel()
        model = gate_module(gate).model(task_of(p), p["lam"], p["lam"])
        change = np.asarray(flow_velocity(y, model, p["lam"]))
        (k, v), (dk, dv) = y.reshape(2, 4), change.reshape(2, 4)
        expected = [dk[0], dv[1], dv[0], dk[1], dk @ v + k @ dv]
        slopes = node_gradient_size(gate, p)
        assert np.allclose(found, expected, rtol=1e-6, atol=tolerance_of(gate) * slopes), p


def node_gradient_size(gate: RiskGate, p: dict[str, Any]) -> float:
    gradient = risk_gradient(task_of(p), Overlaps(*p["overlaps"]), p["lam"], gate)
    risk = float(excess_risk(task_of(p), Overlaps(*p["overlaps"]), p["lam"], gate))
    return float(np.abs(gradient).sum()) + max(1, p["lam"]) * math.sqrt(p["d"] / 2) * risk


@pytest.mark.parametrize("gate", GATES)
def test_on_the_manifold_the_flow_of_five_is_that_of_two(gate: RiskGate) -> None:
    points = [p for p in random_points(40) if p["L"] > 1]
    rows = node(
        f"{json.dumps(points)}.map((p) => {{ const gate = {gate}Gate(p); return ["
        "fullVelocity(gate, [p.kappa, p.nu, 0, 0, 0]), velocity(gate, p.kappa, p.nu)]; })"
    )
    for five, two in rows:
        assert five[2:] == [0, 0, 0]
        assert np.allclose(five[:2], two, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("run", [0, 2])  # with erf the first aligns, and the other is swapped
def test_paths_from_the_sphere_are_those_of_small_pgd_steps(gate: RiskGate, run: int) -> None:
    """With steps of 1e-4 (the sharpest curvature is 424) they part by less than 2e-3."""
    starts = published_start("pgd-small-lambda")
    options: dict[str, Any] = {"lam": PAPER["lam"], "step_size": 1e-4, "log_every": 2000}
    expected = pgd(
        task_of(PAPER), starts.at(slice(run, run + 1)), n_steps=400_000, gate=gate, **options
    )
    times = (expected.step * 1e-4).tolist()
    start = [float(x) for x in starts.at(run)]
    rows = node(
        f"fullTrajectory({gate}Gate({json.dumps(PAPER)}), {start}, "
        f"{{ end: {times[-1]}, stops: {times} }}).filter((row) => {times}.includes(row[0]))"
    )
    found, overlaps = np.array(rows)[:, 1:], np.array([x[0] for x in expected.overlaps]).T
    assert len(rows) == len(times)
    assert np.abs(found - overlaps).max() < 2e-3


def test_the_paths_end_where_the_runs_of_the_paper_do() -> None:
    """With erf 16 of 30 align and 14 are swapped (docs/theory.md); with softmax all align."""
    starts = np.transpose(published_start("pgd-small-lambda")).tolist()
    for gate, aligned in (("erf", 16), ("softmax", 30)):
        rows = node(
            f"(() => {{ const gate = {gate}Gate({json.dumps(PAPER)}); "
            f"return {starts}.map((start) => fullTrajectory(gate, start).at(-1)); }})()"
        )
        kappa, nu, _, eta, _ = np.abs(np.array(rows)[:, 1:]).T
        assert ((kappa > 0.99) & (nu > 0.99)).sum() == aligned
        assert (eta > 0.99).sum() == 30 - aligned


# ---- the swapped point


def swapped(gate: str, setting: dict[str, float]) -> Any:
    return node(f"swappedPoints({gate}Gate({json.dumps(setting)}))")


def end_of_flow(gate: RiskGate, setting: dict[str, float], start: Any, time: float) -> Overlaps:
    """Where the flow of slr is after a time, from (k, v) in the embedding."""
    model = gate_module(gate).model(task_of(setting), setting["lam"], setting["lam"])
    options: dict[str, Any] = {"method": "LSODA", "rtol": 1e-8, "atol": 1e-11}

    def velocity(_: float, y: Any) -> Any:
        return flow_velocity(y, model, setting["lam"])

    start = (start / np.linalg.norm(start, axis=1, keepdims=True)).ravel()
    end = solve_ivp(velocity, (0, time), start, **options).y[:, -1]
    return Overlaps(*map(float, overlaps_of.py_func(end[:4], end[4:])))


@pytest.mark.parametrize("lam", [0.03, 0.077, 0.1, 0.3])
@pytest.mark.parametrize("d", [80, 400])
def test_the_swapped_points_are_those_of_slr(lam: float, d: int) -> None:
    """The flow of slr, from vectors near v* and k* with parts along no other of the four."""
    setting = {**PAPER, "lam": lam, "d": d}
    found = swapped("erf", setting)
    assert [one["swapped"] for one in found] == [True, True]
    for one in found:
        sign = math.copysign(1, one["overlaps"][3])
        start = np.array([[0.1, 0.9 * sign, 0.2, 0], [0.7 * sign, 0.1, 0.1, 0.5]])
        expected = end_of_flow("erf", setting, start, 1e5)
        assert np.allclose(one["overlaps"], expected, atol=1e-5)
        assert slope_on_spheres(task_of(setting), Overlaps(*one["overlaps"]), lam) < 1e-6
        risk = excess_risk(task_of(setting), Overlaps(*one["overlaps"]), lam)
        assert math.isclose(one["risk"], float(risk), rel_tol=1e-9)


def test_the_swapped_points_have_the_risk_that_runs_end_with() -> None:
    """docs/theory.md, section 6: 0.0689 with theta = 0.81 while lam falls to 1/13."""
    one, _ = swapped("erf", {**PAPER, "lam": 1 / 13})
    assert math.isclose(abs(one["overlaps"][2]), 0.81, abs_tol=0.01)
    assert math.isclose(one["risk"], 0.0689, abs_tol=1e-4)


@pytest.mark.parametrize("lam", [0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
def test_softmax_has_no_swapped_point_in_short_sequences(lam: float) -> None:
    slope, _ = smallest_slope_at_v_star(task_of(PAPER), lam, "softmax")
    assert slope > 1e-3
    assert not any(one["swapped"] for one in swapped("softmax", {**PAPER, "lam": lam}))


@pytest.mark.parametrize(("setting", "is_swapped"), [(LONG, True), ({**PAPER, "lam": 0.5}, False)])
def test_softmax_has_other_minima_where_slr_has(
    setting: dict[str, float], is_swapped: bool
) -> None:
    """The flow of slr comes back to a swapped point, and to a minimum that is neither."""
    found = swapped("softmax", setting)
    assert [one["swapped"] for one in found] == [is_swapped] * 2
    task, lam = task_of(setting), setting["lam"]
    rng = np.random.default_rng(0)
    for one in found:
        point = Overlaps(*one["overlaps"])
        risk = float(excess_risk(task, point, lam, "softmax"))
        assert math.isclose(one["risk"], risk, rel_tol=1e-6)
        start = embedding(point) + 0.01 * rng.normal(size=(2, 4))
        back = end_of_flow("softmax", setting, start, 1e8)
        assert np.allclose(back, one["overlaps"], atol=2e-3)
        at_start, at_end = (
            slope_on_spheres(task, place, lam, "softmax")
            for place in (overlaps_of.py_func(*start), back)
        )
        assert at_end < 1e-3 * at_start


def test_stability_is_that_of_the_eigenvalues() -> None:
    rng = np.random.default_rng(3)
    matrices = [
        rng.normal(size=(5, 5)) - shift * np.eye(5) for shift in (0, 2, 4) for _ in range(30)
    ]
    highest = [np.linalg.eigvals(matrix).real.max() for matrix in matrices]
    expected = ["stable" if one < 0 else "unstable" for one in highest]
    assert len(set(expected)) == 2
    assert node(f"{json.dumps([m.tolist() for m in matrices])}.map(stability)") == expected
    assert node("stability([[-1, 0], [0, 0]])") == "unknown"


# ---- the starts of the paper


def test_the_starts_are_those_of_the_released_code() -> None:
    published = json.loads(PUBLISHED_STARTS.read_text(encoding="utf-8"))
    laws = {law["id"]: law for law in portrait_values()["starts"]}
    names = {"manifold-d400": "manifold-d400", "sphere-d400": "sphere-d400"}
    names["sphere-d80"] = "sphere-d80-sgd"
    assert {key: law["overlaps"] for key, law in laws.items()} == {
        key: published[name] for key, name in names.items()
    }
    for law in laws.values():
        assert len(law["overlaps"]) == 30
    named = re.findall(r"[a-z]+-[a-z-]+", " ".join(law["label"] for law in laws.values()))
    assert sorted(named) == sorted(EXPERIMENTS)
