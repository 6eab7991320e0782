"""What states depend on: a hash of the model, and the key of a folder with its states.

A cache whose key is incomplete returns the states of another model.
"""

import hashlib
import json
from typing import Any

import torch
import transformers

from probing.arrays import as_bytes
from probing.states.parts import ActivationError, foreign_hooks
from probing.states.store import FORMAT


def key_of(model: Any, tokenizer: Any, asked: list[Any], *, logits: bool) -> dict[str, Any]:
    """Everything that the arrays depend on; error messages use these names."""
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    for changing in ("padding", "truncation"):  # leftovers of the tokenizer's last call
        settings.pop(changing, None)

    def sha256(value: Any) -> str:
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

    return {
        "format": FORMAT,
        "version of torch": str(torch.__version__),
        "version of transformers": transformers.__version__,
        "list of texts and spans": sha256(asked),
        "model": fingerprint(model if logits else model.base_model),
        "tokenizer": sha256(settings),
    }


def fingerprint(model: Any) -> str:
    """SHA-256 of all that a model's results depend on: its class, configuration and weights.

    Hooks change states too, but have no hash: a model with hooks is refused.
    """
    for name in foreign_hooks(model):
        raise ActivationError(
            f"a hook on {name} may change its states, which a folder cannot record; "
            "extract without a folder"
        )
    config = model.config.to_dict()
    for name in ("_name_or_path", "transformers_version", "architectures"):
        config.pop(name, None)  # where it came from, not what it computes
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    digest.update(type(model).__name__.encode())
    weights = model.state_dict()
    if any(tensor.is_meta for tensor in weights.values()):  # accelerate has them elsewhere
        from accelerate.utils.modeling import get_state_dict_offloaded_model

        elsewhere = get_state_dict_offloaded_model(model)
        weights = {name: elsewhere[name] for name in weights}
    for name, tensor in weights.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(as_bytes(tensor))
    return digest.hexdigest()
