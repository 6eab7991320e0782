"""Derivatives of a layer with one head, by hand: of what follows the context, and of the gate.

Arrays are numpy's, of one type: float32 in training, float64 in tests.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from slr.attentions.layer import Architecture
from slr.predictor import Gate
from slr.special import erf_prime

Array = Any
Arrays = dict[str, Array]  # parameters, or their gradients, by name


def set_reader_gradients(
    architecture: Architecture, values: Arrays, gradients: Arrays, context: Array, y: Array
) -> Array:
    """Set the gradients of the mean squared error in V and all that follows it.

    Returns the gradient in the context, (n, d). The layer's output is a number: so W2 w comes
    first, no sequence needs a product with W2, and the gradient in W2 has rank 1.
    """
    V, w = values["V"], values["w"]
    z = context @ V.T
    if not architecture.mlp:
        error = (z @ w - y) * (2 / len(y))
        gradients["w"][:] = error @ z
        np.multiply.outer(w, error @ context, out=gradients["V"])
        return np.multiply.outer(error, w @ V)
    W1, b1, W2, b2 = (values[name] for name in ("W1", "b1", "W2", "b2"))
    readout = W2 @ w
    hidden = z @ W1
    hidden += b1
    active = (hidden > 0).astype(hidden.dtype)  # the slope of relu
    hidden *= active
    error = (hidden @ readout + b2 @ w - y) * (2 / len(y))
    total, summed = error.sum(), error @ hidden
    gradients["b2"][:] = total * w
    gradients["w"][:] = summed @ W2 + total * b2
    np.multiply.outer(summed, w, out=gradients["W2"])
    gradients["b1"][:] = (error @ active) * readout
    np.multiply((error[:, None] * z).T @ active, readout, out=gradients["W1"])
    dz = active @ (W1 * readout).T
    dz *= error[:, None]
    np.matmul(dz.T, context, out=gradients["V"])
    return dz @ V


def pullback(gate: Gate, scores: Array, weights: Array, values: Array) -> Array:
    """The derivative of sum_l weights_l values_l in the scores, whose weights they are."""
    if gate == "softmax":
        return weights * (values - np.vecdot(weights, values)[:, None])
    slopes: dict[str, Callable[[], Any]] = {
        "erf": lambda: erf_prime(scores),
        "one-sided": lambda: erf_prime(scores) / 2,
        "sigmoid": lambda: weights * (1 - weights),
        "tanh": lambda: 1 - weights**2,
        "relu": lambda: scores > 0,
        "linear": lambda: 1,
        "uniform": lambda: 0,
    }
    return slopes[gate]() * values
