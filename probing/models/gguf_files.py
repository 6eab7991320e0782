"""GGUF files, converted once into an ordinary float32 model that ``from_pretrained`` reads.

The library takes 17 s for SmolLM2, most of it to parse the header three times in Python, and gives
a model that counts as quantised: it cannot be saved. The converted copy is read in a second. It is
kept in a folder named after the file's sha256 and the versions that made it.
"""

from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from probing.models.border import model_errors, without_bars
from probing.models.cache import cache_folder, new_folder
from probing.models.errors import ModelError
from probing.models.inspection.gguf_header import DAMAGED, check_gguf
from probing.models.inspection.loaded import check_loaded
from probing.models.packaged import file_sha256


def converted(path: Path) -> Path:
    """The folder with the converted copy of a GGUF file; the first call makes it.

    >>> AutoModelForCausalLM.from_pretrained(converted(Path("model.gguf")))
    """
    try:
        versions = [f"{name}-{metadata.version(name)}" for name in ("transformers", "gguf")]
    except metadata.PackageNotFoundError:
        raise ModelError(f"{path} needs the package gguf: pip install gguf") from None
    folder = cache_folder() / "_".join([file_sha256(path), *versions])
    if not folder.is_dir():
        check_gguf(path)
        with new_folder(folder) as partial:
            _convert(path, partial)
    return folder


def _convert(path: Path, folder: Path) -> None:
    with model_errors(f"{path} is {DAMAGED}"), without_bars():
        from transformers import GgufConfig

        source: dict[str, Any] = {"gguf_file": path.name, "local_files_only": True}
        tokenizer = AutoTokenizer.from_pretrained(path.parent, **source)
        model, report = AutoModelForCausalLM.from_pretrained(
            path.parent,
            **source,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            output_loading_info=True,
        )
        check_loaded(str(path), model, tokenizer, report)
    settings = model.config.to_dict()
    settings.pop("quantization_config", None)
    with torch.device("meta"):  # without memory of its own
        plain = type(model)(AutoConfig.for_model(**settings))
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
