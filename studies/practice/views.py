"""Where does a pretrained model look, sentence by sentence? Attention and coordinates of 24 texts.

For every layer and head the study keeps the attention of the summary token ([CLS], or a decoder's
last token), and for every layer the coordinates of each token along k_hat and v_hat, which come
from probes of that layer's states on training sentences. The report shows them as heat maps.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from studies.bounds import MOST, Within
from studies.study import Options as StudyOptions
from studies.study import Result, Said, Study, Tables, counter, study
from studies.subject import MODEL_NAMES

SHOWN = {"train": 5, "test": 5, "ood_tokens": 5, "ood_structure": 5, "ood_structure_tokens": 4}


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    model: str = "minilm"
    """minilm, smollm2, mpnet, a folder, a .gguf file, or a hub name (bert-base-uncased)."""
    sentences: Annotated[int, Within(48, MOST)] = 480
    """Number of training sentences that the directions come from, equally many per word."""
    output: Path = Path("results/views-minilm")
    """Folder for the tables."""


def run(options: Options) -> Result:
    from data_gen import build_dataset
    from probing.models.pretrained import load_model
    from probing.sentences import draw_by_word
    from probing.states.extraction import extract

    dataset = build_dataset()
    model, tokenizer = load_model(options.model)
    drawn = dataset["train"].select(draw_by_word(dataset["train"], options.sentences))
    rows, splits = shown_rows(dataset)
    read = partial(extract, model, tokenizer, positions=("tokens",))
    axes = reading_axes(read(drawn))
    states = read(rows, attention=True)
    names = dataset["train"].features["label"].names
    sentences = pd.DataFrame(
        {
            "sentence": np.arange(len(splits)),
            "split": splits,
            "text": rows["text"],
            "label": [names[label] for label in rows["label"]],
        }
    )
    tables = {"sentences": sentences, "tokens": tokens_table(tokenizer, states, rows)}
    tables["attention"] = attention_table(states)
    tables["coordinates"] = coordinates_table(states, axes)
    return Result(tables)


# ---- sentences


def shown_rows(dataset: Any) -> tuple[dict[str, list[Any]], list[str]]:
    """The columns of the sentences that are shown, and the split of each."""
    parts = {
        name: dataset[name].select(spread_rows(dataset[name], count))[:]
        for name, count in SHOWN.items()
    }
    columns = parts["train"]
    rows = {name: [x for part in parts.values() for x in part[name]] for name in columns}
    return rows, [name for name, count in SHOWN.items() for _ in range(count)]


def spread_rows(split: Any, count: int) -> list[int]:
    """Row numbers spread evenly over the split, with alternating labels.

    A split lists its sentences in the grammar's order, so its first rows are all alike.
    """
    labels = np.array(split["label"][:])
    by_label = [np.flatnonzero(labels == label) for label in (0, 1)]
    places = (np.arange(count) + 0.5) / count
    return [
        int(by_label[i % 2][int(place * len(by_label[i % 2]))]) for i, place in enumerate(places)
    ]


# ---- directions


@dataclass(frozen=True)
class Axis:
    """A direction in the states of a layer, with the zero and the unit of its coordinate."""

    direction: Any  # (d,), of unit length
    zero: float
    unit: float

    def coordinates(self, states: Any) -> Any:
        """The coordinates (n,) of states (n, d)."""
        return (np.asarray(states, dtype=float) @ self.direction - self.zero) / self.unit


def reading_axes(states: Any) -> list[dict[str, Axis]]:
    """The axes along k_hat and v_hat of every layer's states, from labelled training sentences.

    Along k_hat, 1 is the mean of informative words and 0 that of other words but the first token
    of a sentence: in a decoder its states may be a hundred times longer than all others, and would
    decide the mean alone. Along v_hat, -1 and 1 are the means of the informative words by label.
    """
    from probing.circuits.directions import informative_states, state_directions, word_states

    axes = []
    tokens = states.tokens
    others = (~tokens.informative & (tokens.positions > 0))[~tokens.special]
    with counter("directions", "layer") as progress:
        for layer in states.layers:
            found = state_directions(states, layer)
            zero = float((word_states(states, layer)[others] @ found.k_hat).mean())
            one = float((informative_states(states, layer) @ found.k_hat).mean())
            v = Axis(found.v_hat, found.v_middle, found.v_distance / 2)
            axes.append({"k": Axis(found.k_hat, zero, one - zero), "v": v})
            progress(layer + 1, len(states.layers))
    return axes


# ---- tables


def tokens_table(tokenizer: Any, states: Any, rows: Any) -> pd.DataFrame:
    """One row per token: its text (of a special token its name) and what it is."""
    from probing.states.views import sentence_views

    tokens, views = states.tokens, sentence_views(states, rows)
    names = tokenizer.convert_ids_to_tokens(tokens.ids.tolist())
    words = [word for view in views for word in view.words]
    return places(tokens).assign(
        text=[word or name for word, name in zip(words, names, strict=True)],
        role=[role for view in views for role in view.roles],
        summary=tokens.mask("summary"),
    )


def places(tokens: Any) -> pd.DataFrame:
    """One row per token: the number of its sentence, and its own in the sentence."""
    sentence = np.repeat(np.arange(len(tokens)), tokens.lengths)
    return pd.DataFrame({"sentence": sentence, "token": tokens.positions})


def attention_table(states: Any) -> pd.DataFrame:
    """One row per token, layer and head: the weight of the summary token's attention."""
    weights = states.attention
    row, layer, head = (index.ravel() for index in np.indices(weights.shape))
    table = places(states.tokens).iloc[row].reset_index(drop=True)
    return table.assign(layer=layer + 1, head=head + 1, weight=weights.ravel())


def coordinates_table(states: Any, axes: list[dict[str, Axis]]) -> pd.DataFrame:
    """One row per token and layer (0 is the embeddings): its coordinates along k_hat and v_hat."""
    parts = []
    for layer, axis in zip(states.layers, axes, strict=True):
        at = states.at(layer)
        along = {name: axis[name].coordinates(at) for name in ("k", "v")}
        parts.append(places(states.tokens).assign(layer=layer, **along))
    return pd.concat(parts, ignore_index=True)


def says(tables: Tables) -> Said:
    found = f"{len(tables['sentences'])} sentences, token by token"
    return [f"{found}; python scripts/report.py shows them on a page."]


def variant(model: str) -> tuple[Study, Options]:
    """The study of one model, under a folder of its own, and its options."""
    folder = f"views-{model}"
    title = f"Sentences token by token: {MODEL_NAMES[model]}"
    options = Options(model=model, output=Path("results") / folder)
    return replace(STUDY, title=title, folder=folder), options


STUDY = study(
    __name__,
    "Sentences token by token",
    "python scripts/reproduce.py --only report",
)
VIEWS = {model: variant(model) for model in ("minilm", "smollm2")}
