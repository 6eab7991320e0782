"""A small random Llama, and a file of it in the format of llama.cpp."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFWriter, TokenType
from small_models import SPECIAL
from transformers import LlamaConfig, LlamaForCausalLM

TENSORS = {  # of a block: name in the file, name in the library
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def llama(tokenizer: Any, *, seed: int = 0) -> Any:
    """Four heads that share two keys and values, so that mixing them up is seen."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=48,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        initializer_range=0.3,  # states that differ visibly
        tie_word_embeddings=False,
    )
    torch.manual_seed(seed)
    return LlamaForCausalLM(config).eval()


def write_gguf(path: Path, model: Any, tokenizer: Any, *, leave_out: str = "") -> Path:
    """Write the model as llama.cpp's converter does, without the tensor ``leave_out``."""
    config = model.config
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    add_tokenizer(writer, tokenizer)
    for name, tensor in tensors(model):
        if name != leave_out:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tokenizer(writer: Any, tokenizer: Any) -> None:
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    kinds = [TokenType.CONTROL if word in SPECIAL else TokenType.NORMAL for word in words]
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_unk_token_id(tokenizer.unk_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)


def tensors(model: Any) -> list[tuple[str, Any]]:
    config, weights = model.config, model.state_dict()
    named = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
    for i in range(config.num_hidden_layers):
        for theirs, ours in TENSORS.items():
            named[f"blk.{i}.{theirs}.weight"] = f"model.layers.{i}.{ours}.weight"
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    pairs = []
    for theirs, ours in named.items():
        tensor, part = weights[ours].numpy(), theirs.split(".")[-2]
        pairs.append((theirs, permuted(tensor, heads[part]) if part in heads else tensor))
    return pairs


def permuted(weights: Any, n_heads: int) -> Any:
    """Llama.cpp rotates pairs of neighbours, the library the two halves of a head."""
    halves = weights.reshape(n_heads, 2, weights.shape[0] // n_heads // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weights.shape))
