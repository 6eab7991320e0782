"""The paper's predictor on the states of a Transformer, with its own gate and with two others.

notation: T(x) = sum_l gate(lam (x_l . k - threshold)) x_l . v, x centred
The paper's gate is the two-sided erf; the one-sided (1 + erf)/2 is ours. k and v are those of
linear probes, which are given the location of the informative token in training sentences, or
fitted to the labels of sentences alone by ``slr``'s estimator.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from probing.arrays import BoolArray, FloatArray
from probing.circuits.directions import informative_states, state_directions, word_states
from probing.probes.head import SingleLocationHead
from probing.states.tokens import States
from probing.statistics import accuracy_columns
from slr.estimator import SingleLocationRegressor
from slr.predictor import GATES, Gate, attention, predict

SHARPNESS = 4.0  # lam times half the gap between informative and other tokens: open or shut
LAMS = (0.5, 1.0, 2.0, 4.0, 8.0)  # times the root mean square of a coordinate of the states
N_STARTS = 3


class Predictor(NamedTuple):
    """The paper's predictor, with a centre that is subtracted from the states first."""

    gate: Gate
    k: FloatArray  # unit length
    v: FloatArray
    lam: float
    threshold: float
    centre: FloatArray


def idealised_table(train: States, tests: Mapping[str, States], *, layer: int = 0) -> pd.DataFrame:
    """Accuracy and attention mass on the states of one layer, by gate, source of (k, v), split."""
    rows = []
    for gate, (source, fit) in product(GATES, (("probes", from_probes), ("fitted", fitted))):
        predictor = fit(train, layer, gate)
        for split, states in tests.items():
            correct, mass = judge(predictor, states, layer)
            accuracy = accuracy_columns(correct, states.tokens.words)
            row = {"gate": gate, "source": source, "split": split}
            rows.append(row | accuracy | {"attention_mass": float(mass.mean())})
    return pd.DataFrame(rows)


def from_probes(states: States, layer: int, gate: Gate) -> Predictor:
    """The predictor with k_hat and v_hat; training tokens along k_hat set threshold and lam.

    All of these use location labels: the probes, centre, threshold and lam.
    """
    directions = state_directions(states, layer)
    centre = informative_states(states, layer).mean(0)
    # The threshold is half-way between the lowest informative and the highest other tokens.
    scores = (word_states(states, layer) - centre) @ directions.k_hat
    informative = states.tokens.words_only().informative
    low, high = np.quantile(scores[informative], 0.05), np.quantile(scores[~informative], 0.95)
    half = max((low - high) / 2, 1e-3 * float(np.std(scores)))
    threshold = float(low + high) / 2
    return Predictor(gate, directions.k_hat, directions.v_hat, SHARPNESS / half, threshold, centre)


def fitted(states: States, layer: int, gate: Gate) -> Predictor:
    """The predictor with k, v and threshold fitted to the labels of sentences alone.

    Nothing says which token is informative: states are centred on all words, the threshold starts
    at 0, and the sharpness and the start are those with the least training loss. The loss is least
    squares; for a softmax it is logistic, and k has the length that it is fitted to.
    """
    tokens, words = states.tokens.words_only(), word_states(states, layer)
    centre = words.mean(0)
    if gate == "softmax":
        head = SingleLocationHead(C=1e3).fit(words - centre, tokens)
        length = float(np.linalg.norm(head.k_))
        # The head's intercept is small beside its logits; the paper's predictor has none.
        return Predictor(gate, head.k_hat_, head.v_, length, 0.0, centre)
    # Padding is 0, so its value x . v is 0: it adds nothing, however open its gate.
    centred = states.at(layer).astype(float) - centre
    centred[states.tokens.special] = 0
    X, y = states.tokens.padded().array(centred), np.where(tokens.labels == 1, 1.0, -1.0)
    scale = float(np.sqrt(np.mean((words - centre) ** 2)))
    options: dict[str, Any] = {"fit_threshold": True, "unit_v": False, "n_starts": N_STARTS}
    options |= {"max_iter": 200, "tol": 1e-6}
    fits = [
        SingleLocationRegressor(gate=gate, lam=lam / scale, **options).fit(X, y) for lam in LAMS
    ]
    best = min(fits, key=lambda fit: fit.loss_)
    return Predictor(gate, best.k_, best.v_, best.lam, best.threshold_, centre)


def judge(predictor: Predictor, states: States, layer: int) -> tuple[BoolArray, FloatArray]:
    """Correct signs, and shares of |weight| on the informative token, both (sentences,)."""
    tokens = states.tokens.words_only()
    X = word_states(states, layer) - predictor.centre
    positive = tokens.labels == 1
    correct, mass = np.empty(len(tokens), dtype=bool), np.empty(len(tokens))
    options: dict[str, Any] = {"gate": predictor.gate, "threshold": predictor.threshold}
    for which, rows in tokens.by_length():
        value = predict(X[rows], predictor.k, predictor.v, predictor.lam, **options)
        weights = np.abs(attention(X[rows], predictor.k, predictor.lam, **options))
        informative = (weights * tokens.informative[rows]).sum(1)
        correct[which] = (value > 0) == positive[which]
        mass[which] = informative / np.maximum(weights.sum(1), 1e-12)  # 0 if all gates are shut
    return correct, mass
