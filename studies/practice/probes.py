"""Probe any Hugging Face encoder or decoder: where is the word that decides, and what does it say?

At every layer the study fits linear probes (of [CLS] as in the paper, of the mean of the tokens, of
the informative token), a location probe, a reader (locate, then read) and a single-location head;
--probes may also name heads of other kinds. Probes are fitted to the training split and scored on
every split, beside an untrained model and shuffled labels. directions.safetensors holds the
directions k_hat and v_hat of every layer, saved/ each probe at its best layer: apply.py applies
them to new texts.
"""

import functools
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import pandas as pd

from studies.bounds import CountOrAll, Jobs, Layer, check_workers
from studies.rendering import intervals, number, pivoted, ranged
from studies.study import Options as StudyOptions
from studies.study import Result, Said, Tables, counter, study
from studies.subject import AUTO, MODEL_NAMES, Subject, model_name

DIRECTIONS = "directions.safetensors"  # k_hat and v_hat by layer
N_SHUFFLES = 3
FEW_WORDS = 10  # intervals over fewer words are wide
CONTROL_ROWS = 1000  # sentences per split for the untrained model ...
CONTROL_TOKEN_SENTENCES = 500  # ... and, of these, for probes that read every token
AS_RELEASED = "sentiment-as-released"  # the data of --protocol paper
CURVE = ("value", "location", "reader", "head", "summary")  # the probes of --curve
SAVED = "saved"  # a folder with one folder per probe
# The paper's bars: frozen bert-base-uncased, logistic regression on [CLS], mean over its 12 layers.
# "Initial embeddings" are layer 0, where [CLS] is one vector for all sentences.
PUBLISHED = {
    "train": 1.00,
    "test": 0.95,
    "ood_tokens": 0.64,
    "ood_structure": 0.75,
    "ood_structure_tokens": 0.69,
}
INITIAL = 0.50
TOLD = {  # what a probe is told of the informative word, in the order of the table of the summary
    **dict.fromkeys(("head", "heads", "max", "summary", "mean"), "nothing"),
    "reader": "its place, in training",
    "location": "its place, in training",
    "value": "its place, always",
}
Probe = Literal["summary", "mean", "value", "location", "reader", "head", "max", "heads"]


@dataclass(frozen=True, kw_only=True)
class Options(Subject, StudyOptions):
    probes: tuple[Probe, ...] = ("summary", "mean", "value", "location", "reader", "head")
    """summary (or last token), mean, value, location, reader, head; on request max and heads."""
    layers: tuple[Layer, ...] = ()
    """The layers to probe (0 is the embeddings); by default all."""
    protocol: Literal["ours", "paper"] = "ours"
    """paper: as-released data, [CLS], raw states, scikit-learn's default C, mean over layers."""
    no_controls: bool = False
    """Leave out the controls: an untrained model of the same architecture, and shuffled labels."""
    max_rows: CountOrAll = 0
    """Most sentences per split; 0: all (1536 for token probes, 1000 for the untrained model)."""
    curve: bool = False
    """Also fit probes of the chosen layer to 6, 12, 24 and 48 of the training words."""
    states: Path | None = None
    """Folder of extract.py with the states of this model and data; missing splits are added."""
    jobs: Jobs = os.cpu_count() or 1
    """Number of processes that share the fits; results do not depend on it."""
    cluster: str | None = None
    """Address of a Dask scheduler (tcp://host:8786) whose workers fit the probes instead."""
    output: Path = Path("results/probes")
    """Folder for tables, the figure, the directions and the probes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_workers(self.jobs, self.cluster)
        if not self.probes:
            raise ValueError("--probes needs at least one probe")
        if self.states and self.states.absolute() == self.output.absolute():
            raise ValueError(f"--states and --output are both {self.output}; give another --output")
        if self.curve and not {"reader", *CURVE} <= set(self.probes):
            raise ValueError(f"--curve needs the probes {' '.join(sorted({'reader', *CURVE}))}")
        paper = self.protocol == "paper"
        own = self.data in (AUTO, AS_RELEASED) and self.probes == Options.probes
        if paper and (self.curve or not own):
            raise ValueError(
                "--protocol paper has its own data and probe; leave out --data, --probes, --curve"
            )

    def resolved(self) -> Self:
        """These options with the default of ``data`` filled in, by the protocol or the model."""
        return replace(self, data=AS_RELEASED) if self.protocol == "paper" else super().resolved()


def run(options: Options) -> Result:
    from probing.models.pretrained import untrained_like
    from probing.probes.saved.probe import Origin, SavedProbe
    from probing.probes.splits import HEADS
    from probing.sentences import at_most
    from probing.states.anatomy import anatomy_of
    from slr.workers.address import check_reachable
    from studies.practice.figures.probes import plot_paper, plot_probes, plot_words

    if options.cluster is not None:  # before the model is read, which may take minutes
        check_reachable(options.cluster)
    dataset = options.read_data()
    check_training_words(options.data, dataset)
    of = {name: len(split) for name, split in dataset.items()}
    if options.max_rows:
        dataset = at_most(dataset, options.max_rows)
    model, tokenizer = options.load()
    options.check_layers(options.layers, model)
    options.check_data(model, tokenizer, dataset)
    origin, labels = Origin.of(options.model, model), dataset["train"].features["label"].names
    tables, fits = probed(options, model, tokenizer, dataset)
    if not options.no_controls and set(options.probes) - set(HEADS):
        untrained, part = untrained_like(model, options.seed), at_most(dataset, CONTROL_ROWS)
        controls, _ = probed(options, untrained, tokenizer, part, name="untrained")
        for key, table in controls.items():
            tables[key] = pd.concat([tables[key], table], ignore_index=True)
    tables["splits"] = split_table(dataset, of)
    tables["subject"] = pd.DataFrame({"n_layers": [anatomy_of(model).n_layers]})
    best = best_layers(true_labels(tables["probes"]))
    if options.protocol == "paper":
        tables["bars"] = paper_bars(tables["probes"], tables["means"])
        name = MODEL_NAMES.get(options.model, options.model)
        figures = {"paper": plot_paper(tables["bars"], name)}
    else:
        figures = {"probes": plot_probes(tables["probes"], best.get("reader"))}
    if "curve" in tables:
        figures["words"] = plot_words(tables["curve"])
    readers = {layer: fits[probe, layer].estimator for probe, layer in fits if probe == "reader"}
    chosen = [
        SavedProbe.of(fits[probe, layer].estimator, probe, layer, labels, origin)
        for probe, layer in best.items()
    ]
    return Result(tables, figures, write=functools.partial(write_probes, readers, chosen))


def split_table(dataset: Any, of: dict[str, int]) -> pd.DataFrame:
    """Numbers of sentences (of how many), informative words and new words, one row per split."""
    from probing.sentences import informative_words

    words = {name: set(informative_words(split)) for name, split in dataset.items()}
    rows = []
    for name, split in dataset.items():
        new = sorted(words[name] - words["train"])
        row = {"split": name, "sentences": len(split), "of": of[name], "words": len(words[name])}
        rows.append(row | {"new_words": len(new), "examples": " ".join(new[:8])})
    return pd.DataFrame(rows)


def chosen_table(rows: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of every probe at the layer of its own cross-validation, and on how many sentences.

    One rule for all probes, which sees training data alone. Empty if no layer was chosen so.
    """
    from probing.probes.by_layer import chosen_layers

    chosen = chosen_layers(rows[rows["cv_score"].notna()])
    sentences = cells.groupby(["probe", "layer", "split"])["sentences"].sum().reset_index()
    columns = ["probe", "split", "layer", "accuracy", "low", "high", "words", "auroc", "tpr"]
    return chosen[columns].merge(sentences, on=["probe", "layer", "split"])


def paper_bars(probes: pd.DataFrame, means: pd.DataFrame) -> pd.DataFrame:
    """The published bars and ours by the paper's protocol: model, split, accuracy, low, high.

    The split "initial" is the test split at layer 0, the initial embeddings.
    """
    bars = {"initial": INITIAL, **PUBLISHED}
    published = pd.DataFrame({"split": list(bars), "accuracy": list(bars.values())})
    first = probes.query("layer == 0 and split == 'test'").assign(split="initial")
    ours = pd.concat([first, means]).query("control == 'none' and split in @bars")
    return pd.concat([published.assign(model="BERT"), ours], ignore_index=True)[
        ["model", "split", "accuracy", "low", "high"]
    ]


def best_layers(rows: pd.DataFrame) -> dict[str, int]:
    """The layer of each probe with its best cross-validation score, if it has any."""
    from probing.probes.by_layer import chosen_layers

    chosen = chosen_layers(rows[rows["cv_score"].notna()])
    return dict(zip(chosen["probe"], chosen["layer"].astype(int), strict=True))


def write_probes(readers: dict[int, Any], chosen: list[Any], folder: Path) -> None:
    """Write the directions of all readers, and each probe at its best layer."""
    from probing.probes.saved.folder import save_probe

    if readers:
        write_directions(readers, folder)
    for saved in chosen:
        save_probe(folder / SAVED / saved.probe, saved)


def write_directions(readers: dict[int, Any], folder: Path) -> None:
    """Write k_hat and v_hat of each layer's reader, shape (layers, d), and the layers' numbers."""
    import numpy as np
    from safetensors.numpy import save_file

    k_hat, v_hat = (
        np.stack([getattr(reader, name) for reader in readers.values()]).astype(np.float32)
        for name in ("k_hat_", "v_hat_")
    )
    arrays = {"k_hat": k_hat, "v_hat": v_hat, "layers": np.array(list(readers))}
    save_file(arrays, folder / DIRECTIONS)


def check_training_words(data: str, dataset: Any) -> None:
    """Refuse data with one training word for a label: C and layer are chosen on held-out words.

    A printed note counts the sentences of other splits that are in train.
    """
    from probing.sentences import informative_words

    train = dataset["train"]
    seen = set(train["text"][:])
    for name, split in dataset.items():
        if name != "train" and (repeated := sum(text in seen for text in split["text"][:])):
            print(f"note: {repeated} of {len(split)} sentences of {name} are in train, too")
    words: dict[str, set[str]] = {}
    for label, word in zip(train["label"][:], informative_words(train), strict=True):
        words.setdefault(train.features["label"].int2str(label), set()).add(word)
    for label, label_words in words.items():
        if len(label_words) < 2:
            raise ValueError(
                f"{data}: the training split has only one informative word for {label!r}; probes "
                "are chosen on held-out words, so give at least two per label"
            )


def probed(
    options: Options, model: Any, tokenizer: Any, dataset: Any, *, name: str = "trained"
) -> tuple[dict[str, pd.DataFrame], dict[tuple[str, int], Any]]:
    """The tables of one model, and its probes by name and layer.

    For the trained model the cells, shuffled labels and the plane of its tokens are added.
    """
    from probing.probes.by_layer import (
        PAPER_C,
        fit_probes,
        layer_means,
        probe_cells,
        probe_table,
        token_plane,
    )
    from probing.probes.splits import HEADS, read_splits
    from probing.probes.word_curve import word_curve

    paper = options.protocol == "paper"
    probes = ("summary",) if paper else options.probes
    if name != "trained":
        probes = tuple(probe for probe in probes if probe not in HEADS)  # they take longest
    reading: dict[str, Any] = {"probes": probes, "layers": options.layers or None}
    reading |= (
        {"folder": options.states}
        if name == "trained"
        else {"max_token_sentences": CONTROL_TOKEN_SENTENCES}
    )
    with counter(f"{name}: reading", "sentence") as progress:
        states = read_splits(model, tokenizer, dataset, progress=progress, **reading)

    def fit(probes: Any, **settings: Any) -> tuple[Any, dict[str, pd.DataFrame]]:
        workers = {"jobs": options.jobs, "cluster": options.cluster}
        settings = {"seed": options.seed} | workers | settings
        with counter(f"{name}: probing", "fit") as progress:
            layers = options.layers or None
            fits = fit_probes(states, probes=probes, layers=layers, progress=progress, **settings)
        cells = probe_cells(fits, states)
        tables = {"probes": probe_table(fits, states), "means": layer_means(cells)}
        return fits, tables | {"cells": cells}

    fits, tables = fit(probes, C=PAPER_C if paper else None, standardize=not paper)
    if paper:  # a penalty on raw states is one in their units
        sizes = {
            layer: float(states["train"].at(layer, "summary")[0].std(0).mean()) for _, layer in fits
        }
        tables["probes"]["state_sd"] = tables["probes"]["layer"].map(sizes)
    cells, parts = tables.pop("cells"), {"none": tables}
    if name == "trained" and not options.no_controls and set(probes) - {"location", *HEADS}:
        parts["shuffled labels"] = shuffled(fit, probes, options.seed)
    tables = {
        key: pd.concat(
            [part[key].assign(control=control, model=name) for control, part in parts.items()],
            ignore_index=True,
        )
        for key in ("probes", "means")
    }
    if name != "trained":
        return tables, fits
    tables["cells"] = cells.assign(pieces=cells["word"].map(pieces_of(states)))
    chosen = chosen_table(true_labels(tables["probes"]), cells)
    if len(chosen):
        tables["chosen"] = chosen
    readers = {layer: fits[probe, layer].estimator for probe, layer in fits if probe == "reader"}
    if readers and "test" in states:
        layer = best_layers(true_labels(tables["probes"]))["reader"]
        if len(readers[layer].classes_) == 2:  # else there is not one v_hat
            tables["plane"] = token_plane(states, "test", layer, reader=readers[layer])
        if options.curve:
            with counter(f"{name}: fewer words", "fit") as progress:
                share: dict[str, Any] = {"jobs": options.jobs, "cluster": options.cluster}
                share |= {"seed": options.seed, "progress": progress}
                tables["curve"] = word_curve(states, layer, probes=CURVE, **share)
    return tables, fits


def pieces_of(states: dict[str, Any]) -> dict[str, int]:
    """The number of tokens of each informative word."""
    import numpy as np

    pieces: dict[str, int] = {}
    for split in states.values():
        tokens = split.tokens.tokens
        counts = np.add.reduceat(tokens.informative.astype(int), tokens.offsets[:-1])
        pieces |= zip(tokens.words.tolist(), counts.tolist(), strict=True)
    return pieces


def shuffled(fit: Any, probes: Any, seed: int) -> dict[str, pd.DataFrame]:
    """Means over draws of shuffled labels, but of the location probe, which uses no labels, and of
    heads, which take longest.

    Instead of intervals ``lowest`` and ``highest`` are the range over draws. C is fixed:
    cross-validation on shuffled labels means nothing, and would be slow.
    """
    from probing.probes.splits import HEADS

    labelled = [probe for probe in probes if probe not in ("location", *HEADS)]
    draws = [fit(labelled, C=0.01, shuffled=True, seed=seed + i)[1] for i in range(N_SHUFFLES)]
    tables = {}
    for key, by in (("probes", ["probe", "layer", "split"]), ("means", ["probe", "split"])):
        table = pd.concat([drawn[key] for drawn in draws])
        groups = table.drop(columns=["low", "high"]).groupby(by, sort=False)
        ends = {"lowest": groups["accuracy"].min(), "highest": groups["accuracy"].max()}
        tables[key] = groups.mean().assign(**ends).astype({"words": int}).reset_index()
    return tables


def true_labels(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the trained model's probes on the true labels."""
    return table[(table["model"] == "trained") & (table["control"] == "none")]


def says(tables: Tables) -> Said:
    means, rows = tables["means"], true_labels(tables["probes"])
    labels = means["model"].replace("trained", model_name(tables))
    shown = means.assign(model=labels.where(means["control"] == "none", means["control"]))
    splits = tables["splits"].set_index("split")
    splits.columns = splits.columns.str.replace("_", " ")
    wide = pivoted(shown, accuracies(shown), ["model", "probe"], "split")
    intro = "Sentences and informative words per split; new words are those not in `train`."
    draws = f"; for shuffled labels the mean (range) over {N_SHUFFLES} draws"
    draws = draws if "shuffled labels" in set(means["control"]) else ""
    control = f"; the untrained model is probed on at most {CONTROL_ROWS} sentences per split"
    control = control if "untrained" in set(means["model"]) else ""
    chosen = tables["chosen"] if "chosen" in tables else rows.iloc[:0]
    reader = chosen.loc[chosen["probe"] == "reader", "layer"]
    return [
        *(says_of_chosen(chosen, splits) if len(chosen) else []),
        " ".join(filter(None, [intro, few(splits)])),
        splits,
        f"Accuracy, mean over {layers_of(tables)}, with its 95% interval over words (for "
        f"`location`: share of sentences whose informative token ranks first){draws}{control}.",
        wide.rename(columns=lambda split: f"{split} ({splits.loc[split, 'words']} words)"),
        *(says_of_ranking(chosen) if len(chosen) else []),
        *(says_of_cells(tables["cells"], int(reader.iloc[0])) if "curve" in tables else []),
        *(says_of_words(tables["curve"]) if "curve" in tables else []),
    ]


def layers_of(tables: Tables) -> str:
    """The layers of the means, and of how many: "layers 6, 12, 18, 24 (of 30)"."""
    layers = sorted(set(tables["probes"]["layer"]) - {0}) or [0]
    n = tables["subject"]["n_layers"].iloc[0]
    if len(layers) == 1:
        return f"layer {layers[0]} (of {n})"
    is_row = layers == list(range(layers[0], layers[-1] + 1))
    names = f"{layers[0]} to {layers[-1]}" if is_row else ", ".join(map(str, layers))
    return f"layers {names} (of {n})"


def says_of_chosen(chosen: pd.DataFrame, splits: pd.DataFrame) -> Said:
    """Every probe at its own layer: first those that are told nothing of the word."""
    order = {probe: i for i, probe in enumerate(TOLD)}
    chosen = chosen.sort_values("probe", key=lambda probes: probes.map(order), kind="stable")
    shown = chosen.assign(told=chosen["probe"].map(TOLD))
    wide = pivoted(shown, intervals(shown), ["probe", "told", "layer"], "split")
    test = chosen[chosen["split"] != "train"].groupby("probe")["sentences"]
    counts = sorted(set(test.max()))
    return [
        "Accuracy of every probe at the layer of its own cross-validation, over words and "
        "structures of the training split (over words alone where it has fewer than four "
        "structures), with its 95% interval over words; for `location` the share of sentences "
        "whose informative token ranks first. `told`: what the probe knows of the word that "
        "decides; `head` finds it from labels alone. `summary` reads the token that summarises a "
        "sentence: [CLS] of an encoder, the last token of a decoder. At most "
        f"{' or '.join(map(str, counts))} sentences per split, by probe.",
        wide.rename(columns=lambda split: f"{split} ({splits.loc[split, 'words']} words)"),
    ]


def says_of_ranking(chosen: pd.DataFrame) -> Said:
    """AUROC and true-positive rates of each probe at its best layer."""
    chosen = chosen.assign(probe=chosen["probe"] + ", layer " + chosen["layer"].astype(str))
    texts = [
        f"{number(auroc) or '-'} ({number(tpr) or '-'})"
        for auroc, tpr in chosen[["auroc", "tpr"]].to_numpy()
    ]
    return [
        "AUROC and, in brackets, the true-positive rate at 1% false positives (the threshold is "
        "set on the negatives of the same split), each probe at the layer chosen by its "
        "cross-validation. More than two labels are each set against the rest; for `location` the "
        "positives are informative tokens, the negatives all others.",
        pivoted(chosen, texts, "probe", "split"),
    ]


def says_of_cells(cells: pd.DataFrame, layer: int) -> Said:
    """Where the recipe fails: by the pieces of a word, and by structure."""
    chosen = cells[(cells["layer"] == layer) & cells["probe"].isin(["value", "location", "reader"])]
    chosen = chosen[chosen["split"] != "train"]
    several = chosen["pieces"].gt(1).map({False: "one token", True: "several tokens"})

    def shares(by: list[Any], columns: Any) -> pd.DataFrame:
        sums = chosen.groupby([*by, columns], sort=False)[["sentences", "correct"]].sum()
        return (sums["correct"] / sums["sentences"]).unstack().map(number)

    words = chosen.assign(tokens=several).groupby(["split", "tokens"], sort=False)["word"].nunique()
    by_pieces = shares(["split", several.rename("tokens")], "probe")
    by_pieces.insert(0, "words", words)
    patterns = chosen["pattern"].rename("structure")
    return [
        f"Where the recipe (layer {layer}) fails: on words that the tokenizer cuts into several "
        "tokens, of which the reader reads one, and in some structures.",
        by_pieces,
        shares(["split", patterns], "probe"),
    ]


def says_of_words(curve: pd.DataFrame) -> Said:
    """Accuracy on new words against the number of training words."""
    from probing.probes.word_curve import curve_means

    means = curve_means(curve).query("split != 'test' and split != 'ood_structure'")
    texts = [ranged(*row) for row in means[["mean", "min", "max"]].to_numpy()]
    wide = pivoted(means, texts, ["split", "probe"], "training_words")
    sentences = sorted(set(curve["sentences"]))
    return [
        f"Accuracy on new words of probes fitted to some of the training words, at layer "
        f"{curve['layer'].iloc[0]}, always with the same number of sentences "
        f"({' or '.join(map(str, sentences))}): mean (range) over {curve['draw'].nunique()} draws "
        "of words.",
        wide.rename(columns=lambda n: f"{n} words"),
    ]


def accuracies(table: pd.DataFrame) -> list[str]:
    """One text per row: accuracy with its interval or, of shuffled labels, the range over draws."""
    texts = intervals(table)
    if "highest" not in table:
        return texts
    ranges = [ranged(*row) for row in table[["accuracy", "lowest", "highest"]].to_numpy()]
    return [
        text if highest != highest else over_draws
        for text, over_draws, highest in zip(texts, ranges, table["highest"], strict=True)
    ]


def few(splits: pd.DataFrame) -> str:
    """A warning that names the splits with few words; empty if no split has few."""
    names = [f"`{name}` ({n})" for name, n in splits["words"].items() if n < FEW_WORDS]
    if not names:
        return ""
    return (
        f"Fewer than {FEW_WORDS} words decide the labels of {', '.join(names)}: intervals "
        "over so few words are exact, but wide."
    )


WORDS_CAPTION = (
    "Accuracy on new words against the number of training words, at one layer, always with the "
    "same number of training sentences. Lines are means over draws of words, bands their range."
)
PAPER_CAPTION = (
    "The published bars of BERT (squares; they have no intervals) and ours by the same protocol: "
    "accuracy of a logistic regression on [CLS] (the last token of a decoder), mean over layers, "
    "with 95% intervals over words. Initial embeddings: layer 0."
)
STUDY = study(
    __name__,
    "Probes by layer",
    "python scripts/probe.py",
    probes="Accuracy of each probe by layer, one line per split, with 95% intervals. Dotted lines: "
    "an untrained model of the same architecture. Dashed line: the layer chosen by "
    "cross-validation over the training split.",
)
