"""What the phase portrait of the report needs from Python: the starts of the paper's runs.

Everything else the browser computes itself, from the risk (studies/pages/html/portrait/).
"""

from typing import Any

import numpy as np

from slr.dynamics.experiment import EXPERIMENTS, published_start

PLACES = {"manifold": "on the manifold", "sphere": "on the sphere"}


def portrait_values() -> dict[str, Any]:
    """The paper's starts by law: an id, two labels, d, and five overlaps per run."""
    laws: dict[tuple[str, int], list[str]] = {}
    for name, experiment in EXPERIMENTS.items():
        laws.setdefault((experiment.start, experiment.d), []).append(name)
    return {"starts": [law_of(place, d, laws[place, d]) for place, d in sorted(laws, key=_order)]}


def law_of(place: str, d: int, names: list[str]) -> dict[str, Any]:
    """One law of starts, which the experiments of these names share."""
    return {
        "id": f"{place}-d{d}",
        "short": f"{place.capitalize()}, d = {d}",
        "label": f"Starts of the paper {PLACES[place]}, d = {d} ({', '.join(names)})",
        "d": d,
        "overlaps": np.transpose(published_start(names[0])).tolist(),
    }


def _order(law: tuple[str, int]) -> tuple[str, int]:
    place, d = law
    return place, -d
