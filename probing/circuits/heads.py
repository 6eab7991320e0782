"""The key and value direction of an attention head, from its weights.

notation: x_cls, the state of [CLS] that the layer reads; g, the gradient of the logit difference
with respect to what the head writes
  key direction    W_K^T (W_Q x_cls + b_Q)   a token's score is its product with this direction
  value direction  (W_O W_V)^T g             effect on the logit difference of reading a token
Both are in the space of the states that the layer reads, as the probes' k_hat and v_hat are.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probing.arrays import FloatArray
from probing.states.anatomy import attention_layers, blocks_of
from probing.states.extraction import Readout
from probing.states.recording import evaluating
from probing.states.tokens import Tokens


@dataclass(frozen=True)
class Head:
    """The two directions (d,) of one attention head; layer and head are counted from 1."""

    layer: int
    head: int
    key: FloatArray
    value: FloatArray


def head_directions(model: Any, tokens: Tokens, readout: Readout | None = None) -> list[Head]:
    """The directions of every head of a BERT-like encoder, as means over sentences.

    g is the gradient of the logit difference of the classifier or, if given, of the ``readout``,
    back through every LayerNorm and MLP, summed over all tokens at which the head writes.
    """
    layers, heads = attention_layers(model), []
    reads, gradients = _run_backwards(model, tokens, readout)
    for number, layer in enumerate(layers):
        attention = layer.self
        n_heads, size = attention.num_attention_heads, attention.attention_head_size
        with torch.no_grad():
            query = attention.query(reads[number]).view(-1, n_heads, size)  # of x_cls
            keys = attention.key.weight.view(n_heads, size, -1)
            values = attention.value.weight.view(n_heads, size, -1)
            # Each head writes through its own columns of W_O.
            out = layer.output.dense.weight.view(-1, n_heads, size)
            key = torch.einsum("nhe,hed->hd", query, keys) / len(query)
            value = torch.einsum("nd,dhe,hef->hf", gradients[number], out, values) / len(query)
        pairs = zip(key.numpy(), value.numpy(), strict=True)
        heads += [Head(number + 1, head, *pair) for head, pair in enumerate(pairs, start=1)]
    return heads


def _run_backwards(
    model: Any, tokens: Tokens, readout: Readout | None
) -> tuple[list[Tensor], list[Tensor]]:
    """The [CLS] states that each layer reads, and g for each layer's attention output."""
    reads: list[Tensor] = []
    written: list[Tensor] = []

    def keep_read(module: Any, args: Any, kwargs: Any) -> None:
        states = args[0] if args else kwargs["hidden_states"]
        reads.append(states[:, 0].detach())

    def keep_written(module: Any, args: Any, output: Tensor) -> Tensor:
        output = output.detach().requires_grad_() if not output.requires_grad else output
        output.retain_grad()
        written.append(output)
        return output

    inputs = tokens.padded().inputs
    with ExitStack() as hooks, evaluating(model), torch.enable_grad():
        for block in blocks_of(model):
            hooks.enter_context(block.register_forward_pre_hook(keep_read, with_kwargs=True))
        for layer in attention_layers(model):
            hooks.enter_context(layer.output.dense.register_forward_hook(keep_written))
        if readout is None:
            logits = model(**inputs).logits
            value = logits[:, 1] - logits[:, 0]
        else:
            states = model.base_model(**inputs).last_hidden_state
            value = readout(states, tokens.site("all words"))
        gradients = torch.autograd.grad(value.sum(), written)
    seen = inputs["attention_mask"][:, :, None]
    return reads, [(gradient * seen).sum(1) for gradient in gradients]


def null_cosines(direction: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """|cosine| of the direction with n random directions of the same space, shape (n,)."""
    random = rng.standard_normal((n, len(direction)))
    norms = np.linalg.norm(random, axis=1) * np.linalg.norm(direction)
    return np.abs(random @ direction) / np.maximum(norms, 1e-300)
