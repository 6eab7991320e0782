"""Claim: a step on five overlaps costs the same at any d, and a small part of a step on vectors.

The times are per run and step of PGD at d = 400 (compilation is reported separately):
- one run at a time with automatic differentiation of the risk (the released code's way);
- all runs at once with the analytic gradient, in numpy and in torch (the best of them counts);
- a fused compiled loop over the vectors of each run, written for this comparison;
- the reduced dynamics, at d = 100 to 10^12.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from vector_descent import projected_step, risk_gradients

from slr import Overlaps, Task, pgd, sample_truth, start_on_sphere
from slr.gates.erf import partial_derivatives

TASK = Task(d=400, L=10, gamma=math.sqrt(0.5))
LAM, STEP_SIZE, RUNS = 0.1, 4e-3, 60  # reduced runs advance 32 at a time: both threads have work


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def torch_risk(k: Any, v: Any, k_star: Any, v_star: Any) -> Any:
    """The closed-form risk in torch, for autograd; zeta by its quadrature."""
    nodes, weights = map(torch.as_tensor, np.polynomial.legendre.leggauss(12))
    h, g2, n = TASK.signal, TASK.gamma**2, TASK.L - 1
    s, q = 1 + 2 * LAM**2 * g2, 1 + 4 * LAM**2 * g2
    kappa, nu, theta, eta, rho = k @ k_star, v @ v_star, v @ k_star, k @ v_star, k @ v
    a = LAM * h / math.sqrt(s) * kappa
    two = 2 / math.sqrt(math.pi)
    f, f1 = torch.erf(a), LAM / math.sqrt(s) * two * torch.exp(-a * a)
    f2 = -2 * LAM / math.sqrt(s) * a * f1
    half = (1 - 1 / math.sqrt(q)) / 2
    x = 1 - half + half * nodes
    g = f * f + 4 / math.pi * half * (weights * torch.exp(-a * a * (1 + x * x)) / (1 + x * x)).sum()
    erf_b = torch.erf(a / math.sqrt(q))
    g1 = 2 * f1 * erf_b
    slope = two / math.sqrt(q) * torch.exp(-a * a / q)
    g2_ = 2 * LAM / math.sqrt(s) * f1 * (slope - 2 * a * erf_b)
    first = 2 * LAM / math.sqrt(math.pi * (1 + 2 * LAM**2))
    second = 8 / math.pi * LAM**2 / ((1 + 2 * LAM**2) * math.sqrt(1 + 4 * LAM**2))
    label = g2 * nu * f + g2 * eta * (h * theta * f1 + g2 * rho * f2)
    square = ((h * theta) ** 2 + g2) * g + 2 * h * theta * g2 * rho * g1 + (g2 * rho) ** 2 * g2_
    mean = h * theta * f + g2 * rho * f1
    noise = n * second * rho**2 + n * (n - 1) * (first * rho) ** 2
    return g2 - 2 * label + square + 2 * n * mean * rho * first + noise


def autograd_step(k: Any, v: Any, k_star: Any, v_star: Any) -> tuple[Any, Any]:
    k.requires_grad_(True)
    v.requires_grad_(True)
    gradients = torch.autograd.grad(torch_risk(k, v, k_star, v_star), (k, v))
    with torch.no_grad():
        moved = []
        for x, gradient in zip((k, v), gradients, strict=True):
            y = x - STEP_SIZE * (gradient - (x @ gradient) * x)
            moved.append(y / y.norm())
    return moved[0], moved[1]


def torch_batched_step(k: Any, v: Any, k_star: Any, v_star: Any) -> tuple[Any, Any]:
    values = (k @ k_star, v @ v_star, v @ k_star, k @ v_star, (k * v).sum(1))
    point = Overlaps(*(x.numpy() for x in values))
    partials = partial_derivatives(point, TASK.signal, TASK.gamma, TASK.L - 1, LAM)
    r = Overlaps(*(torch.as_tensor(x)[:, None] for x in partials))
    moved = []
    for x, gradient in (
        (k, r.kappa * k_star + r.eta * v_star + r.rho * v),
        (v, r.nu * v_star + r.theta * k_star + r.rho * k),
    ):
        y = x - STEP_SIZE * (gradient - (x * gradient).sum(1, keepdim=True) * x)
        moved.append(y / y.norm(dim=1, keepdim=True))
    return moved[0], moved[1]


@numba.njit(error_model="numpy")
def compiled_partials(points: Any, out: Any, h: float, gamma: float, n: int, lam: float) -> None:
    for run in range(points.shape[1]):
        point = Overlaps(
            points[0, run], points[1, run], points[2, run], points[3, run], points[4, run]
        )
        r = partial_derivatives(point, h, gamma, n, lam)
        out[0, run], out[1, run], out[2, run], out[3, run], out[4, run] = r


def numpy_step_with_compiled_partials(k: Any, v: Any, truth: Any) -> tuple[Any, Any]:
    partials = np.empty((5, len(k)))
    points = np.array(Overlaps.of(k, v, truth))
    compiled_partials(points, partials, TASK.signal, TASK.gamma, TASK.L - 1, LAM)
    r = Overlaps(*partials[:, :, None])
    gradient_k = r.kappa * truth.k_star + r.eta * truth.v_star + r.rho * v
    gradient_v = r.nu * truth.v_star + r.theta * truth.k_star + r.rho * k
    return projected_step(k, gradient_k, STEP_SIZE), projected_step(v, gradient_v, STEP_SIZE)


def numpy_batched_step(k: Any, v: Any, truth: Any) -> tuple[Any, Any]:
    gradient_k, gradient_v = risk_gradients(TASK, truth, k, v, LAM)
    return projected_step(k, gradient_k, STEP_SIZE), projected_step(v, gradient_v, STEP_SIZE)


@numba.njit(parallel=True, fastmath=True)
def compiled_direct(
    k: Any, v: Any, k_star: Any, v_star: Any, n_steps: int, h: float, gamma: float, n: int
) -> None:
    d = k.shape[1]
    for run in numba.prange(len(k)):
        for _ in range(n_steps):
            kappa = nu = theta = eta = rho = 0.0
            for j in range(d):
                kappa += k[run, j] * k_star[j]
                nu += v[run, j] * v_star[j]
                theta += v[run, j] * k_star[j]
                eta += k[run, j] * v_star[j]
                rho += k[run, j] * v[run, j]
            r = partial_derivatives(Overlaps(kappa, nu, theta, eta, rho), h, gamma, n, LAM)
            along_k = r.kappa * kappa + r.eta * eta + r.rho * rho
            along_v = r.nu * nu + r.theta * theta + r.rho * rho
            kk = vv = 0.0
            for j in range(d):
                old_k, old_v = k[run, j], v[run, j]
                gradient_k = r.kappa * k_star[j] + r.eta * v_star[j] + r.rho * old_v
                gradient_v = r.nu * v_star[j] + r.theta * k_star[j] + r.rho * old_k
                k[run, j] = old_k - STEP_SIZE * (gradient_k - along_k * old_k)
                v[run, j] = old_v - STEP_SIZE * (gradient_v - along_v * old_v)
                kk += k[run, j] ** 2
                vv += v[run, j] ** 2
            for j in range(d):
                k[run, j] /= math.sqrt(kk)
                v[run, j] /= math.sqrt(vv)


def main() -> None:
    rng = np.random.default_rng(0)
    truth = sample_truth(TASK, rng)
    k, v = (
        x / np.linalg.norm(x, axis=1, keepdims=True) for x in rng.standard_normal((2, RUNS, 400))
    )
    options: dict[str, Any] = {"lam": LAM, "step_size": STEP_SIZE}

    start = time.perf_counter()
    pgd(TASK, Overlaps.of(k, v, truth), **options, n_steps=1, log_every=1)
    print(f"compilation (or loading it from disk): {time.perf_counter() - start:.1f} s")

    n = 100_000
    reduced = {}
    for d in (100, 400, 10**4, 10**6, 10**8, 10**10, 10**12):
        task = Task(d=d, L=10, gamma=TASK.gamma)
        point = start_on_sphere(task, RUNS, rng)
        scaled = {"lam": LAM * 20 / math.sqrt(d), "step_size": 1.6 / d}
        work = lambda point=point, task=task, scaled=scaled: pgd(  # noqa: E731
            task, point, **scaled, n_steps=n, log_every=n
        )
        reduced[d] = seconds(work) / (n * RUNS)

    torch.set_num_threads(1)
    stars = torch.as_tensor(truth.k_star), torch.as_tensor(truth.v_star)
    pair = torch.as_tensor(k[0]), torch.as_tensor(v[0])
    per_step = {
        "automatic differentiation, one run": seconds(lambda: autograd_step(*pair, *stars), 50)
    }
    batched = {}
    both = torch.as_tensor(k), torch.as_tensor(v)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        name = f"torch, {threads} threads"
        batched[name] = seconds(lambda: torch_batched_step(*both, *stars), 50)
    batched["numpy"] = seconds(lambda: numpy_batched_step(k, v, truth), 50)
    batched["numpy, partials compiled"] = seconds(
        lambda: numpy_step_with_compiled_partials(k, v, truth), 50
    )
    best = min(batched, key=lambda name: batched[name])
    per_step[f"analytic gradient, {RUNS} runs at once ({best})"] = batched[best] / RUNS

    moving = k.copy(), v.copy()
    constants = (truth.k_star, truth.v_star, 1000, TASK.signal, TASK.gamma, TASK.L - 1)
    compiled = seconds(lambda: compiled_direct(*moving, *constants)) / (1000 * RUNS)
    per_step["analytic gradient, compiled loops over vectors"] = compiled

    print(f"\nPGD per run and step at d = 400, {numba.get_num_threads()} threads")
    print(f"{'reduced':58} {reduced[400] * 1e6:9.3f} us")
    for name, value in per_step.items():
        print(f"{name:58} {value * 1e6:9.3f} us   {value / reduced[400]:7.0f} times the reduced")
    released = 240e-6 / reduced[400]
    print(f"(the released code, at 240 us per step as measured elsewhere: {released:.0f} times)")
    print("\nreduced, against d:")
    for d, value in reduced.items():
        print(f"d = {d:<16,} {value * 1e6:.3f} us")
    print(f"slowest over fastest: {max(reduced.values()) / min(reduced.values()):.2f}")


if __name__ == "__main__":
    main()
