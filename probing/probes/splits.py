"""The states of every split of a dataset, as probes need them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probing.arrays import FloatArray
from probing.progress import Progress
from probing.sentences import columns_of, draw, informative_words
from probing.states.extraction import extract
from probing.states.tokens import States, Tokens

if TYPE_CHECKING:
    from datasets import DatasetDict

POOLED = {"summary": "summary", "mean": "mean", "value": "informative"}  # probe: its states
HEADS = ("head", "max", "heads")  # fitted to labels alone, by descent: these take longest
TOKEN_PROBES = ("location", "reader", *HEADS)
PROBES = (*POOLED, *TOKEN_PROBES)
DEFAULT_PROBES = (*POOLED, "location", "reader", "head")


class SplitStates(NamedTuple):
    """The states of a split: pooled for all sentences, token by token for a sample of them."""

    pooled: States
    tokens: States  # special tokens left out

    def of(self, probe: str) -> States:
        """The states that this probe reads."""
        return self.pooled if probe in POOLED else self.tokens

    def at(self, layer: int, probe: str) -> tuple[FloatArray, Tokens]:
        """The states of one layer that this probe reads, with their tokens.

        Only these arrays are sent to another process.
        """
        states = self.of(probe)
        return states.at(layer, POOLED.get(probe, "tokens")), states.tokens

    @property
    def layers(self) -> range:
        """The numbers of all layers, from 0 (the embeddings)."""
        arrays = [*self.pooled.pooled.values(), self.tokens.layers]
        return range(arrays[0].shape[1])


def read_splits(
    model: Any,
    tokenizer: Any,
    dataset: "DatasetDict",
    *,
    probes: Sequence[str] = DEFAULT_PROBES,
    max_token_sentences: int = 1536,
    progress: Progress | None = None,
) -> dict[str, SplitStates]:
    """The states of every split that ``probes`` need, by split; each sentence is run once.

    States of single tokens are kept for at most ``max_token_sentences`` sentences per split.
    ``progress(done, total)`` counts splits.

    >>> states = read_splits(model, tokenizer, dataset, probes=("summary", "reader"))
    >>> states["test"].of("reader").at(3)
    """
    positions = tuple(POOLED[probe] for probe in probes if probe in POOLED)
    with_tokens = (*positions, "tokens") if set(probes) & set(TOKEN_PROBES) else positions
    splits: dict[str, SplitStates] = {}
    for name, split in dataset.items():
        rows, n = columns_of(split), len(split)
        drawn = draw(n, max_token_sentences)
        remaining = np.setdiff1d(np.arange(n), drawn)
        sample = extract(model, tokenizer, split.select(drawn), positions=with_tokens)
        pooled = sample.pooled
        if positions and len(remaining):
            rest = extract(model, tokenizer, split.select(remaining), positions=positions).pooled
            order = np.argsort(np.concatenate([drawn, remaining]))
            pooled = {key: np.concatenate([pooled[key], rest[key]])[order] for key in positions}
        sentences = Tokens(  # one token per sentence: its pooled state
            offsets=np.arange(n + 1),
            informative=np.ones(n, dtype=bool),
            labels=rows["label"],
            words=informative_words(rows),
            patterns=rows["pattern"],
        )
        sample = replace(sample, pooled={}).words_only()
        splits[name] = SplitStates(States(sentences, pooled=pooled), sample)
        if progress:
            progress(len(splits), len(dataset))
    return splits
