"""The values of the report's view of pretrained models: the tables of studies/practice/views.py.

There is one value per model, the JSON that html/views/data.js reads. Large arrays are in base64:
attention as bytes (255 is a weight of 1), coordinates as 16-bit integers in units of ``step``.
"""

from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from studies.pages.reading import is_there, reading
from studies.practice import views
from studies.storage.tables import ResultError
from studies.study import Study, Tables
from studies.subject import MODEL_NAMES

STEP = 0.01  # of coordinates, unless one is too large for 16 bits
ROLES = ("neutral", "informative", "distractor", "special")  # the page has the place in this list


def studies() -> list[Study]:
    """The studies whose results are shown, in the order of the page."""
    return [study for study, _ in views.VIEWS.values()]


def view_context(results: Path) -> dict[str, Any]:
    """What the section needs: the models' values, the names of missing ones, and the command."""
    values = view_values(results)
    present = {value["key"] for value in values}
    missing = [MODEL_NAMES[model] for model in views.VIEWS if model not in present]
    command = views.STUDY.command
    return {"views": values, "views_missing": missing, "views_command": command}


def view_values(results: Path) -> list[dict[str, Any]]:
    """One value per model whose result is there; a damaged result is refused in one line."""
    values = []
    for model, (study, _) in views.VIEWS.items():
        if is_there(results, study):
            with reading(results, study) as tables:
                values.append(view_of(model, MODEL_NAMES[model], tables))
    return values


def view_of(key: str, name: str, tables: Tables) -> dict[str, Any]:
    """The value of one model."""
    tokens = tables["tokens"].sort_values(["sentence", "token"], ignore_index=True)
    attention, along = tables["attention"], tables["coordinates"]
    n_layers, n_heads = int(attention["layer"].max()), int(attention["head"].max())
    weights = grid(attention, "weight", (len(tokens), n_layers, n_heads), "head")
    if weights.min() < 0 or weights.max() > 1 + 1e-4:
        raise ResultError(f"{tables.folder / 'attention.parquet'} has a weight outside 0 to 1")
    coordinates = {name: grid(along, name, (len(tokens), n_layers + 1)) for name in ("k", "v")}
    step = max(STEP, *(float(np.abs(x).max()) / 32767 for x in coordinates.values()))
    return {
        "key": key,
        "name": name,
        "layers": n_layers,
        "heads": n_heads,
        "sentences": list(map(sentence_value, *sentences_of(tables["sentences"], tokens))),
        "attention": base64_of(np.rint(255 * weights.clip(0, 1)).astype("u1")),
        **{name: base64_of(np.rint(x / step).astype("<i2")) for name, x in coordinates.items()},
        "step": step,
        "facts": facts(tables, tokens),
    }


def grid(table: pd.DataFrame, value: str, shape: tuple[int, ...], *last: str) -> Any:
    """The values of a table with one row per token, layer (and head), as an array."""
    keys = ["sentence", "token", "layer", *last]
    ordered = table.sort_values(keys)[value].to_numpy(dtype=float)
    if len(ordered) != np.prod(shape) or table.duplicated(keys).any():
        raise ValueError(f"{value} has {len(ordered)} rows, not one for each of {shape}")
    if not np.isfinite(ordered).all():
        raise ValueError(f"{value} is not a number somewhere")
    return ordered.reshape(shape)


def base64_of(values: Any) -> str:
    return b64encode(values.tobytes()).decode()


def sentences_of(sentences: pd.DataFrame, tokens: pd.DataFrame) -> tuple[Any, Any]:
    """The rows of the sentences and, for each of them, the table of its tokens."""
    groups = dict(list(tokens.groupby("sentence")))
    rows = list(sentences.sort_values("sentence").itertuples(index=False))
    if [row.sentence for row in rows] != list(groups):
        raise ValueError("sentences and tokens do not belong together")
    return rows, list(groups.values())


def sentence_value(row: Any, tokens: pd.DataFrame) -> dict[str, Any]:
    from studies.practice.figures.figure1 import SPLIT_NAMES

    if "informative" not in set(tokens["role"]):
        raise ValueError(f"sentence {row.sentence} has no informative word")
    return {
        "split": SPLIT_NAMES[row.split],
        "text": str(row.text),
        "label": str(row.label),
        "tokens": list(map(str, tokens["text"])),
        "roles": [ROLES.index(role) for role in tokens["role"]],
        "summary": int(tokens["summary"].to_numpy(dtype=bool).argmax()),
    }


# ---- what the page says without JavaScript


def facts(tables: Tables, tokens: pd.DataFrame) -> dict[str, Any]:
    """The numbers of the section's text, over all sentences, and its table by layer."""
    layers = by_layer(tables)
    heads = layers.dropna()
    is_informative = informative_rows(tokens)
    first = tokens[tokens["token"] == 0]
    located = located_by_layer(tables, tables["sentences"].query("split != 'train'")["sentence"])
    return {
        "sentences": int(tokens["sentence"].nunique()),
        "even": f"{is_informative.groupby(tokens['sentence']).mean().mean():.2f}",
        "best": f"{heads['best'].max():.2f}",
        "first_special": bool((first["role"] == "special").all()),
        "mostly_first": int((heads["first"] > 0.5).sum()),
        "own": int((tokens["summary"] & is_informative).sum()),
        "elsewhere": f"{best_elsewhere(tables, tokens):.2f}",
        "tested": int((tables["sentences"]["split"] != "train").sum()),
        "located": [int(located.iloc[1:].min()), int(located.iloc[1:].max())],
        "embedded": int(located.iloc[0]),
        "rows": [
            [
                layer,
                *("" if x != x else f"{x:.2f}" for x in (row.mass, row.best)),
                "" if row.head != row.head else int(row.head),
                "" if row.first != row.first else f"{row.first:.2f}",
                *map(int, (row.located, row.read)),
            ]
            for layer, row in zip(layers.index.tolist(), layers.itertuples(), strict=True)
        ],
    }


def best_elsewhere(tables: Tables, tokens: pd.DataFrame) -> float:
    """The most attention that a head gives the informative word on average, where this is not the
    summary token itself, which attends to itself.
    """
    informative = tokens[informative_rows(tokens)]
    own = informative.groupby("sentence")["summary"].any()
    others = informative[~informative["sentence"].map(own)]
    weights = tables["attention"].merge(others, on=["sentence", "token"])
    return float(weights.groupby(["layer", "head"])["weight"].sum().max() / (~own).sum())


def located_by_layer(tables: Tables, sentences: pd.Series) -> pd.Series:
    """In how many of these sentences the word with the highest k coordinate is informative."""
    highest = highest_words(tables)
    highest = highest[highest["sentence"].isin(sentences)]
    return (highest["role"] == "informative").groupby(highest["layer"]).sum()


def by_layer(tables: Tables) -> pd.DataFrame:
    """One row per layer (0 is the embeddings), over all sentences.

    ``mass``: mean attention on the informative word over heads; ``head`` and ``best``: the head
    with most of it; ``first``: mean attention on the first token; ``located``: sentences in
    which the word with the highest k coordinate is informative; ``read``: those in which the sign
    of its v coordinate is that of the label.
    """
    tokens = tables["tokens"]
    weights = tables["attention"].merge(tokens, on=["sentence", "token"])
    n = tokens["sentence"].nunique()

    def mass(rows: pd.DataFrame) -> pd.Series:
        return rows.groupby(["layer", "head"])["weight"].sum() / n

    heads = mass(weights[informative_rows(weights)]).unstack()
    table = pd.DataFrame({"mass": heads.mean(axis=1), "head": heads.idxmax(axis=1)})
    table["best"] = heads.max(axis=1)
    table["first"] = mass(weights[weights["token"] == 0]).unstack().mean(axis=1)
    located = located_by_layer(tables, tables["sentences"]["sentence"])
    rows = tables["coordinates"].merge(tokens[informative_rows(tokens)], on=["sentence", "token"])
    means = rows.groupby(["layer", "sentence"])["v"].mean().reset_index()
    labels = means["sentence"].map(tables["sentences"].set_index("sentence")["label"])
    right = (means["v"] > 0) == (labels == "positive")
    read = right.groupby(means["layer"]).sum()
    return pd.DataFrame({"located": located, "read": read}).join(table)


def informative_rows(tokens: pd.DataFrame) -> pd.Series:
    """Which tokens belong to the informative word."""
    return tokens["role"] == "informative"


def highest_words(tables: Tables) -> pd.DataFrame:
    """One row per layer and sentence: the token with the highest k coordinate among words."""
    rows = tables["coordinates"].merge(tables["tokens"], on=["sentence", "token"])
    words = rows[rows["role"] != "special"].reset_index(drop=True)
    return words.loc[words.groupby(["layer", "sentence"])["k"].idxmax()]
