"""Some hundred sentences as one batch: tokenized once, run often, with other weights or edits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from data_gen import align_spans
from probing.sentences import informative_words, token_roles
from probing.states.recording import recorded

Readout = Callable[[Tensor, Tensor], Tensor]  # last states, mask of words -> one logit a sentence


@dataclass(frozen=True)
class TokenBatch:
    """Masks have shape (n, tokens)."""

    inputs: dict[str, Tensor]
    content: Tensor  # tokens of words: no padding, no special tokens
    informative: Tensor
    distractor: Tensor
    labels: np.ndarray  # (n,), 0 or 1, as the two below
    words: np.ndarray  # the informative word
    patterns: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def cls(self) -> Tensor:
        mask = torch.zeros_like(self.content)
        mask[:, 0] = True
        return mask

    @property
    def clusters(self) -> tuple[np.ndarray, np.ndarray]:
        return self.words, self.patterns


@dataclass(frozen=True)
class Run:
    states: tuple[Tensor, ...]  # n_layers + 1 of (n, tokens, d)
    attention: tuple[Tensor, ...]  # n_layers of (n, n_heads, tokens): that of [CLS]
    logits: np.ndarray  # (n,): of label 1 against label 0

    def mass(self, on: Tensor, layer: int) -> np.ndarray:
        """Per sentence, the attention of [CLS] on the tokens of a mask, a mean over heads."""
        weights = self.attention[layer - 1].mean(1)
        return np.asarray((weights * on).sum(1))


def prepare(tokenizer: Any, split: Any) -> TokenBatch:
    """Of a part of a dataset's split."""
    rows = split[:]
    found = align_spans(
        tokenizer,
        rows["text"],
        rows["span"],
        padding=True,
        padding_side="right",
        return_tensors="pt",
        return_special_tokens_mask=True,
    )
    inputs = dict(found.encoding)
    special = inputs.pop("special_tokens_mask").bool()
    inputs.pop("token_type_ids", None)
    content = inputs["attention_mask"].bool() & ~special
    informative, distractor = torch.zeros_like(content), torch.zeros_like(content)
    for i, tokens in enumerate(found.positions):
        informative[i, list(tokens)] = True
    flat = torch.tensor([role == "distractor" for role in token_roles(tokenizer, split)])
    distractor[inputs["attention_mask"].bool()] = flat
    return TokenBatch(
        inputs=inputs,
        content=content,
        informative=informative,
        distractor=distractor & content,
        labels=np.array(rows["label"]),
        words=np.array(informative_words(split)),
        patterns=np.array(rows["pattern"]),
    )


def run_batch(model: Any, batch: TokenBatch, readout: Readout | None = None) -> Run:
    """States, attention and logits of one pass, with whatever hooks the model has.

    The logits are a classifier's own or, if there is a ``readout``, what that makes of the last
    hidden states.
    """
    asked = {"output_hidden_states": True, "output_attentions": True}
    with recorded(model, attention=True):
        runner = model if readout is None else model.base_model
        output = runner(**batch.inputs, **asked)
        if readout is None:
            logits = output.logits[:, 1] - output.logits[:, 0]
        else:
            logits = readout(output.hidden_states[-1], batch.content)
    attention = tuple(layer[:, :, 0] for layer in output.attentions)
    return Run(tuple(output.hidden_states), attention, logits.numpy())
