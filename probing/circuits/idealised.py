"""The paper's predictor on the states of a Transformer.

notation: T(x) = sum_l gate(lam (x_l . k - threshold)) x_l . v, x centred on the informative tokens
k and v are those of linear probes, or fitted to the labels alone by ``slr``'s estimator.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from probing.circuits.directions import informative_states, state_directions
from probing.probes.head import SingleLocationHead
from probing.probes.logistic import FloatArray
from probing.states.batch import Run, TokenBatch
from probing.statistics import cluster_bootstrap
from slr.estimator import SingleLocationRegressor
from slr.predictor import GATES, Gate, attention, predict

SHARPNESS = 4.0  # lam times half the gap between informative and other tokens: open or shut


class Predictor(NamedTuple):
    gate: Gate
    k: FloatArray  # unit length
    v: FloatArray
    lam: float
    threshold: float
    centre: FloatArray  # of the states, before anything else


def idealised_table(
    train: tuple[Run, TokenBatch], tests: dict[str, tuple[Run, TokenBatch]], *, layer: int = 0
) -> pd.DataFrame:
    """Accuracy and attention mass by gate, source of (k, v) and split, at one layer's states."""
    rows = []
    for gate in GATES:
        for source, fit in (("probes", from_probes), ("fitted", fitted)):
            predictor = fit(*train, layer, gate)
            for split, (run, batch) in tests.items():
                correct, mass = judge(predictor, run, batch, layer)
                rng = np.random.default_rng(0)
                interval = cluster_bootstrap(correct, batch.clusters, rng=rng, n_resamples=500)
                rows.append(
                    {
                        "gate": gate,
                        "source": source,
                        "split": split,
                        "accuracy": interval.value,
                        "low": interval.low,
                        "high": interval.high,
                        "attention_mass": float(mass.mean()),
                    }
                )
    return pd.DataFrame(rows)


def from_probes(run: Run, batch: TokenBatch, layer: int, gate: Gate) -> Predictor:
    """k_hat and v_hat, with threshold and sharpness from where training tokens lie along k_hat."""
    at = state_directions(run, batch, layer)
    centre = informative_states(run, batch, layer).mean(0)
    lam, threshold = _opening(run, batch, layer, at.k_hat, centre)
    return Predictor(gate, at.k_hat, at.v_hat, lam, threshold, centre)


def fitted(run: Run, batch: TokenBatch, layer: int, gate: Gate) -> Predictor:
    """k and v by least squares on the labels (softmax: by logistic loss), from no knowledge of
    where the informative token is; only centre and sharpness are those of ``from_probes``.
    """
    start = from_probes(run, batch, layer, gate)
    target = np.where(batch.labels == 1, 1.0, -1.0)
    if gate == "softmax":
        states = run.states[layer][batch.content].numpy().astype(float) - start.centre
        offsets = np.append(0, np.cumsum(batch.content.sum(1).numpy()))
        head = SingleLocationHead(C=1e3).fit(states, offsets, batch.labels)
        length = float(np.linalg.norm(head.k_))
        # The head's intercept is small beside its logits; the paper's predictor has none.
        return start._replace(k=head.k_hat_, v=head.v_, lam=length, threshold=0.0)
    # A token that is not there is 0, whose value is 0: it adds nothing, however open its gate.
    X = _centred(run, layer, start.centre) * batch.content.numpy()[:, :, None]
    model = SingleLocationRegressor(
        gate=gate,
        lam=start.lam,
        threshold=start.threshold,
        fit_threshold=True,
        unit_v=False,
        n_starts=1,  # that from moments finds the direction; random ones cost and find no better
        max_iter=200,
        tol=1e-6,
    )
    model.fit(X, target)
    return start._replace(k=model.k_, v=model.v_, threshold=model.threshold_)


def judge(
    predictor: Predictor, run: Run, batch: TokenBatch, layer: int
) -> tuple[np.ndarray, np.ndarray]:
    """Per sentence: is its sign right, and the share of |weight| on the informative token."""
    correct, mass = np.empty(len(batch), dtype=bool), np.empty(len(batch))
    X = _centred(run, layer, predictor.centre)
    content, informative = batch.content.numpy(), batch.informative.numpy()
    lengths = content.sum(1)
    options: dict[str, Any] = {"gate": predictor.gate, "threshold": predictor.threshold}
    for length in np.unique(lengths):  # sentences of one length are a rectangular array
        rows = np.flatnonzero(lengths == length)
        kept = content[rows]
        part = X[rows][kept].reshape(len(rows), length, -1)
        marked = informative[rows][kept].reshape(len(rows), length)
        value = predict(part, predictor.k, predictor.v, predictor.lam, **options)
        weights = np.abs(attention(part, predictor.k, predictor.lam, **options))
        correct[rows] = (value > 0) == (batch.labels[rows] == 1)
        mass[rows] = (weights * marked).sum(1) / np.maximum(weights.sum(1), 1e-12)  # 0: all shut
    return correct, mass


def _centred(run: Run, layer: int, centre: FloatArray) -> FloatArray:
    return np.asarray(run.states[layer].numpy().astype(float) - centre)


def _opening(
    run: Run, batch: TokenBatch, layer: int, k: FloatArray, centre: FloatArray
) -> tuple[float, float]:
    """lam and threshold: half-way between informative tokens and the nearest of the others."""
    scores = _centred(run, layer, centre) @ k
    own = np.quantile(scores[batch.informative.numpy()], 0.05)
    others = np.quantile(scores[(batch.content & ~batch.informative).numpy()], 0.95)
    half = max((own - others) / 2, 1e-3 * float(np.std(scores)))
    return SHARPNESS / half, float(own + others) / 2
