"""Controls for the probes of a model: does it know, or does the probe learn?

For every layer the value probe (informative token), the paper's probe ([CLS]) and the location
probe, each beside control tasks (Hewitt and Liang: selectivity), shuffled labels, random
directions and an untrained model, with the length of the labels in an online code (Voita and
Titov), in a random order and adjective by adjective.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from code_version import code_sha256, data_sha256, model_key
from command_line import run
from run_directory import check_output, run_directory

if TYPE_CHECKING:
    import pandas as pd

Probe = Literal["value", "cls", "location"]
TOKEN_SENTENCES = 150  # of which every token is kept, for the location


@dataclass(frozen=True)
class Config:
    model: str = "minilm"
    """minilm, the folder of a model, or a name on the hub such as bert-base-uncased."""
    data: str = "sentiment"
    """A built-in dataset, a TOML spec, a folder of generate_data.py, or your own CSV or JSONL."""
    probes: tuple[Probe, ...] = ("value", "cls", "location")
    """Which probes."""
    layers: tuple[int, ...] = ()
    """Only these layers (0 is the embeddings); all by default."""
    max_rows: int = 2000
    """At most this many training sentences to fit, drawn at random; a quarter of it to score."""
    draws: int = 3
    """Of control labels and of shuffled ones."""
    jobs: int = os.cpu_count() or 1
    """Processes that share the fits; results do not depend on it."""
    seed: int = 0
    """Of the draws and the untrained model."""
    output: Path = Path("results/controls")
    """Folder for the table."""
    overwrite: bool = False
    """Replace an earlier result."""


def settings_of(config: Config) -> dict[str, Any]:
    return {
        "code_sha256": code_sha256(__file__),
        "model": model_key(config.model),
        "data": config.data,
        "data_sha256": data_sha256(config.data),
        "probes": list(config.probes),
        "layers": list(config.layers),
        "max_rows": config.max_rows,
        "draws": config.draws,
        "seed": config.seed,
    }


def main(config: Config) -> None:
    check_output(config.output, overwrite=config.overwrite)
    if config.max_rows < 100 or config.jobs < 1 or config.draws < 1:
        raise ValueError("--max-rows must be at least 100, --jobs and --draws at least 1")
    if config.seed < 0:
        raise ValueError(f"--seed must not be negative, but is {config.seed}")

    import pandas as pd

    from data_gen import read_data
    from probing.models.pretrained import load_model, untrained_like
    from probing.probes.controls import by_layer, control_splits

    start = time.perf_counter()
    model, tokenizer = load_model(config.model)
    n_layers = model.config.num_hidden_layers
    if any(not 0 <= layer <= n_layers for layer in config.layers):
        raise ValueError(f"--layers must lie between 0 and {n_layers} for {config.model}")
    dataset = control_splits(read_data(config.data), max_sentences=config.max_rows)
    models = {"trained": model, "untrained": untrained_like(model, config.seed)}
    tables = [controlled(config, name, one, tokenizer, dataset) for name, one in models.items()]
    table = pd.concat(tables, ignore_index=True)
    with run_directory(config.output, settings_of(config), overwrite=config.overwrite) as folder:
        table.to_parquet(folder / "controls.parquet", index=False)
    print(f"{config.model}: accuracy on held-out training sentences; compression of labels")
    print(by_layer(table).round(2).to_string())
    seconds = time.perf_counter() - start
    print(f"{seconds:.0f} s with {config.jobs} processes; written to {config.output}")


def controlled(
    config: Config, name: str, model: Any, tokenizer: Any, dataset: Any
) -> "pd.DataFrame":
    from tqdm import tqdm

    from probing.probes.controls import Effort, control_table
    from probing.probes.splits import read_splits

    with tqdm(desc=f"{name}: reading", total=len(dataset), unit="split", disable=None) as bar:
        states = read_splits(
            model,
            tokenizer,
            dataset,
            probes=config.probes,
            max_token_sentences=TOKEN_SENTENCES,
            progress=lambda *_: bar.update(),
        )
    with tqdm(desc=f"{name}: controls", unit="layer", disable=None) as bar:

        def progress(done: int, of: int) -> None:
            bar.total = of
            bar.update()

        table = control_table(
            states,
            probes=config.probes,
            layers=config.layers or None,
            effort=Effort(n_draws=config.draws),
            seed=config.seed,
            jobs=config.jobs,
            progress=progress,
        )
    return table.assign(model=name)


if __name__ == "__main__":
    run(main, Config, __doc__)
