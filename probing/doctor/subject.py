"""What the doctor examines, and the instruments: sentences run alone, distances, conditions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from probing.models.pretrained import untrained_like
from probing.sentences import draw
from probing.states.anatomy import foreign_hooks
from probing.states.extraction import extract
from probing.states.recording import Recording, recorded
from probing.states.tokens import States

if TYPE_CHECKING:
    from datasets import DatasetDict

SENTENCES_PER_SPLIT = 4


@dataclass(frozen=True)
class Patient:
    """What is examined: a model and its data, and the functions that all results go through.

    >>> Patient(*load_model("minilm"), build_dataset())
    """

    model: Any
    tokenizer: Any
    dataset: "DatasetDict"
    seed: int = 0
    extract: Callable[..., States] = extract
    untrained: Callable[[Any, int], Any] = untrained_like

    def sentences(self, per_split: int = SENTENCES_PER_SPLIT) -> list[dict[str, Any]]:
        """A few sentences of every split, so that they differ in length."""
        return [
            {**split[int(i)], "split": name}
            for name, split in self.dataset.items()
            for i in draw(len(split), per_split)
        ]

    def columns(self) -> dict[str, list[Any]]:
        """Texts and spans of those sentences."""
        rows = self.sentences()
        return {name: [row[name] for row in rows] for name in ("text", "span")}

    def run(self, model: Any = None, tokenizer: Any = None, **options: Any) -> States:
        """The states of those sentences, of this model and tokenizer unless others are given."""
        options = {"rows": self.columns(), "positions": ("tokens",)} | options
        return self.extract(model or self.model, tokenizer or self.tokenizer, **options)


def alone(patient: Patient, max_sentences: int | None = None) -> list[Recording]:
    """Each sentence run by itself, written as anyone would by hand."""
    recordings = []
    with recorded(patient.model) as record:
        for row in patient.sentences()[:max_sentences]:
            inputs = patient.tokenizer([row["text"]], return_tensors="pt", padding=False)
            recordings.append(record(**inputs))
    return recordings


def distance(one: Any, other: Any) -> float:
    """Largest difference, relative to the largest number."""
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape:
        return float("inf")
    return float(np.abs(one - other).max() / max(np.abs(one).max(), 1e-30))


def condition(model: Any) -> dict[str, Any]:
    """Everything about a model that a run may leave changed."""
    return {
        "hooks": len(list(foreign_hooks(model))),
        "modes": [module.training for module in model.modules()],
        "attention implementation": model.config._attn_implementation,
        "weights": {name: float(w.double().sum()) for name, w in model.state_dict().items()},
    }
