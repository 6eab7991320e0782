"""Fourteen families of encoders and decoders, as small models with random weights."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModel

N_LAYERS, N_HEADS, D_MODEL = 2, 4, 32
SIZES = {
    "hidden_size": D_MODEL,
    "num_hidden_layers": N_LAYERS,
    "num_attention_heads": N_HEADS,
    "intermediate_size": 48,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,  # states that differ visibly
    "pad_token_id": 0,
}
GROUPED = {"num_key_value_heads": 2}  # two heads share each key


@dataclass(frozen=True)
class Family:
    """The size options of a family under its own names, and its output projection in a block."""

    options: dict[str, Any]
    projection: str
    causal: bool = True


def sizes(*without: str, **named: Any) -> dict[str, Any]:
    return {name: value for name, value in SIZES.items() if name not in without} | named


FAMILIES = {  # by model_type
    "bert": Family(sizes(), "attention.output.dense", causal=False),
    "roberta": Family(sizes(), "attention.output.dense", causal=False),
    "distilbert": Family(
        sizes(dim=D_MODEL, n_layers=N_LAYERS, n_heads=N_HEADS, hidden_dim=48),
        "attention.out_lin",
        causal=False,
    ),
    "electra": Family(sizes(embedding_size=16), "attention.output.dense", causal=False),
    "modernbert": Family(
        sizes(
            global_attn_every_n_layers=2,
            local_attention=8,
            bos_token_id=1,
            eos_token_id=2,
            cls_token_id=1,
            sep_token_id=2,
        ),
        "attn.Wo",
        causal=False,
    ),
    "gpt2": Family(
        sizes(n_embd=D_MODEL, n_layer=N_LAYERS, n_head=N_HEADS, n_positions=128), "attn.c_proj"
    ),
    "opt": Family(sizes(ffn_dim=48, word_embed_proj_dim=D_MODEL), "self_attn.out_proj"),
    "gpt_neox": Family(sizes(), "attention.dense"),
    "llama": Family(sizes(**GROUPED), "self_attn.o_proj"),
    "qwen2": Family(sizes(**GROUPED), "self_attn.o_proj"),
    "qwen3": Family(sizes(**GROUPED, head_dim=16), "self_attn.o_proj"),
    "mistral": Family(sizes(**GROUPED, sliding_window=6), "self_attn.o_proj"),
    "gemma2": Family(
        sizes(**GROUPED, head_dim=16, sliding_window=6, attn_logit_softcapping=2.0),
        "self_attn.o_proj",
    ),
    "phi3": Family(sizes(**GROUPED, bos_token_id=1, eos_token_id=2), "self_attn.o_proj"),
}


def family_model(name: str, n_words: int, kind: Any = AutoModel, seed: int = 0, **more: Any) -> Any:
    """A random model of the family, in evaluation mode; ``more`` goes into its configuration."""
    options: dict[str, Any] = FAMILIES[name].options | more
    config = AutoConfig.for_model(name, vocab_size=n_words, **options)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = kind.from_config(config)
        for parameter in model.parameters():  # biases and norms start at 0 and 1
            parameter.data.add_(0.05 * torch.randn_like(parameter))
    return model.eval()
