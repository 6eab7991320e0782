"""The sentences as Hugging Face datasets, built at once or streamed in constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_gen.patterns import Sentence
from data_gen.quoting import listed, one_line, quoted, shortened
from data_gen.spec import Spec, read_spec
from data_gen.splits import Split

if TYPE_CHECKING:  # importing datasets takes two seconds: only functions that need it do
    from datasets import DatasetDict, Features, IterableDataset

MAX_ROWS = 2_000_000  # 2.7 kB per row while building: about 5 GB
MAX_CHARACTERS = 1_000_000_000  # of all texts: as many bytes again for their words


class DatasetError(ValueError):
    """A request that the data cannot meet; the message is one line that says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def build_dataset(
    spec: str | Path | Spec = "sentiment", *, extended: bool = False, max_rows: int = MAX_ROWS
) -> DatasetDict:
    """All sentences of a spec, one ``datasets.Dataset`` per split, in the order of the grammar.

    ``spec`` is a built-in name, the path of a TOML file, or a Spec. ``extended`` adds the
    one-factor splits. More than ``max_rows`` sentences are refused. The columns are text, label,
    words, roles, location, span and pattern.

    >>> build_dataset("sentiment")["train"][0]["text"]
    >>> build_dataset("my-spec.toml", extended=True)
    """
    import pyarrow as pa
    from datasets import Dataset, DatasetDict, NamedSplit
    from datasets.table import InMemoryTable

    spec = read_spec(spec)
    schema, dataset = features(spec.lexicon.labels).arrow_schema, DatasetDict()
    for split in chosen_splits(spec, extended=extended, max_rows=max_rows):
        columns = dict(zip(Sentence._fields, map(list, zip(*split, strict=True)), strict=True))
        # Dataset.from_dict gives the same, four times slower: it encodes every word by itself.
        table = InMemoryTable(pa.Table.from_pydict(columns, schema=schema))
        dataset[split.name] = Dataset(table, split=NamedSplit(split.name))
    return dataset


def stream_dataset(
    spec: str | Path | Spec = "sentiment",
    split: str = "train",
    *,
    seed: int | None = None,
    n_shards: int = 1,
) -> IterableDataset:
    """The sentences of one split as a ``datasets.IterableDataset`` of any length.

    Every sentence comes exactly once, in the order of the grammar or, with a seed, shuffled.
    ``n_shards`` is the number of workers that can share the stream.

    >>> for row in stream_dataset("sentiment", "test", seed=0):
    ...     print(row["text"])
    """
    from datasets import IterableDataset

    spec = read_spec(spec)
    if split not in spec.splits:
        problem = f"{shortened(spec.name, 80)} has no split {quoted(split)}"
        raise DatasetError(f"{problem}; it has {listed(spec.splits)}")
    sentences = spec.splits[split]
    n = sentences.n_sentences
    if not 1 <= n_shards <= n:
        raise DatasetError(f"n_shards must be from 1 to the {n} sentences, not {quoted(n_shards)}")
    if seed is not None and seed < 0:
        raise DatasetError(f"the seed must not be negative, but is {quoted(seed)}")
    # datasets shares the entries of a list argument among its workers.
    shards = [(shard, n_shards) for shard in range(n_shards)]
    return IterableDataset.from_generator(
        _rows,
        features=features(spec.lexicon.labels),
        gen_kwargs={"split": sentences, "shards": shards, "seed": seed},
    )


def _rows(
    split: Split, shards: list[tuple[int, int]], seed: int | None
) -> Iterator[dict[str, Any]]:
    for shard, n_shards in shards:
        for sentence in split.iter_shard(shard, n_shards, seed):
            yield sentence._asdict()


def features(labels: Sequence[str]) -> Features:
    """The columns of the dataset and their types."""
    from datasets import ClassLabel, Features, List, Value

    return Features(
        text=Value("string"),
        label=ClassLabel(names=list(labels)),
        words=List(Value("string")),
        roles=List(Value("string")),
        location=Value("int32"),
        span=List(Value("int32"), length=2),
        pattern=Value("string"),
    )


def chosen_splits(spec: Spec, *, extended: bool, max_rows: int = MAX_ROWS) -> list[Split]:
    """The splits to build, or a DatasetError if they cannot be built."""
    if extended and not any(split.extended for split in spec.splits.values()):
        name = shortened(spec.name, 80)
        raise DatasetError(f"{name} has no extended splits; leave the option out")
    splits = [split for split in spec.splits.values() if extended or not split.extended]
    rows = sum(split.n_sentences for split in splits)
    if rows > max_rows:
        raise DatasetError(
            f"{shortened(spec.name, 80)} has {rows:,} sentences, more than max_rows = "
            f"{quoted(max_rows)}: use data_gen.stream_dataset, or raise the limit"
        )
    characters = sum(split.n_sentences * split.longest for split in splits)
    if characters > MAX_CHARACTERS:
        raise DatasetError(
            f"{shortened(spec.name, 80)} has up to {characters:,} characters, more than the limit "
            f"of {MAX_CHARACTERS:,}: use shorter sentences or data_gen.stream_dataset"
        )
    return splits
