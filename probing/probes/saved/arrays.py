"""The arrays of each fitted probe: which there are, of which shape and type."""

from typing import Any

import numpy as np

from probing.arrays import FloatArray
from probing.probes.head import SingleLocationHead
from probing.probes.linear import LinearProbe
from probing.probes.locate_and_read import LocateAndRead
from probing.probes.location import LocationProbe
from probing.probes.saved.probe import SavedProbeError
from probing.probes.splits import HEADS, POOLED

KINDS: dict[str, type] = {  # the estimator of each probe
    **dict.fromkeys(POOLED, LinearProbe),
    "location": LocationProbe,
    "reader": LocateAndRead,
    **dict.fromkeys(HEADS, SingleLocationHead),
}
PARTS: dict[type, dict[str, type]] = {
    LocateAndRead: {"location_": LocationProbe, "value_": LinearProbe}
}
LARGEST = 1e100  # number of a probe: with larger ones scores would not be finite
MAY_BE_NAN = ("cv_scores_",)
WIDTH = {  # the array that says how many dimensions the states have
    "LinearProbe": "coef_",
    "LocationProbe": "coef_",
    "LocateAndRead": "k_hat_",
    "SingleLocationHead": "v_",
}


def shapes_of(estimator: Any, n_labels: int, d: int) -> dict[str, tuple[int, ...] | None]:
    """The shapes of all fitted attributes; None: there is no such array, -1: any length."""
    per_label = () if n_labels == 2 else (n_labels,)
    shapes: dict[str, tuple[int, ...] | None] = {"C_": (), "cv_scores_": (-1,)}
    if isinstance(estimator, LocationProbe):
        return shapes | {"coef_": (d,), "direction_": (d,), "intercept_": ()}
    shapes["classes_"] = (n_labels,)
    if isinstance(estimator, LocateAndRead):
        return shapes | {"k_hat_": (d,), "v_hat_": (*per_label, d)}
    if getattr(estimator, "pooling", "") == "max":
        per_label = (n_labels,)
    shapes |= {"intercept_": per_label, "objective_": (), "n_iter_": ()}
    if isinstance(estimator, LinearProbe):
        return shapes | dict.fromkeys(("coef_", "direction_"), (*per_label, d))
    per_head = () if estimator.n_heads == 1 else (estimator.n_heads,)
    k_shape = None if estimator.pooling == "max" else (*per_head, d)
    shapes |= dict.fromkeys(("k_", "k_hat_"), k_shape)
    return shapes | dict.fromkeys(("v_", "v_hat_"), (*per_head, *per_label, d))


def check_array(name: str, array: FloatArray, shape: tuple[int, ...] | None) -> None:
    expected = array.shape if shape == (-1,) and array.ndim == 1 else shape
    if array.shape != expected:
        raise SavedProbeError(f"the array {name!r} has the shape {array.shape}, not {expected}")
    attribute = name.split(".")[-1]
    if attribute == "classes_":
        if array.dtype.kind not in "iuU":
            raise SavedProbeError(f"the array {name!r} has the type {array.dtype}")
        if len(np.unique(array)) != len(array):
            raise SavedProbeError(f"the array {name!r} holds a label twice")
    elif array.dtype.kind != ("i" if attribute == "n_iter_" else "f"):
        raise SavedProbeError(f"the array {name!r} has the type {array.dtype}")
    elif attribute not in MAY_BE_NAN and not (np.abs(array) <= LARGEST).all():
        raise SavedProbeError(f"the array {name!r} holds numbers that are not finite or too large")
