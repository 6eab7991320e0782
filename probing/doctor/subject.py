"""The doctor's subject, and what checks measure with: unbatched runs, distances, conditions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from probing.arrays import FloatArray, as_array
from probing.models.pretrained import untrained_like
from probing.sentences import draw
from probing.states.anatomy import anatomy_of
from probing.states.extraction import extract
from probing.states.parts import foreign_hooks
from probing.states.recording import Recording, evaluating, inputs_for, recorded
from probing.states.tokens import States

if TYPE_CHECKING:
    from datasets import DatasetDict

SENTENCES_PER_SPLIT = 4
TOLERANCE = 1e-4  # relative to the largest state; sums in another order differ by about 1e-6


@dataclass(frozen=True)
class Patient:
    """A model and its data, and the functions under test that all results come from.

    >>> Patient(*load_model("minilm"), build_dataset())
    """

    model: Any
    tokenizer: Any
    dataset: "DatasetDict"
    seed: int = 0
    extract: Callable[..., States] = extract
    untrained: Callable[[Any, int], Any] = untrained_like

    @property
    def tolerance(self) -> float:
        """The largest difference that another order of sums can make in the model's precision."""
        eps = torch.finfo(self.model.dtype).eps
        return TOLERANCE if eps < TOLERANCE / 8 else 8 * eps

    def sentences(self, per_split: int = SENTENCES_PER_SPLIT) -> list[dict[str, Any]]:
        """``per_split`` sentences of every split (so that lengths differ), as rows."""
        return [
            {**split[int(i)], "split": name}
            for name, split in self.dataset.items()
            for i in draw(len(split), per_split)
        ]

    def ends(self) -> list[dict[str, Any]]:
        """The longest and the shortest sentence of the training split, as rows."""
        train = self.dataset["train"]
        sizes = [len(text) for text in train["text"][:]]
        return [train[int(i)] for i in (np.argmax(sizes), np.argmin(sizes))]

    @property
    def takes_causal_tests(self) -> bool:
        """Whether causal tests read the model's own classifier: the data have two labels.

        For data with more labels there are no causal tests, whatever the classifier.
        """
        classifies = "SequenceClassification" in type(self.model).__name__
        return classifies and len(set(self.dataset["train"]["label"][:])) == 2

    def columns(self) -> dict[str, list[Any]]:
        """The texts and spans of ``sentences()``."""
        rows = self.sentences()
        return {name: [row[name] for row in rows] for name in ("text", "span")}

    def run(self, model: Any = None, tokenizer: Any = None, **options: Any) -> States:
        """The states of ``sentences()``, by this model and tokenizer unless others are given."""
        options = {"rows": self.columns(), "positions": ("tokens",)} | options
        return self.extract(model or self.model, tokenizer or self.tokenizer, **options)


def alone(patient: Patient, rows: list[dict[str, Any]]) -> list[Recording]:
    """Recordings of sentences run one by one, without our batching: the reference for checks."""
    recordings = []
    with recorded(patient.model) as record:
        for row in rows:
            inputs = patient.tokenizer([row["text"]], return_tensors="pt", padding=False)
            recordings.append(record(**inputs))
    return recordings


def eager_attention(patient: Patient) -> FloatArray:
    """The summary's attention in the first sentence by the library's own eager implementation."""
    model, implementation = patient.model, patient.model.config._attn_implementation
    row = patient.sentences()[0]
    inputs = patient.tokenizer([row["text"]], return_tensors="pt", padding=False)
    summary = -1 if anatomy_of(model).causal else 0
    model.set_attn_implementation("eager")
    try:
        with evaluating(model), torch.inference_mode():
            taken = inputs_for(model.base_model, inputs)
            layers = model.base_model(**taken, output_attentions=True).attentions
            return np.stack([as_array(layer[0, :, summary].mT) for layer in layers], axis=1)
    finally:
        model.set_attn_implementation(implementation)


def distance(a: Any, b: Any) -> float:
    """Largest |a - b|, relative to the largest |a|; infinite if the shapes differ."""
    a, b = (as_array(x) if isinstance(x, torch.Tensor) else np.asarray(x) for x in (a, b))
    if a.shape != b.shape:
        return float("inf")
    return float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30))


def condition(model: Any) -> dict[str, Any]:
    """Everything about a model that a run might change by mistake."""
    return {
        "hooks": len(list(foreign_hooks(model))),
        "modes": [module.training for module in model.modules()],
        "attention implementation": model.config._attn_implementation,
        "weights": {
            name: weights.float().sum().item()
            for name, weights in model.state_dict().items()
            if not weights.is_meta  # accelerate has those elsewhere
        },
    }
