"""Write the synthetic sentiment dataset, or one from your own grammar, to disk.

The folder holds the splits, a manifest, a dataset card for the Hugging Face tools, the spec of the
dataset and a word-level tokenizer of its training split.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from studies.bounds import Count
from studies.storage.results import read_json, write_json
from studies.study import Options as StudyOptions
from studies.study import Result, Said, Tables, study

if TYPE_CHECKING:
    from datasets import DatasetDict


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    output: Path
    """Folder to write."""
    spec: str = "sentiment"
    """sentiment, sentiment-as-released, sentiment-wide, restaurant, or the path of a TOML spec."""
    extended: bool = False
    """Add the one-factor splits (ood_greeting, ood_position, ...) and those of longer texts."""
    format: Literal["parquet", "jsonl", "arrow"] = "parquet"
    """parquet and jsonl: for load_dataset; arrow: for load_from_disk."""
    max_rows: Count = 2_000_000
    """Refuse more sentences than this: the dataset is held in memory while it is written."""


def run(options: Options) -> Result:
    from data_gen.dataset import build_dataset, chosen_splits
    from data_gen.spec import read_spec

    spec = read_spec(options.spec)
    limits: dict[str, Any] = {"extended": options.extended, "max_rows": options.max_rows}
    chosen_splits(spec, **limits)  # fail before the slow imports

    from data_gen.manifest import build_manifest, dataset_card
    from data_gen.tokenizer import build_tokenizer, unknown_shares

    dataset = build_dataset(spec, **limits)
    tokenizer = build_tokenizer(dataset["train"]["text"][:])
    manifest = build_manifest(spec, dataset, unknown_shares(tokenizer, dataset))

    def write(folder: Path) -> None:
        data_files = write_splits(dataset, folder, options.format)
        write_json(folder / "manifest.json", manifest)
        (folder / "spec.toml").write_text(spec.text, encoding="utf-8")
        card = dataset_card(spec, manifest, data_files)
        (folder / "README.md").write_text(card, encoding="utf-8")
        tokenizer.save_pretrained(folder / "tokenizer")

    return Result({}, write=write)


def write_splits(dataset: "DatasetDict", folder: Path, format: str) -> dict[str, str] | None:
    """Write the data and return the file of each split, or None for the layout of save_to_disk."""
    from datasets import disable_progress_bars
    from tqdm import tqdm

    from data_gen.manifest import json_lines

    disable_progress_bars()  # the library shows one bar per file
    if format == "arrow":
        dataset.save_to_disk(folder)
        return None
    (folder / "data").mkdir()
    # File names as on the hub, by which load_dataset("parquet", data_dir=...) finds the splits.
    files = {name: f"data/{name}-00000-of-00001.{format}" for name in dataset}
    for name, split in tqdm(dataset.items(), desc="writing", unit="split", disable=None):
        if format == "parquet":
            split.to_parquet(folder / files[name])
        else:
            (folder / files[name]).write_text("".join(json_lines(split)), encoding="utf-8")
    return files


def says(tables: Tables) -> Said:
    splits = read_json(tables.folder / "manifest.json")["splits"]
    rows = {
        name: {
            "sentences": split["rows"],
            **split["balance"],
            "distinct": split["distinct"],
            "share of [UNK]": f"{split['unknown_share']:.2f}",
            "what it isolates": split["isolates"],
        }
        for name, split in splits.items()
    }
    return [pd.DataFrame(rows).T.rename_axis("split")]


STUDY = study(
    __name__,
    "The dataset",
    "python scripts/generate_data.py --output results/dataset --extended",
)
WIDE_STUDY = replace(
    STUDY,
    title="The wide dataset",
    folder="dataset-wide",
    command="python scripts/generate_data.py --spec sentiment-wide --extended "
    "--output results/dataset-wide",
)
