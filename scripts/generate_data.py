"""Write the synthetic sentiment dataset, or one of your own grammar, to disk.

The folder holds the splits, a manifest, a dataset card for the Hugging Face tools, the spec it
was made from and a word-level tokenizer of its training split.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from code_version import code_sha256
from command_line import run
from run_directory import check_output, run_directory, write_json

if TYPE_CHECKING:
    from datasets import DatasetDict


@dataclass(frozen=True)
class Config:
    output: Path
    """Folder to write; an existing one is refused without --overwrite."""
    spec: str = "sentiment"
    """sentiment, sentiment-as-released, restaurant, or the path of your own TOML spec."""
    extended: bool = False
    """Add the one-factor splits (ood_greeting, ood_position, ...)."""
    format: Literal["parquet", "jsonl", "arrow"] = "parquet"
    """parquet and jsonl: for load_dataset; arrow: for load_from_disk."""
    max_rows: int = 2_000_000
    """Refuse a larger dataset than this: it is held in memory while it is written."""
    overwrite: bool = False
    """Replace an earlier result in the output folder."""


def settings_of(config: Config) -> dict[str, Any]:
    """What decides the result: two runs with equal settings write equal data."""
    from data_gen.spec import read_spec

    return {
        "code_sha256": code_sha256(__file__),
        "spec": config.spec,
        "spec_sha256": read_spec(config.spec).sha256,
        "extended": config.extended,
        "format": config.format,
    }


def main(config: Config) -> None:
    from data_gen.dataset import build_dataset, chosen_splits
    from data_gen.spec import read_spec

    check_output(config.output, overwrite=config.overwrite)
    spec = read_spec(config.spec)
    chosen_splits(
        spec, extended=config.extended, max_rows=config.max_rows
    )  # fail before the slow imports

    from data_gen.manifest import build_manifest, dataset_card, manifest_table
    from data_gen.tokenizer import build_tokenizer, unknown_shares

    dataset = build_dataset(spec, extended=config.extended, max_rows=config.max_rows)
    tokenizer = build_tokenizer(dataset["train"]["text"][:])
    manifest = build_manifest(spec, dataset, unknown_shares(tokenizer, dataset))
    with run_directory(config.output, settings_of(config), overwrite=config.overwrite) as folder:
        data_files = write_splits(dataset, folder, config.format)
        write_json(folder / "manifest.json", manifest)
        (folder / "spec.toml").write_text(spec.text, encoding="utf-8")
        card = dataset_card(spec, manifest, data_files)
        (folder / "README.md").write_text(card, encoding="utf-8")
        tokenizer.save_pretrained(folder / "tokenizer")
    print(manifest_table(manifest))
    print(f"written to {config.output}")


def write_splits(dataset: "DatasetDict", folder: Path, format: str) -> dict[str, str] | None:
    """Write the data; returns the file of each split, or None for save_to_disk's own layout."""
    from datasets import disable_progress_bars
    from tqdm import tqdm

    from data_gen.manifest import json_lines

    disable_progress_bars()  # theirs is one bar a file
    if format == "arrow":
        dataset.save_to_disk(folder)
        return None
    (folder / "data").mkdir()
    # Named as on the hub: load_dataset("parquet", data_dir=...) finds the splits by it.
    files = {name: f"data/{name}-00000-of-00001.{format}" for name in dataset}
    for name, split in tqdm(dataset.items(), desc="writing", unit="split", disable=None):
        if format == "parquet":
            split.to_parquet(folder / files[name])
        else:
            (folder / files[name]).write_text("".join(json_lines(split)), encoding="utf-8")
    return files


if __name__ == "__main__":
    run(main, Config, __doc__)
