"""The options model, data and seed, which all commands on any model share."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from studies.bounds import Seed, check_bounds
from studies.storage.results import SETTINGS, read_json
from studies.study import Tables

if TYPE_CHECKING:
    from datasets import DatasetDict

    from probing.models.pretrained import Head

AUTO = "auto"
MODEL_NAMES = {"minilm": "MiniLM", "smollm2": "SmolLM2", "mpnet": "MPNet"}  # as pages write them
DEFAULT_DATA = "sentiment"
SPEC = "spec.toml"  # in the folder of one of our Transformers: the dataset of its training


@dataclass(frozen=True, kw_only=True)
class Subject:
    model: str = "minilm"
    """minilm, smollm2, mpnet, a folder, a .gguf file, or a hub name (bert-base-uncased)."""
    data: str = AUTO
    """Name, TOML spec, CSV, JSONL or folder; auto: the model's training data, or sentiment."""
    seed: Seed = 0
    """Seed of the untrained model and of controls."""
    device: str = AUTO
    """Where the model runs: cpu, cuda, cuda:1 or mps; auto: the first of cuda, mps, cpu."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Precision of the model; auto: as its files have it. States are kept in float32."""
    device_map: str | None = None
    """auto: share a model that does not fit one device among all devices (by accelerate)."""

    def __post_init__(self) -> None:
        check_bounds(self)

    def resolved(self) -> Self:
        """These options with the default of ``data`` filled in: what the model was trained on."""
        if self.model.startswith("results/") and not Path(self.model).is_dir():
            raise ValueError(
                f"{self.model} is not there; python scripts/train_transformer.py makes "
                "results/transformer, and python scripts/figure1.py results/models"
            )
        return replace(self, data=trained_on(self.model)) if self.data == AUTO else self

    def load(self, head: "Head | None" = None) -> tuple[Any, Any]:
        """The model, with the given head, and its tokenizer."""
        from probing.models.pretrained import load_model

        place: dict[str, Any] = {"device": self.device, "device_map": self.device_map}
        return load_model(self.model, head=head, dtype=self.dtype, **place)

    def load_whole(self) -> tuple[Any, Any, bool]:
        """The model with its classifier if it has one, its tokenizer, and whether it has one.

        A head with one label does not classify: a printed note says that it is left out.
        """
        from probing.models.pretrained import has_classifier

        if has_classifier(self.model):
            model, tokenizer = self.load("classifier")
            if model.config.num_labels > 1:
                return model, tokenizer, True
            print(f"note: the head of {self.model} has one label; it is left out", flush=True)
        return *self.load(), False

    def check_data(
        self, model: Any, tokenizer: Any, dataset: "DatasetDict", *, classifies: bool = False
    ) -> None:
        """Refuse data that the model cannot read or, if it classifies, has other labels for."""
        self.check_texts(model, tokenizer, dataset)
        self.check_known_words(tokenizer, dataset)
        self.note_first_words(model, tokenizer, dataset)
        if classifies:
            self.check_labels(model, dataset)

    def check_labels(self, model: Any, dataset: "DatasetDict") -> None:
        """Refuse a classifier whose labels are those of the data in another order.

        A printed note says so if its labels have other names: then the order is taken as equal.
        """
        from data_gen.quoting import listed, one_line
        from data_gen.text_files import shown

        theirs = [str(label).lower() for _, label in sorted(model.config.id2label.items())]
        ours = [name.lower() for name in dataset["train"].features["label"].names]
        both = f"{listed(theirs, 4)} in the classifier, {listed(ours, 4)} in {shown(self.data)}"
        if theirs != ours and sorted(theirs) == sorted(ours):
            problem = f"labels are in another order: {both}; exchange them in config.json"
            raise ValueError(one_line(problem))
        if theirs != ours:
            print(f"note: labels are {both}", flush=True)

    def check_texts(self, model: Any, tokenizer: Any, dataset: "DatasetDict") -> None:
        """Refuse data that the model cannot read, before anything is computed.

        Reasons are a split without sentences, and a text that is too long.
        """
        from probing.states.limits import check_texts_fit

        for name, split in dataset.items():
            if not len(split):
                raise ValueError(f"{self.data}: the split {name!r} has no sentences; leave it out")
        check_texts_fit(model, tokenizer, dataset)

    def check_two_labels(self, dataset: "DatasetDict") -> None:
        """Refuse data with more than two labels, for commands that ask which of two it is."""
        from data_gen.quoting import listed, one_line
        from data_gen.text_files import shown

        names = dataset["train"].features["label"].names
        if len(names) != 2:
            problem = f"has {len(names)} labels ({listed(names)}); this command needs two"
            raise ValueError(one_line(f"{shown(self.data)} {problem}"))

    def check_layers(self, layers: tuple[int, ...], model: Any) -> None:
        n_layers = model.config.get_text_config().num_hidden_layers
        if any(not 0 <= layer <= n_layers for layer in layers):
            raise ValueError(f"--layers must lie between 0 and {n_layers} for {self.model}")

    def read_data(self) -> "DatasetDict":
        """The dataset; a line is printed that names model and data."""
        from data_gen import read_data

        dataset = read_data(self.data)
        self.print_subject(dataset)
        return dataset

    def print_subject(self, dataset: "DatasetDict") -> None:
        """Print model and data and, of sentences that name no split, what was held out."""
        print(f"model: {self.model}; data: {self.data}", flush=True)
        if held_out := dataset["train"].info.description:
            print(held_out, flush=True)

    def check_known_words(self, tokenizer: Any, dataset: "DatasetDict") -> None:
        """Refuse data whose training split has no informative word that the tokenizer knows.

        A printed note names other such splits: on these a word-level model can only guess.
        """
        from probing.sentences import at_most
        from probing.states.tokens import tokenise, unknown

        splits = []
        for name, part in at_most(dataset, 200).items():
            tokens = tokenise(tokenizer, part)
            if unknown(tokenizer, tokens.ids[tokens.informative]).all():
                splits.append(name)
        words = f"informative word is known to {self.model}: all are {tokenizer.unk_token}"
        if "train" in splits:
            raise ValueError(f"{self.data}: no {words}; give its training sentences with --data")
        if splits:
            print(f"note: in {', '.join(splits)}\nno {words}", flush=True)

    def note_first_words(self, model: Any, tokenizer: Any, dataset: "DatasetDict") -> None:
        """Print a note if words that decide stand first, and first words have long states."""
        import numpy as np

        from probing.sentences import begins_with_word
        from probing.states.extraction import extract
        from probing.states.limits import LONG, first_state_length

        for name, split in dataset.items():
            first = np.flatnonzero(begins_with_word(split))
            if not len(first):
                continue
            states = extract(model, tokenizer, split.select(first[:8]), positions=["tokens"])
            ratio, layer = first_state_length(states)
            if ratio < LONG:
                return
            print(
                f"note: {len(first)} of {len(split)} sentences of {name} begin with the word that "
                f"decides; first states\nof {self.model} are {ratio:.0f} times as long as others "
                f"at layer {layer}: put a word before it",
                flush=True,
            )


def trained_on(model: str) -> str:
    """The training dataset of a model of train_transformer.py; sentiment for any other model."""
    folder = Path(model)
    try:
        spec = str(read_json(folder / SETTINGS)["spec"])
    except (OSError, ValueError, KeyError, TypeError):
        return DEFAULT_DATA
    if ", sha256" not in spec:  # a built-in dataset, by name
        return spec
    return str(folder / SPEC) if (folder / SPEC).is_file() else DEFAULT_DATA


def model_name(tables: Tables) -> str:
    """The name of the model of a result, as pages write it."""
    name = str(read_json(tables.folder / SETTINGS)["model"]).split(", ")[0]  # without its hash
    return MODEL_NAMES.get(name, name)
