"""The paper, figure by figure: what each of its figures and tables shows, and what ours show.

What stands under `paper` comes from notes on arXiv 2410.01537 and from the code that its authors
released: the paper itself was not at hand. What stands under `here` is read from the results.
Figures have the numbers of the arXiv version; those of the ICLR version are one higher.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from studies.pages.reading import is_there, reading
from studies.practice import dataset, figure1
from studies.practice.probed import PROBED
from studies.practice.probes import PUBLISHED, true_labels
from studies.storage.results import SETTINGS, read_json
from studies.study import Study, Tables
from studies.theory import layer, paper, portrait

COMMON: dict[str, Any] = {
    "d": 400,
    "L": 10,
    "gamma^2": 0.5,
    "lambda": 0.1,
    "decay": 0.0,
    "step size": 4e-3,
}
COMMON |= {"steps": 20_000, "logged every": 200, "runs": 30, "start": "sphere"}
LONG = {"steps": 120_000, "logged every": 300}
PARAMETERS: dict[str, dict[str, Any]] = {  # the paper's table, by the names of our experiments
    "pgd-manifold": COMMON | {"start": "manifold"},
    "pgd-schedule": COMMON | LONG | {"lambda": 1.0, "decay": 1e-4},
    "sgd-schedule": COMMON
    | {"d": 80, "lambda": 2.0, "decay": 1e-4, "step size": 1e-3, "steps": 200_000}
    | {"logged every": 500, "batch": 5, "noise": 0.1},
    "pgd-large-lambda": COMMON | LONG | {"lambda": 0.9, "step size": 1e-3},
    "pgd-small-lambda": COMMON,
}
SHOWS = {  # what the paper's figures of the experiments show
    "pgd-manifold": "all runs align",
    "pgd-schedule": "all runs align",
    "sgd-schedule": "all runs align",
    "pgd-large-lambda": "large lambda throughout",
    "pgd-small-lambda": "some runs end at other stationary points",
}
REMARKS = {
    "sgd-schedule": "; other batches",
    "pgd-large-lambda": "; the first commit of the released code has lambda 1.0, its last 0.9",
}
LAYER = {"d": 80, "L": 10, "MLP": 200, "batch": 128, "step size": 0.01, "steps": 8_000, "runs": 20}
SIZES = {"train": 15_552, "test": 4_608, "ood_tokens": 3_072}
SIZES |= {"ood_structure": 144, "ood_structure_tokens": 96}


class Row(NamedTuple):
    """A figure or table of the paper beside ours."""

    figure: str
    what: str
    paper: str
    here: str
    difference: str


def paper_table(results: Path) -> pd.DataFrame:
    """One row per figure or table of the paper; `not made` where our result is missing."""
    return pd.DataFrame(rows(results)).set_index("figure")


def rows(results: Path) -> Iterator[Row]:
    """The rows in the order of the paper."""
    yield from _practice(results)
    in_order = sorted(paper.STUDIES, key=lambda study: paper.FIGURES[study.name])
    yield from (_experiment(results, study) for study in in_order[:3])
    yield from _manifold(results)
    yield from (_experiment(results, study) for study in in_order[3:])
    yield from _appendix(results)


def _here(results: Path, study: Study, read: Callable[[Tables], str]) -> str:
    if not is_there(results, study):
        return f"not made: `{study.command}`"
    with reading(results, study) as tables:
        return read(tables)


def _practice(results: Path) -> Iterator[Row]:
    from studies.practice.figures.figure1 import SPLIT_NAMES

    yield Row(
        "Figure 1a",
        "token-wise sparsity",
        "one word of a sentence decides its label",
        _here(results, figure1.STUDY, _sparsity),
        "measured as attention, in a Transformer that was trained on the task",
    )
    bars = ", ".join(f"{SPLIT_NAMES[split]} {value:.2f}" for split, value in PUBLISHED.items())
    yield Row(
        "Figure 1b",
        "linear probes of [CLS], mean over layers",
        f"bert-base-uncased: initial embeddings 0.50, {bars}",
        _here(results, PROBED["probes-paper"].study, _bars),
        "another model: BERT's weights cannot be downloaded here, so that nobody has run this with "
        "BERT (`python scripts/probe.py --model bert-base-uncased --protocol paper`). "
        "Initial embeddings are 0.50 of necessity: before the first layer [CLS] is one vector",
    )
    yield Row(
        "Figure 2",
        "distractors lie along v*, not along k*",
        "shown",
        _here(results, figure1.STUDY, _distractors),
        "measured in MiniLM",
    )


def _experiment(results: Path, study: Study) -> Row:
    published = f"{_in_words(PARAMETERS[study.name])}; {SHOWS[study.name]}"
    difference = _here(results, study, partial(_differences, study.name))
    return Row(
        paper.FIGURES[study.name], study.title, published, _here(results, study, _ends), difference
    )


def _manifold(results: Path) -> Iterator[Row]:
    yield Row(
        "Figure 5a",
        "fixed points on the manifold",
        "minima (1, 1), (-1, -1), saddle (0, 0), maxima (1, -1), (-1, 1)",
        _here(results, portrait.STUDY, _fixed_points),
        "drawn on the risk's landscape, with runs of PGD",
    )
    yield Row(
        "Figure 5b",
        "the vector field on the manifold",
        "its magnitude as colour",
        _here(results, portrait.STUDY, _speed),
        "drawn as streamlines",
    )


def _appendix(results: Path) -> Iterator[Row]:
    yield Row(
        "Appendix E.3",
        "a whole softmax layer",
        f"{_in_words(LAYER)}; solves the task",
        _here(results, layer.STUDY, _layer),
        "the released notebook also has layer norm, residual connections and a register token",
    )
    for what in ("two heads of the erf predictor", "a Transformer with two heads"):
        yield Row(
            "Appendix E.3",
            f"{what}, two pairs (k*, v*)",
            "a notebook of the released code",
            "not made",
            "",
        )
    yield Row(
        "Table of the dataset",
        "sentences per split",
        _in_words(SIZES),
        _here(results, dataset.STUDY, _sizes),
        "none in size; the released test split holds half of its sentences twice (docs/dataset.md)",
    )


def _ends(tables: Tables) -> str:
    ends = _shown(tables)
    return f"{ends['aligned'].sum()} of {len(ends)} align, {ends['swapped'].sum()} swapped"


def _shown(tables: Tables) -> pd.DataFrame:
    """The runs that are drawn: from the published starts, unless all starts are random."""
    ends = tables["runs"]
    if ends.empty:
        raise ValueError("there are no runs")
    published = ends[ends["start"] == "published"]
    return ends if published.empty else published


def _differences(name: str, tables: Tables) -> str:
    """How an experiment differs from the paper's."""
    ends, published = _shown(tables), PARAMETERS[name]
    used = _parameters(name, tables, len(ends))
    others = [parameter for parameter in published if used[parameter] != published[parameter]]
    if (ends["start"] == "random").any():
        others.append("starts")
    text = f"other {', '.join(others)}" if others else "none: its parameters, its starts"
    return f"{text}{REMARKS.get(name, '')}"


def _parameters(name: str, tables: Tables, runs: int) -> dict[str, Any]:
    from slr import EXPERIMENTS

    used, trajectory = EXPERIMENTS[name], tables["trajectory"]
    steps = trajectory["step"].unique()
    given = read_json(tables.folder / SETTINGS)  # the options: --d may differ from the paper's
    return {
        "d": given.get("d") or used.d, "L": used.L, "gamma^2": round(used.gamma**2, 12),
        "lambda": trajectory["lam"].iloc[0], "decay": used.lam_decay, "step size": used.step_size,
        "steps": steps[-1], "logged every": steps[1], "runs": runs, "start": used.start,
        "batch": used.batch_size, "noise": used.noise_std,
    }  # fmt: skip


def _in_words(values: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
        for name, value in values.items()
        if (name, value) != ("decay", 0.0)
    )


def _sparsity(tables: Tables) -> str:
    test = tables["sparsity"].query("split == 'test'").set_index("model")["mass"]
    return (
        f"attention on that word: {test['1 layer']:.2f} with one layer, {test['2 layers']:.2f} "
        f"with two (untrained {test['untrained']:.2f})"
    )


def _bars(tables: Tables) -> str:
    from studies.practice.figures.figure1 import SPLIT_NAMES

    means = true_labels(tables["means"])
    found = means[means["probe"] == "summary"].set_index("split")["accuracy"]
    texts = [
        f"{SPLIT_NAMES[split]} {found[split]:.2f} ({found[split] - value:+.2f})"
        for split, value in PUBLISHED.items()
    ]
    return f"MiniLM, by the paper's protocol: {', '.join(texts)}"


def _distractors(tables: Tables) -> str:
    """Where distractors lie: on the way along k, and how far they spread along v."""
    by_role = tables["plane"].groupby("role")[["k", "v"]]
    k, spread = by_role.mean()["k"], by_role.std()["v"]
    share = (k["distractor"] - k["neutral"]) / (k["informative"] - k["neutral"])
    return (
        f"MiniLM: along k_hat distractors are on {share:.2f} of the way from neutral to "
        f"informative tokens; their standard deviation along v_hat is {spread['distractor']:.2f} "
        f"(informative {spread['informative']:.2f}, neutral {spread['neutral']:.2f})"
    )


def _speed(tables: Tables) -> str:
    from slr import EXPERIMENTS, flow

    points = tables["fixed_points"]
    task, lam = EXPERIMENTS["pgd-manifold"].task, EXPERIMENTS["pgd-manifold"].lam
    kappa, nu = (points[name].to_numpy() for name in ("kappa", "nu"))
    at_rest = np.hypot(*flow(task, kappa, nu, lam)).max()
    return f"its magnitude as colour; at the {len(points)} fixed points at most {at_rest:.0e}"


def _fixed_points(tables: Tables) -> str:
    groups = tables["fixed_points"].round(3).groupby("kind", sort=False)
    return "; ".join(
        f"{kind} " + ", ".join(f"({p.kappa:g}, {p.nu:g})" for p in part.itertuples())
        for kind, part in groups
    )


def _layer(tables: Tables) -> str:
    risk = layer.late(tables["layer"])["excess_risk"]
    return (
        f"{len(risk)} runs, {tables['layer']['step'].max():,} steps: excess risk "
        f"{risk.median():.4f} (median over runs, of the last {layer.LATE:,} steps)"
    )


def _sizes(tables: Tables) -> str:
    splits = read_json(tables.folder / "manifest.json")["splits"]
    return _in_words({name: splits[name]["rows"] for name in SIZES})
