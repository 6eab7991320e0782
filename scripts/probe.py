"""Probe any Hugging Face encoder or decoder: where is the word that decides, and what does it say?

Fits linear probes on the hidden states of every layer (on [CLS] as in the paper, on the mean of the
tokens, on the informative token), a location probe and a single-location head, all on the training
split, and scores them on every split, beside an untrained model and shuffled labels.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from command_line import run
from run_directory import check_output, code_sha256, run_directory

if TYPE_CHECKING:
    import pandas as pd

Probe = Literal["cls", "mean", "value", "location", "head"]


@dataclass(frozen=True)
class Config:
    model: str = "minilm"
    """minilm, the folder of a model, or a name on the hub such as bert-base-uncased."""
    spec: str = "sentiment"
    """The dataset: a built-in name or the path of a TOML spec with two labels."""
    position: tuple[Probe, ...] = ("cls", "mean", "value", "location", "head")
    """Which probes; cls, mean and value differ in where they read."""
    layers: tuple[int, ...] = ()
    """Only these layers (0 is the embeddings); all by default."""
    protocol: Literal["ours", "paper"] = "ours"
    """paper: as-released data, [CLS], all rows, scikit-learn's default C, mean over layers."""
    controls: bool = True
    """Also probe an untrained model of the same architecture, and with shuffled labels."""
    seed: int = 0
    """Of draws, controls and intervals."""
    output: Path = Path("results/probes")
    """Folder for the tables."""
    overwrite: bool = False
    """Replace an earlier result."""


def main(config: Config) -> None:
    settings = settings_of(config)
    check_output(config.output, overwrite=config.overwrite)

    import pandas as pd
    from transformers.utils import logging

    from data_gen import build_dataset
    from probing.pretrained import load_model, untrained_like
    from probing.study import chosen_layers, layer_means

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model, tokenizer = load_model(config.model)
    n_layers = model.config.num_hidden_layers
    if any(not 0 <= layer <= n_layers for layer in config.layers):
        raise ValueError(f"--layers must lie between 0 and {n_layers} for {config.model}")
    dataset = build_dataset("sentiment-as-released" if config.protocol == "paper" else config.spec)
    models = {"trained": model}
    if config.controls:
        models["untrained"] = untrained_like(model, config.seed)
    tables = []
    for name, one in models.items():
        tables += [
            table.assign(model=name) for table in probed(config, one, tokenizer, dataset, name)
        ]
    table = pd.concat(tables, ignore_index=True)
    main_rows = table[(table["model"] == "trained") & (table["control"] == "none")]
    means, chosen = layer_means(main_rows), chosen_layers(main_rows)
    with run_directory(config.output, settings, overwrite=config.overwrite) as folder:
        table.to_parquet(folder / "probes.parquet", index=False)
        means.to_parquet(folder / "layer_means.parquet", index=False)
        chosen.to_parquet(folder / "chosen_layers.parquet", index=False)
    print(f"mean over layers 1 to {n_layers} of {config.model}")
    print(table_text(means))
    if config.protocol == "ours":
        print("at the layer with the best cross-validation score on training adjectives")
        print(table_text(chosen))
    for control in table_controls(table):
        print(control)
    print(f"written to {config.output}")


def settings_of(config: Config) -> dict[str, Any]:
    return {
        "code_sha256": code_sha256("data_gen", "probing"),
        "model": config.model,
        "spec": config.spec,
        "position": list(config.position),
        "layers": list(config.layers),
        "protocol": config.protocol,
        "controls": config.controls,
        "seed": config.seed,
    }


def probed(
    config: Config, model: Any, tokenizer: Any, dataset: Any, name: str
) -> "list[pd.DataFrame]":
    """The table of one model, and for the trained one that of shuffled labels."""
    from tqdm import tqdm

    from probing.study import PAPER_C, probe_states, read_splits

    paper = config.protocol == "paper"
    probes = ("cls",) if paper else config.position
    with tqdm(desc=f"{name}: reading", unit="split", disable=None) as bar:
        states = read_splits(
            model, tokenizer, dataset, probes=probes, progress=lambda _: bar.update()
        )
    options: dict[str, Any] = {
        "probes": probes,
        "layers": config.layers or None,
        "seed": config.seed,
    }
    with tqdm(desc=f"{name}: probing", unit="probe", disable=None) as bar:
        options["progress"] = lambda _: bar.update()
        tables = [
            probe_states(
                states, C=PAPER_C if paper else None, standardize=not paper, **options
            ).assign(control="none")
        ]
        if config.controls and name == "trained":
            # The C of a shuffled task means nothing: fixed, so that the control is cheap.
            shuffled = probe_states(states, C=0.01, shuffled=True, **options)
            tables.append(shuffled.assign(control="shuffled labels"))
    return tables


def table_controls(table: "pd.DataFrame") -> list[str]:
    from probing.study import layer_means

    texts = []
    for (model, control), rows in table.groupby(["model", "control"]):
        if (model, control) != ("trained", "none"):
            texts += [f"control: {model} model, {control}", table_text(layer_means(rows))]
    return texts


def table_text(table: "pd.DataFrame") -> str:
    wide = table.pivot_table(index="probe", columns="split", values="accuracy", sort=False)
    return str(wide.round(3).to_string())


if __name__ == "__main__":
    run(main, Config, __doc__)
