"""The manifest of a dataset, which says in numbers what was built, and its dataset card."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import yaml

from data_gen.spec import Spec

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


def json_lines(split: Dataset) -> Iterable[str]:
    """The rows as JSON lines, always written the same way: the sha256 is computed from them."""
    for batch in split.iter(batch_size=1000):
        for row in zip(*batch.values(), strict=True):
            yield json.dumps(dict(zip(batch, row, strict=True)), ensure_ascii=False) + "\n"


def describe_split(split: Dataset) -> dict[str, Any]:
    """Rows, rows per label, distinct sentences and sha256 of the JSON lines of one split."""
    counts = Counter(split["label"][:])
    names = split.features["label"].names
    digest = hashlib.sha256()
    for line in json_lines(split):
        digest.update(line.encode())
    return {
        "rows": len(split),
        "balance": {name: counts[number] for number, name in enumerate(names)},
        "distinct": len(set(split["text"][:])),
        "sha256": digest.hexdigest(),
    }


def build_manifest(
    spec: Spec, dataset: DatasetDict, unknown_shares: Mapping[str, float]
) -> dict[str, Any]:
    """What a dataset holds, in numbers that show whether two datasets are the same."""
    splits = {}
    for name, split in dataset.items():
        isolates = {"isolates": spec.splits[name].isolates, "unknown_share": unknown_shares[name]}
        splits[name] = describe_split(split) | isolates
    return {"spec": spec.name, "spec_sha256": spec.sha256, "splits": splits}


def dataset_card(
    spec: Spec, manifest: Mapping[str, Any], data_files: Mapping[str, str] | None
) -> str:
    """A README.md that tells Hugging Face tools the file of each split and the columns' types.

    ``data_files`` maps splits to paths; it is None for a folder written by ``save_to_disk``.
    """
    rows = "".join(
        f"| {name} | {split['rows']} | {split['distinct']} | {split['unknown_share']:.3f} "
        f"| {_cell(split['isolates'])} |\n"
        for name, split in manifest["splits"].items()
    )
    header = yaml.safe_dump(_metadata(spec, data_files), sort_keys=False, allow_unicode=True)
    body = CARD.format(
        title=_cell(spec.name),
        description=_prose(spec.description),
        source=f"\nSource: {_prose(spec.source)}\n" if spec.source else "",
        rows=rows,
        load="load_dataset" if data_files else "load_from_disk",
    )
    return f"---\n{header}---\n{body}"


def _metadata(spec: Spec, data_files: Mapping[str, str] | None) -> dict[str, Any]:
    """What load_dataset and the hub read: the file of each split, and the types of columns."""
    metadata: dict[str, Any] = {"pretty_name": _one_line(spec.name)}
    if spec.language:
        metadata["language"] = [_one_line(spec.language)]
    if spec.license:
        metadata["license"] = _one_line(spec.license)
    metadata["task_categories"] = ["text-classification"]
    if data_files:
        files = [{"split": split, "path": path} for split, path in data_files.items()]
        metadata["configs"] = [{"config_name": "default", "data_files": files}]
    names = {str(number): label for number, label in enumerate(spec.lexicon.labels)}
    columns = [
        {"name": "text", "dtype": "string"},
        {"name": "label", "dtype": {"class_label": {"names": names}}},
        {"name": "words", "list": "string"},
        {"name": "roles", "list": "string"},
        {"name": "location", "dtype": "int32"},
        {"name": "span", "list": "int32", "length": 2},
        {"name": "pattern", "dtype": "string"},
    ]
    return metadata | {"dataset_info": {"features": columns}}


def _prose(text: str) -> str:
    """Text that Markdown shows as it is: no tags, headings, rules, tables or blocks of code."""
    return re.sub(r"^(\s*)([#>|=~`+*-])", r"\1\\\2", escape(text, quote=False), flags=re.MULTILINE)


def _cell(text: str) -> str:
    """Text for one line, such as a cell of a table."""
    return escape(_one_line(text), quote=False).replace("|", "/")


def _one_line(text: str) -> str:
    return " ".join(text.split())


CARD = """# {title}

{description}
{source}
Every sentence is one choice from each slot of a pattern. One word, the informative one, decides
the label; distractors have a sentiment that does not matter. `scripts/generate_data.py` of
slr-probing made this dataset from `spec.toml`, which lies beside this file.

```python
dataset = datasets.{load}("path/to/this/folder")
```

| column | what it is |
|---|---|
| text | the sentence |
| label | the polarity of the informative word |
| words | the sentence, split at its spaces |
| roles | informative, distractor or neutral, per word |
| location | index of the informative word in words |
| span | start and end of the informative word in text, in characters |
| pattern | the name of the structure |

| split | rows | distinct | share of [UNK] | what it isolates |
|---|---|---|---|---|
{rows}
The share of [UNK] is that of a word-level tokenizer of the training split (`tokenizer/`).
"""
