"""Train a small Transformer on the sentiment dataset, and see how it does on every split.

Prints accuracy and attention on the word that decides, and writes a checkpoint that
AutoModelForSequenceClassification, AutoTokenizer and pipeline("text-classification") load, with
metrics.json. A run that was killed is taken up by the same command. torchrun starts it on several
processes.
"""

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from code_version import code_sha256
from command_line import run
from run_directory import (
    SETTINGS,
    check_output,
    read_json,
    run_directory,
    write_json,
)

if TYPE_CHECKING:
    import pandas as pd


CONFIG_NAME = SETTINGS  # config.json is the model's


@dataclass(frozen=True)
class Config:
    preset: Literal["tiny", "small"] = "tiny"
    """tiny: 1 layer, 1 head, 32 dimensions, as in the theory; small: 2 layers, 4 heads, 64."""
    seed: int = 0
    """Decides weights, order and augmentation."""
    epochs: int = 1
    """Passes over the training split."""
    plain: bool = False
    """Train on the sentences as they are, without hidden words and gaps."""
    embeddings: str = "scratch"
    """scratch, corpus (frozen vectors of an unlabelled corpus) or the path of a GloVe text file."""
    swap: bool = False
    """With --embeddings corpus: the control in which new adjectives keep the wrong company."""
    spec: str = "sentiment"
    """The dataset: a built-in name or the path of a TOML spec with two labels."""
    learning_rate: float = 1e-3
    """Of AdamW, decaying linearly."""
    validation: bool = False
    """For making choices: train on four fifths of the training split, judge on the last alone."""
    snapshots: bool = False
    """Also keep weights from 24 steps of the training, in OUTPUT/snapshots."""
    output: Path = Path("results/transformer")
    """Folder for the checkpoint and metrics.json."""
    overwrite: bool = False
    """Replace an earlier result."""


def tiny_models(folder: Path, seeds: int) -> dict[str, Config]:
    """By name: the models, one a seed, that figure1.py and bridge.py both look at."""
    return {
        f"tiny-{seed}": Config(seed=seed, snapshots=True, output=folder / f"tiny-{seed}")
        for seed in range(seeds)
    }


def settings_of(config: Config) -> dict[str, Any]:
    """What decides the result."""
    from data_gen.spec import read_spec

    return {
        "code_sha256": code_sha256(__file__),
        "preset": config.preset,
        "seed": config.seed,
        "epochs": config.epochs,
        "plain": config.plain,
        "embeddings": config.embeddings,
        "swap": config.swap,
        "learning_rate": config.learning_rate,
        "validation": config.validation,
        "snapshots": config.snapshots,
        "spec": config.spec,
        "spec_sha256": read_spec(config.spec).sha256,
    }


def main(config: Config) -> None:
    start = time.perf_counter()
    settings = settings_of(config)
    check_output(config.output, overwrite=config.overwrite)
    if config.swap and config.embeddings != "corpus":
        raise ValueError("--swap is the control of --embeddings corpus; add that")
    known = ("scratch", "corpus")
    if config.embeddings not in known and not Path(config.embeddings).is_file():
        raise ValueError(f"--embeddings {config.embeddings}: no such file, nor scratch or corpus")
    first_process = os.environ.get("RANK", "0") == "0"
    checkpoints = checkpoint_folder(config.output, settings, first_process)

    from probing.evaluation import evaluate
    from probing.models.training import SNAPSHOTS, one_torch_thread

    try:
        model, tokenizer, dataset = trained(config, checkpoints, quiet=not first_process)
        if not first_process:
            return
        with one_torch_thread():
            table = evaluate(model, tokenizer, dataset)
    except ValueError:  # bad input: there is nothing to take up
        shutil.rmtree(checkpoints, ignore_errors=True)
        raise
    seconds = time.perf_counter() - start
    metrics = metrics_of(table, config.seed, seconds)
    options: dict[str, Any] = {"overwrite": config.overwrite, "config_name": CONFIG_NAME}
    with run_directory(config.output, settings, **options) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        write_json(folder / "metrics.json", metrics)
        table.to_parquet(folder / "metrics.parquet", index=False)
        if config.snapshots:
            shutil.copytree(checkpoints / SNAPSHOTS, folder / SNAPSHOTS)
    shutil.rmtree(checkpoints, ignore_errors=True)
    print(table_text(table))
    print(f"trained and evaluated in {seconds:.0f} s; written to {config.output}")


def checkpoint_folder(output: Path, settings: dict[str, Any], first_process: bool) -> Path:
    """Where a killed run left off, if it was this very run; else empty."""
    folder = output.resolve().with_name(f".{output.name}.checkpoints")
    if first_process:
        mark = folder / "settings.json"
        if folder.exists() and (not mark.is_file() or read_json(mark) != settings):
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(mark, settings)
    return folder


def trained(config: Config, checkpoints: Path, *, quiet: bool) -> tuple[Any, Any, Any]:
    """The trained model, its tokenizer and the dataset."""
    import numpy as np
    import torch
    from transformers.utils import logging

    from data_gen import build_dataset, build_tokenizer, read_spec
    from probing.models.augmentation import PLAIN, Augmentation
    from probing.models.presets import build_model
    from probing.models.training import TrainingConfig, input_noise, train
    from probing.models.word_vectors import corpus, read_vectors, set_vectors, word_vectors
    from probing.sentences import draw

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    spec = read_spec(config.spec)
    if len(spec.lexicon.labels) != 2:
        raise ValueError(f"{config.spec} has {len(spec.lexicon.labels)} labels; training needs two")
    extended = any(split.extended for split in spec.splits.values())
    dataset = build_dataset(spec, extended=extended)
    if config.validation:
        kept = draw(len(dataset["train"]), len(dataset["train"]) * 4 // 5)
        rest = np.setdiff1d(np.arange(len(dataset["train"])), kept)
        parts = {
            "train": dataset["train"].select(kept),
            "validation": dataset["train"].select(rest),
        }
        dataset = type(dataset)(parts)
    texts, labels = dataset["train"]["text"][:], dataset["train"]["label"][:]
    training = TrainingConfig(
        seed=config.seed,
        epochs=config.epochs,
        learning_rate=config.learning_rate,
        augmentation=PLAIN if config.plain else Augmentation(),
    )
    options: dict[str, Any] = {"snapshots": config.snapshots, "quiet": quiet}
    if config.embeddings == "scratch":
        tokenizer = build_tokenizer(texts)
        model = build_model(tokenizer, config.preset, list(spec.lexicon.labels), config.seed)
        train(model, tokenizer, texts, labels, training, checkpoints, **options)
        return model, tokenizer, dataset
    if config.embeddings == "corpus":
        held_out = spec.lexicon.slots["ADJECTIVE"].words["held_out"] if config.swap else ()
        sentences = corpus(swapped=held_out)
        tokenizer = build_tokenizer([*texts, *sentences])
        vectors = word_vectors(sentences, tokenizer.get_vocab())
    else:
        words = {
            word for split in dataset.values() for text in split["text"][:] for word in text.split()
        }
        found = read_vectors(Path(config.embeddings), words)
        tokenizer = build_tokenizer([*texts, " ".join(found)])
        vectors = np.zeros((len(tokenizer), len(next(iter(found.values())))))
        for word, vector in found.items():
            vectors[tokenizer.get_vocab()[word]] = vector
    model = build_model(tokenizer, config.preset, list(spec.lexicon.labels), config.seed)
    set_vectors(model, torch.as_tensor(vectors, dtype=torch.float32))
    with input_noise(model, std=0.05, seed=config.seed):
        train(model, tokenizer, texts, labels, training, checkpoints, **options)
    return model, tokenizer, dataset


def metrics_of(table: "pd.DataFrame", seed: int, seconds: float) -> dict[str, Any]:
    by_split = table.set_index("split")
    return {
        "accuracy": by_split["accuracy"].to_dict(),
        "attention_mass": by_split["attention_mass"].to_dict(),
        "accuracy_interval": {
            split: [row["accuracy_low"], row["accuracy_high"]] for split, row in by_split.iterrows()
        },
        "attention_layer": int(table["layer"].iloc[0]),
        "seed": seed,
        "seconds": round(seconds, 2),
    }


def table_text(table: "pd.DataFrame") -> str:
    lines = [f"{'split':22} {'rows':>6}  accuracy (95% interval)   attention on the word"]
    for row in table.to_dict("records"):
        interval = f"[{row['accuracy_low']:.3f}, {row['accuracy_high']:.3f}]"
        lines.append(
            f"{row['split']:22} {row['rows']:>6}  {row['accuracy']:.3f} {interval}"
            f"      {row['attention_mass']:.3f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    run(main, Config, __doc__)
