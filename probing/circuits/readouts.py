"""Readouts for a model without a classifier: fitted to labels, or two words of a language model."""

from dataclasses import replace
from typing import Any

import numpy as np

from probing.arrays import as_array
from probing.probes.linear import LinearProbe
from probing.states.anatomy import anatomy_of, read_by
from probing.states.extraction import read
from probing.states.limits import check_finite, check_lengths
from probing.states.readout import Readout
from probing.states.recording import recorded
from probing.states.tokens import Tokens

C = 1.0  # penalty of the fitted readout, in the raw space of the states, where edits are made


def linear_readout(model: Any, tokens: Tokens, site: str = "all words") -> Readout:
    """A linear probe of the labels, on the last states at a site.

    ``site`` is "all words" (their mean, as sentence encoders pool) or "summary".

    >>> readout = linear_readout(model, train_tokens)
    >>> read(model, test_tokens, readout).logits > 0
    """
    tokens = read_by(model, tokens)
    check_lengths(model, tokens)
    padded, mask = tokens.padded(), tokens.mask(site)
    with recorded(model) as record:
        states = as_array(padded.ragged(record(**padded.inputs).states[-1]))
    check_finite("the last layer", states, tokens)
    starts = tokens.offsets[:-1]
    means = (
        np.add.reduceat(states * mask[:, None], starts)
        / np.add.reduceat(mask, starts, dtype=states.dtype)[:, None]
    )
    probe = LinearProbe(C=C, standardize=False).fit(means, tokens.labels)
    return Readout(site, probe.coef_, float(probe.intercept_))


def word_readout(model: Any, tokenizer: Any, positive: str, negative: str) -> Readout:
    """What a language model says next: the logit of one word minus that of another.

    The logits are those at the summary token, before a cap that some models put on them (which
    leaves their order as it is). Required: a decoder with its language head, and words that are one
    token each within a text.

    >>> model, tokenizer = load_model("smollm2", head="language")
    >>> word_readout(model, tokenizer, "good", "bad")
    """
    if not anatomy_of(model).causal:
        raise ValueError(
            f"{type(model).__name__} is not a decoder; it does not say what comes next"
        )
    head = model.get_output_embeddings()
    if head is None:
        raise ValueError(f"{type(model).__name__} has no language head; load it with one")
    ids = []
    for word in (positive, negative):
        tokens = tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
        if len(tokens) != 1 or tokens[0] == tokenizer.unk_token_id:
            raise ValueError(f"{word!r} is not one token of the model; choose another word")
        ids += tokens
    if ids[0] == ids[1]:
        raise ValueError("the two words are the same token; choose two different words")
    weight, bias = head.weight, getattr(head, "bias", None)
    if weight.is_meta:
        raise ValueError("the language head is offloaded; load the model on fewer devices")
    coef = as_array(weight[ids[0]]) - as_array(weight[ids[1]])
    return Readout("summary", coef, 0.0 if bias is None else float(bias[ids[0]] - bias[ids[1]]))


def centred(readout: Readout, model: Any, tokens: Tokens) -> Readout:
    """The readout with an intercept that makes as many sentences positive as have label 1.

    A language model prefers one of two words whatever it has read; this takes the preference away.
    Of the labels only their shares are used, not which sentence has which.
    """
    logits = read(model, tokens, readout, states=False).logits
    middle = float(np.quantile(logits, np.mean(tokens.labels == 0)))
    return replace(readout, intercept=readout.intercept - middle)
