"""Probe any Hugging Face encoder or decoder: where is the word that decides, and what does it say?

Fits linear probes on the hidden states of every layer (on [CLS] as in the paper, on the mean of the
tokens, on the informative token), a location probe, both together (locate, then read) and a
single-location head, all on the training split, and scores them on every split, beside an
untrained model and shuffled labels.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from code_version import code_sha256, data_sha256, model_key
from command_line import run
from run_directory import check_output, run_directory

if TYPE_CHECKING:
    import pandas as pd

N_SHUFFLES = 3
CONTROL_ROWS = 1000  # of each split are enough for an untrained model ...
CONTROL_TOKEN_SENTENCES = 500  # ... and of these, for probes that see every token
Probe = Literal["cls", "mean", "value", "location", "reader", "head"]


@dataclass(frozen=True)
class Config:
    model: str = "minilm"
    """minilm, the folder of a model, or a name on the hub such as bert-base-uncased."""
    data: str = "sentiment"
    """A built-in dataset, a TOML spec, a folder of generate_data.py, or your own CSV or JSONL."""
    position: tuple[Probe, ...] = ("cls", "mean", "value", "location", "reader", "head")
    """Which probes; cls, mean and value differ in where they read."""
    layers: tuple[int, ...] = ()
    """Only these layers (0 is the embeddings); all by default."""
    protocol: Literal["ours", "paper"] = "ours"
    """paper: as-released data, [CLS], all rows, scikit-learn's default C, mean over layers."""
    controls: bool = True
    """Leave out the controls: an untrained model of the same architecture, and shuffled labels."""
    max_rows: int = 0
    """At most this many sentences of each split, drawn at random; 0 takes all."""
    jobs: int = os.cpu_count() or 1
    """Processes that share the fits; results do not depend on it."""
    seed: int = 0
    """Of the controls and the intervals."""
    output: Path = Path("results/probes")
    """Folder for the tables."""
    overwrite: bool = False
    """Replace an earlier result."""


def settings_of(config: Config) -> dict[str, Any]:
    return {
        "code_sha256": code_sha256(__file__),
        "model": model_key(config.model),
        "data": config.data,
        "data_sha256": data_sha256(config.data),
        "position": list(config.position),
        "layers": list(config.layers),
        "protocol": config.protocol,
        "controls": config.controls,
        "max_rows": config.max_rows,
        "seed": config.seed,
    }


def main(config: Config) -> None:
    check_output(config.output, overwrite=config.overwrite)
    if config.max_rows < 0 or config.jobs < 1 or config.seed < 0:
        raise ValueError("--max-rows and --seed must be at least 0, --jobs at least 1")
    if not config.position:
        raise ValueError("--position needs at least one probe")
    if config.protocol == "paper" and config.data != "sentiment":
        raise ValueError("--protocol paper is about the data as released; leave --data out")

    import pandas as pd

    from data_gen import read_data
    from probing.models.pretrained import load_model, untrained_like
    from probing.probes.by_layer import chosen_layers, layer_means
    from probing.sentences import at_most

    settings = settings_of(config)  # before the work: of the data as it is read here
    dataset = read_data("sentiment-as-released" if config.protocol == "paper" else config.data)
    check_words(config.data, dataset)
    if config.max_rows:
        dataset = at_most(dataset, config.max_rows)
    model, tokenizer = load_model(config.model)
    n_layers = model.config.num_hidden_layers
    if any(not 0 <= layer <= n_layers for layer in config.layers):
        raise ValueError(f"--layers must lie between 0 and {n_layers} for {config.model}")
    table, plane = probed(config, model, tokenizer, dataset)
    tables = [table.assign(model="trained")]
    if config.controls:
        untrained, part = untrained_like(model, config.seed), at_most(dataset, CONTROL_ROWS)
        control, _ = probed(config, untrained, tokenizer, part, name="untrained")
        tables.append(control.assign(model="untrained"))
    table = pd.concat(tables, ignore_index=True)
    main_rows = table[(table["model"] == "trained") & (table["control"] == "none")]
    with run_directory(config.output, settings, overwrite=config.overwrite) as folder:
        table.to_parquet(folder / "probes.parquet", index=False)
        if plane is not None:
            plane.to_parquet(folder / "plane.parquet", index=False)
    above = sorted({int(layer) for layer in main_rows["layer"]} - {0}) or [0]
    print(f"mean over layers {', '.join(map(str, above))} of {config.model}")
    print(table_text(layer_means(main_rows)))
    if config.protocol == "ours":
        print("at the layer with the best cross-validation score on training words")
        print(table_text(chosen_layers(main_rows)))
    for (name, control), rows in table.groupby(["model", "control"]):
        if (name, control) != ("trained", "none"):
            what = "true labels" if control == "none" else control
            print(f"control: {name} model, {what} (mean over layers)")
            print(table_text(layer_means(rows)))
    print(f"written to {config.output}")


def check_words(data: str, dataset: Any) -> None:
    """C and the layer are chosen on held-out words, of which each label needs some."""
    from probing.sentences import informative_words

    train = dataset["train"]
    seen = set(train["text"][:])
    for name, split in dataset.items():
        if name != "train" and (repeated := sum(text in seen for text in split["text"][:])):
            print(f"note: {repeated} of {len(split)} sentences of {name} are in train, too")
    words: dict[str, set[str]] = {}
    for label, word in zip(train["label"][:], informative_words(train), strict=True):
        words.setdefault(train.features["label"].int2str(label), set()).add(word)
    for label, its in words.items():
        if len(its) < 2:
            raise ValueError(
                f"{data}: the training split has only one informative word for {label!r}; probes "
                "are chosen on words held out, so give at least two for each label"
            )


def probed(
    config: Config, model: Any, tokenizer: Any, dataset: Any, *, name: str = "trained"
) -> "tuple[pd.DataFrame, pd.DataFrame | None]":
    """The table of one model, for the trained one with shuffled labels below and a plane beside."""
    import pandas as pd
    from tqdm import tqdm

    from probing.probes.by_layer import PAPER_C, chosen_layers, probe_states, token_plane
    from probing.probes.splits import read_splits

    paper = config.protocol == "paper"
    probes = ("cls",) if paper else config.position
    with tqdm(desc=f"{name}: reading", total=len(dataset), unit="split", disable=None) as bar:
        few = {} if name == "trained" else {"max_token_sentences": CONTROL_TOKEN_SENTENCES}
        states = read_splits(
            model, tokenizer, dataset, probes=probes, progress=lambda *_: bar.update(), **few
        )

    def table_of(probes: Any, **options: Any) -> pd.DataFrame:
        with tqdm(desc=f"{name}: probing", unit="fit", disable=None) as bar:

            def progress(done: int, of: int) -> None:
                bar.total = of
                bar.update()

            return probe_states(
                states,
                probes=probes,
                layers=config.layers or None,
                jobs=config.jobs,
                progress=progress,
                **{"seed": config.seed} | options,
            )

    table = table_of(probes, C=PAPER_C if paper else None, standardize=not paper)
    table = table.assign(control="none")
    if name != "trained":
        return table, None
    tables, plane = [table], None
    if config.controls:
        tables.append(shuffled(table_of, probes, config.seed).assign(control="shuffled labels"))
    if "reader" in probes and "test" in states:
        best = chosen_layers(table[table["probe"] == "reader"])
        plane = token_plane(states, "test", int(best["layer"].iloc[0]), seed=config.seed)
    return pd.concat(tables, ignore_index=True), plane


def shuffled(table_of: Any, probes: Any, seed: int) -> "pd.DataFrame":
    """Means over draws of the labels; a location has no label that could be shuffled.

    The C of a shuffled task means nothing: fixed, so that the control is cheap.
    """
    import pandas as pd

    asked = [probe for probe in probes if probe != "location"]
    draws = [table_of(asked, C=0.01, shuffled=True, seed=seed + i) for i in range(N_SHUFFLES)]
    keys = ["probe", "layer", "split"]
    return pd.concat(draws).groupby(keys, sort=False).mean().reset_index()


def table_text(table: "pd.DataFrame") -> str:
    wide = table.pivot_table(index="probe", columns="split", values="accuracy", sort=False)
    return str(wide.round(3).to_string())


if __name__ == "__main__":
    run(main, Config, __doc__)
