"""The states of every split of a dataset, as probes need them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from probing.arrays import FloatArray
from probing.progress import Progress
from probing.sentences import columns_of, draw, informative_words
from probing.states.extraction import extract
from probing.states.store import stored_dtype
from probing.states.tokens import Rows, States, Tokens

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

POOLED = {"summary": "summary", "mean": "mean", "value": "informative"}  # probe: its states
HEADS = ("head", "max", "heads")  # fitted to labels alone, by descent: these take longest
TOKEN_PROBES = ("location", "reader", *HEADS)
PROBES = (*POOLED, *TOKEN_PROBES)
DEFAULT_PROBES = (*POOLED, "location", "reader", "head")


def check_probes(probes: Sequence[str]) -> None:
    """Refuse names that are not those of probes."""
    if isinstance(probes, str):
        raise ValueError(f"probes is a list of names; write [{probes!r}]")
    if unknown := [name for name in probes if name not in PROBES]:
        raise ValueError(f"no probe {unknown[0]!r}; there are {', '.join(PROBES)}")


class SplitStates(NamedTuple):
    """The states of a split: pooled for all sentences, token by token for a sample of them."""

    pooled: States
    tokens: States  # special tokens left out

    def of(self, probe: str) -> States:
        """The states that this probe reads."""
        check_probes([probe])
        return self.pooled if probe in POOLED else self.tokens

    def at(self, layer: int, probe: str) -> tuple[FloatArray, Tokens]:
        """The states of one layer that this probe reads, with their tokens."""
        states = self.of(probe)
        return states.at(layer, POOLED.get(probe, "tokens")), states.tokens

    def only(self, layer: int, probe: str) -> "SplitStates":
        """Only what ``at`` needs for this layer and probe: what another process gets."""
        states = self.of(probe).only(layer, POOLED.get(probe, "tokens"))
        return SplitStates(states, states)

    @property
    def layers(self) -> list[int]:
        """The numbers of all layers, from 0 (the embeddings)."""
        return self.pooled.layers or self.tokens.layers


def read_splits(
    model: Any,
    tokenizer: Any,
    dataset: "DatasetDict",
    *,
    probes: Sequence[str] = DEFAULT_PROBES,
    layers: Sequence[int] | None = None,
    max_token_sentences: int = 1536,
    max_tokens_per_batch: int = 1024,
    folder: str | Path | None = None,
    storage_dtype: Literal["float32", "bfloat16"] | None = None,
    progress: Progress | None = None,
) -> dict[str, SplitStates]:
    """The states of every split that ``probes`` need, by split; each sentence is run once.

    States of single tokens are kept for at most ``max_token_sentences`` sentences per split. With a
    ``folder`` the states are kept there, and read from there if they were extracted before; this
    and other parameters are those of ``extract``. ``progress(done, total)`` counts sentences.

    >>> states = read_splits(model, tokenizer, dataset, probes=("summary", "reader"))
    >>> states["test"].at(3, "reader")
    """
    check_probes(probes)
    positions = tuple(POOLED[probe] for probe in probes if probe in POOLED)
    with_tokens = (*positions, "tokens") if set(probes) & set(TOKEN_PROBES) else positions
    options: dict[str, Any] = {"layers": layers, "max_tokens_per_batch": max_tokens_per_batch}
    if folder:
        options["storage_dtype"] = storage_dtype or stored_dtype(Path(folder))
    total, done = sum(len(split) for split in dataset.values()), 0

    def run(part: "Dataset", positions: Sequence[str], *names: str) -> States:
        nonlocal done

        def count(n: int, _: int) -> None:
            if progress:
                progress(done + n, total)

        options.update(folder=Path(folder, *names) if folder else None, progress=count)
        states = extract(model, tokenizer, part, positions=positions, **options)
        done += len(part)
        return states

    splits: dict[str, SplitStates] = {}
    for name, split in dataset.items():
        rows, n = columns_of(split), len(split)
        drawn = draw(n, max_token_sentences)
        remaining = np.setdiff1d(np.arange(n), drawn)
        sample = run(split.select(drawn), with_tokens, name, "sample")
        parts, order = [sample.hidden], np.argsort(np.concatenate([drawn, remaining]))
        if positions and len(remaining):
            parts.append(run(split.select(remaining), positions, name, "rest").hidden)
        pooled = Rows(parts, dict.fromkeys(positions, order))
        sentences = Tokens(  # one token per sentence: its pooled state
            offsets=np.arange(n + 1),
            informative=np.ones(n, dtype=bool),
            labels=rows["label"],
            words=informative_words(rows),
            patterns=rows["pattern"],
        )
        splits[name] = SplitStates(States(sentences, pooled), sample.words_only())
    if progress:
        progress(total, total)
    return splits
