"""Encoders and decoders to probe: from a folder, a package, a GGUF file, or from the hub.

Nothing that can run code is loaded: weights are safetensors or GGUF, remote code is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from probing.models.border import model_errors, quiet
from probing.models.downloads import DOWNLOADS, MODELS, downloaded_model
from probing.models.errors import ModelError
from probing.models.gguf_files import converted
from probing.models.hub import cached_commit, latest_commit, small_files
from probing.models.inspection.files import CONFIG, path_of, read_object
from probing.models.inspection.folder import inspect_folder
from probing.models.inspection.loaded import check_loaded
from probing.models.packaged import PACKAGED, packaged_file
from probing.models.placement import check_device_map, device_of, dtype_of, placed_like

Head = Literal["classifier", "language"]
HEADS: dict[Head | None, Any] = {
    None: AutoModel,
    "classifier": AutoModelForSequenceClassification,
    "language": AutoModelForCausalLM,
}


def load_model(
    name: str | Path,
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
    name = str(name)
    options = {"dtype": dtype_of(dtype), "device_map": device_map}
    if device_map is not None:
        check_device_map(device_map, device)
    place = device_of(device)
    path = _local(name)
    cached = path is not None or latest_commit(name) is None
    with quiet(offline=cached), model_errors(f"{name} holds no model that can be loaded"):
        copy = converted(path) if path and path.is_file() else None
        folder = copy or path or small_files(name, cached=cached)
        config = inspect_folder(folder, whole=path is not None, copy=copy is not None)
        if head and type(config) not in HEADS[head]._model_mapping:
            raise ModelError(f"{name} has no {head} head: its architecture has none")
        known: dict[str, Any] = {"trust_remote_code": False, "local_files_only": cached}
        source = str(folder if path else name)
        with model_errors(f"{name}: its tokenizer (tokenizer.json) cannot be loaded"):
            tokenizer = AutoTokenizer.from_pretrained(source, **known)
        # With shapes that do not fit, the library would not say which: check_loaded does.
        options |= {"ignore_mismatched_sizes": True, "output_loading_info": True}
        options |= {"use_safetensors": True}
        model, report = HEADS[head].from_pretrained(source, **known, **options)
        if device_map is None:
            model.to(place)
        verified = copy is not None or name in MODELS
        check_loaded(name, model.eval(), tokenizer, report, head=head, verified=verified)
    return model, tokenizer


def has_classifier(name: str) -> bool:
    """Whether the configuration of a model names a classifier of sentences.

    >>> has_classifier("minilm")  # False: it has no head
    """
    path = _local(name)
    if path is not None and path.is_file():  # a GGUF file
        return False
    try:
        folder = path or small_files(name, cached=latest_commit(name) is None)
        architectures = read_object(folder / CONFIG).get("architectures")
    except (ModelError, OSError):  # load_model says what is wrong
        return False
    named = architectures if isinstance(architectures, list) else []
    return any("SequenceClassification" in str(architecture) for architecture in named)


def revision_of(name: str) -> str | None:
    """The commit on the hub that ``load_model(name)`` would load; None for a folder or file.

    The hub is asked first; if it does not answer, the cache decides.

    >>> revision_of("bert-base-uncased")
    >>> revision_of("minilm")  # None: its weights are verified by their sha256
    """
    if _local(name):
        return None
    return latest_commit(name) or cached_commit(name)


def _local(name: str) -> Path | None:
    """The folder or GGUF file of a model on this machine; None for a name on the hub."""
    if name in PACKAGED:
        weights = packaged_file(name)
        return weights if weights.suffix == ".gguf" else weights.parent
    if name in DOWNLOADS:
        return downloaded_model(name)
    path = path_of(name)
    if path.is_dir() or (path.is_file() and path.suffix == ".gguf"):
        return path
    is_path = path.exists() or name.startswith((".", "/", "~")) or name.count("/") > 1
    if is_path or path.suffix == ".gguf" or (len(path.parts) > 1 and Path(path.parts[0]).is_dir()):
        raise ModelError(f"{name} is not a folder with a model, and not a .gguf file")
    return None


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
