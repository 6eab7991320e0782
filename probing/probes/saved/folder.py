"""Fitted probes on disk: probe.safetensors and probe.json in a folder.

probe.safetensors has the fitted numbers bit for bit; probe.json has the class and the parameters of
the probe, its layer, its labels, and the model that it was fitted to. Nothing in these files is
executed: a class is looked up by the probe's name in a fixed table.
"""

import json
import shutil
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
MAY_BE_NONE: dict[type, tuple[str, ...]] = {  # fitted attributes; others are always there
    LinearProbe: ("cv_scores_",),
    LocationProbe: ("cv_scores_",),
    LocateAndRead: ("cv_scores_",),
    SingleLocationHead: ("cv_scores_", "k_", "k_hat_"),
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
    for name in (DESCRIPTION, ARRAYS):
        if not (folder / name).is_file():
            raise SavedProbeError(
                f"{folder} is not a folder with a probe: {name} is missing; "
                "python scripts/probe.py writes one folder per probe into OUTPUT/saved"
            )
    try:
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        return _saved(description, load_file(folder / ARRAYS))
    except SavedProbeError as error:
        raise SavedProbeError(f"{folder}: {error}") from None
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        reason = one_line(f"{type(error).__name__}: {error}", 100)
        raise SavedProbeError(f"{folder} is damaged, or does not hold a probe ({reason})") from None


def _saved(description: Any, fitted: dict[str, FloatArray]) -> SavedProbe:
    if description["format"] != FORMAT:
        theirs = quoted(description["format"])
        raise SavedProbeError(f"format {theirs} is not known, only {FORMAT}")
    probe, layer, labels = (description[name] for name in ("probe", "layer", "labels"))
    if probe not in KINDS:
        raise SavedProbeError(f"there is no probe {quoted(probe)}, only {', '.join(KINDS)}")
    if (classes := description["classes"]) is not None:
        for name in ("classes_", "value_.classes_") if probe == "reader" else ("classes_",):
            fitted[name] = np.array(classes)
    estimator = _rebuilt(KINDS[probe], description["estimator"], fitted)
    names = ("model", "fingerprint", "made_with")
    origin = Origin(*(description[name] for name in names))
    return SavedProbe(estimator, probe, layer, tuple(labels), origin)


def _rebuilt(kind: type, described: Any, fitted: dict[str, FloatArray], prefix: str = "") -> Any:
    """The estimator of a description; its arrays are taken out of ``fitted``."""
    estimator = kind(**described["parameters"])
    for part, part_kind in PARTS.get(kind, {}).items():
        setattr(estimator, part, _rebuilt(part_kind, described[part], fitted, f"{prefix}{part}."))
    for attribute in MAY_BE_NONE[kind]:
        setattr(estimator, attribute, None)
    for name in [name for name in fitted if name.startswith(prefix)]:
        array: Any = fitted.pop(name)
        setattr(estimator, name.removeprefix(prefix), array if array.ndim else array.item())
    return estimator
