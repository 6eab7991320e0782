"""Encoders and decoders to probe: from a folder, a package, a GGUF file, or from the hub.

Nothing that can run code is loaded: weights are safetensors or GGUF, remote code is refused.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.utils import logging

from probing.models.downloads import DOWNLOADS, MODELS, downloaded_model
from probing.models.errors import ModelError
from probing.models.gguf_files import converted
from probing.models.packaged import PACKAGED, packaged_file
from probing.models.placement import check_device_map, device_of, dtype_of, placed_like

Head = Literal["classifier", "language"]
HEADS: dict[Head | None, Any] = {
    None: AutoModel,
    "classifier": AutoModelForSequenceClassification,
    "language": AutoModelForCausalLM,
}


def load_model(
    name: str,
    *,
    head: Head | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    device_map: str | Mapping[str, Any] | None = None,
) -> tuple[Any, Any]:
    """The model, in evaluation mode, and its tokenizer.

    Parameters
    ----------
    name
        "minilm" (all-MiniLM-L6-v2), "smollm2" (SmolLM2-135M-Instruct) or, after `make models`,
        "mpnet" (all-mpnet-base-v2), all three verified; the folder of a model written by
        save_pretrained; the path of a ``.gguf`` file, which is converted once (into
        SLR_PROBING_CACHE); or the name of a model on the hub.
    head
        What the model ends with: nothing, its "classifier" of sentences, or its "language" head,
        which predicts the next word. A model without such a head is refused.
    device
        "auto" (CUDA, else MPS, else the CPU), "cpu", "cuda", "cuda:1" or "mps".
    dtype
        "float32", "bfloat16", "float16" or "auto": that of the checkpoint (of GGUF: float32).
    device_map
        How accelerate shares a model among devices that it does not fit one by one: "auto".

    >>> model, tokenizer = load_model("smollm2", device="auto", dtype="bfloat16")
    >>> classifier, tokenizer = load_model("results/transformer", head="classifier")
    """
    options = {"dtype": dtype_of(dtype), "device_map": device_map}
    if device_map is not None:
        check_device_map(device_map, device)
    place = device_of(device)
    path = _local(name)
    known: dict[str, Any] = {"trust_remote_code": False}
    known["local_files_only"] = path is not None or _latest_commit(name) is None
    with _quiet():
        copy = converted(path) if path and path.is_file() else None
    source = str(copy or path or name)
    try:
        with _quiet():
            tokenizer = AutoTokenizer.from_pretrained(source, **known)
            options |= {"use_safetensors": True, "output_loading_info": True}
            model, report = HEADS[head].from_pretrained(source, **known, **options)
            if device_map is None:
                model.to(place)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        why = str(error).splitlines()[0].rstrip()
        if why.startswith("Unrecognized configuration class") and head:
            raise ModelError(f"{name} has no {head} head: its architecture has none") from error
        if why.endswith(":"):  # the library continues with a list
            why = "its config, weights or fast tokenizer are missing or damaged"
        if copy:
            why += f" (the converted copy {copy} can be deleted)"
        raise ModelError(f"{name} holds no model that can be loaded: {why}") from error
    _check_weights(name, head, model, report["missing_keys"])
    return model.eval(), tokenizer


def _check_weights(name: str, head: Head | None, model: Any, missing: set[str]) -> None:
    """Refuse a model with weights that were not in its files: the library draws them at random."""
    if head is None:  # states do not depend on a pooler
        missing = {key for key in missing if "pooler" not in key}
    if missing:
        lacks = f"its weights lack {', '.join(sorted(missing)[:3])}"
        raise ModelError(f"{name} {f'has no {head} head' if head else 'is not complete'}: {lacks}")
    causal = [part.is_causal for part in model.modules() if hasattr(part, "is_causal")]
    if head == "language" and causal and not any(causal):
        raise ModelError(f"{name} has no language head: it is an encoder, which sees every word")


def has_classifier(name: str) -> bool:
    """Whether the configuration of a model names a classifier of sentences.

    >>> has_classifier("minilm")  # False: it has no head
    """
    path = _local(name)
    if path is not None and path.is_file():  # a GGUF file
        return False
    known = path is not None or _latest_commit(name) is None
    options: dict[str, Any] = {"local_files_only": known, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(str(path or name), **options)
    except (OSError, ValueError, KeyError):  # load_model says what is wrong
        return False
    return any("SequenceClassification" in kind for kind in config.architectures or [])


def revision_of(name: str) -> str | None:
    """The commit on the hub that ``load_model(name)`` would load; None for a folder or file.

    The hub is asked first; if it does not answer, the cache decides.

    >>> revision_of("bert-base-uncased")
    >>> revision_of("minilm")  # None: its weights are verified by their sha256
    """
    if _local(name):
        return None
    config = try_to_load_from_cache(name, "config.json")  # .../snapshots/<commit>/config.json
    return _latest_commit(name) or Path(str(config)).parent.name


def _local(name: str) -> Path | None:
    """The folder or GGUF file of a model on this machine; None for a name on the hub."""
    if name in PACKAGED:
        weights = packaged_file(name)
        return weights if weights.suffix == ".gguf" else weights.parent
    if name in DOWNLOADS:
        return downloaded_model(name)
    path = Path(name)
    if path.is_dir() or (path.is_file() and path.suffix == ".gguf"):
        return path
    is_path = path.exists() or name.startswith((".", "/", "~")) or name.count("/") > 1
    if is_path or path.suffix == ".gguf" or (len(path.parts) > 1 and Path(path.parts[0]).is_dir()):
        raise ModelError(f"{name} is not a folder with a model, and not a .gguf file")
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

    It is on the same device and of the same data type. Its weights are drawn on the CPU in float32,
    so that a seed gives the same weights everywhere.

    >>> control = untrained_like(model, seed=1)
    >>> extract(control, tokenizer, dataset["test"])
    """
    with torch.random.fork_rng(), torch.device("cpu"):
        torch.manual_seed(seed)
        control = type(model)(AutoConfig.for_model(**model.config.to_dict()))
    return placed_like(control, model).eval()


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
                f"{name} is not {', '.join(MODELS)}, a folder or a .gguf file, and could not be "
                f"downloaded from the hub ({why}); download it where there is a network"
            ) from None
        return None
