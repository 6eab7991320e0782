"""A model's folder, before the libraries are asked to load it."""

from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from probing.models.border import model_errors
from probing.models.errors import ModelError
from probing.models.inspection.configs import check_tokenizer_config, read_config
from probing.models.inspection.files import CONFIG, INDEX, model_files
from probing.models.inspection.sizes import check_sizes
from probing.models.inspection.weights import shards, stored_tensors


def inspect_folder(folder: Path, *, whole: bool, copy: bool = False) -> Any:
    """The config of a folder; refuse what is wrong before the libraries read the rest.

    Of a model on the hub only the small files are there before it is loaded (``whole`` is False). A
    ``copy`` of ours, of a GGUF file, that is wrong is damaged and can be made again.
    """
    try:
        return _inspected(folder, whole=whole)
    except ModelError as error:
        if not copy:
            raise
        # Without the reason, so that the path is whole in one line.
        raise ModelError(f"{folder} can be deleted: it is damaged, and made again") from error


def _inspected(folder: Path, *, whole: bool) -> Any:
    model_files(folder)
    read_config(folder)
    check_tokenizer_config(folder)
    with model_errors(f"{folder / CONFIG} is not a config of the library"):
        config = AutoConfig.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
        if not isinstance(config.get_text_config(), PreTrainedConfig):
            raise ModelError(f"{folder / CONFIG}: {config.model_type} has no config within it")
    if whole:
        check_sizes(str(folder), config, stored_tensors(folder))
    elif (folder / INDEX).is_file():
        shards(folder / INDEX)
    return config
