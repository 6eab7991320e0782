"""A table of bad models: what is done to a small BERT classifier, and what the error says."""

import os
from typing import Any

import hostile_models as h
import torch

DEEP = "[" * 100_000
LAYER = "encoder.layer.1."
NOT_SIZES: list[Any] = [1.5, "12", None, True, -4, 0, float("nan"), float("inf"), [2], {}]
SIZES = ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"]

# What is done to a small BERT classifier, and what the line says.
CONFIGS: dict[str, tuple[h.Damage, str]] = {
    "a list": (h.raw("config.json", b"[1, 2]"), "not a JSON object"),
    "a string": (h.raw("config.json", b'"bert"'), "not a JSON object"),
    "null": (h.raw("config.json", b"null"), "not a JSON object"),
    "not JSON": (h.raw("config.json", b"{model_type: bert}"), "is not JSON"),
    "half": (h.cut("config.json", 0.5), "is not JSON"),
    "empty": (h.raw("config.json", b""), "is empty"),
    "not text": (h.raw("config.json", b"\xff\xfe{}"), "is not JSON"),
    "deep": (h.raw("config.json", DEEP.encode()), "nested too deeply"),
    "a number of 5 000 digits": (
        h.raw("config.json", b'{"x": ' + b"9" * 5000 + b"}"),
        "is not JSON",
    ),
    "20 MB": (h.raw("config.json", b" " * 20_000_000), "at most"),
    "gone": (h.gone("config.json"), "has no config.json"),
    "an empty object": (h.raw("config.json", b"{}"), "model_type"),
    "no type": (h.without("model_type"), "model_type"),
    "type of a wrong type": (h.config(model_type=["bert"]), "model_type"),
    "type null": (h.config(model_type=None), "model_type"),
    "a config within": (h.config(text_config={"hidden_size": 5}), "no config within"),
    "a list within": (h.config(text_config=[3]), "no config within"),
    "an unknown type": (h.config(model_type="zebra"), "zebra"),
    "a long type": (h.config(model_type="z" * 10_000), "model_type"),
    "a type with lines": (h.config(model_type="a\nb\x1b[31m"), "model_type"),
    **{
        kind: (h.config(model_type=kind), f"{kind} is not an encoder or decoder of text alone")
        for kind in (
            "vit",
            "clip",
            "wav2vec2",
            "llava",
            "siglip",
            "musicgen",
            "perceiver",
            "bark",
            "timesfm",
        )
    },
    **{
        kind: (h.config(model_type=kind), "an encoder and a decoder")
        for kind in ("t5", "bart", "marian", "whisper")
    },
    "remote code": (h.config(model_type="mine", auto_map={"AutoModel": "code.Model"}), "mine"),
    "BERT that says it has both": (h.config(is_encoder_decoder=True), "an encoder and a decoder"),
    "an attention of the hub": (h.config(_attn_implementation="org/kernel"), "remove it"),
    "an attention of the hub, without _": (h.config(attn_implementation="a/b@main:c"), "remove it"),
    "flash attention": (h.config(_attn_implementation="flash_attention_2"), "remove it"),
    "flex attention": (h.config(attn_implementation="flex_attention"), "remove it"),
    "internal attention": (h.config(_attn_implementation_internal="x/y"), "remove it"),
    "attention per part": (h.config(attn_implementation={"": "a/b"}), "remove it"),
    "attention of a part": (h.config(text_config={"_attn_implementation": "a/b"}), "remove it"),
    "attention 5": (h.config(_attn_implementation=5), "remove it"),
    "attention [ ]": (h.config(_attn_implementation=["eager"]), "remove it"),
    "experts of the hub": (h.config(experts_implementation="a/b"), "remove it"),
    **{
        f"quantised by {method}": (
            h.config(quantization_config={"quant_method": method}),
            "quantised",
        )
        for method in ("gptq", "awq", "bitsandbytes", "fp8", "nonsense")
    },
    "quantised by a number": (h.config(quantization_config=4), "quantised"),
    "other files": (h.config(configuration_files=["../config.4.0.0.json"]), "leads to other files"),
    "other weights": (h.config(transformers_weights="../w.safetensors"), "leads to other files"),
    "fused": (h.config(fusion_config={"patch_embeddings": True}), "leads to other files"),
    "a method": (h.config(to_dict="x"), "a method"),
    "10^6 layers": (h.config(num_hidden_layers=10**6), "num_hidden_layers"),
    "90 000 layers": (h.config(num_hidden_layers=90_000), "90000 layers"),
    "10^10 labels": (h.config(num_labels=10**10), "num_labels"),
    "10^400 labels": (h.config(num_labels=10**400), "num_labels"),
    "10^9 words": (h.config(vocab_size=10**9), "words of width"),
    "width 10^9": (h.config(hidden_size=10**9), "width"),
    "inner width 10^8": (h.config(intermediate_size=10**8), "widths"),
    "10^12 positions": (h.config(max_position_embeddings=10**12), "positions"),
    "600 positions": (h.config(max_position_embeddings=600), "positions"),
    "one layer less": (h.config(num_hidden_layers=1), "does not fit its weights.*layer.1"),
    "one layer more": (h.config(num_hidden_layers=3), "not complete.*layer.2"),
    "another inner width": (h.config(intermediate_size=40), "does not fit the shapes of"),
    "another width": (h.config(hidden_size=16), "does not fit the shapes of"),
    "heads that do not divide": (h.config(num_attention_heads=5), "."),
    **{
        f"{field} {value!r}": (h.config(**{field: value}), field)
        for field in SIZES
        for value in NOT_SIZES
    },
    "an epsilon that is not a number": (h.config(layer_norm_eps=float("nan")), "layer_norm_eps"),
    "an infinite epsilon": (h.config(layer_norm_eps=float("inf")), "layer_norm_eps"),
    "an epsilon in words": (h.config(layer_norm_eps="small"), "layer_norm_eps"),
    "an unknown activation": (h.config(hidden_act="zelu"), "zelu"),
    "an activation 4": (h.config(hidden_act=4), "hidden_act"),
    "padding in words": (h.config(pad_token_id="none"), "pad_token_id"),
    "padding beyond": (h.config(pad_token_id=10**6), "."),
    "labels 5": (h.config(id2label=5), "."),
    "labels in a list": (h.config(id2label=["a", "b"]), "."),
    "labels by words": (h.config(id2label={"a": "b"}), "."),
    "dropout in words": (h.config(hidden_dropout_prob="much"), "hidden_dropout_prob"),
    "dropout 7": (h.config(hidden_dropout_prob=7.0), "."),
    "a negative epsilon": (h.config(layer_norm_eps=-1e-5), "layer_norm_eps"),
    "a rotation divided by 0": (
        h.config(rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 0.0}),
        "factor",
    ),
    "a weight under its older name as well": (
        h.twice("LayerNorm.weight", "LayerNorm.gamma"),
        "two tensors for one weight",
    ),
    "a weight without the prefix as well": (h.twice("bert.", ""), "two tensors for one weight"),
    "a dtype that is not one": (h.config(dtype="float33"), "."),
    "no types of tokens": (h.config(type_vocab_size=0), "."),
    "an adapter": (h.raw("adapter_config.json", b"{}"), "adapter"),
}

WEIGHTS: dict[str, tuple[h.Damage, str]] = {
    "empty file": (h.raw(h.WEIGHTS, b""), "is empty"),
    "zeros": (h.raw(h.WEIGHTS, bytes(1000)), "damaged"),
    "garbage": (h.raw(h.WEIGHTS, b"garbage"), "holds no model.*damaged"),
    "a pickle": (h.raw(h.WEIGHTS, b"\x80\x04\x95" + bytes(100)), "damaged"),
    "a zip": (h.raw(h.WEIGHTS, b"PK\x03\x04" * 100), "damaged"),
    **{
        f"cut at {share}": (h.cut(h.WEIGHTS, share), "damaged")
        for share in (0.001, 0.02, 0.5, 0.999)
    },
    "a huge header": (h.header(dict, length=2**62), "damaged"),
    "a header of 99 MB": (h.header(dict, length=99_000_000), "damaged"),
    "a header of 0": (h.header(dict, length=0), "damaged"),
    "overlap": (h.entry(data_offsets=[0, 4]), "damaged"),
    "beyond the end": (h.entry(data_offsets=[0, 10**12]), "damaged"),
    "negative": (h.entry(data_offsets=[-4, 4]), "damaged"),
    "a shape that overflows": (h.entry(shape=[2**40, 2**40]), "damaged"),
    "a shape in words": (h.entry(shape="large"), "damaged"),
    "another shape": (h.entry(shape=[1, 1]), "damaged"),
    "an unknown type": (h.entry(dtype="F99"), "damaged"),
    "another type": (h.entry(dtype="I32"), "quantised"),
    "no tensors": (h.tensors(lambda _: {}), "0 tensors"),
    "integers": (h.tensors(lambda w: {k: v.to(torch.int8) for k, v in w.items()}), "quantised"),
    "one bias of integers": (h.retyped("LayerNorm.bias", torch.int64), "stored as I64"),
    "one bias of bits": (h.retyped("LayerNorm.bias", torch.bool), "stored as BOOL"),
    "one complex bias": (h.retyped("LayerNorm.bias", torch.complex64), "stored as C64"),
    "float8": (
        h.tensors(lambda w: {k: v.to(torch.float8_e4m3fn) for k, v in w.items()}),
        "quantised",
    ),
    "all renamed": (h.tensors(lambda w: {f"x.{k}": v for k, v in w.items()}), "not complete"),
    "all numbered": (
        h.tensors(lambda w: {str(i): v for i, v in enumerate(w.values())}),
        "not complete",
    ),
    "no layer 1": (h.lacking(LAYER), "not complete.*layer.1"),
    "no norm": (h.lacking("layer.0.output.LayerNorm"), "not complete.*LayerNorm"),
    "no bias": (h.lacking("layer.0.output.LayerNorm.bias"), "not complete.*LayerNorm.bias"),
    "no embeddings": (h.lacking("embeddings."), "not complete.*embeddings"),
    "no words": (h.lacking("word_embeddings"), "not complete.*word_embeddings"),
    "no positions": (h.lacking("position_embeddings"), "not complete.*position_embeddings"),
    "the head alone": (h.lacking("bert."), "not complete"),
    "a seventh layer": (
        h.tensors(lambda w: w.update({"bert.encoder.layer.7.x": torch.ones(2)})),
        "does not fit.*layer.7",
    ),
    "a norm that is not used": (
        h.tensors(
            lambda w: w.update({"bert.encoder.layer.0.attention.self.q_norm.weight": torch.ones(4)})
        ),
        "does not fit.*q_norm",
    ),
    "words transposed": (
        h.tensors(lambda w: {k: v.T.contiguous() if "word_emb" in k else v for k, v in w.items()}),
        ".",
    ),
    "a row less": (
        h.tensors(lambda w: {k: v[:-1] if "word_emb" in k else v for k, v in w.items()}),
        ".",
    ),
    "a scalar": (
        h.tensors(lambda w: {k: v.sum() if "word_emb" in k else v for k, v in w.items()}),
        ".",
    ),
    "no rows": (
        h.tensors(lambda w: {k: v[:0] if "word_emb" in k else v for k, v in w.items()}),
        ".",
    ),
    "nan": (
        h.one_number("layer.0.output.dense.weight", float("nan")),
        "layer.0.output.dense.weight.*not a number",
    ),
    "infinite": (h.one_number("word_embeddings", float("-inf")), "word_embeddings.*infinite"),
    "an infinite bias": (h.one_number("layer.1.intermediate.dense.bias", float("inf")), "infinite"),
    "huge": (
        h.tensors(
            lambda w: {k: v * 0 + 3e38 if "LayerNorm.weight" in k else v for k, v in w.items()}
        ),
        "infinite",
    ),
    "none": (h.gone(h.WEIGHTS), "neither model.safetensors nor"),
    "a pickle alone": (h.both(h.gone(h.WEIGHTS), h.raw("pytorch_model.bin", b"x")), "can run code"),
    "a sharded pickle": (
        h.both(
            h.gone(h.WEIGHTS),
            h.raw("pytorch_model.bin.index.json", b"{}"),
            h.raw("pytorch_model-00001-of-00001.bin", b"x"),
        ),
        "can run code",
    ),
    "shards of devices beside it": (
        h.raw("shard-00000-model-00001-of-00001.safetensors", b"x"),
        "per device",
    ),
    "shards of another kind": (
        h.both(h.gone(h.WEIGHTS), h.raw("shard-00000-model-00001-of-00001.safetensors", b"x")),
        "per device",
    ),
}

FILES: dict[str, tuple[h.Damage, str]] = {
    f"{what} for {file}": (h.instead(file, make), "not an ordinary file|cannot be read")
    for file in ("config.json", h.WEIGHTS, "tokenizer.json", "tokenizer_config.json")
    for what, make in {
        "a pipe": h.a_pipe,
        "a folder": h.a_folder,
        "a socket": h.a_socket,
        "/dev/zero": h.link_to("/dev/zero"),
        "a broken link": h.link_to("nowhere"),
        "a loop": h.link_to(file),
    }.items()
} | {
    "/proc for config.json": (h.instead("config.json", h.link_to("/proc/self/mem")), "is empty"),
    "a pipe for a file that is not used": (
        h.instead("generation_config.json", os.mkfifo),
        "a pipe",
    ),
    "a pipe for a vocabulary": (h.instead("vocab.txt", os.mkfifo), "a pipe"),
    "a pipe for an index": (h.instead(h.INDEX, os.mkfifo), "a pipe"),
    "a link to a pipe": (
        h.both(h.instead("x", os.mkfifo), h.instead("config.json", h.link_to("x"))),
        "a pipe",
    ),
}

SHARDS: dict[str, tuple[h.Damage, str]] = {
    "to a pickle": (h.all_shards("pytorch_model.bin"), "same folder"),
    "outside": (h.all_shards("../other.safetensors"), "same folder"),
    "absolute": (h.all_shards("/etc/x.safetensors"), "same folder"),
    "into a folder": (h.all_shards("sub/x.safetensors"), "same folder"),
    "to the hub": (h.all_shards("hf://org/model/x.safetensors"), "same folder"),
    "to nothing": (h.all_shards(""), "same folder"),
    "to a number": (h.all_shards(5), "same folder"),
    "to a list": (h.all_shards(["a.safetensors"]), "same folder"),
    "to a null byte": (h.all_shards("a\0.safetensors"), "same folder"),
    "to one that is missing": (h.all_shards("model-3.safetensors"), "cannot be read"),
    "all to the first": (h.all_shards(h.FIRST), "lacks"),
    "a shard less": (h.gone(h.SECOND), "cannot be read"),
    "a shard cut": (h.cut(h.SECOND, 0.5), "damaged"),
    "a map that is a list": (h.index(weight_map=[1]), "weight_map"),
    "an empty map": (h.index(weight_map={}), "weight_map"),
    "no map": (h.without("weight_map", file=h.INDEX), "weight_map"),
    "no metadata": (h.without("metadata", file=h.INDEX), "."),
    "an index that is a list": (h.raw(h.INDEX, b"[]"), "not a JSON object"),
    "an index that is not JSON": (h.raw(h.INDEX, b"{"), "is not JSON"),
    "a pipe for a shard": (h.instead(h.FIRST, os.mkfifo), "a pipe"),
}

TOKENIZERS: dict[str, tuple[h.Damage, str]] = {
    "a list": (h.raw("tokenizer.json", b"[]"), "."),
    "not JSON": (h.raw("tokenizer.json", b"{"), "."),
    "an empty object": (h.raw("tokenizer.json", b"{}"), "."),
    "null": (h.raw("tokenizer.json", b"null"), "."),
    "not text": (h.raw("tokenizer.json", b"\xff\xfe"), "."),
    "deep": (h.raw("tokenizer.json", DEEP.encode()), "."),
    "none": (h.gone("tokenizer.json"), "."),
    "no tokenizer at all": (h.gone("tokenizer.json", "tokenizer_config.json"), "."),
    "an unknown normaliser": (h.tokenizer("normalizer", value={"type": "Zebra"}), "."),
    "a normaliser 5": (h.tokenizer("normalizer", value=5), "."),
    "a normaliser with a bad expression": (
        h.tokenizer(
            "normalizer", value={"type": "Replace", "pattern": {"Regex": "("}, "content": ""}
        ),
        ".",
    ),
    "an unknown splitter": (h.tokenizer("pre_tokenizer", value={"type": "Zebra"}), "."),
    "an unknown end": (h.tokenizer("post_processor", value={"type": "Zebra"}), "."),
    "an unknown decoder": (h.tokenizer("decoder", value={"type": "Zebra"}), "."),
    "an unknown model": (h.tokenizer("model", value={"type": "Zebra", "vocab": {}}), "."),
    "no model": (h.tokenizer("model", value=None), "."),
    "a model that is a list": (h.tokenizer("model", value=[]), "."),
    "words in a list": (h.tokenizer("model", "vocab", value=["a"]), "."),
    "words 5": (h.tokenizer("model", "vocab", value=5), "."),
    "no words": (h.tokenizer("model", "vocab", value={}), "."),
    "words by numbers": (h.tokenizer("model", "vocab", value={"a": "b"}), "."),
    "negative numbers": (h.tokenizer("model", "vocab", value={"[UNK]": -1, "the": -2}), "."),
    "numbers of 2^40": (h.tokenizer("model", "vocab", value={"[UNK]": 2**40}), "."),
    "numbers beyond the table": (h.tokenizer("model", "vocab", "the", value=5000), "5000"),
    "one number beyond": (h.tokenizer("model", "vocab", "new", value=25), "25"),
    "special words alone": (
        h.tokenizer(
            "model", "vocab", value={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
        ),
        "has no words",
    ),
    "no unknown word": (h.tokenizer("model", "unk_token", value="<nowhere>"), "."),
    "unknown word 5": (h.tokenizer("model", "unk_token", value=5), "."),
    "everything is one word": (
        h.tokenizer(
            "normalizer", value={"type": "Replace", "pattern": {"Regex": ".+"}, "content": "x"}
        ),
        "own vocabulary",
    ),
    "other letters": (
        h.tokenizer(
            "normalizer", value={"type": "Replace", "pattern": {"Regex": "[a-z]"}, "content": "Z"}
        ),
        "own vocabulary",
    ),
    "added tokens 5": (h.tokenizer("added_tokens", value=5), "."),
    "added tokens of words": (h.tokenizer("added_tokens", value=["a"]), "."),
    "an end beyond the table": (
        h.tokenizer("post_processor", "special_tokens", "[CLS]", "ids", value=[999]),
        "999",
    ),
    "version 9": (h.tokenizer("version", value="9.0"), "."),
    "settings in a list": (h.raw("tokenizer_config.json", b"[]"), "not a JSON object"),
    "settings that are not JSON": (h.raw("tokenizer_config.json", b"{"), "is not JSON"),
    "a class 5": (h.tokenizer_config(tokenizer_class=5), "tokenizer_class"),
    "a class in a list": (h.tokenizer_config(tokenizer_class=["x"]), "tokenizer_class"),
    "a class of characters": (h.tokenizer_config(tokenizer_class="ByT5Tokenizer"), "."),
    "other files": (h.tokenizer_config(fast_tokenizer_files=["../t.json"]), "leads to other files"),
    "length in words": (h.tokenizer_config(model_max_length="512"), "model_max_length"),
    "length 0": (h.tokenizer_config(model_max_length=0), "model_max_length"),
    "length nan": (h.tokenizer_config(model_max_length=float("nan")), "model_max_length"),
    "length true": (h.tokenizer_config(model_max_length=True), "model_max_length"),
    "an unknown word 5": (h.tokenizer_config(unk_token=5), "."),
    "an unknown word in a list": (h.tokenizer_config(unk_token=["x"]), "."),
    "a pad token that is not there": (h.tokenizer_config(pad_token="<none>"), "<none>"),
    "a side": (h.tokenizer_config(padding_side="up"), "."),
    "code in words": (h.tokenizer_config(auto_map="x", tokenizer_class="Mine"), "."),
    "added settings": (h.tokenizer_config(added_tokens_decoder={"x": 5}), "."),
}

TABLE = {
    f"{kind}: {what}": case
    for kind, cases in {
        "config": CONFIGS,
        "weights": WEIGHTS,
        "file": FILES,
        "shards": SHARDS,
        "tokenizer": TOKENIZERS,
    }.items()
    for what, case in cases.items()
}
