"""Token-wise sparsity of a model: how much does it look at, and depend on, the word that decides?

For every layer and head the attention of [CLS] (mass on the informative word, top-1 rate, entropy,
effective number of tokens, tokens for 95% of the mass, Gini), beside an untrained model and
uniform attention. Of a classifier also what its predictions depend on: shares of occlusion and of
gradient x input, and how often a swapped word changes the prediction.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from code_version import code_sha256, data_sha256, model_key
from command_line import run
from run_directory import check_output, run_directory

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Config:
    model: str = "results/transformer"
    """The folder of a model (scripts/train_transformer.py makes one), minilm, or a hub name."""
    data: str = "sentiment"
    """A built-in dataset, a TOML spec, a folder of generate_data.py, or your own CSV or JSONL."""
    max_rows: int = 1000
    """At most this many sentences of each split, drawn at random."""
    seed: int = 0
    """Of the untrained model."""
    output: Path = Path("results/sparsity")
    """Folder for the tables."""
    overwrite: bool = False
    """Replace an earlier result."""


def settings_of(config: Config) -> dict[str, Any]:
    return {
        "code_sha256": code_sha256(__file__),
        "model": model_key(config.model),
        "data": config.data,
        "data_sha256": data_sha256(config.data),
        "max_rows": config.max_rows,
        "seed": config.seed,
    }


def main(config: Config) -> None:
    check_output(config.output, overwrite=config.overwrite)
    if config.max_rows < 1:
        raise ValueError(f"--max-rows must be at least 1, not {config.max_rows}")

    from data_gen import read_data
    from probing.evaluation import compare_dependence, compare_sparsity
    from probing.models.pretrained import load_model, untrained_like

    model, tokenizer = load_model(config.model)
    classifies = any("Classification" in name for name in model.config.architectures or [])
    if classifies:
        model, tokenizer = load_model(config.model, classifier=True)
    dataset = read_data(config.data)
    models = {"trained": model, "untrained": untrained_like(model, config.seed)}
    sparsity = compare_sparsity(models, tokenizer, dataset, max_sentences=config.max_rows)
    depends = compare_dependence(models, tokenizer, dataset) if classifies else None
    with run_directory(config.output, settings_of(config), overwrite=config.overwrite) as folder:
        sparsity.to_parquet(folder / "sparsity.parquet", index=False)
        if depends is not None:
            depends.to_parquet(folder / "dependence.parquet", index=False)
    print("attention of [CLS] on the test split, by layer and head")
    print(text_of(sparsity[sparsity["split"] == "test"].drop(columns="split")))
    if depends is not None:
        print("what the prediction depends on")
        print(text_of(depends))
    print(f"written to {config.output}")


def text_of(table: "pd.DataFrame") -> Any:
    return table.round(3).to_string(index=False)


if __name__ == "__main__":
    run(main, Config, __doc__)
