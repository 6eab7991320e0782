"""Broken input by the thousand, made from a seed: every one must be refused or be sound.

    python tests/fuzz.py specs 500 --seed 1

Each case is a valid input after a few mutations. An input that is accepted is looked at by code of
its own: is every weight of the model from its file, every row that of the CSV, the dataset
balanced? One that is not was accepted silently. The number of a case makes it again.
"""

import argparse
import collections
import csv
import faulthandler
import functools
import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from bad_input import ACCEPTED, HANG, REFUSED, TRACEBACK, call
from mutations import mutated_text, mutated_value

SILENT = "silent"  # accepted though it is broken
OUTCOMES = (REFUSED, ACCEPTED, TRACEBACK, HANG, SILENT)
Rng = np.random.Generator
Case = Callable[[], Any]  # what a user would do with the input


@dataclass(frozen=True)
class Target:
    """A kind of input: how a case is made, in a folder, and what is wrong with an accepted one."""

    case: Callable[[Rng, Path], Case]
    fault: Callable[[Any, Path], str]


def fuzz(name: str, n: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """The number of cases by outcome, and a line on each case that ended badly."""
    counts, bad = collections.Counter[str](), []
    for number in range(n):
        outcome, said = outcome_of(name, number, seed)
        counts[outcome] += 1
        if outcome not in (REFUSED, ACCEPTED):
            bad.append(f"{name} {number} (seed {seed}): {outcome}: {said}")
    return {outcome: counts[outcome] for outcome in OUTCOMES}, bad


def outcome_of(name: str, number: int, seed: int) -> tuple[str, str]:
    target, rng = TARGETS[name], np.random.default_rng([seed, number])
    with tempfile.TemporaryDirectory(prefix="fuzz-") as parent:
        folder = Path(parent)
        ended = call(target.case(rng, folder), within=folder)
        if ended.outcome == ACCEPTED and (fault := target.fault(ended.value, folder)):
            return SILENT, fault
    return (ended.outcome if ended.outcome in OUTCOMES else TRACEBACK), ended.said


# ---- specs


@functools.cache
def _specs() -> list[str]:
    from test_malformed_specs import SOUND

    from data_gen.spec import SPEC_FOLDER

    return [SOUND] * 3 + [path.read_text() for path in sorted(SPEC_FOLDER.glob("*.toml"))]


def spec_case(rng: Rng, folder: Path) -> Case:
    from data_gen import parse_spec, read_spec

    text = _specs()[rng.integers(len(_specs()))]
    if rng.random() < 0.5:
        table = mutated_value(tomllib.loads(text), rng)
        return lambda: parse_spec(table, file="mutated.toml")
    path = folder / "mutated.toml"
    path.write_bytes(mutated_text(text, rng).encode("utf-8", "surrogatepass"))
    return lambda: read_spec(path)


MOST = 3000  # sentences of a split that are looked at one by one


def spec_fault(spec: Any, _: Path) -> str:
    """What is wrong with the sentences of an accepted spec, made one by one, or with its card."""
    seen: dict[str, str] = {}  # sentence: its split
    words = [f"[{name}]" for name in "PAD UNK CLS SEP MASK".split()]
    for split in spec.splits.values():
        n = split.n_sentences
        counts = collections.Counter[int]()
        for sentence in split[:MOST]:
            text, at = sentence.text, sentence.location
            counts[sentence.label] += 1
            cut = text[slice(*sentence.span)]
            if " ".join(sentence.words) != text or not text.strip():
                return f"words are not the text: {text[:80]!r}"
            if (
                spec.lexicon.polarity.get(cut) != sentence.label
                or sentence.roles.count("informative") * (sentence.roles[at] == "informative") != 1
            ):
                return f"{cut!r} does not decide {text[:80]!r}"
            if any(word in text for word in words):
                return f"a special token in {text[:80]!r}"
            if text in seen and not (seen[text] == split.name and split.allow_repeats):
                return f"{text[:80]!r} is in {seen[text]} and in {split.name}"
            seen[text] = split.name
        if n <= MOST and len(set(counts.values())) != 1:
            return f"{split.name} is not balanced: {counts}"
    return _card_fault(spec)


def _card_fault(spec: Any) -> str:
    from data_gen.manifest import dataset_card

    row = {"rows": 1, "distinct": 1, "unknown_share": 0.0}
    splits = {name: row | {"isolates": split.isolates} for name, split in spec.splits.items()}
    files = {name: f"data/{name}.parquet" for name in spec.splits}
    card = dataset_card(spec, {"splits": splits}, files)
    try:
        head = yaml.safe_load(card.split("\n---\n")[0].removeprefix("---\n"))
        names = head["dataset_info"]["features"][1]["dtype"]["class_label"]["names"]
    except (yaml.YAMLError, KeyError, TypeError, IndexError) as error:
        return f"the card's YAML is broken: {error}"
    asked = spec.name, list(spec.lexicon.labels), list(files.values())
    written = (
        head["pretty_name"],
        list(names.values()),
        [f["path"] for f in head["configs"][0]["data_files"]],
    )
    return "" if asked == written else f"the card says {written}"


# ---- sentences


@functools.cache
def _rows() -> list[dict[str, Any]]:
    from data_gen import build_dataset

    split = build_dataset()["train"].shuffle(seed=0).select(range(40))
    names = split.features["label"].names
    return [
        {
            "text": row["text"],
            "label": names[row["label"]],
            "start": row["span"][0],
            "end": row["span"][1],
        }
        for row in split
    ]


def sentences_case(rng: Rng, folder: Path) -> Case:
    from data_gen import read_data

    kind = "csv" if rng.random() < 0.5 else "jsonl"
    path, rows = folder / f"mutated.{kind}", _rows()
    if rng.random() < 0.5:
        rows = mutated_value(rows, rng)
    if kind == "csv":
        rows = [row if isinstance(row, dict) else {"text": row} for row in rows]
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    if rows == _rows():
        path.write_bytes(mutated_text(path.read_bytes().decode(), rng).encode())
    return lambda: read_data(path)


def sentences_fault(dataset: Any, folder: Path) -> str:
    """How an accepted dataset differs from what other readers find in the same file."""
    (path,) = folder.iterdir()
    names = dataset["train"].features["label"].names
    read = []
    for split in dataset.values():
        for row in split:
            cut = row["text"][slice(*row["span"])]
            if not cut or cut.split()[0] not in row["words"][row["location"]]:
                return f"{cut!r} is not the word of {row['text'][:80]!r}"
            words = [match.span() for match in re.finditer(r"\w+", row["text"])]
            if " " in cut and any(a < at < b for a, b in words for at in row["span"]):
                return f"{cut!r} cuts a word of {row['text'][:80]!r}"
            read.append((row["text"], names[row["label"]], row["span"]))
    written = _csv_rows(path) if path.suffix == ".csv" else _jsonl_rows(path)
    if sorted(map(str, read)) != sorted(map(str, written)):
        odd = [row for row in written if str(row) not in set(map(str, read))]
        return f"{len(written)} rows became {len(read)}; first lost: {str(odd[:1])[:200]}"
    return ""


def _csv_rows(path: Path) -> list[Any]:
    import pandas as pd

    table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    spans = zip(table["start"].astype(int), table["end"].astype(int), strict=True)
    return [*zip(table["text"], table["label"], map(list, spans), strict=True)]


def _jsonl_rows(path: Path) -> list[Any]:
    lines = [line for line in path.read_text("utf-8-sig").split("\n") if line.strip()]
    rows = [json.loads(line) for line in lines]
    return [(row["text"], str(row["label"]), [int(row["start"]), int(row["end"])]) for row in rows]


# ---- models


@functools.cache
def _models() -> Path:
    """A folder of small models, with all weights at random, and their tokenizers."""
    from architectures import family_model
    from small_models import byte_level, wordpiece

    texts = [row["text"] for row in _rows()]
    folder = Path(tempfile.mkdtemp(prefix="fuzz-models-"))
    for name in ("bert", "distilbert", "modernbert", "gpt2", "llama"):
        is_encoder = "bert" in name
        tokenizer = wordpiece(texts) if is_encoder else byte_level(texts)
        model = family_model(name, len(tokenizer))
        # Some in one file, some in several with an index.
        shards = {"max_shard_size": "20KB"} if name in ("gpt2", "distilbert") else {}
        model.save_pretrained(folder / name, **shards)
        tokenizer.save_pretrained(folder / name)
    return folder


def _copied_model(rng: Rng, folder: Path) -> Path:
    sources = sorted(_models().iterdir())
    return Path(shutil.copytree(sources[rng.integers(len(sources))], folder / "model"))


def config_case(rng: Rng, folder: Path) -> Case:
    """A model whose config, index of shards or weights are mutated."""
    model = _copied_model(rng, folder)
    files = sorted(model.glob("*config.json")) * 3 + sorted(model.glob("*.index.json")) * 2
    files += sorted(model.glob("*.safetensors"))
    path = files[rng.integers(len(files))]
    if path.suffix == ".safetensors":
        _mutate_weights(path, rng)
    else:
        _mutate_json(path, rng)
    return functools.partial(_use_model, model)


def tokenizer_case(rng: Rng, folder: Path) -> Case:
    model = _copied_model(rng, folder)
    files = sorted(model.glob("tokenizer*.json"))
    _mutate_json(files[rng.integers(len(files))], rng)
    return functools.partial(_use_model, model)


def _mutate_json(path: Path, rng: Rng) -> None:
    text = path.read_text()
    if rng.random() < 0.25:
        path.write_text(mutated_text(text, rng), encoding="utf-8", errors="surrogatepass")
    else:
        path.write_text(json.dumps(mutated_value(json.loads(text), rng)))


def _mutate_weights(path: Path, rng: Rng) -> None:
    """Change the header of a safetensors file, or cut the file, or change its length."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    kind = rng.random()
    if kind < 0.2:
        path.write_bytes(content[: rng.integers(len(content))])
    elif kind < 0.3:
        path.write_bytes(int(rng.integers(2**62)).to_bytes(8, "little") + content[8:])
    else:
        text = json.dumps(mutated_value(header, rng)).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def _use_model(folder: Path) -> Any:
    from probing import extract, load_model

    model, tokenizer = load_model(str(folder))
    rows = _rows()[:6]
    columns = {"text": [r["text"] for r in rows], "span": [(r["start"], r["end"]) for r in rows]}
    return model, tokenizer, extract(model, tokenizer, columns, positions=["tokens"])


def model_fault(used: Any, folder: Path) -> str:
    """What is wrong with a model that was accepted: weights that no file has, states not finite."""
    from safetensors.torch import load_file

    model, tokenizer, states = used
    stored: dict[bytes, str] = {}
    for path in (folder / "model").glob("*.safetensors"):
        stored |= {value.numpy().tobytes(): name for name, value in load_file(path).items()}
    mine = {value.detach().numpy().tobytes(): name for name, value in model.named_parameters()}
    if invented := [name for value, name in mine.items() if value not in stored]:
        return f"weights that no file has: {invented[:3]}"
    if left := [name for value, name in stored.items() if value not in mine]:
        return f"weights that are not used: {left[:3]}"
    if max(states.tokens.ids) >= model.get_input_embeddings().weight.shape[0]:
        return "tokens that the model does not know"
    if not all(np.isfinite(np.asarray(states.at(layer))).all() for layer in states.layers):
        return "states that are not finite"
    if (states.tokens.ids == (-1 if (u := tokenizer.unk_token_id) is None else u)).mean() > 0.9:
        return "every word is unknown"
    return ""


# ---- grids of a sweep


def grid_case(rng: Rng, folder: Path) -> Case:
    from slr.sweep.cells import cell_grid
    from studies.theory.sweep import DEFAULT

    axes = mutated_value(dict(DEFAULT) | {"d": [100, 400], "gamma": 0.7, "seed": [0, 1]}, rng)
    return lambda: cell_grid(axes)


def grid_fault(grid: Any, _: Path) -> str:
    from slr.dynamics.experiment import Experiment

    for number in {0, len(grid) // 2, len(grid) - 1}:
        try:
            Experiment(**grid.cell(number))
        except (ValueError, TypeError) as error:
            return f"cell {number} is not an experiment: {error}"
    return ""


TARGETS = {
    "specs": Target(spec_case, spec_fault),
    "sentences": Target(sentences_case, sentences_fault),
    "configs": Target(config_case, model_fault),
    "tokenizers": Target(tokenizer_case, model_fault),
    "grids": Target(grid_case, grid_fault),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("cases", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one case, to see its traceback")
    options = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    faulthandler.dump_traceback_later(600, exit=True)  # a hang that no signal interrupts
    if options.only is not None:
        print(*outcome_of(options.target, options.only, options.seed), sep="\n")
        return 0
    counts, bad = fuzz(options.target, options.cases, options.seed)
    print(json.dumps(counts))
    for line in bad:
        print(line, file=sys.stderr)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
