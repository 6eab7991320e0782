"""Whatever stands in a model's folder: one line, at once, and nothing left behind."""

import hashlib
import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import hostile_models as h
import pytest
import torch
from bad_input import ACCEPTED, REFUSED, call
from bad_models import TABLE
from transformers.utils import logging

from probing.models.pretrained import has_classifier, load_model, revision_of
from studies.settings import model_key


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    h.save_family(folder / "bert", "bert")
    h.save_sharded(folder / "shards", folder / "bert")
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLR_PROBING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def state() -> tuple[Any, ...]:
    return logging.get_verbosity(), logging.is_progress_bar_enabled(), torch.get_default_dtype()


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("case", TABLE)
def test_a_bad_model_is_refused_in_one_line(
    case: str, good: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    damage, message = TABLE[case]
    folder = tmp_path / "model"
    shutil.copytree(good / ("shards" if case.startswith("shards") else "bert"), folder)
    damage(folder)
    before = state()
    ended = call(lambda: load_model(str(folder)), within=tmp_path)
    assert ended.outcome == REFUSED, ended.said
    assert re.search(message, ended.said), ended.said
    assert capfd.readouterr() == ("", ""), "nothing but the error"
    assert state() == before


def test_good_folders_are_still_accepted(good: Path, tmp_path: Path) -> None:
    """The control of the table: each of these differs from a bad one in what counts."""
    bert = good / "bert"
    hub = tmp_path / "models--a--b" / "snapshots" / ("0" * 40)
    hub.mkdir(parents=True)
    blobs = shutil.copytree(bert, hub.parent.parent / "blobs")
    for blob in blobs.iterdir():
        (hub / blob.name).symlink_to(Path("../../blobs") / blob.name)
    ways: dict[str, h.Damage] = {
        "sdpa": h.config(_attn_implementation="sdpa"),
        "without a head": h.lacking("classifier"),
        "without a pooler": h.lacking("pooler"),
        "with an unused head": h.tensors(lambda w: w.update({"cls.x": torch.ones(2)})),
        "with old positions": h.tensors(
            lambda w: w.update({"bert.embeddings.position_ids": torch.arange(128)[None]})
        ),
        "other labels": h.config(num_labels=5, id2label={str(i): "x" for i in range(5)}),
        "code that is not run": h.both(
            h.config(auto_map={"AutoModel": "code.Model", "AutoConfig": "code.Config"}),
            h.tokenizer_config(auto_map={"AutoTokenizer": ["code.T", None]}),
            h.raw("code.py", b"import pathlib; pathlib.Path('ran').touch(); raise RuntimeError"),
        ),
        "a pipe that is not read": lambda folder: os.mkfifo(folder / "notes"),
    }
    names = [bert, good / "shards", hub]
    for what, change in ways.items():
        names.append(shutil.copytree(bert, tmp_path / what))
        change(names[-1])
    for folder in names:
        ended = call(partial(load_model, str(folder)), within=tmp_path)
        assert ended.outcome == ACCEPTED, (folder, ended.said)
        assert not ended.value[0].training
    heads = {
        "other labels": "shapes of classifier.bias",
        "without a head": "has no classifier head: its weights lack classifier.bias",
        "without a pooler": "has no classifier head: its weights lack bert.pooler",
    }
    for what, message in heads.items():
        ended = call(partial(load_model, str(tmp_path / what), head="classifier"), within=tmp_path)
        assert message in ended.said, ended


FAMILIES = ["bert", "roberta", "distilbert", "modernbert", "mpnet", "gpt2", "llama"]
BODIES = {  # a layer, a norm, the words
    "gpt2": ("h.1.", "h.0.ln_1", "wte"),
    "llama": ("layers.1.", "layers.0.input_layernorm", "embed_tokens"),
    "modernbert": ("layers.1.", "layers.0.mlp_norm", "tok_embeddings"),
    "distilbert": ("layer.1.", "layer.0.sa_layer_norm", "word_embeddings"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_body_with_missing_weights_is_refused_with_every_head(
    family: str, tmp_path: Path
) -> None:
    folder = tmp_path / family
    if family == "mpnet":
        h.save_mpnet(folder)
    else:
        h.save_family(folder, family, h.LANGUAGE if family == "llama" else h.CLASSIFIER)
    head: Any = "language" if family == "llama" else "classifier"
    weights = (folder / h.WEIGHTS).read_bytes()
    parts = BODIES.get(family, ("layer.1.", "layer.0.output.LayerNorm", "word_embeddings"))
    damages = [h.lacking(part) for part in parts]
    damages += [h.tensors(lambda w: {f"x.{key}": value for key, value in w.items()})]
    for which in (None, head):
        assert load_model(str(folder), head=which), "the control"
        for damage in damages:
            damage(folder)
            ended = call(partial(load_model, str(folder), head=which), within=tmp_path)
            assert ended.outcome == REFUSED, ended.said
            assert "is not complete: its weights lack" in ended.said
            (folder / h.WEIGHTS).write_bytes(weights)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            " ",
            "\n",
            "a\nb",
            "a\0b",
            "x" * 5000,
            "../" * 2000,
            "a b",
            "-",
            "..",
            "/",
            "/dev/null",
        ),
        *("https://huggingface.co/a/b", "a//b", "a/b/../../c", "\u202e", "~root", "models/x.bin"),
    ],
)
def test_a_name_that_is_not_one_is_refused_everywhere(name: str, tmp_path: Path) -> None:
    functions: list[Any] = [load_model, model_key, revision_of, has_classifier]
    for function in functions:
        ended = call(partial(function, name), within=tmp_path)
        answers = (None, False) if function in (revision_of, has_classifier) else ()
        assert ended.outcome == REFUSED or ended.value in answers, (function, ended)


def test_the_key_of_a_folder_does_not_hang_and_has_every_file_that_is_read(
    good: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(good / "shards", tmp_path / "model")
    keys = {model_key(str(folder))}
    for file in (h.FIRST, h.INDEX, "tokenizer.json", "config.json"):
        (folder / file).write_bytes((folder / file).read_bytes() + b" ")
        keys.add(model_key(str(folder)))
    for file in ("special_tokens_map.json", "vocab.txt", "merges.txt"):
        (folder / file).write_text("{}")
        keys.add(model_key(str(folder)))
    assert len(keys) == 8
    (folder / "README.md").write_text("of no consequence")
    assert model_key(str(folder)) in keys
    h.instead(h.SECOND, os.mkfifo)(folder)
    functions: list[Any] = [model_key, load_model]
    for function in functions:
        ended = call(partial(function, str(folder)), within=tmp_path, seconds=3)
        assert ended.outcome == REFUSED, ended.said
    assert not has_classifier(str(folder)) or revision_of(str(folder)) is None


def test_a_classifier_is_recognised_by_its_config_alone(good: Path, tmp_path: Path) -> None:
    assert has_classifier(str(good / "bert"))
    wrong: list[Any] = [5, "ForSequenceClassification", {}, [5, None], None, []]
    for number, value in enumerate(wrong):
        folder = shutil.copytree(good / "bert", tmp_path / str(number))
        h.config(architectures=value)(folder)
        assert not has_classifier(str(folder)), value
    h.instead("config.json", os.mkfifo)(folder)
    assert not has_classifier(str(folder))


def test_a_key_of_a_folder_is_that_of_earlier_results(good: Path) -> None:
    """The hash of an ordinary folder is still that of its config, tokenizer and weights."""
    digest = hashlib.sha256()
    names = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    for name in names:
        digest.update(name.encode() + (good / "bert" / name).read_bytes())
    assert model_key(str(good / "bert")) == f"bert, sha256 {digest.hexdigest()}"
