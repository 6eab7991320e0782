"""The states of every split of a dataset, as probes want them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probing.arrays import FloatArray
from probing.progress import Progress
from probing.sentences import draw
from probing.states.extraction import extract
from probing.states.tokens import States, Tokens, joined

if TYPE_CHECKING:
    from datasets import DatasetDict

POOLED = {"cls": "cls", "mean": "mean", "value": "informative"}  # probe: position of its states
TOKEN_PROBES = ("location", "reader", "head")
PROBES = (*POOLED, *TOKEN_PROBES)


class SplitStates(NamedTuple):
    """The states of a split: pooled for every sentence, token by token for some of them."""

    pooled: States
    tokens: States  # special tokens left out

    def of(self, probe: str) -> States:
        """What this probe sees."""
        return self.pooled if probe in POOLED else self.tokens


def read_splits(
    model: Any,
    tokenizer: Any,
    dataset: DatasetDict,
    *,
    probes: Sequence[str] = PROBES,
    max_token_sentences: int = 1200,
    progress: Progress | None = None,
) -> dict[str, SplitStates]:
    """Run the model over every split, each sentence once. Token states are kept of a part only.

    ``progress(done, of)`` counts splits.
    """
    positions = tuple(POOLED[probe] for probe in probes if probe in POOLED)
    with_tokens = (*positions, "tokens") if set(probes) & set(TOKEN_PROBES) else positions
    splits: dict[str, SplitStates] = {}
    for name, split in dataset.items():
        drawn = draw(len(split), max_token_sentences)
        others = np.setdiff1d(np.arange(len(split)), drawn)
        some = extract(model, tokenizer, split.select(drawn), positions=with_tokens)
        pooled = replace(some, layers=None)
        if positions and len(others):
            rest = extract(model, tokenizer, split.select(others), positions=positions)
            pooled = States(
                joined([some.tokens, rest.tokens]),
                pooled={
                    key: np.concatenate([some.pooled[key], rest.pooled[key]]) for key in positions
                },
            ).take(np.argsort(np.concatenate([drawn, others])))
        splits[name] = SplitStates(pooled, replace(some, pooled={}).words_only())
        if progress:
            progress(len(splits), len(dataset))
    return splits


def at_layer(split: SplitStates, layer: int, probe: str) -> tuple[FloatArray, Tokens]:
    """What one probe needs of a split, no more: this is what goes to another process."""
    states = split.of(probe)
    return states.at(layer, POOLED.get(probe, "tokens")), states.tokens


def n_states(split: SplitStates) -> int:
    """How many layers there are, with the embeddings."""
    return split.tokens.n_states if split.tokens.layers is not None else split.pooled.n_states
