"""Models and tokenizers of three families, with random weights and small enough for tests."""

from typing import Any

import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import Tensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

N_LAYERS, N_HEADS, D_MODEL = 2, 2, 16
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def wrap(tokenizer: Tokenizer) -> Any:
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id("[PAD]"), pad_token="[PAD]")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")


def wordpiece(texts: list[str]) -> Any:
    """As BERT's: lower case, punctuation apart, words cut into ##pieces."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    # A vocabulary too small for whole words.
    trainer = trainers.WordPieceTrainer(vocab_size=60, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    special = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=special
    )
    return wrap(tokenizer)


def byte_level(texts: list[str], *, trim_offsets: bool = True) -> Any:
    """As GPT-2's: no special tokens around, the space belongs to the token behind it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim_offsets)
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    return wrap(tokenizer)


def bert(n_words: int, model: Any = BertForSequenceClassification, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return model(
        BertConfig(
            vocab_size=n_words,
            hidden_size=D_MODEL,
            num_hidden_layers=N_LAYERS,
            num_attention_heads=N_HEADS,
            intermediate_size=32,
            initializer_range=0.3,  # states that differ visibly
        )
    )


def gpt2(n_words: int, model: Any = GPT2LMHeadModel) -> Any:
    torch.manual_seed(0)
    shape = {"n_embd": D_MODEL, "n_layer": N_LAYERS, "n_head": N_HEADS, "n_positions": 128}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return model(GPT2Config(vocab_size=n_words, initializer_range=0.3, **shape, **ends))


def roberta(n_words: int) -> Any:
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=n_words,
        hidden_size=D_MODEL,
        num_hidden_layers=N_LAYERS,
        num_attention_heads=N_HEADS,
        intermediate_size=32,
        initializer_range=0.3,
        pad_token_id=0,
        max_position_embeddings=128,
    )
    return RobertaModel(config)


def forward_rows(model: Any) -> list[int]:
    """A list that grows by the batch size at each run."""
    sizes: list[int] = []
    forward = model.base_model.forward

    def counting(*, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Any:
        sizes.append(len(input_ids))
        return forward(input_ids=input_ids, attention_mask=attention_mask, **options)

    model.base_model.forward = counting
    return sizes


def said(texts: Any, spans: Any) -> dict[str, Any]:
    """The columns that extraction needs."""
    return {"text": texts, "span": spans}


def same_weights(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
