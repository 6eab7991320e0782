"""Controls for the probes of a model: does the model know, or does the probe learn?

At every layer the value probe (informative token), the paper's probe ([CLS]) and the location probe
are compared with control tasks (Hewitt and Liang: selectivity), shuffled labels, random directions
and an untrained model. Description lengths are those of labels in an online code (Voita and Titov),
in a random order and adjective by adjective.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from studies.practice.subject import Subject, model_name
from studies.rendering import number
from studies.study import EARLIER, Claim, Result, Said, Tables, counter, study
from studies.study import Options as StudyOptions

Probe = Literal["value", "summary", "location"]
COLUMNS = {  # task: its column in the summary
    "label": "label",
    "control": "control",
    "shuffled labels": "shuffled",
    "random direction": "random",
}
TOKEN_SENTENCES = 150  # per split, with the states of all tokens, for the location probe


@dataclass(frozen=True, kw_only=True)
class Options(Subject, StudyOptions):
    probes: tuple[Probe, ...] = ("value", "summary", "location")
    """The probes to fit; summary is the paper's ([CLS], or a decoder's last token)."""
    layers: tuple[int, ...] = ()
    """The layers to probe (0 is the embeddings); by default all."""
    max_rows: int = 2000
    """Largest number of training sentences, drawn at random; a quarter as many score the probes."""
    draws: int = 3
    """Number of draws of control labels and of shuffled labels."""
    jobs: int = os.cpu_count() or 1
    """Number of processes that share the fits; results do not depend on it."""
    output: Path = Path("results/controls")
    """Folder for the table."""


def run(options: Options) -> Result:
    if options.max_rows < 100 or options.jobs < 1 or options.draws < 1:
        raise ValueError("--max-rows must be at least 100, --jobs and --draws at least 1")
    options.check_seed()

    from probing.models.pretrained import untrained_like
    from probing.probes.controls import control_splits

    start = time.perf_counter()
    model, tokenizer = options.load()
    options.check_layers(options.layers, model)
    dataset = control_splits(options.read_data(), max_sentences=options.max_rows)
    options.check_known_words(tokenizer, dataset)
    models = {"trained": model, "untrained": untrained_like(model, options.seed)}
    tables = [controlled(options, name, each, tokenizer, dataset) for name, each in models.items()]
    table = pd.concat(tables, ignore_index=True)
    remark = f"{time.perf_counter() - start:.0f} s with {options.jobs} processes"
    return Result({"controls": table}, remark=remark)


def controlled(
    options: Options, name: str, model: Any, tokenizer: Any, dataset: Any
) -> pd.DataFrame:
    """The table of controls of one model."""
    from probing.probes.controls import Effort, control_table
    from probing.probes.splits import read_splits

    read: dict[str, Any] = {"probes": options.probes, "max_token_sentences": TOKEN_SENTENCES}
    with counter(f"{name}: reading", "split") as progress:
        states = read_splits(model, tokenizer, dataset, progress=progress, **read)
    fit: dict[str, Any] = {
        "layers": options.layers or None,
        "effort": Effort(n_draws=options.draws),
    }
    fit |= {"probes": options.probes, "seed": options.seed, "jobs": options.jobs}
    with counter(f"{name}: controls", "layer") as progress:
        return control_table(states, progress=progress, **fit).assign(model=name)


def claims(tables: Tables) -> Iterator[Claim]:
    rows = tables["controls"].query("model == 'trained' and probe == 'value'")
    label, control = (rows[rows["task"] == task] for task in ("label", "control task"))
    best = label.sort_values("selectivity").iloc[-1]
    random = control.set_index("layer").loc[best["layer"]]
    yield Claim(
        claim="value probe of the 1-layer Transformer: accuracy minus that on control tasks "
        f"({best['accuracy']:.3f} minus {random['accuracy']:.3f})",
        required="more than twice the spread of the control tasks",
        origin=EARLIER,
        measured=f"{best['selectivity']:.3f}",
        interval=f"(spread {random['spread']:.3f})",
        passed=bool(best["selectivity"] > 2 * random["spread"]),
    )


def says(tables: Tables) -> Said:
    table = tables["controls"]
    keys = ["model", "probe", "layer"]
    kinds = table["task"].where(~table["task"].str.startswith("control"), "control")
    wide = table.assign(kind=kinds).pivot_table(
        index=keys, columns="kind", values="accuracy", sort=False, aggfunc="max"
    )
    shown = wide[list(COLUMNS)].rename(columns=COLUMNS).rename_axis(columns=None).map(number)
    labels = table[table["task"] == "label"].set_index(keys)
    shown["selectivity"] = labels["selectivity"].map(number)
    shown["compression"] = labels["compression"].map("{:.1f}".format)
    shown["by word"] = labels["word_compression"].map(number)
    return [
        f"Probes of {model_name(tables)}: accuracy on held-out training sentences for the true "
        "labels, for the control task (for the location, the better of two), for shuffled labels "
        "and along random directions. Selectivity is the accuracy for the true labels minus that "
        "for the control task; compression is that of the labels in an online code, "
        "sentence by sentence and adjective by adjective (by word).",
        shown,
    ]


STUDY = study(
    __name__,
    "Controls of the probes",
    "python scripts/controls.py --model results/models/tiny-0",
)
