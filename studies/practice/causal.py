"""Test what the states of any model do: which word's state, along which direction, decides?

The study compares directions in the weights of attention heads with those of linear probes, beside
random directions; erases, reflects and steers states at the informative word, with a distractor,
random directions and other layers as controls; ablates heads; and moves the attention of the
summary token. A prediction is that of the model's classifier, of a linear readout, or of a language
model itself: the logit of one word minus that of another, behind a prompt.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pandas as pd

from studies.bounds import MOST, Layer, Trainings, Within
from studies.rendering import number, pivoted
from studies.study import Options as StudyOptions
from studies.study import Result, Said, Tables, counter, study
from studies.subject import Subject, model_name

N_LAYERS = 7  # edited by default, from the embeddings to the last
N_HEADS = 5  # heads that the summary shows
Test = Literal["erase value", "erase location", "reflect", "steer", "ablate head", "read only"]
READOUTS = {  # in words
    "classifier": "its own classifier",
    "mean": "a linear readout of the mean of its last states",
    "summary": "a linear readout of the last state of its summary token",
    "words": "the logit of one word minus that of another, less its middle in training",
}


@dataclass(frozen=True, kw_only=True)
class Options(Subject, StudyOptions):
    readout: Literal["auto", "classifier", "mean", "summary", "words"] = "auto"
    """The model's classifier; a linear readout of the mean or summary token; two words' logits."""
    words: tuple[str, str] = ("good", "bad")
    """For --readout words: the word that stands for label 1, and that for label 0."""
    suffix: str = ""
    """Words behind every sentence, such as a prompt: "Overall, the animal is"."""
    split: str = "test"
    """The split on which effects are measured; directions come from the training split."""
    sentences: Annotated[int, Within(24, MOST)] = 240
    """Largest number of sentences per split, equally many per informative word."""
    layers: tuple[Layer, ...] = ()
    """Layers whose states are edited (0: embeddings); by default seven, evenly spaced."""
    heads: tuple[Layer, ...] = ()
    """Layers (from 1) whose heads are ablated; by default that with most attention on the word."""
    tests: tuple[Test, ...] = get_args(Test)
    """The tests to run: erase value, erase location, reflect, steer, ablate head, read only."""
    random: Trainings = 3
    """Number of random directions of each kind."""
    output: Path = Path("results/causal")
    """Folder for the tables and the figure."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.readout != "words" and self.words != Options.words:
            raise ValueError("--words belongs to --readout words; add that option")
        if self.heads and not {"ablate head", "read only"} & set(self.tests):
            raise ValueError(
                "--heads belongs to --tests 'ablate head' or 'read only'; add one of them"
            )
        if self.readout == "words" and not self.suffix:
            raise ValueError(
                '--readout words needs a prompt that the word follows: --suffix "Overall, it is"'
            )


def run(options: Options) -> Result:
    from probing.circuits.causal import Trial, causal_table
    from probing.circuits.directions import directions_table
    from probing.circuits.learning import reading_head
    from probing.states.anatomy import anatomy_of
    from probing.states.extraction import read
    from studies.practice.figures.causal import plot_causal_tests

    dataset = options.read_data()
    if options.split not in dataset:
        raise ValueError(f"no split {options.split!r}; there are {', '.join(dataset)}")
    options.check_two_labels(dataset)
    kind, model, tokenizer = loaded(options)
    options.check_data(model, tokenizer, dataset, classifies=kind == "classifier")
    names = ("train", options.split)
    train, test = (sentences(options, tokenizer, dataset[name]) for name in names)
    readout = readout_of(options, kind, model, tokenizer, train)
    n_layers = anatomy_of(model).n_layers
    layers = options.layers or evenly_spaced(n_layers)
    options.check_layers(layers, model)
    layer, _ = reading_head(read(model, train, readout, states=False))
    heads = options.heads or (layer,)
    if any(not 1 <= each <= n_layers for each in heads):
        raise ValueError(f"--heads must lie between 1 and {n_layers} for {options.model}")
    directions = directions_table(model, train, readout=readout, layers=layers, seed=options.seed)
    with counter("causal tests", "run") as progress:
        causal = causal_table(
            Trial(model, train, test, readout),
            layers=layers,
            heads=heads,
            tests=options.tests,
            doses=[1.0],
            n_random=options.random,
            seed=options.seed,
            progress=progress,
        )
    tables = {"causal": causal, "directions": directions}
    tables["subject"] = pd.DataFrame(
        [{"readout": kind, "sentences": len(test), "words": len(set(test.words))}]
    )
    return Result(tables, {"causal": plot_causal_tests(causal, directions)})


def loaded(options: Options) -> tuple[str, Any, Any]:
    """The kind of readout, the model with the head that it needs, and the tokenizer."""
    from probing.states.anatomy import anatomy_of

    if options.readout != "auto":
        heads: dict[str, Any] = {"words": "language", "classifier": "classifier"}
        return options.readout, *options.load(heads.get(options.readout))
    model, tokenizer, classifies = options.load_whole()
    pooled = "summary" if anatomy_of(model).causal else "mean"
    return "classifier" if classifies else pooled, model, tokenizer


def sentences(options: Options, tokenizer: Any, split: Any) -> Any:
    """The tokens of as many sentences per informative word, with the suffix."""
    from probing.sentences import draw_by_word, with_suffix
    from probing.states.tokens import tokenise

    drawn = split.select(draw_by_word(split, options.sentences))
    return tokenise(tokenizer, with_suffix(drawn, options.suffix))


def readout_of(options: Options, kind: str, model: Any, tokenizer: Any, train: Any) -> Any:
    """The readout of the given kind; None for the model's own classifier."""
    from probing.circuits.readouts import centred, linear_readout, word_readout

    if kind == "classifier":
        return None
    if kind == "words":
        return centred(word_readout(model, tokenizer, *options.words), model, train)
    return linear_readout(model, train, "all words" if kind == "mean" else "summary")


def evenly_spaced(n_layers: int) -> tuple[int, ...]:
    n = min(N_LAYERS, n_layers + 1)
    return tuple(round(i * n_layers / (n - 1)) for i in range(n))


def says(tables: Tables) -> Said:
    causal, subject = tables["causal"], tables["subject"].iloc[0]
    before = causal[causal["test"] == "none"].iloc[0]
    said: Said = [
        f"Causal tests of {model_name(tables)}, read by {READOUTS[subject['readout']]}: "
        f"{subject['sentences']} sentences with {subject['words']} informative words. Without an "
        f"edit {before['accuracy']:.3f} [{before['low']:.3f}, {before['high']:.3f}] are right."
    ]
    erased = causal[causal["test"].str.startswith("erase")]
    if len(erased):
        said += [
            "Accuracy once a direction is erased at the states of a layer (0: embeddings); "
            "`random` directions are isotropic, `random (states)` have the covariance of states.",
            by_layer(erased, erased["accuracy"].map(number)),
        ]
    turned = causal[causal["test"].isin(["reflect", "steer"])]
    if len(turned):
        texts = turned["flips"].map(number) + " (" + turned["shift"].map("{:+.2f}".format) + ")"
        said += [
            "Share of changed predictions once the word is reflected, or steered by one distance "
            "between the labels, at the states of a layer and, in brackets, the mean move of the "
            "logit towards the other label, in distances between the labels:",
            by_layer(turned, texts),
        ]
    heads = causal[causal["test"].isin(["ablate head", "read only"])]
    if len(heads):
        columns = {"accuracy": "accuracy", "flips": "changed predictions"}
        shown = heads.assign(layer=heads["layer"].astype(int)).set_index(["test", "layer", "edit"])
        said += [
            "Heads ablated, and the summary token reading one word alone:",
            shown[list(columns)].rename(columns=columns).map(number),
        ]
    return [*said, *directions_said(tables["directions"])]


def by_layer(rows: pd.DataFrame, texts: pd.Series) -> pd.DataFrame:
    """One row per edit and site, one column per layer."""
    labelled = rows.assign(layer=rows["layer"].astype(int))
    return pivoted(labelled, texts.tolist(), ["test", "edit", "site"], "layer")


def directions_said(directions: pd.DataFrame) -> Said:
    strongest = directions.sort_values("attention_mass", ascending=False).head(N_HEADS)
    nulls = {"": "", "_null_95": ": random", "_covariance_null_95": ": random (states)"}
    cosines = {
        f"{overlap}{null}": f"{name}{kind}"
        for overlap, name in (("kappa", "k"), ("nu", "v"))
        for null, kind in nulls.items()
    }
    columns = {"attention_mass": "attention"} | cosines
    heads = strongest.set_index(["layer", "head"])[list(columns)].abs().rename(columns=columns)
    most = directions["attention_mass"].max()
    return [
        f"Of the {len(directions)} heads that read the edited layers, the one that attends most to "
        f"the informative word gives it {number(most)} of the summary token's attention. The heads "
        "with most: absolute cosines of their key direction with k_hat (k) and of their value "
        "direction with v_hat (v), beside the 95% quantiles of random directions.",
        heads.map(number),
    ]


STUDY = study(
    __name__,
    "Causal tests of any model",
    "python scripts/causal.py",
    causal="Causal tests by layer, a panel for each kind that was run: the direction that tells "
    "the labels apart is erased at the informative word, at a distractor or at the summary token; "
    "the informative word is reflected along v_hat, beside the distractor and random directions; "
    "how far this moves the logit towards the other label; cosines of the directions in the "
    "weights of heads with those of probes, beside random directions.",
)
# What a language model itself says of the animal. Prompt and words had the largest area under the
# curve on 96 training sentences, of 6 prompts and 4 pairs of words (docs/probing.md).
SMOLLM2 = Options(
    model="smollm2",
    dtype="bfloat16",
    readout="words",
    words=("lovely", "horrible"),
    suffix="In one word, the animal is",
    tests=("reflect",),
    sentences=48,
)
SMOLLM2_STUDY = replace(
    STUDY,
    title="What SmolLM2 says",
    command="python scripts/causal.py --model smollm2 --dtype bfloat16 --readout words "
    '--words lovely horrible --suffix "In one word, the animal is" --tests reflect --sentences 48',
)
