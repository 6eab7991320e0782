"""Write the hidden states of a dataset to a folder, which probes read instead of running the model.

One file per layer and split, in float32 or bfloat16. `torchrun --nproc-per-node N` shares the
sentences among N processes, each on its own GPU if there are any. The same command resumes a run
that was killed; what is in the folder is not computed again. `probe.py --states FOLDER` reads it.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from studies.bounds import CountOrAll, Layer, Within
from studies.practice.probes import Options as ProbeOptions
from studies.practice.probes import Probe
from studies.storage.results import check_links
from studies.study import counter
from studies.subject import Subject


@dataclass(frozen=True, kw_only=True)
class Options(Subject):
    probes: tuple[Probe, ...] = ProbeOptions.probes
    """Probes whose states to write: location, reader and head need every token."""
    layers: tuple[Layer, ...] = ()
    """Layers to write (0 is the embeddings); by default all. Higher ones are not computed."""
    max_rows: CountOrAll = 0
    """Most sentences per split; 0: all. Single tokens are kept for at most 1536 of them."""
    storage: Literal["float32", "bfloat16"] = "float32"
    """Precision of the files; bfloat16 takes half of the space."""
    batch_tokens: Annotated[int, Within(1, 10**7)] = 1024
    """Largest number of tokens per batch; a GPU likes more."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Precision in which the model runs; auto: as its files have it."""
    seed: tyro.conf.Suppress[int] = 0  # of other commands: nothing is random here
    output: Path = Path("results/states")
    """Folder for the states."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.probes:
            raise ValueError("--probes needs at least one probe")


def check_folder(folder: Path) -> None:
    """Refuse a folder with files of its own, such as that of a model: states are in sub-folders."""
    check_links(folder)
    if folder.is_dir() and any(not path.is_dir() for path in folder.iterdir()):
        raise ValueError(f"{folder} holds other files; give a folder of its own")


@contextmanager
def without_ruins(folder: Path, n_processes: int) -> Iterator[None]:
    """Delete a new folder if a text is refused while the model runs: nothing can complete it.

    A run that was killed leaves its folder, which the same command resumes.
    """
    is_new = n_processes == 1 and not folder.exists()
    try:
        yield
    except ValueError:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def main(options: Options) -> None:
    from data_gen import read_data
    from probing.probes.splits import read_splits
    from probing.processes import joined, rank_and_size
    from probing.sentences import at_most
    from probing.states.limits import check_splits

    options = options.resolved()
    check_folder(options.output)
    with joined():
        rank, n_processes = rank_and_size()
        dataset = read_data(options.data)
        if options.max_rows:
            dataset = at_most(dataset, options.max_rows)
        model, tokenizer = options.load()
        options.check_layers(options.layers, model)
        options.check_texts(model, tokenizer, dataset)
        check_splits(model, tokenizer, dataset)
        if rank == 0:
            options.print_subject(dataset)
        with (
            without_ruins(options.output, n_processes),
            counter("extracting", "sentence") as progress,
        ):
            states = read_splits(
                model,
                tokenizer,
                dataset,
                probes=options.probes,
                layers=options.layers or None,
                max_tokens_per_batch=options.batch_tokens,
                folder=options.output,
                storage_dtype=options.storage,
                progress=progress if rank == 0 else None,
            )
    if rank == 0:
        n_sentences = sum(len(split) for split in dataset.values())
        size = sum(path.stat().st_size for path in options.output.rglob("*.safetensors"))
        layers = " ".join(map(str, states["train"].layers))
        print(f"{n_sentences} sentences in {len(dataset)} splits; layers {layers}")
        print(f"{size / 1e6:.0f} MB in {options.storage}; processes: {n_processes}")
        print(f"written to {options.output}")
