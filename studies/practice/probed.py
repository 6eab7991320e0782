"""The pretrained models that `make reproduce` probes: on which data, at which layers, how much.

Each model is probed on the published data (6 and 4 adjectives), on the wide data (64 and 150), and
by the paper's own protocol. Findings are on the wide data alone: they have power there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from probing.models.downloads import DOWNLOADS, is_downloaded
from studies.findings import Finding, of_row
from studies.practice import probes
from studies.practice.probes import PUBLISHED, Options, layers_of
from studies.rendering import intervals, pivoted
from studies.study import Said, Study, Tables
from studies.subject import MODEL_NAMES

WIDE = "sentiment-wide"
# A decoder of 30 layers takes ten times as long as MiniLM: some layers, fewer sentences, bfloat16.
EVERY_SIXTH = (6, 12, 18, 24)
SMOLLM2: dict[str, Any] = {"model": "smollm2", "dtype": "bfloat16", "layers": EVERY_SIXTH}
MPNET: dict[str, Any] = {"model": "mpnet", "layers": (3, 6, 9, 12)}
# Requirements on the wide data, set by a prototype with two training structures before the wide
# data were written: accuracy of locate-and-read on new words, and in new structures too.
LEAST = {"minilm": (0.95, 0.90), "smollm2": (0.95, 0.95), "mpnet": (0.95, 0.90)}
WIDEST = 0.08  # width of their intervals


@dataclass(frozen=True)
class Probed:
    """A study of `probe.py` with its options, under its own folder and title."""

    study: Study
    options: Options

    def under(self, results: Path, overwrite: bool = False) -> Options:
        """The options with the output in a folder of all results."""
        return replace(self.options, output=results / self.study.folder, overwrite=overwrite)


def probed(folder: str, data: str, options: Options, **parts: Any) -> Probed:
    name = MODEL_NAMES[options.model]
    study = replace(
        probes.STUDY,
        title=f"Probes by layer: {name}, {data}",
        folder=folder,
        command=command_of(replace(options, output=Path("results") / folder)),
        optional=options.model in DOWNLOADS,
        **parts,
    )
    return Probed(study, options)


def command_of(options: Options) -> str:
    """The command with every option that is not the default."""
    words = ["python scripts/probe.py"]
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name in ("jobs", "overwrite") or value == getattr(Options(), field.name):
            continue
        words.append(f"--{field.name.replace('_', '-')}")
        if value is not True:
            words += map(str, value) if isinstance(value, tuple) else [str(value)]
    return " ".join(words)


# ---- the paper's protocol


def says_of_paper(model: str, tables: Tables) -> Said:
    """The paper's bars and ours by its protocol, split by split."""
    name, bars = MODEL_NAMES[model], tables["bars"]
    labels = {"BERT": "BERT, published", "trained": name, "untrained": f"untrained {name}"}
    shown = bars.assign(label=bars["model"].map(labels))
    wide = pivoted(shown, intervals(shown), "label", "split")
    above = tables["probes"].query("layer > 0 and split == 'train' and control == 'none'")
    sds = above.groupby("model")["state_sd"].agg(["min", "max"])
    spread = ", ".join(
        f"{sds.loc[model, 'min']:.4f} to {sds.loc[model, 'max']:.4f} in {labels[str(model)]}"
        for model in sds.index
    )
    counts = [
        f"{row.sentences:,}" if row.sentences == row.of else f"{row.sentences:,} of {row.of:,}"
        for row in tables["splits"].itertuples()
    ]
    rows = ", ".join(
        f"{n} in `{split}`" for n, split in zip(counts, tables["splits"]["split"], strict=True)
    )
    control = f" (untrained {name}: at most {probes.CONTROL_ROWS:,})"
    control = control if "untrained" in set(bars["model"]) else ""
    return [
        "The paper's protocol: data as released, [CLS] (the last token of a decoder), raw states, "
        f"scikit-learn's default C = 1, mean over layers; here over {layers_of(tables)}. Sentences "
        f"here: {rows}{control}. The first row are the "
        "published bars of bert-base-uncased, another model. C = 1 on raw states is a penalty in "
        "the units of the states, which differ between models: what this protocol gives depends "
        "on the scale of a model's states, and a low accuracy on `train` says that the penalty, "
        "not the model, is the limit. "
        f"Standard deviation of a coordinate of the probed state over sentences: {spread}.",
        wide.rename(columns={"initial": "initial embeddings"})
        .rename_axis(index="accuracy")
        .fillna(""),
    ]


def findings_of_paper(tables: Tables) -> Iterator[Finding]:
    means = probes.true_labels(tables["means"])
    bars = means[means["probe"] == "summary"].set_index("split")
    split = (bars["accuracy"] - pd.Series(PUBLISHED)).abs().idxmax()
    bar = bars.loc[split]
    yield Finding(
        text="By the protocol of the paper's Figure 1b a probe of MiniLM's [CLS] has an accuracy "
        f"of {{}} on {split}, the split on which it is farthest from the published bar.",
        **of_row(bar, "accuracy"),
        published=f"{PUBLISHED[split]:.2f}, of BERT",
        why="it is another model, whose states have another scale; BERT's weights cannot be had "
        "here",
    )


def _paper(folder: str, **options: Any) -> Probed:
    chosen = Options(protocol="paper", **options)
    parts: dict[str, Any] = {"says": partial(says_of_paper, chosen.model)}
    if chosen.model == "minilm":
        parts["findings"] = findings_of_paper
    figures = {"paper": probes.PAPER_CAPTION}
    return probed(folder, "the paper's protocol", chosen, figures=figures, **parts)


def _wide(folder: str, **options: Any) -> Probed:
    chosen = Options(data=WIDE, curve=True, **options)
    figures = {**probes.STUDY.figures, "words": probes.WORDS_CAPTION}
    return probed(folder, "wide data", chosen, figures=figures)


MINILM: dict[str, Any] = {"layers": (1, 2, 3, 4, 5, 6)}
ALONE: dict[str, Any] = {"no_controls": True}  # MiniLM has the controls
PROBED = {
    each.study.folder: each
    for each in (
        probed("probes", "published data", Options(max_rows=1000)),
        probed("probes-smollm2", "published data", Options(**SMOLLM2, **ALONE, max_rows=150)),
        probed("probes-mpnet", "published data", Options(**MPNET, **ALONE, max_rows=150)),
        _wide("probes-wide", **MINILM, max_rows=1800),
        _wide("probes-wide-smollm2", **SMOLLM2, **ALONE, max_rows=600),
        _wide("probes-wide-mpnet", **MPNET, **ALONE, max_rows=1200),
        _paper("probes-paper", max_rows=1500),
        _paper("probes-paper-smollm2", **SMOLLM2, **ALONE, max_rows=200),
        _paper("probes-paper-mpnet", **MPNET, **ALONE, max_rows=1000),
    )
}
STUDIES = tuple(each.study for each in PROBED.values())


def available(models: tuple[str, ...] = ("minilm", "smollm2", "mpnet")) -> dict[str, Probed]:
    """What can be probed here: MPNet takes part if `make models` has downloaded it."""
    here = [model for model in models if model not in DOWNLOADS or is_downloaded(model)]
    return {folder: each for folder, each in PROBED.items() if each.options.model in here}
