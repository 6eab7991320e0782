"""Make Figure 1: token-wise sparsity and internal linear representations.

Trains small Transformers (from scratch, with corpus vectors, and with the swapped corpus as its
control), probes MiniLM, and draws both beside the published bars of BERT. About five minutes on
two cores. Writes the figure (PNG, PDF) and every number in it as tables.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command_line import run
from run_directory import check_output, code_sha256, run_directory

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Config:
    output: Path = Path("results/figure1")
    """Folder for the figure and its tables."""
    seeds: int = 2
    """Training seeds of the Transformer from scratch (the controls use one)."""
    seed: int = 0
    """The first of them."""
    smoke: bool = False
    """One seed, and MiniLM on part of the data at two layers: to see that it works."""
    overwrite: bool = False
    """Replace an earlier result."""


def settings_of(config: Config) -> dict[str, Any]:
    settings = {"seeds": config.seeds, "seed": config.seed, "smoke": config.smoke}
    return {"code_sha256": code_sha256("data_gen", "probing", "slr")} | settings


def main(config: Config) -> None:
    check_output(config.output, overwrite=config.overwrite)
    if config.seeds < 1:
        raise ValueError(f"--seeds must be at least 1, not {config.seeds}")

    import pandas as pd

    from probing.figures import PUBLISHED, plot_figure1

    published = [
        {"series": "bert-published", "split": split, "accuracy": value, "low": value, "high": value}
        for split, value in PUBLISHED.items()
    ]
    small, sparsity, sentences = transformer_part(config)
    minilm, plane = minilm_part(config)
    bars = pd.concat([pd.DataFrame(published), small, minilm], ignore_index=True)
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


def transformer_part(config: Config) -> "tuple[pd.DataFrame, pd.DataFrame, list[Any]]":
    """Accuracy of the small Transformers, their sparsity, and sentences shaded by attention."""
    import pandas as pd
    import train_transformer
    from tqdm import tqdm

    from probing.evaluation import evaluate
    from probing.figures import PUBLISHED
    from probing.model import build_model
    from probing.training import one_thread

    seeds = range(config.seed, config.seed + (1 if config.smoke else config.seeds))
    variants: list[tuple[str, dict[str, Any]]] = [("tiny", {"seed": seed}) for seed in seeds]
    variants += [("tiny-corpus", {"seed": config.seed, "embeddings": "corpus"})]
    variants += [("tiny-swap", {"seed": config.seed, "embeddings": "corpus", "swap": True})]
    rows = []
    first: Any = None
    for series, options in tqdm(variants, desc="training", unit="model", disable=None):
        with tempfile.TemporaryDirectory() as folder:
            settings = train_transformer.Config(**options)
            model, tokenizer, dataset = train_transformer.trained(
                settings, Path(folder), quiet=True
            )
        published = type(dataset)({split: dataset[split] for split in PUBLISHED})
        with one_thread():
            table = evaluate(model, tokenizer, published)
        rows.append(table.assign(series=series, seed=options["seed"]))
        first = first or (model, tokenizer, published)
    everything = pd.concat(rows, ignore_index=True)
    model, tokenizer, dataset = first
    untrained = build_model(tokenizer, "tiny", ["negative", "positive"], config.seed)
    sparsity = sparsity_bars({"trained": model, "untrained": untrained}, tokenizer, dataset)
    # Over seeds: the mean, and the range of their own intervals.
    bars = everything.groupby(["series", "split"], sort=False).agg(
        accuracy=("accuracy", "mean"), low=("accuracy_low", "min"), high=("accuracy_high", "max")
    )
    return bars.reset_index(), sparsity, shaded_sentences(model, tokenizer, dataset)


def sparsity_bars(models: dict[str, Any], tokenizer: Any, dataset: Any) -> "pd.DataFrame":
    import pandas as pd

    from probing.evaluation import cls_attention
    from probing.sparsity import sparsity_table

    rows = []
    for split, data in dataset.items():
        part = data.select(range(0, len(data), max(1, len(data) // 1000)))
        for name, model in models.items():
            attention = cls_attention(model, tokenizer, part)
            rows.append(sparsity_table(attention).assign(model=name, split=split))
            if name == "trained":
                uniform = sparsity_table(attention, uniform=True)
                rows.append(uniform.assign(model="uniform", split=split))
    return pd.concat(rows, ignore_index=True)


def shaded_sentences(model: Any, tokenizer: Any, dataset: Any) -> list[Any]:
    from probing.evaluation import cls_attention
    from probing.figures import ShadedSentence

    chosen = [
        ("train", 100),
        ("train", 9_000),
        ("test", 300),
        ("test", 4_000),
        ("ood_structure", 50),
    ]
    sentences = []
    for split, i in chosen:
        row = dataset[split][i]
        found = cls_attention(model, tokenizer, dataset[split].select([i]))
        assert found.attention is not None
        weights = found.attention[~found.special, 0, 0]  # one token a word: word-level tokenizer
        sentences.append(ShadedSentence(row["words"], row["roles"], weights.tolist()))
    return sentences


def minilm_part(config: Config) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """MiniLM's bars (means over its layers), and test tokens in the plane of k_hat, v_hat."""
    import numpy as np
    import pandas as pd
    from tqdm import tqdm

    from data_gen import build_dataset
    from probing.pretrained import load_model
    from probing.probes import LinearProbe, LocationProbe
    from probing.study import layer_means, probe_states, read_splits

    model, tokenizer = load_model("minilm")
    dataset = build_dataset()
    if config.smoke:
        dataset = type(dataset)(
            {
                name: split.select(range(0, len(split), max(1, len(split) // 96)))
                for name, split in dataset.items()
            }
        )
    with tqdm(desc="MiniLM: reading", unit="split", disable=None) as bar:
        states = read_splits(model, tokenizer, dataset, progress=lambda _: bar.update())
    with tqdm(desc="MiniLM: probing", unit="probe", disable=None) as bar:
        table = probe_states(
            states,
            probes=("cls", "mean", "head", "location"),
            layers=(1, 2) if config.smoke else None,
            seed=config.seed,
            progress=lambda _: bar.update(),
        )
    means = layer_means(table)
    bars = means[means["probe"] != "location"].assign(series=lambda rows: "minilm-" + rows["probe"])

    train, test = states["train"], states["test"]
    located = table[
        (table["probe"] == "location") & (table["split"] == "train") & (table["layer"] > 0)
    ]
    layer = int(
        located.sort_values(["cv_score", "layer"], ascending=[False, True])["layer"].iloc[0]
    )
    tokens = train.tokens
    where = LocationProbe(random_state=config.seed).fit(
        tokens.states["tokens"][:, layer],
        tokens.offsets,
        tokens.informative,
        train.words[:: train.every],
        mask=~tokens.special,
    )
    what = LinearProbe().fit(
        train.pooled.states["informative"][:, layer], train.labels, train.words
    )
    roles = token_roles(
        tokenizer, dataset["test"].select(range(0, len(dataset["test"]), test.every))
    )
    keep = np.flatnonzero(~test.tokens.special)[:3000]
    shown = test.tokens.states["tokens"][keep, layer]
    plane = pd.DataFrame(
        {
            "k": where.decision_function(shown) / np.linalg.norm(where.coef_),
            "v": what.decision_function(shown) / np.linalg.norm(what.coef_),
            "role": np.array(roles)[keep],
            "layer": layer,
        }
    )
    return bars[["series", "split", "accuracy", "low", "high"]], plane


def token_roles(tokenizer: Any, split: Any) -> list[str]:
    """The role of the word that each token belongs to, sentence after sentence."""
    roles = []
    for text, words, word_roles in zip(
        split["text"][:], split["words"][:], split["roles"][:], strict=True
    ):
        starts, position = [], 0
        for word in words:
            starts.append(position)
            position += len(word) + 1
        encoding = tokenizer(text, return_offsets_mapping=True)
        for start, end in encoding["offset_mapping"]:
            word = max(i for i, first in enumerate(starts) if first <= start)
            roles.append(word_roles[word] if end > start else "neutral")
    return roles


if __name__ == "__main__":
    run(main, Config, __doc__)
