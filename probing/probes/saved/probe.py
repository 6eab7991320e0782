"""A fitted probe together with its layer, its labels and its model: all that new texts need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
import transformers
from scipy.special import expit

from data_gen.quoting import quoted
from probing.arrays import FloatArray, IntArray
from probing.probes.logistic import label_of
from probing.probes.splits import POOLED
from probing.sentences import bare
from probing.states.extraction import extract
from probing.states.fingerprint import fingerprint
from probing.states.tokens import States, Tokens

AT_ONCE = 512  # texts whose states are in memory at a time


class SavedProbeError(ValueError):
    """A folder does not hold a probe, or the probe does not fit the model or the texts."""


@dataclass(frozen=True)
class Origin:
    """The model that a probe was fitted to.

    >>> Origin.of("minilm", model).fingerprint
    """

    model: str  # its name, as it was given
    fingerprint: str  # of its weights and configuration
    made_with: Mapping[str, str]  # precision of the model, versions of torch and transformers

    @classmethod
    def of(cls, name: str, model: Any) -> Self:
        made_with = {
            "dtype": str(model.dtype).removeprefix("torch."),
            "torch": str(torch.__version__),
            "transformers": transformers.__version__,
        }
        return cls(name, fingerprint(model.base_model), made_with)


@dataclass(frozen=True, eq=False)
class SavedProbe:
    """A fitted probe with all that it needs to read new texts.

    >>> saved = SavedProbe.of(reader, "reader", 3, ["bad", "good"], Origin.of("minilm", model))
    >>> saved.apply(model, tokenizer, ["my dog is nice"])[["label", "score", "word"]]
    """

    estimator: Any
    probe: str  # its name: "summary", "reader", ...
    layer: int
    labels: tuple[str, ...]  # names of the labels, as many as estimator.classes_; none of location
    origin: Origin

    @classmethod
    def of(
        cls, estimator: Any, probe: str, layer: int, labels: Sequence[str], origin: Origin
    ) -> Self:
        """A fitted estimator; ``labels`` are the names of labels 0, 1, ..., if it has numbers."""
        classes = getattr(estimator, "classes_", np.array([]))
        named = tuple(str(x) if classes.dtype.kind == "U" else str(labels[int(x)]) for x in classes)
        return cls(estimator, probe, layer, named, origin)

    @property
    def reads(self) -> str:
        """The states that the probe reads: "summary", "mean", "informative" or "tokens"."""
        return POOLED.get(self.probe, "tokens")

    def apply(
        self, model: Any, tokenizer: Any, texts: Sequence[str], spans: Any = None
    ) -> pd.DataFrame:
        """The probe's answers on new texts, one row per text.

        Columns: text; label; score, the logit of the second label (with more than two labels
        score_NAME, one logit per label). Probes that choose among tokens add word, the word that
        they look at most, and weight: the attention of its token, or the probability that the
        location probe gives it. A location probe has no label, and its score is the highest logit.
        The value probe needs ``spans``, the places of the informative words, as in ``extract``.
        """
        self.check_texts(texts, spans)
        self._check_model(model)
        rows = {"text": list(texts)} | ({} if spans is None else {"span": list(spans)})
        parts = []
        for first in range(0, len(texts), AT_ONCE):
            part = {name: column[first : first + AT_ONCE] for name, column in rows.items()}
            parts.append(self._applied(part["text"], self._extracted(model, tokenizer, part)))
        return pd.concat(parts, ignore_index=True)

    def _applied(self, texts: Sequence[str], states: States) -> pd.DataFrame:
        X, tokens = states.at(self.layer, self.reads), states.tokens
        table = pd.DataFrame({"text": texts})
        if self.probe == "location":
            logits = self.estimator.decision_function(X)
            rows_of = self.estimator.predict(X, tokens)
            table["score"] = logits[rows_of]
            return _with_words(table, tokens, rows_of, expit(logits[rows_of]))
        arguments = (X,) if self.probe in POOLED else (X, tokens)
        logits = self.estimator.decision_function(*arguments)
        table["label"] = np.array(self.labels)[label_of(logits)]
        names = ["score"] if logits.ndim == 1 else [f"score_{name}" for name in self.labels]
        table[names] = logits.reshape(len(table), -1)
        if self.probe in POOLED:
            return table
        if self.probe == "reader":
            rows_of = self.estimator.located(X, tokens)
            weights = expit(self.estimator.location_.decision_function(X[rows_of]))
            return _with_words(table, tokens, rows_of, weights)
        attention = self.estimator.attention(X, tokens)
        rows_of = np.array(
            [part.start + np.argmax(attention[part]) for part in map(tokens.sentence, table.index)]
        )
        return _with_words(table, tokens, rows_of, attention[rows_of])

    def _extracted(self, model: Any, tokenizer: Any, rows: Mapping[str, Any]) -> States:
        states = extract(model, tokenizer, rows, positions=(self.reads,), layers=[self.layer])
        return states.words_only() if self.reads == "tokens" else states

    def check_texts(self, texts: Sequence[str], spans: Any = None) -> None:
        """Refuse texts that the probe cannot read, before a model is loaded."""
        if isinstance(texts, str):
            raise SavedProbeError("texts is a list of texts, not one text")
        if not len(texts):
            raise SavedProbeError("there are no texts to read")
        for number, text in enumerate(texts, 1):
            if not text.strip():
                raise SavedProbeError(f"text {number} is empty")
            if any("\ud800" <= letter <= "\udfff" for letter in text):
                raise SavedProbeError(f"text {number} is not valid Unicode: it has half characters")
        if self.reads == "informative" and spans is None:
            raise SavedProbeError(
                f"the probe {self.probe!r} reads the informative word, whose place in these texts "
                "is not known; name the word of each text, or apply another probe, such as reader"
            )

    def _check_model(self, model: Any) -> None:
        if fingerprint(model.base_model) != self.origin.fingerprint:
            theirs = (
                f"{quoted(self.origin.model)}, "
                f"{quoted(self.origin.made_with.get('dtype', 'unknown precision'))}"
            )
            raise SavedProbeError(
                f"this is not the model that the probe was fitted to ({theirs}): "
                "weights, precision or configuration differ"
            )
        n_layers = model.config.get_text_config().num_hidden_layers
        if self.layer > n_layers:
            raise SavedProbeError(f"the probe reads layer {self.layer} of {n_layers}")


def _with_words(
    table: pd.DataFrame, tokens: Tokens, rows: IntArray, weights: FloatArray
) -> pd.DataFrame:
    """The table with the words around the tokens in these rows."""
    words = [
        word_around(text, *map(int, span))
        for text, span in zip(table["text"], tokens.characters[rows], strict=True)
    ]
    return table.assign(word=words, weight=weights)


def word_around(text: str, start: int, end: int) -> str:
    """The word that a token belongs to; punctuation is a word of its own.

    >>> word_around("my dog is nice.", 10, 12), word_around("my dog is nice.", 14, 15)
    ('nice', '.')
    """
    token = text[start:end].strip()
    if not any(character.isalnum() for character in token):
        return token
    inside = max(start, end - 1)  # the space before a word may belong to its token
    before, behind = text[:inside].split(" ")[-1], text[inside:].split(" ")[0]
    return bare(before + behind)
