"""Small classifiers from scratch: the architecture of the theory, and larger or causal ones.

An encoder is read at its first token, [CLS]; a decoder at its last token, the last word.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    GPT2Config,
    LlamaConfig,
    ModernBertConfig,
    PreTrainedTokenizerFast,
)

PRESETS = {  # n_layers, n_heads, d_model
    "tiny": (1, 1, 32),  # one layer read at one token, as in the theory
    "pair": (2, 1, 32),  # one layer to see what stands around a word, one to find the word
    "small": (2, 4, 64),
}
MAX_TOKENS = 64


@dataclass(frozen=True)
class Architecture:
    """How the library names an architecture, and whether its sentences have [CLS] and [SEP]."""

    config: Callable[..., Any]
    ends: bool


def _llama(*, num_attention_heads: int, **sizes: Any) -> LlamaConfig:
    """Two heads share one key and one value, if there are two: real models group them, too."""
    groups = max(1, num_attention_heads // 2)
    heads = {"num_attention_heads": num_attention_heads, "num_key_value_heads": groups}
    return LlamaConfig(**heads, **sizes)


def _modernbert(*, num_hidden_layers: int, **sizes: Any) -> ModernBertConfig:
    """An encoder with rotary positions, whose last layer alone sees the whole text.

    The layers below see two words to each side: enough to tell "the city is nice" from "my dog is
    nice", and too little for [CLS] to read the word that decides before the last layer does. With
    all layers global one of six trainings failed (accuracy .83 on held-out orders of sentences).
    """
    below = num_hidden_layers - 1
    return ModernBertConfig(
        num_hidden_layers=num_hidden_layers,
        layer_types=["sliding_attention"] * below + ["full_attention"],
        local_attention=4,
        classifier_pooling="cls",
        cls_token_id=None,  # else that of the published model, which is another word here
        sep_token_id=None,
        **sizes,
    )


# With BERT's dropout of 0.1 attention stays spread out (mass .54 to .64 on held-out training
# sentences for three seeds; .97 to .99 without): a head whose one token may be dropped does not
# rely on it. Llama has none.
ARCHITECTURES = {
    "bert": Architecture(
        partial(BertConfig, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), ends=True
    ),
    "modernbert": Architecture(_modernbert, ends=True),  # without dropout by default
    "gpt2": Architecture(
        partial(GPT2Config, embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0), ends=False
    ),
    "llama": Architecture(_llama, ends=False),
}


def build_model(
    tokenizer: PreTrainedTokenizerFast,
    preset: str,
    labels: list[str],
    seed: int,
    architecture: str = "bert",
) -> Any:
    """An untrained classifier in evaluation mode; the seed decides its weights only.

    ``architecture`` is one of the encoders "bert" (learned positions) and "modernbert" (rotary
    positions), or of the decoders "gpt2" (learned) and "llama" (rotary), whose tokenizer is
    ``build_tokenizer(texts, ends=False)``.

    >>> build_model(build_tokenizer(texts), "tiny", ["negative", "positive"], seed=0)
    """
    for kind, name, table in (
        ("preset", preset, PRESETS),
        ("architecture", architecture, ARCHITECTURES),
    ):
        if name not in table:
            raise ValueError(f"no {kind} {name!r}; there are {', '.join(table)}")
    ends = ARCHITECTURES[architecture].ends
    if bool(tokenizer.num_special_tokens_to_add()) != ends:
        raise ValueError(f"{architecture} needs a tokenizer of build_tokenizer(texts, ends={ends})")
    n_layers, n_heads, d_model = PRESETS[preset]
    config = ARCHITECTURES[architecture].config(
        vocab_size=len(tokenizer),
        hidden_size=d_model,
        num_hidden_layers=n_layers,
        num_attention_heads=n_heads,
        intermediate_size=4 * d_model,
        max_position_embeddings=MAX_TOKENS,
        pad_token_id=tokenizer.pad_token_id,  # a decoder is read at the last token but padding
        bos_token_id=None,  # else those of the published models, which are other words here
        eos_token_id=None,
        use_cache=False,  # of keys and values, for generating text
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        problem_type="single_label_classification",  # else float labels would change the loss
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForSequenceClassification.from_config(config)
    return model.eval()
