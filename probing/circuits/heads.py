"""The key and value direction of an attention head, in any architecture.

Both are gradients in x, the state of a token as the layer reads it, so they lie in the space of
the probes' k_hat and v_hat:
  key direction    of the summary's score q . k(x) on the token, the query q held fixed
  value direction  of the readout through the token's value v(x) alone, the attention held fixed
In BERT keys and values are linear in x, and the directions are W_K^T (W_Q x_cls + b_Q) and
(W_O W_V)^T g, with g the gradient in what the head writes. Elsewhere norms and rotary positions
make them differ between tokens, and the directions are means. Scores are those before the division
by the root of the head's size.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probing.arrays import FloatArray, as_array
from probing.states.anatomy import read_by
from probing.states.attention import Call, attending
from probing.states.parts import blocks_of
from probing.states.readout import Readout
from probing.states.recording import evaluating, inputs_for
from probing.states.tokens import Tokens

MAX_TOKENS = 2048  # whose gradients are computed at once


@dataclass(frozen=True)
class Head:
    """The two directions (d,) of one attention head; layer and head are counted from 1."""

    layer: int
    head: int
    key: FloatArray
    value: FloatArray


def head_directions(model: Any, tokens: Tokens, readout: Readout | None = None) -> list[Head]:
    """The directions of every head, as means over sentences.

    The key direction is the mean over the words of a sentence; the value direction is the sum over
    all tokens, among which attention shares out a weight of 1. The readout is the logit difference
    of the classifier or, if given, ``readout``.

    >>> heads = head_directions(model, tokenise(tokenizer, dataset["train"].select(range(480))))
    >>> heads[0].layer, heads[0].head, heads[0].key.shape
    """
    tokens = read_by(model, tokens)
    n = max(1, MAX_TOKENS // int(tokens.lengths.max()))
    sums: Any = 0
    for first in range(0, len(tokens), n):
        part = tokens.take(np.arange(first, min(first + n, len(tokens))))
        sums = sums + np.stack(list(_layer_sums(model, part, readout)))
    return [
        Head(layer + 1, head + 1, *(sums[layer, :, head] / len(tokens)))
        for layer, head in np.ndindex(sums.shape[0], sums.shape[2])
    ]


def _layer_sums(model: Any, tokens: Tokens, readout: Readout | None) -> Iterator[FloatArray]:
    """For each layer, both directions of its heads (2, n_heads, d), summed over sentences."""
    calls: list[Call] = []
    with (
        evaluating(model),
        _inputs_of_blocks(model) as reads,
        attending(model, calls.append, weights=True),
        torch.enable_grad(),
    ):
        outputs = _logits(model, tokens, readout)
        written = [call.output for call in calls]
        # A readout of the summary alone does not depend on what a last layer writes elsewhere.
        writes = torch.autograd.grad(
            outputs.sum(), written, retain_graph=True, materialize_grads=True
        )
        for call, read, write in zip(calls, reads, writes, strict=True):
            scores, values = _scores(call, tokens), _values(call, write)
            yield np.stack([_gradients(scores, read), _gradients(values, read)])


def _logits(model: Any, tokens: Tokens, readout: Readout | None) -> Tensor:
    runner, inputs = model if readout is None else model.base_model, tokens.padded().inputs
    output = runner(**inputs_for(runner, inputs))
    if readout is None:
        return output.logits[:, 1] - output.logits[:, 0]
    return readout(output.last_hidden_state, tokens)


@contextmanager
def _inputs_of_blocks(model: Any) -> Iterator[list[Tensor]]:
    """A list that fills with the states that each block reads, as tensors with gradients."""
    reads: list[Tensor] = []

    def keep(module: Any, args: Any, kwargs: Any) -> Any:
        states = args[0] if args else kwargs["hidden_states"]
        if not states.requires_grad:  # the embeddings of a model whose weights are frozen
            states = states.detach().requires_grad_()
        reads.append(states)
        if args:
            return (states, *args[1:]), kwargs
        return args, kwargs | {"hidden_states": states}

    with ExitStack() as hooks:
        for block in blocks_of(model):
            hooks.enter_context(block.register_forward_pre_hook(keep, with_kwargs=True))
        yield reads


def _scores(call: Call, tokens: Tokens) -> Tensor:
    """The scores of each head (n_heads,): mean over words, sum over sentences."""
    device = call.query.device
    summary, words = (tokens.site(name).float().to(device) for name in ("summary", "all words"))
    query = torch.einsum("nq,nhqe->nhe", summary, call.query.detach().float())
    scores = torch.einsum("nhe,nhte->nht", query, call.per_head(call.key).float())
    return torch.einsum("nht,nt->h", scores, words / words.sum(1, keepdim=True))


def _values(call: Call, write: Tensor) -> Tensor:
    """The values that each head reads times their effect on the readout (n_heads,)."""
    if call.weights is None:
        raise ValueError("value directions need the weights of the attention")
    effect = torch.einsum("nhqt,nqhe->nhte", call.weights.detach().float(), write.float())
    return torch.einsum("nhte,nhte->h", effect, call.per_head(call.value).float())


def _gradients(by_head: Tensor, states: Tensor) -> FloatArray:
    """The gradient of each head's number in the states, summed over tokens, shape (n_heads, d)."""
    gradients = [
        torch.autograd.grad(each, states, retain_graph=True)[0].float().sum((0, 1))
        for each in by_head
    ]
    return as_array(torch.stack(gradients))


def abs_cosines(direction: FloatArray, others: FloatArray) -> FloatArray:
    """|cosine| of a direction (d,) with each of others (n, d), shape (n,)."""
    norms = np.linalg.norm(others, axis=1) * np.linalg.norm(direction)
    return np.abs(others @ direction) / np.maximum(norms, 1e-300)


def random_directions(
    d: int, n: int, rng: np.random.Generator, states: FloatArray | None = None
) -> FloatArray:
    """Normal directions (n, d): isotropic, or with the covariance of states (m, d).

    States vary most along few directions, and so do weights that were trained on them.
    """
    random = rng.standard_normal((n, d))
    if states is None:
        return random
    values, vectors = np.linalg.eigh(np.cov(np.asarray(states, dtype=float), rowvar=False))
    return np.asarray(random * np.sqrt(np.maximum(values, 0)) @ vectors.T)
