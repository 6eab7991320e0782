"""The config of a model, read as data: a text model of the library, in the library's own code.

Refused is what would lead elsewhere (other files, kernels, adapters, quantised formats), what is
not a text encoder or decoder, and counts that no model has: the library would make a list with one
entry per label and an object per layer before it looked at the weights.
"""

import math
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, MODEL_MAPPING, AutoConfig, PreTrainedConfig
from transformers.models.auto import modeling_auto as auto

from data_gen.quoting import quoted
from probing.models.errors import ModelError
from probing.models.inspection.files import CONFIG, TOKENIZER_CONFIG, is_there, read_object

ATTENTIONS = {"eager", "sdpa"}
EXPERTS = {"eager", "batched_mm", "grouped_mm"}
IMPLEMENTATIONS = {
    **dict.fromkeys(("attn_implementation", "_attn_implementation"), ATTENTIONS),
    "_attn_implementation_internal": ATTENTIONS,
    **dict.fromkeys(("experts_implementation", "_experts_implementation"), EXPERTS),
    "_experts_implementation_internal": EXPERTS,
}
ELSEWHERE = ("configuration_files", "transformers_weights", "fusion_config", "kernel_config")
MOST = 100_000  # layers, heads, experts, labels
POSITIVE = ("rope_theta", "factor", "low_freq_factor", "high_freq_factor")  # of rotations
NOT_COUNTS = ("n_words", "n_positions", "n_ctx")  # sizes, which the weights decide
TEXT = {  # types with a language model's or a classifier's head
    *auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    *auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    *auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    *("dpr", "splinter"),  # encoders without one
}


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a folder, if it is one of a text model of the library."""
    path = folder / CONFIG
    if is_there(folder / "adapter_config.json"):
        raise ModelError(f"{folder} holds an adapter; merge it into its model and save the whole")
    config = read_object(path)
    for key in ELSEWHERE:
        if config.get(key) is not None:
            raise ModelError(f"{path}: {key} leads to other files or kernels; remove it")
    if config.get("quantization_config") is not None:
        raise ModelError(
            f"{path}: the model is quantised ({_method(config)}), which is not supported; save it "
            "in float32 or bfloat16, or use a .gguf file"
        )
    _check_keys(path, config)
    _check_type(path, config.get("model_type"), both=config.get("is_encoder_decoder"))
    return config


def _method(config: dict[str, Any]) -> str:
    quantisation = config["quantization_config"]
    method = quantisation.get("quant_method") if isinstance(quantisation, dict) else quantisation
    return quoted(method)


def _check_keys(path: Path, values: dict[str, Any], depth: int = 0) -> None:
    """Look at every key, also at those of configs within the config."""
    if depth > 10:
        raise ModelError(f"{path} is nested too deeply")
    for key, value in values.items():
        if key in IMPLEMENTATIONS:
            _check_implementation(path, key, value)
        elif callable(getattr(PreTrainedConfig, key, None)):
            raise ModelError(f"{path}: {quoted(key)} is not a setting but a method of the library")
        elif isinstance(value, dict):
            _check_keys(path, value, depth + 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            _check_number(path, key, value)


def _check_implementation(path: Path, key: str, value: Any) -> None:
    chosen = list(value.values()) if isinstance(value, dict) else [value]
    known = IMPLEMENTATIONS[key]
    if any(
        name is not None and (not isinstance(name, str) or name not in known) for name in chosen
    ):
        raise ModelError(
            f"{path}: {key} is {quoted(value)}, which would need other code than the library's; "
            f"remove it (known here: {', '.join(sorted(known))})"
        )


def _check_number(path: Path, key: str, value: float) -> None:
    if key.startswith(("num_", "n_")) and key not in NOT_COUNTS:
        if not 0 <= value <= MOST:
            raise ModelError(f"{path}: {key} is {quoted(value)}; it must be from 0 to {MOST}")
    elif (key in POSITIVE or key.endswith(("_eps", "_epsilon"))) and not 0 < value < math.inf:
        raise ModelError(f"{path}: {key} is {quoted(value)}, not a positive number")


def _check_type(path: Path, kind: Any, *, both: Any) -> None:
    """Refuse a type that the library does not know, or whose models do not read text alone."""
    if not isinstance(kind, str) or not kind:
        raise ModelError(f"{path}: model_type is {quoted(kind)}, not the name of an architecture")
    try:
        config_class = CONFIG_MAPPING[kind]
        model_class = MODEL_MAPPING[config_class]
    except Exception as error:  # types that are not known, have no model or need other packages
        raise ModelError(
            f"{path}: model_type {quoted(kind)} is not an architecture that can be loaded here"
        ) from error
    model_class = model_class[0] if isinstance(model_class, tuple) else model_class
    modalities = model_class.input_modalities
    modalities = [modalities] if isinstance(modalities, str) else list(modalities)
    parts = getattr(config_class, "sub_configs", {}).values()
    text = kind in TEXT or kind.endswith(("_text", "_text_model"))
    if both or getattr(config_class, "is_encoder_decoder", False):
        raise ModelError(f"{path}: {kind} has an encoder and a decoder; a model of one is needed")
    if modalities != ["text"] or not text or AutoConfig in parts:
        raise ModelError(f"{path}: {kind} is not an encoder or decoder of text alone")


def check_tokenizer_config(folder: Path) -> None:
    """Refuse settings of the tokenizer that the library would take but could not use."""
    path = folder / TOKENIZER_CONFIG
    if not is_there(path):
        return
    settings = read_object(path)
    if settings.get("fast_tokenizer_files") is not None:
        raise ModelError(f"{path}: fast_tokenizer_files leads to other files; remove it")
    kind = settings.get("tokenizer_class")
    if kind is not None and not isinstance(kind, str):
        raise ModelError(f"{path}: tokenizer_class is {quoted(kind)}, not a name")
    longest = settings.get("model_max_length")
    number = isinstance(longest, int | float) and not isinstance(longest, bool)
    if longest is not None and not (number and longest >= 1):
        raise ModelError(f"{path}: model_max_length is {quoted(longest)}, not a positive number")
