"""Fitted probes on disk: probe.safetensors and probe.json in a folder.

probe.safetensors has the fitted numbers bit for bit; probe.json has the class and the parameters of
the probe, its layer, its labels, and the model that it was fitted to. Nothing in these files is
executed: a class is looked up by name in a fixed table, and every array must have the shape that
follows from the class.
"""

import json
import shutil
import textwrap
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from sklearn.base import BaseEstimator

from probing.arrays import FloatArray
from probing.probes.head import SingleLocationHead
from probing.probes.linear import LinearProbe
from probing.probes.locate_and_read import LocateAndRead
from probing.probes.location import LocationProbe
from probing.probes.saved.probe import Origin, SavedProbe, SavedProbeError
from probing.probes.splits import HEADS, POOLED

FORMAT = 1  # of the folder
ARRAYS, DESCRIPTION = "probe.safetensors", "probe.json"
KINDS: dict[str, type] = {  # the estimator of each probe
    **dict.fromkeys(POOLED, LinearProbe),
    "location": LocationProbe,
    "reader": LocateAndRead,
    **dict.fromkeys(HEADS, SingleLocationHead),
}
PARTS: dict[type, dict[str, type]] = {
    LocateAndRead: {"location_": LocationProbe, "value_": LinearProbe}
}
MAY_BE_NAN = ("cv_scores_", "C_", "objective_")  # a probe from sums has neither of the last two
WIDTH = {  # the array that says how many dimensions the states have
    "LinearProbe": "coef_",
    "LocationProbe": "coef_",
    "LocateAndRead": "k_hat_",
    "SingleLocationHead": "v_",
}


def save_probe(folder: str | Path, saved: SavedProbe) -> None:
    """Write a probe to a new folder, completely or not at all.

    >>> save_probe("my-probe", saved)
    """
    folder = Path(folder)
    if folder.exists():
        raise FileExistsError(f"{folder} exists; choose another folder")
    fitted = _fitted(saved.estimator)
    classes = fitted.get("classes_", np.array([]))
    description = {
        "format": FORMAT,
        "probe": saved.probe,
        "layer": int(saved.layer),
        "reads": saved.reads,
        "labels": list(saved.labels),
        "classes": classes.tolist() if classes.dtype.kind == "U" else None,  # numbers: an array
        "estimator": _described(saved.estimator),
        "model": saved.origin.model,
        "fingerprint": saved.origin.fingerprint,
        "made_with": dict(saved.origin.made_with),
    }
    text = json.dumps(description, indent=2, ensure_ascii=False) + "\n"
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.partial-{uuid.uuid4().hex}")
    partial.mkdir()
    try:
        numbers = {name: x for name, x in fitted.items() if x.dtype.kind != "U"}
        save_file(numbers, partial / ARRAYS)
        (partial / DESCRIPTION).write_text(text, encoding="utf-8")
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fitted(estimator: Any, prefix: str = "") -> dict[str, FloatArray]:
    """All fitted attributes as arrays; those of a part have its name before theirs."""
    arrays: dict[str, FloatArray] = {}
    for name, value in vars(estimator).items():
        if isinstance(value, BaseEstimator):
            arrays |= _fitted(value, f"{prefix}{name}.")
        elif name.endswith("_") and value is not None:
            arrays[prefix + name] = np.array(value, order="C")
    return arrays


def _described(estimator: Any) -> dict[str, Any]:
    parameters = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in estimator.get_params(deep=False).items()
    }
    parts = {name: _described(getattr(estimator, name)) for name in PARTS.get(type(estimator), ())}
    return {"class": type(estimator).__name__, "parameters": parameters, **parts}


def load_probe(folder: str | Path) -> SavedProbe:
    """The probe in a folder; a damaged or foreign folder is refused in one line.

    >>> load_probe("results/probes/saved/reader").apply(model, tokenizer, texts)
    """
    folder = Path(folder)
    if not (folder / DESCRIPTION).is_file():
        raise SavedProbeError(
            f"{folder} is not a folder with a probe: {DESCRIPTION} is missing; "
            "python scripts/probe.py writes one folder per probe into OUTPUT/saved"
        )
    try:
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise SavedProbeError(f"{folder / DESCRIPTION} is damaged: it is not JSON") from None
    if not (folder / ARRAYS).is_file():  # a pipe would be waited for
        raise SavedProbeError(f"{folder / ARRAYS} is missing")
    try:
        arrays = load_file(folder / ARRAYS)
    except (SafetensorError, KeyError, TypeError, ValueError):
        raise SavedProbeError(f"{folder / ARRAYS} is damaged or not of this kind") from None
    try:
        return _saved(description, arrays)
    except ValueError as error:
        reason = textwrap.shorten(str(error), 150, placeholder=" ...")  # it may quote long values
        raise SavedProbeError(f"{folder}: {reason}") from None
    except (KeyError, TypeError, AttributeError):
        raise SavedProbeError(f"{folder / DESCRIPTION} lacks entries of a probe") from None


def _saved(description: Any, arrays: dict[str, FloatArray]) -> SavedProbe:
    if not isinstance(description, dict) or "format" not in description:
        raise SavedProbeError("this is not the description of a probe")
    if description["format"] != FORMAT:
        raise SavedProbeError(f"format {description['format']!r} is not known, only {FORMAT}")
    probe, layer, labels = (description[name] for name in ("probe", "layer", "labels"))
    if not isinstance(probe, str) or probe not in KINDS:
        raise SavedProbeError(f"there is no probe {probe!r}, only {', '.join(KINDS)}")
    if type(layer) is not int or layer < 0:
        raise SavedProbeError(f"{layer!r} is not the number of a layer")
    n_labels = len(labels)
    if not all(isinstance(x, str) for x in labels) or len(set(labels)) != n_labels:
        raise SavedProbeError("labels must be different names")
    if (n_labels < 2) != (probe == "location") or (probe == "location" and labels):
        raise SavedProbeError(f"{n_labels} labels do not go with the probe {probe!r}")
    for name in ("model", "fingerprint"):
        if not isinstance(description[name], str):
            raise SavedProbeError(f"{name} must be a text")
    fitted = dict(arrays)
    if (classes := description["classes"]) is not None:
        for name in ("classes_", "value_.classes_") if probe == "reader" else ("classes_",):
            fitted[name] = np.array([str(each) for each in classes])
    width = WIDTH[KINDS[probe].__name__]
    if width not in fitted or not fitted[width].size or not fitted[width].ndim:
        raise SavedProbeError(f"the array {width!r} is missing or empty")
    d = fitted[width].shape[-1]
    estimator = _rebuilt(KINDS[probe], description["estimator"], fitted, n_labels, d)
    if fitted:
        raise SavedProbeError(f"the array {min(fitted)!r} does not belong to the probe {probe!r}")
    made_with = {str(name): str(value) for name, value in description["made_with"].items()}
    origin = Origin(description["model"], description["fingerprint"], made_with)
    saved = SavedProbe(estimator, probe, layer, tuple(labels), origin)
    if description["reads"] != saved.reads:
        raise SavedProbeError(f"the probe {probe!r} reads {saved.reads}")
    return saved


def _rebuilt(
    kind: type,
    described: Any,
    fitted: dict[str, FloatArray],
    n_labels: int,
    d: int,
    prefix: str = "",
) -> Any:
    """The estimator of a description; its arrays are taken out of ``fitted``."""
    name, parameters = described["class"], described["parameters"]
    if name != kind.__name__:
        raise SavedProbeError(f"the class {name!r} is not {kind.__name__}")
    if set(parameters) != set(kind().get_params()):
        raise SavedProbeError(f"the parameters are not those of {name}")
    if not all(isinstance(x, bool | int | float | str | None) for x in parameters.values()):
        raise SavedProbeError(f"the parameters of {name} must be numbers, texts, or null")
    estimator = kind(**parameters)
    if isinstance(estimator, SingleLocationHead):
        estimator.check_parameters()
    for part, part_kind in PARTS.get(kind, {}).items():
        rebuilt = _rebuilt(part_kind, described[part], fitted, n_labels, d, f"{prefix}{part}.")
        setattr(estimator, part, rebuilt)
    for attribute, shape in _shapes(estimator, n_labels, d).items():
        array: Any = fitted.pop(prefix + attribute, None)
        if array is not None:
            _check_array(prefix + attribute, array, shape)
            array = array if array.ndim else array.item()
        elif shape is not None and attribute != "cv_scores_":
            raise SavedProbeError(f"the array {prefix + attribute!r} is missing")
        setattr(estimator, attribute, array)
    return estimator


def _shapes(estimator: Any, n_labels: int, d: int) -> dict[str, tuple[int, ...] | None]:
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


def _check_array(name: str, array: FloatArray, shape: tuple[int, ...] | None) -> None:
    expected = array.shape if shape == (-1,) and array.ndim == 1 else shape
    if array.shape != expected:
        raise SavedProbeError(f"the array {name!r} has the shape {array.shape}, not {expected}")
    attribute = name.split(".")[-1]
    if attribute == "classes_":
        if len(np.unique(array)) != len(array):
            raise SavedProbeError(f"the array {name!r} holds a label twice")
    elif array.dtype.kind != ("i" if attribute == "n_iter_" else "f"):
        raise SavedProbeError(f"the array {name!r} has the type {array.dtype}")
    elif attribute not in MAY_BE_NAN and not np.isfinite(array).all():
        raise SavedProbeError(f"the array {name!r} holds numbers that are not finite")
