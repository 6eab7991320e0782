"""Controls for the probes of a model: does the model know, or does the probe learn?

At every layer the value probe (informative token), the paper's probe ([CLS]) and the location probe
are compared with control tasks (Hewitt and Liang: selectivity), shuffled labels, random directions
and an untrained model. Description lengths are those of labels in an online code (Voita and Titov),
in a random order and adjective by adjective.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd

from studies.bounds import MOST, Jobs, Layer, Trainings, Within, check_workers
from studies.findings import Finding
from studies.rendering import number
from studies.study import Options as StudyOptions
from studies.study import Result, Said, Tables, counter, study
from studies.subject import Subject, model_name

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
    layers: tuple[Layer, ...] = ()
    """The layers to probe (0 is the embeddings); by default all."""
    max_rows: Annotated[int, Within(100, MOST)] = 2000
    """Largest number of training sentences, drawn at random; a quarter as many score the probes."""
    draws: Trainings = 3
    """Number of draws of control labels and of shuffled labels."""
    no_codes: bool = False
    """Leave out description lengths, which take most of the time."""
    jobs: Jobs = os.cpu_count() or 1
    """Number of processes that share the fits; results do not depend on it."""
    output: Path = Path("results/controls")
    """Folder for the table."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_workers(self.jobs)


def run(options: Options) -> Result:
    from probing.controls.table import control_splits
    from probing.models.pretrained import untrained_like

    start = time.perf_counter()
    dataset = options.read_data()
    options.check_two_labels(dataset)
    dataset = control_splits(dataset, max_sentences=options.max_rows)
    model, tokenizer = options.load()
    options.check_layers(options.layers, model)
    options.check_data(model, tokenizer, dataset)
    models = {"trained": model, "untrained": untrained_like(model, options.seed)}
    tables = [controlled(options, name, each, tokenizer, dataset) for name, each in models.items()]
    table = pd.concat(tables, ignore_index=True)
    remark = f"{time.perf_counter() - start:.0f} s with {options.jobs} processes"
    return Result({"controls": table}, remark=remark)


def controlled(
    options: Options, name: str, model: Any, tokenizer: Any, dataset: Any
) -> pd.DataFrame:
    """The table of controls of one model."""
    from probing.controls.table import Effort, control_table
    from probing.probes.splits import read_splits

    read: dict[str, Any] = {"probes": options.probes, "max_token_sentences": TOKEN_SENTENCES}
    with counter(f"{name}: reading", "split") as progress:
        states = read_splits(model, tokenizer, dataset, progress=progress, **read)
    fit: dict[str, Any] = {
        "layers": options.layers or None,
        "effort": Effort(n_draws=options.draws, codes=not options.no_codes),
    }
    fit |= {"probes": options.probes, "seed": options.seed, "jobs": options.jobs}
    with counter(f"{name}: controls", "layer") as progress:
        return control_table(states, progress=progress, **fit).assign(model=name)


def selectivity(tables: Tables) -> Iterator[Finding]:
    """Selectivity of the value probe at the layer that cross-validation chose.

    It needs many words: random labels of six resemble the true ones. The untrained model knows
    which word it sees but not what it means: its selectivity is that of the labels drawn.
    """
    keys = ["model", "task", "layer"]
    rows = tables["controls"].query("probe == 'value'").set_index(keys).sort_index()
    layer = rows.loc[("trained", "label"), "cv_score"].idxmax()
    label = rows.loc[("trained", "label", layer)]
    other = rows.loc[("untrained", "label", layer)]
    draws = rows.loc[("untrained", "control task", layer)]
    high = other["accuracy"] - draws["low_5"]
    yield Finding(
        text=f"The value probe of {model_name(tables)} on many words is right by {{}} more often "
        f"for true labels than for random labels of the words (layer {layer}; untrained "
        f"{other['selectivity']:.3f}).",
        value=label["selectivity"],
        form=".3f",
        required=f"above {high:.3f}, which 95% of control tasks of the untrained model stay below",
        holds=bool(label["selectivity"] > high),
        why="in 384 dimensions a linear probe learns any labels of 64 words by heart",
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
    shown["new words"] = labels["new_words"].map(number)
    n_draws = table["draws"][kinds == "control"].max()
    text = (
        f"Probes of {model_name(tables)}: accuracy on held-out training sentences for the true "
        "labels, for the control task (for the location, the better of two), for shuffled labels "
        f"and along random directions; labels are drawn {n_draws:.0f} times. Selectivity is the "
        "accuracy for the true labels minus that for the control task, in which each word has a "
        "random label: it is 0, whatever the model knows, where the probe has the dimensions to "
        "learn any labels of these words by heart. That cannot help on new words (true labels, "
        "`ood_tokens`)"
    )
    if "compression" in table:
        shown["compression"] = labels["compression"].map("{:.1f}".format)
        shown["by word"] = labels["word_compression"].map(number)
        text += (
            "; compression is that of the labels in an online code, sentence by sentence and "
            "adjective by adjective (by word)"
        )
    return [f"{text}.", shown]


STUDY = study(
    __name__,
    "Controls of the probes",
    "python scripts/controls.py --model results/models/tiny-0",
)
# Many words, whose random labels are neither few nor nearly the true ones.
WIDE = Options(
    data="sentiment-wide",
    probes=("value",),
    max_rows=512,
    draws=20,
    no_codes=True,
    output=Path("results/controls-wide"),
)
WIDE_STUDY = replace(
    STUDY,
    title="Controls of the probes: many words",
    folder="controls-wide",
    command="python scripts/controls.py --data sentiment-wide --probes value --max-rows 512 "
    "--draws 20 --no-codes --output results/controls-wide",
    findings=selectivity,
)
