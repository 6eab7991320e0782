"""Small models of seven families on disk, and ways to damage them: a table of bad models.

Each way is a function of a folder with a good model, which it changes.
"""

import json
import os
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from architectures import FAMILIES, family_model
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

from data_gen import build_tokenizer

Damage = Callable[[Path], object]
WORDS = (
    "the a dog cat soup is was very nice bad good grim big small my your we they eat see".split()
)
WEIGHTS = "model.safetensors"
FIRST, SECOND = (f"model-0000{n}-of-00002.safetensors" for n in (1, 2))
INDEX = "model.safetensors.index.json"


def save_family(folder: Path, name: str, kind: Any = AutoModelForSequenceClassification) -> Path:
    """A small random model of a family with a head, and a tokenizer that fits it."""
    tokenizer = build_tokenizer(WORDS, ends=not FAMILIES[name].causal)
    family_model(name, len(tokenizer), kind).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_sharded(folder: Path, whole: Path) -> Path:
    """The model of a folder in two shards with an index."""
    shutil.copytree(whole, folder)
    weights = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(weights)
    parts = {FIRST: names[::2], SECOND: names[1::2]}
    for file, keys in parts.items():
        save_file({key: weights[key] for key in keys}, folder / file, metadata={"format": "pt"})
    weight_map = {key: file for file, keys in parts.items() for key in keys}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def save_mpnet(folder: Path) -> Path:
    tokenizer = build_tokenizer(WORDS)
    config = AutoConfig.for_model("mpnet", vocab_size=len(tokenizer), **FAMILIES["bert"].options)
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


CLASSIFIER, LANGUAGE = AutoModelForSequenceClassification, AutoModelForCausalLM


# ---- ways to damage a model


def edit(file: str, change: Callable[[Any], Any]) -> Damage:
    """Change the JSON of a file: ``change`` gets its content and alters it, or returns another."""

    def damage(folder: Path) -> None:
        path = folder / file
        content = json.loads(path.read_text())
        replaced = change(content)
        path.write_text(json.dumps(content if replaced is None else replaced))

    return damage


def config(**values: Any) -> Damage:
    return edit("config.json", lambda content: content.update(values))


def without(*keys: str, file: str = "config.json") -> Damage:
    return edit(file, lambda content: [content.pop(key) for key in keys] and None)


def tokenizer_config(**values: Any) -> Damage:
    return edit("tokenizer_config.json", lambda content: content.update(values))


def tokenizer(*path: str, value: Any) -> Damage:
    """Put a value into tokenizer.json, at a path of keys."""

    def change(content: Any) -> None:
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    return edit("tokenizer.json", change)


def index(**values: Any) -> Damage:
    return edit(INDEX, lambda content: content.update(values))


def all_shards(name: Any) -> Damage:
    """Let the index say that every tensor is in the file of this name."""
    return edit(
        INDEX, lambda content: content.update(weight_map=dict.fromkeys(content["weight_map"], name))
    )


def raw(file: str, content: bytes) -> Damage:
    return lambda folder: (folder / file).write_bytes(content)


def cut(file: str, share: float) -> Damage:
    def damage(folder: Path) -> None:
        content = (folder / file).read_bytes()
        (folder / file).write_bytes(content[: int(share * len(content))])

    return damage


def gone(*files: str) -> Damage:
    def damage(folder: Path) -> None:
        for file in files:
            (folder / file).unlink()

    return damage


def tensors(change: Callable[[dict[str, torch.Tensor]], Any]) -> Damage:
    """Change the weights by name."""

    def damage(folder: Path) -> None:
        weights = load_file(folder / WEIGHTS)
        replaced = change(weights)
        content = weights if not isinstance(replaced, dict) else replaced
        save_file(content, folder / WEIGHTS, metadata={"format": "pt"})

    return damage


def retyped(end: str, dtype: torch.dtype) -> Damage:
    """Store the tensors whose names end so in another type."""
    return tensors(lambda w: {k: v.to(dtype) if k.endswith(end) else v for k, v in w.items()})


def lacking(*parts: str) -> Damage:
    """Remove all tensors whose names contain one of these parts."""

    def change(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        kept = {k: v for k, v in weights.items() if not any(part in k for part in parts)}
        assert len(kept) < len(weights), parts
        return kept

    return tensors(change)


def twice(part: str, instead: str) -> Damage:
    """Add a tensor of other numbers whose name has another part."""

    def change(weights: dict[str, torch.Tensor]) -> None:
        name = next(name for name in weights if part in name)
        weights[name.replace(part, instead)] = weights[name] + 1

    return tensors(change)


def one_number(part: str, value: float) -> Damage:
    def change(weights: dict[str, torch.Tensor]) -> None:
        (name, *_) = (name for name in weights if part in name)
        weights[name].view(-1)[-1] = value

    return tensors(change)


def header(change: Callable[[dict[str, Any]], Any], *, length: int | None = None) -> Damage:
    """Change the JSON header of the weights, and what the file says about the header's length."""

    def damage(folder: Path) -> None:
        content = (folder / WEIGHTS).read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        table = json.loads(content[8 : 8 + size])
        change(table)
        text = json.dumps(table).encode()
        announced = len(text) if length is None else length
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", announced) + text + content[8 + size :])

    return damage


def entry(**values: Any) -> Damage:
    """Change what the header says about one tensor."""

    def change(table: dict[str, Any]) -> None:
        table[next(name for name in table if name.endswith("word_embeddings.weight"))] |= values

    return header(change)


def instead(file: str, make: Callable[[Path], object]) -> Damage:
    """Put something else where the file is."""

    def damage(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        make(folder / file)

    return damage


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_socket(path: Path) -> None:
    """Bound by its relative name: the name of a socket is short."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def link_to(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def both(*damages: Damage) -> Damage:
    return lambda folder: [damage(folder) for damage in damages]
