"""Fitted probes on disk: probe.safetensors and probe.json in a folder.

probe.safetensors has the fitted numbers bit for bit; probe.json has the class and the parameters of
the probe, its layer, its labels, and the model that it was fitted to. Nothing in these files is
executed: a class is looked up by name in a fixed table, and every array must have the shape that
follows from the class.
"""

import json
import shutil
import unicodedata
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from sklearn.base import BaseEstimator

from data_gen.quoting import one_line, quoted
from probing.arrays import FloatArray
from probing.probes.head import SingleLocationHead
from probing.probes.saved.arrays import KINDS, PARTS, WIDTH, check_array, shapes_of
from probing.probes.saved.probe import Origin, SavedProbe, SavedProbeError

FORMAT = 1  # of the folder
LARGEST = {"probe.json": 2**20, "probe.safetensors": 2**28}  # bytes; no probe of ours is near it
HIGHEST_LAYER = 10_000
LONGEST_NAME = 1000  # characters of a label or a model
ARRAYS, DESCRIPTION = "probe.safetensors", "probe.json"


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
    for name, largest in LARGEST.items():
        if not (folder / name).is_file():  # a pipe or a device is not one: reading would not end
            raise SavedProbeError(
                f"{folder} is not a folder with a probe: {name} is missing, or not a file; "
                "python scripts/probe.py writes one folder per probe into OUTPUT/saved"
            )
        if (size := (folder / name).stat().st_size) > largest:
            raise SavedProbeError(f"{folder / name} has {size} bytes, more than any probe")
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
        raise SavedProbeError(f"{folder}: {one_line(str(error), 150)}") from None
    except (KeyError, TypeError, AttributeError):
        raise SavedProbeError(f"{folder / DESCRIPTION} lacks entries of a probe") from None


def _saved(description: Any, arrays: dict[str, FloatArray]) -> SavedProbe:
    if not isinstance(description, dict) or "format" not in description:
        raise SavedProbeError("this is not the description of a probe")
    if description["format"] != FORMAT:
        theirs = quoted(description["format"])
        raise SavedProbeError(f"format {theirs} is not known, only {FORMAT}")
    probe, layer, labels = (description[name] for name in ("probe", "layer", "labels"))
    if not isinstance(probe, str) or probe not in KINDS:
        raise SavedProbeError(f"there is no probe {quoted(probe)}, only {', '.join(KINDS)}")
    if type(layer) is not int or not 0 <= layer <= HIGHEST_LAYER:
        raise SavedProbeError(f"{quoted(layer)} is not the number of a layer")
    if not _are_names(labels):
        raise SavedProbeError("labels must be a list of different names")
    n_labels = len(labels)
    if (n_labels < 2) != (probe == "location") or (probe == "location" and labels):
        raise SavedProbeError(f"{n_labels} labels do not go with the probe {probe!r}")
    for name in ("model", "fingerprint"):
        if not _are_names([description[name]]):
            raise SavedProbeError(f"{name} must be a text without control characters")
    fitted = dict(arrays)
    if (classes := description["classes"]) is not None:
        if classes != labels:
            raise SavedProbeError("classes are names, but not those of the labels")
        for name in ("classes_", "value_.classes_") if probe == "reader" else ("classes_",):
            fitted[name] = np.array(classes)
    width = WIDTH[KINDS[probe].__name__]
    if width not in fitted or not fitted[width].size or not fitted[width].ndim:
        raise SavedProbeError(f"the array {width!r} is missing or empty")
    d = fitted[width].shape[-1]
    estimator = _rebuilt(KINDS[probe], description["estimator"], fitted, n_labels, d)
    if fitted:
        other = quoted(min(fitted))
        raise SavedProbeError(f"the array {other} does not belong to the probe {probe!r}")
    made_with = description["made_with"]
    if not isinstance(made_with, dict) or not all(_are_names([x]) for x in made_with.values()):
        raise SavedProbeError("made_with must be an object of texts")
    origin = Origin(description["model"], description["fingerprint"], dict(made_with))
    saved = SavedProbe(estimator, probe, layer, tuple(labels), origin)
    if description["reads"] != saved.reads:
        raise SavedProbeError(f"the probe {probe!r} reads {saved.reads}")
    return saved


def _are_names(value: Any) -> bool:
    """Whether this is a list of different texts without characters that control a terminal."""
    return (
        isinstance(value, list)
        and all(isinstance(x, str) and 0 < len(x) <= LONGEST_NAME for x in value)
        and not {"Cc", "Cs"} & set(map(unicodedata.category, "".join(value)))
        and len(set(value)) == len(value)
    )


def _is_short(value: Any) -> bool:
    """Whether this can be a parameter: a number, null, or the name of a choice."""
    return isinstance(value, bool | int | float | None) or _are_names([value])


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
        raise SavedProbeError(f"the class {quoted(name)} is not {kind.__name__}")
    if set(parameters) != set(kind().get_params()):
        raise SavedProbeError(f"the parameters are not those of {name}")
    if not all(_is_short(x) for x in parameters.values()):
        raise SavedProbeError(f"the parameters of {name} must be numbers, texts, or null")
    estimator = kind(**parameters)
    if isinstance(estimator, SingleLocationHead):
        estimator.check_parameters()
    for part, part_kind in PARTS.get(kind, {}).items():
        rebuilt = _rebuilt(part_kind, described[part], fitted, n_labels, d, f"{prefix}{part}.")
        setattr(estimator, part, rebuilt)
    for attribute, shape in shapes_of(estimator, n_labels, d).items():
        array: Any = fitted.pop(prefix + attribute, None)
        if array is not None:
            check_array(prefix + attribute, array, shape)
            array = array if array.ndim else array.item()
        elif shape is not None and attribute != "cv_scores_":
            raise SavedProbeError(f"the array {prefix + attribute!r} is missing")
        setattr(estimator, attribute, array)
    return estimator
