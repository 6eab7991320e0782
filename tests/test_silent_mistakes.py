"""Plausible mistakes that would give a number, and the line that refuses each of them."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from planted_states import sentences

from data_gen import build_tokenizer
from probing import (
    Erase,
    Leace,
    LocateAndRead,
    Reflect,
    States,
    Steer,
    Trial,
    attention_mass,
    auroc,
    causal_table,
    chosen_layers,
    directions_table,
    draw_by_word,
    edited,
    evaluate,
    extract,
    fit_probes,
    layer_means,
    read,
    read_splits,
    reading_only,
    sentence_views,
    sparsity_table,
    state_directions,
    summary_attention,
    tokenise,
    train,
    without_heads,
)
from probing.models.presets import build_model
from probing.probes.splits import SplitStates
from probing.sentences import at_most
from probing.states.readout import Readout

U = np.eye(32)[0]


@pytest.fixture(scope="module")
def w(sentiment: Any) -> Any:
    """A model, its tokenizer, and what the public functions make of a few sentences."""
    texts = sentiment["train"]["text"][:]
    tokenizer = build_tokenizer(texts)
    model = build_model(tokenizer, "tiny", ["negative", "positive"], seed=0)
    split = sentiment["train"].select(draw_by_word(sentiment["train"], 12))
    some = sentiment["ood_structure"].select(range(4))  # shorter sentences
    tokens, other = (tokenise(tokenizer, rows) for rows in (split, some))
    X, planted = sentences(60, seed=0)
    return SimpleNamespace(
        model=model,
        tokenizer=tokenizer,
        rows=split[:],
        data=type(sentiment)({"train": split}),
        tokens=tokens,
        other=other,
        states=read(model, tokens),
        unmarked=summary_attention(model, tokenizer, {"text": split["text"][:]}),
        X=X,
        planted=planted,
        reader=LocateAndRead(C=1.0).fit(X, planted),
        batch=lambda **padding: tokenizer(split["text"][:], return_tensors="pt", **padding),
    )


def run_edited(w: Any, edit: Any, mask: Any = None, **padding: Any) -> None:
    with edited(w.model, 0, edit, mask):
        w.model(**w.batch(**padding or {"padding": True}))


def run_reading(w: Any, tokens: Any) -> None:
    with reading_only(w.model, 1, tokens, "informative"):
        w.model(**w.batch(padding=True))


def run_without(w: Any, heads: Any) -> None:
    with without_heads(w.model, heads):
        pass


def named(labels: Any) -> Any:
    return np.array(["bad", "good"])[labels]


MISTAKES: dict[str, tuple[Callable[[Any], Any], str]] = {
    # A mask of another shape than the batch was flattened: other tokens were edited.
    "padded to a multiple": (
        lambda w: run_edited(
            w, abs, w.tokens.site("informative"), padding=True, pad_to_multiple_of=8
        ),
        r"the mask has shape \(12, \d+\), the states \(12, (16|24)\)",
    ),
    "padded to the limit": (
        lambda w: run_edited(
            w, abs, w.tokens.site("informative"), padding="max_length", max_length=40
        ),
        r"the states \(12, 40\)",
    ),
    "mask too large": (
        lambda w: run_edited(w, abs, torch.ones(12, 99, dtype=torch.bool)),
        r"the mask has shape \(12, 99\)",
    ),
    "mask of fewer sentences": (
        lambda w: run_edited(w, abs, w.tokens.take(np.arange(3)).site("informative")),
        "the mask has shape",
    ),
    "mask of nothing": (
        lambda w: run_edited(w, abs, w.unmarked.tokens.site("informative")),
        "marks no token",
    ),
    "edit that makes a mean": (lambda w: run_edited(w, lambda x: x.mean(0)), "the edit made"),
    "read only one sentence": (
        lambda w: run_reading(w, w.tokens.take(np.arange(1))),
        "the mask has shape",
    ),
    "read only what is not there": (lambda w: run_reading(w, w.unmarked.tokens), "no token of"),
    "no such site": (lambda w: w.tokens.site("distractors"), "no site 'distractors'; there are"),
    # A direction without a length made every state nan.
    "direction 0": (lambda w: Erase(np.zeros(4), at=0.0), "a finite length above 0, not 0"),
    "direction nan": (lambda w: Reflect([np.nan, 1.0], middle=0.0), "finite length"),
    "direction infinite": (lambda w: Steer([np.inf, 1.0], np.ones(2)), "finite length"),
    "several directions": (lambda w: Erase(np.ones((2, 4)), at=0.0), r"shape \(d,\), not \(2, 4\)"),
    "at nan": (lambda w: Erase(U, at=np.nan), "at must be a finite number"),
    "other dimension": (
        lambda w: run_edited(w, Erase(np.ones(5), 0.0)),
        "32 dimensions, the edit 5",
    ),
    "other dimension, steer": (
        lambda w: run_edited(w, Steer(np.ones(5), np.ones(2))),
        "32 dimensions, the edit 5",
    ),
    "other dimension, LEACE": (
        lambda w: run_edited(w, Leace.fit(w.X, w.planted.informative)),
        "32 dimensions, the edit 20",
    ),
    "one length for all": (lambda w: run_edited(w, Steer(U, [2.0])), "1 lengths for"),
    "LEACE of more than two labels": (
        lambda w: Leace.fit(w.X[:9], np.arange(9) % 3),
        "exactly two labels",
    ),
    "LEACE of other labels": (lambda w: Leace.fit(w.X, w.planted.labels), "one label for each"),
    "LEACE of nan": (lambda w: Leace.fit(w.X * np.nan, w.planted.informative), "finite"),
    # States, tokens and rows of other sentences.
    "attention of others": (lambda w: replace(w.states, tokens=w.other), "attention of other"),
    "states of others": (
        lambda w: States(w.other, {(0, "tokens"): w.states.at(0)}).at(0),
        "states of other sentences",
    ),
    "views of others": (lambda w: sentence_views(w.states, {"text": ["a"]}), "1 rows for"),
    "attention on no word": (lambda w: attention_mass(w.unmarked), "no informative token"),
    "sparsity of a part": (
        lambda w: sparsity_table(w.states.words_only()),
        "attention does not sum to 1",
    ),
    "tokens without [CLS]": (
        lambda w: read(w.model, w.states.words_only().tokens),
        "without their special tokens",
    ),
    # Rows that are read as something else.
    "one text": (lambda w: tokenise(w.tokenizer, {"text": "my dog is nice"}), "list of texts"),
    "a list of texts": (lambda w: tokenise(w.tokenizer, ["my dog is nice"]), "rows are a split"),
    "a word instead of a span": (
        lambda w: extract(
            w.model, w.tokenizer, {"text": ["a b"], "word": ["b"]}, positions=["mean"]
        ),
        '"word" is not read',
    ),
    "too few labels": (
        lambda w: extract(w.model, w.tokenizer, w.rows | {"label": [1]}),
        "columns of different lengths",
    ),
    "one layer": (lambda w: extract(w.model, w.tokenizer, w.rows, layers=3), r"write \[3\]"),
    "fewer than no sentences": (lambda w: at_most(w.data, -1), "below 0"),
    "no sentences": (lambda w: draw_by_word(w.data["train"], 0), "must be positive"),
    "texts without labels": (
        lambda w: train(w.model, w.tokenizer, w.rows["text"], [0], None, None),
        "12 texts but 1 labels",
    ),
    # Names and layers that are not there gave empty tables, or another thing.
    "position as probe": (
        lambda w: SplitStates(w.states, w.states).at(1, "informative"),
        "no probe 'informative'",
    ),
    "one probe": (
        lambda w: read_splits(w.model, w.tokenizer, w.data, probes="mean"),
        r"\['mean'\]",
    ),
    "probe with a typo": (lambda w: fit_probes({}, probes=["readr"]), "no probe 'readr'"),
    "one causal test": (
        lambda w: causal_table(Trial(w.model, w.tokens, w.tokens), tests="reflect"),
        "tests is a list",
    ),
    "causal test with a typo": (
        lambda w: causal_table(Trial(w.model, w.tokens, w.tokens), tests=["reflekt"]),
        "tests is a list",
    ),
    "heads of no layer": (lambda w: directions_table(w.model, w.tokens, layers=[9]), "no layer 9"),
    "one head": (lambda w: run_without(w, (1, 1)), "list of pairs"),
    # Labels of another kind than those of the fit: everything was wrong, in silence.
    "names for labels, probe": (
        lambda w: w.reader.score(w.X, replace(w.planted, labels=named(w.planted.labels))),
        "none of the labels",
    ),
    "names for labels, directions": (
        lambda w: state_directions(
            replace(w.states, tokens=replace(w.tokens, labels=named(w.tokens.labels))), 0
        ),
        "labels must be 0 and 1",
    ),
    "labels 1 and 2, trial": (
        lambda w: Trial(w.model, w.tokens, replace(w.tokens, labels=w.tokens.labels + 1)),
        "labels of test",
    ),
    "names for labels, evaluate": (
        lambda w: evaluate(
            w.model,
            w.tokenizer,
            type(w.data)(
                {"train": w.data["train"].remove_columns("label").add_column("label", ["bad"] * 12)}
            ),
        ),
        "labels must be numbers",
    ),
    "labels 1 and 2, auroc": (lambda w: auroc([0.1, 0.9], [1, 2]), "True or False"),
    "coefficients of a table": (lambda w: Readout("summary", np.ones((32, 1)), 0.0), "has shape"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_plausible_mistake_is_refused_in_one_line(mistake: str, w: Any) -> None:
    made, said = MISTAKES[mistake]
    with pytest.raises(ValueError, match=said) as refusal:
        made(w)
    assert "\n" not in str(refusal.value)


def test_tables_of_several_models_are_not_mixed() -> None:
    row = {"probe": "mean", "layer": 1, "split": "train", "word": "a", "pattern": "b"}
    rows = pd.DataFrame([row | {"sentences": 1, "correct": i, "cv_score": 1.0} for i in (0, 1)])
    for function in (chosen_layers, layer_means):
        with pytest.raises(ValueError, match="one model"):
            function(rows)
        assert len(function(rows[:1])) == 1


def test_columns_of_pandas_are_read_in_their_order_whatever_their_index(w: Any) -> None:
    """Text i was looked up by the index, label i by its place."""
    frame = pd.DataFrame({name: w.rows[name] for name in ("text", "span", "label")})
    mixed = frame.sample(frac=1, random_state=0)
    states = [
        extract(w.model, w.tokenizer, rows, positions=["informative"]).at(1, "informative")
        for rows in (mixed, {name: mixed[name] for name in mixed}, mixed.to_dict("list"))
    ]
    assert (states[0] == states[2]).all()
    assert (states[1] == states[2]).all()


def test_sentences_are_taken_by_a_mask_and_from_the_end(w: Any) -> None:
    tokens, last = w.tokens, w.tokens.take(np.array([11]))
    assert (tokens.take(np.array([-1])).ids == last.ids).all()
    assert (tokens.take(np.arange(12) == 11).ids == last.ids).all()
    assert (tokens.ids[tokens.sentence(-1)] == last.ids).all()
