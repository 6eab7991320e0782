"""Models on the hub: which commit would be loaded, and its config and other small files."""

import os
from contextlib import suppress
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, HFValidationError, RepositoryNotFoundError

from probing.models.downloads import MODELS
from probing.models.errors import ModelError
from probing.models.inspection.files import CONFIG, INDEX, TOKENIZER_CONFIG

SMALL = (CONFIG, "adapter_config.json", INDEX, TOKENIZER_CONFIG)


def latest_commit(name: str) -> str | None:
    """The last commit of a model on the hub; None if the hub does not answer but the cache has it.

    This runs before loading: without a network the library retries each file for half a minute.
    """
    try:
        return HfApi().model_info(name, timeout=10).sha
    except HFValidationError:
        raise ModelError(f"{name} is neither a folder nor a valid model name") from None
    except RepositoryNotFoundError:  # also for private and gated models
        raise ModelError(f"the hub has no model {name}, or asks for a login") from None
    except Exception:  # any error of the HTTP library
        if cached_commit(name) is None:
            offline = os.environ.get("HF_HUB_OFFLINE") == "1"
            why = "HF_HUB_OFFLINE is set" if offline else "it does not answer"
            raise ModelError(
                f"{name} is not {', '.join(MODELS)}, a folder or a .gguf file, and could not be "
                f"downloaded from the hub ({why}); download it where there is a network"
            ) from None
        return None


def cached_commit(name: str) -> str | None:
    """The commit of the model in the hub's cache on this machine."""
    folder = cached_folder(name)
    return folder.name if folder else None


def cached_folder(name: str) -> Path | None:
    config = try_to_load_from_cache(name, CONFIG)  # .../snapshots/<commit>/config.json
    return Path(config).parent if isinstance(config, str) else None


def small_files(name: str, *, cached: bool) -> Path:
    """The folder in the hub's cache with the small files of a model, downloaded if need be."""
    for file in SMALL:
        with suppress(EntryNotFoundError):  # no model has all of them
            hf_hub_download(name, file, local_files_only=cached)
    folder = cached_folder(name)
    if folder is None:
        raise ModelError(f"{name} on the hub holds no model: it has no {CONFIG}")
    return folder
