"""Make Figure 1: token-wise sparsity and internal linear representations.

Takes small Transformers (from scratch, with corpus vectors, and with the swapped corpus as its
control) and the probes of MiniLM, making those that are not there yet, and draws them beside the
published bars of BERT. Writes the figure (PNG, PDF) and every number in it as tables.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import probe
import train_transformer
from code_version import code_sha256
from command_line import run
from run_directory import check_output, ensure, ensure_all, run_directory

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Config:
    output: Path = Path("results/figure1")
    """Folder for the figure and its tables."""
    models: Path = Path("results/models")
    """Folder for the trained Transformers."""
    probes: Path = Path("results/probes")
    """Folder for the probes of MiniLM."""
    seeds: int = 5
    """Training seeds of the Transformer from scratch, 0, 1, ... (the controls use seed 0)."""
    smoke: bool = False
    """One seed, and MiniLM on part of the data at two layers: to see that it works."""
    overwrite: bool = False
    """Replace an earlier result."""


def settings_of(config: Config) -> dict[str, Any]:
    return {
        "code_sha256": code_sha256(__file__),
        "models": [train_transformer.settings_of(one) for one in transformers(config).values()],
        "probes": probe.settings_of(probes(config)),
    }


def transformers(config: Config) -> dict[str, train_transformer.Config]:
    """By folder: the models whose accuracy is drawn."""
    found = train_transformer.tiny_models(config.models, 1 if config.smoke else config.seeds)
    for name, swap in (("tiny-corpus", False), ("tiny-swap", True)):
        found[name] = train_transformer.Config(
            embeddings="corpus", swap=swap, output=config.models / name
        )
    return found


def probes(config: Config) -> probe.Config:
    whole = probe.Config(output=config.probes)
    if not config.smoke:
        return whole
    return dataclasses.replace(whole, layers=(1, 2), max_rows=96, controls=False)


def main(config: Config) -> None:
    check_output(config.output, overwrite=config.overwrite)
    if config.seeds < 1:
        raise ValueError(f"--seeds must be at least 1, not {config.seeds}")
    ensure_all(train_transformer, list(transformers(config).values()))
    ensure(probe, probes(config))

    import pandas as pd

    from probing.figures import plot_figure1

    bars = pd.concat([transformer_bars(config), minilm_bars(config)], ignore_index=True)
    plane = pd.read_parquet(config.probes / "plane.parquet")
    sparsity, sentences = sparsity_part(config)
    figure = plot_figure1(sentences, sparsity, bars, plane)
    with run_directory(config.output, settings_of(config), overwrite=config.overwrite) as folder:
        bars.to_parquet(folder / "bars.parquet", index=False)
        sparsity.to_parquet(folder / "sparsity.parquet", index=False)
        plane.to_parquet(folder / "plane.parquet", index=False)
        figure.savefig(folder / "figure1.png")
        figure.savefig(folder / "figure1.pdf")
    wide = bars.pivot_table(index="series", columns="split", values="accuracy", sort=False)
    print(wide.round(3).to_string())
    print(f"written to {config.output}")


def transformer_bars(config: Config) -> "pd.DataFrame":
    """A mean over training seeds with the mean ends of their intervals; the seeds' range apart."""
    import pandas as pd

    from probing.figures import PUBLISHED

    published = [
        {"series": "bert-published", "split": split, "accuracy": value}
        for split, value in PUBLISHED.items()
    ]
    tables = [
        pd.read_parquet(config.models / name / "metrics.parquet").assign(
            series=name if one.embeddings == "corpus" else one.preset
        )
        for name, one in transformers(config).items()
    ]
    table = pd.concat(tables)
    table = table[table["split"].isin(PUBLISHED)]
    bars = table.groupby(["series", "split"], sort=False).agg(
        accuracy=("accuracy", "mean"),
        low=("accuracy_low", "mean"),
        high=("accuracy_high", "mean"),
        lowest_seed=("accuracy", "min"),
        highest_seed=("accuracy", "max"),
        seeds=("accuracy", "size"),
    )
    return pd.concat([pd.DataFrame(published), bars.reset_index()], ignore_index=True)


def minilm_bars(config: Config) -> "pd.DataFrame":
    """Means over layers, as in the paper; locate-and-read at the layer that training chose."""
    import pandas as pd

    from probing.probes.by_layer import chosen_layers, layer_means

    table = pd.read_parquet(config.probes / "probes.parquet")
    table = table[(table["model"] == "trained") & (table["control"] == "none")]
    means = layer_means(table[table["probe"].isin(["cls", "mean", "head"])])
    recipe = chosen_layers(table[table["probe"] == "reader"])
    bars = pd.concat([means, recipe], ignore_index=True)
    bars["series"] = "minilm-" + bars["probe"]
    return bars[["series", "split", "accuracy", "low", "high"]]


def sparsity_part(config: Config) -> "tuple[pd.DataFrame, list[Any]]":
    """Sparsity of the first model beside its untrained self, and sentences shaded by attention."""
    from data_gen import build_dataset
    from probing.evaluation import cls_attention, compare_sparsity
    from probing.figures import ShadedSentence
    from probing.models.pretrained import load_model, untrained_like
    from probing.models.training import one_torch_thread
    from probing.sentences import sentence_views

    model, tokenizer = load_model(str(config.models / "tiny-0"), classifier=True)
    dataset = build_dataset()
    models = {"trained": model, "untrained": untrained_like(model)}
    chosen = [
        ("train", 100),
        ("train", 9_000),
        ("test", 300),
        ("test", 4_000),
        ("ood_structure", 50),
    ]
    sentences = []
    with one_torch_thread():
        sparsity = compare_sparsity(models, tokenizer, dataset)
        for split, i in chosen:
            rows = dataset[split].select([i])
            (view,) = sentence_views(cls_attention(model, tokenizer, rows), rows)
            view = view.words_only()
            weights = view.attention[:, 0, 0].tolist()
            sentences.append(ShadedSentence(view.words, view.roles, weights))
    return sparsity, sentences


if __name__ == "__main__":
    run(main, Config, __doc__)
