"""What the page says of sentences: menus, examples, first readings, and the tables beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from data_gen import read_spec, split_words
from probing.states.extraction import read
from probing.states.tokens import tokenise
from studies.practice import beside
from studies.rendering import spread
from studies.storage.tables import Tables

SENTENCE = "The city is dreadful. our orange owl is very nice"  # that the page opens with
EXAMPLES = {  # what to try: a sentence
    "a sentence like those of the training": "The city is clean. his blue dog is very aggressive",
    "the word that decides before its noun": "The city is nice. her dreadful cow is very tiny",
    "new words around a word it knows": "The city is dirty. their gray eagle is especially cute",
    "a new adjective, which it cannot know": "The city is clean. our orange owl is very lovely",
    "the sentences swapped: it reads the wrong word": "our nice owl is tiny The city is dreadful.",
    "a “not” that it never saw": "The city is clean. our orange owl is not nice",
    "a sentence that is too short: it finds nothing": "our owl is nice",
}
EDITS = {  # those of the sliders, with controls: test, edit and site in the causal table
    "v̂ erased at the word that decides": ("erase value", "probe direction", "informative"),
    "v̂ erased at the distractor": ("erase value", "probe direction", "distractor"),
    "a random direction erased at the word that decides": ("erase value", "random", "informative"),
    "one that varies like the states, at that word": (
        "erase value",
        "random (states)",
        "informative",
    ),
    "v̂ reflected at the word that decides": ("reflect", "v_hat", "informative"),
    "v̂ reflected at the distractor": ("reflect", "v_hat", "distractor"),
    "reflected along a random direction": ("reflect", "random", "informative"),
    "along one that varies like the states": ("reflect", "random (states)", "informative"),
    "steered along v̂ by 1, to the other label": ("steer", "v_hat", "informative"),
    "k̂ erased at all words": ("erase location", "probe direction", "all words"),
}
EFFECTS = {
    "accuracy": "accuracy",
    "flips": "changed predictions",
    "attention_mass": "attention on the word that decides",
}


def values(model: Any, tokenizer: Any, axes: dict[str, Any], spec: str) -> dict[str, Any]:
    """The words of the story; ``readings`` are shown before the page's scripts have run."""
    readings = [reading_of(model, tokenizer, axes, text) for text in swaps(SENTENCE, spec)]
    slots = slots_of(spec, tokenizer)
    return {"slots": slots, "sentence": SENTENCE, "examples": EXAMPLES, "readings": readings}


def slots_of(spec: str, tokenizer: Any) -> list[dict[str, Any]]:
    """The grammar's choices: the single words of each slot, those that the model knows first."""
    lexicon, known = read_spec(spec).lexicon, tokenizer.get_vocab()
    slots = []
    # where a word stands in two slots, its menu begins with the words that decide
    for name, slot in sorted(lexicon.slots.items(), key=lambda item: item[1].role != "informative"):
        entries = dict.fromkeys(entry for words in slot.words.values() for entry in words)
        words = [split_words(entry)[0] for entry in entries if entry and " " not in entry]
        slots.append(
            {
                "name": name.capitalize(),
                "words": sorted(words, key=lambda word: word not in known),
                "labels": {
                    word: lexicon.polarity[word] for word in words if word in lexicon.polarity
                },
                "optional": "" in entries,
            }
        )
    return slots


def swaps(text: str, spec: str) -> list[str]:
    """The text, with its first sentiment word replaced by one of the other label, and its last."""
    polarity = read_spec(spec).lexicon.polarity
    words = [word for word in split_words(text) if word in polarity]
    other = {word: next(x for x in polarity if polarity[x] != polarity[word]) for word in words}
    return [text, *(text.replace(word, other[word], 1) for word in (words[0], words[-1]))]


def reading_of(model: Any, tokenizer: Any, axes: Any, text: str) -> dict[str, Any]:
    """What the page shows of a sentence before its scripts have run."""
    last_word = (text.rindex(" ") + 1, len(text))
    states = read(model, tokenise(tokenizer, {"text": [text], "span": [last_word]}))
    names = tokenizer.convert_ids_to_tokens(states.tokens.ids.tolist())
    return {
        "text": text,
        "tokens": names,
        "attention": rounded(states.attention[:, 0, 0]),
        **{name: rounded(along(states.at(0), axis)) for name, axis in axes.items()},
        "logit": round(float(states.logits[0]), 2),
        "label": model.config.id2label[int(states.logits[0] > 0)],
    }


def along(states: Any, axis: dict[str, Any]) -> Any:
    """The coordinates of states (n, d) along an axis."""
    return (states.astype(float) @ np.array(axis["direction"]) - axis["zero"]) / axis["unit"]


def rounded(values: Any) -> list[float]:
    """The numbers with four decimals, and 0.0 instead of -0.0."""
    return [round(float(value), 4) + 0.0 for value in values]


# ---- beside it: the tables of the study bridge


def theory_paths(tables: Tables) -> dict[str, list[list[float]]]:
    """(|kappa|, |nu|) during training in the theory: medians over the runs that align."""
    theory, paths = tables["theory"].query("aligned"), {}
    for gate, name in (("erf", beside.ERF), ("softmax", beside.SOFTMAX_PGD)):
        runs = theory[theory["theory"] == name][["step", "kappa", "nu"]].abs()
        medians = runs.groupby("step").median()
        paths[gate] = [rounded(row) for row in medians.to_numpy()]
    return paths


def cosines(tables: Tables) -> dict[str, dict[str, str]]:
    """The range over training seeds of the cosines of weights and probes, and of random ones."""
    rows = tables["directions"].query("model == 'tiny' and trained")
    return {
        name: {
            "low": f"{rows[name].min():.2f}",
            "high": f"{rows[name].max():.2f}",
            "null": f"{rows[f'{name}_covariance_null_95'].mean():.2f}",
        }
        for name in ("kappa", "nu")
    }


def found_words(tables: Tables) -> dict[str, str]:
    """How much attention is on the word that decides, by the study figure1."""
    mass = tables["sparsity"].set_index(["split", "model"])["mass"]
    places = {"one": ("test", "1 layer"), "moved": ("ood_position", "1 layer")}
    places["shuffled"] = ("ood_position", "2 layers")
    places["two"] = ("ood_position", "2 layers, sentences in order")
    return {name: f"{mass[place]:.2f}" for name, place in places.items()}


def causal_effects(tables: Tables) -> pd.DataFrame:
    """The rows of the causal table that the page's sliders repeat by hand."""
    effects = tables["causal"].query("model == 'tiny' and split == 'test' and layer == 0")
    effects = effects[effects["dose"].isna() | (effects["dose"] == 1.0)]
    rows = {}
    for name, (test, edit, site) in EDITS.items():
        part = effects[
            (effects["test"] == test) & (effects["edit"] == edit) & (effects["site"] == site)
        ]
        rows[name] = {label: spread(part[column]) for column, label in EFFECTS.items()}
    return pd.DataFrame(rows).T.rename_axis("edit")
