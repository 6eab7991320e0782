"""Are k* and v* in decoders as well? 1-layer GPT-2 and Llama beside BERT, over training seeds.

All are trained on the same sentences; a decoder is read at its last token, and Llama has rotary
positions. For each the study measures attention on the informative word, compares directions in the
weights with those of probes, and erases or reflects states. Cosines differ much between seeds:
every quantity is a median over 20 of them. Missing models are trained first, in the folder `models`
next to the output.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from studies.bounds import MOST, Trainings, Within
from studies.findings import Finding, share
from studies.practice import transformer
from studies.rendering import medians_said
from studies.study import Need, Result, Said, Tables, study
from studies.study import Options as StudyOptions
from studies.workers import in_parallel

NAMES: dict[transformer.ArchitectureName, str] = {
    "bert": "BERT",
    "gpt2": "GPT-2",
    "llama": "Llama",
}
QUANTITIES = {  # in the tables `quantities` (by seed) and `medians`: name on pages
    "mass": "attention on the word",
    "mass_elsewhere": "attention on the word, where it is not the last word",
    "mass_untrained": "attention on the word, untrained model",
    "kappa": "cos(key, k_hat)",
    "kappa_states_null": "cos(key, k_hat), random (states): 95%",
    "kappa_null": "cos(key, k_hat), random: 95%",
    "nu": "cos(value, v_hat)",
    "nu_states_null": "cos(value, v_hat), random (states): 95%",
    "nu_null": "cos(value, v_hat), random: 95%",
    "accuracy": "accuracy",
    "erased": "accuracy, value erased at the word (LEACE)",
    "erased_distractor": "accuracy, value erased at the distractor (LEACE)",
    "erased_random": "accuracy, random direction erased at the word",
    "ablated": "accuracy without the head",
    "located": "attention on the word, location erased (LEACE)",
    "reflected": "predictions turned by reflection along v_hat",
    "reflected_random": "predictions turned along a random direction",
}


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    output: Path = Path("results/decoders")
    """Folder for tables and figures."""
    seeds: Trainings = 20
    """Number of training seeds of each model."""
    sentences: Annotated[int, Within(48, MOST)] = 480
    """Largest number of sentences per split; directions come from those of the training split."""


def transformers(options: Options) -> list[transformer.Options]:
    folder = options.output.parent / "models"
    return [
        each
        for architecture in NAMES
        for each in transformer.tiny_models(folder, options.seeds, architecture).values()
    ]


def needs(options: Options) -> list[Need]:
    return [(transformer.STUDY, each) for each in transformers(options)]


def run(options: Options) -> Result:
    from probing.statistics import medians
    from studies.practice.figures.decoders import plot_decoders

    look = functools.partial(look_into, options.sentences)
    rows = in_parallel(look, transformers(options), "looking into models")
    table = pd.DataFrame(rows)
    tables = {"quantities": table, "medians": medians(table, ["architecture"], list(QUANTITIES))}
    return Result(tables, {"decoders": plot_decoders(table)})


def look_into(sentences: int, ours: transformer.Options) -> dict[str, Any]:
    """All quantities of one trained model, on the test split."""
    from data_gen import build_dataset
    from probing.circuits.causal import Trial, causal_table
    from probing.circuits.directions import directions_table
    from probing.models.pretrained import load_model, untrained_like
    from probing.models.training import one_torch_thread
    from probing.sentences import draw_by_word
    from probing.sparsity import attention_mass
    from probing.states.extraction import read
    from probing.states.tokens import tokenise

    with one_torch_thread():
        model, tokenizer = load_model(str(ours.output), head="classifier")
        dataset = build_dataset()
        train, test = (
            tokenise(tokenizer, dataset[name].select(draw_by_word(dataset[name], sentences)))
            for name in ("train", "test")
        )
        directions = directions_table(model, train).iloc[0]
        untrained = read(untrained_like(model, ours.seed), test, states=False)
        causal = causal_table(Trial(model, train, test), layers=[0], doses=[])
    metrics = Tables(ours.output)["metrics"].set_index("split").loc["test"]
    effects = causal.set_index(["test", "edit", "site"])

    def effect(test: str, edit: str, site: str, column: str) -> float:
        return float(effects.loc[(test, edit, site), column])

    return {
        "architecture": ours.architecture,
        "seed": ours.seed,
        "mass": metrics["attention_mass"],
        "mass_elsewhere": metrics["attention_mass_elsewhere"],
        "mass_untrained": float(attention_mass(untrained).mean()),
        "kappa": abs(directions["kappa"]),
        "kappa_states_null": directions["kappa_covariance_null_95"],
        "kappa_null": directions["kappa_null_95"],
        "nu": abs(directions["nu"]),
        "nu_states_null": directions["nu_covariance_null_95"],
        "nu_null": directions["nu_null_95"],
        "accuracy": metrics["accuracy"],
        "erased": effect("erase value", "LEACE", "informative", "accuracy"),
        "erased_distractor": effect("erase value", "LEACE", "distractor", "accuracy"),
        "erased_random": effect("erase value", "random", "informative", "accuracy"),
        "located": effect("erase location", "LEACE", "all words", "attention_mass"),
        "reflected": effect("reflect", "v_hat", "informative", "flips"),
        "reflected_random": effect("reflect", "random", "informative", "flips"),
        "ablated": effect("ablate head", "all heads", "summary", "accuracy"),
    }


def findings(tables: Tables) -> Iterator[Finding]:
    groups = tables["quantities"].groupby("architecture")
    gpt2, llama = groups.get_group("gpt2"), groups.get_group("llama")

    def above(rows: pd.DataFrame, name: str) -> int:
        return int((rows[name] > rows[f"{name}_states_null"]).sum())

    yield Finding(
        text="In the weights of 1-layer Llama models the direction of v is nearer to the probe's "
        "than 95% of random directions with the covariance of the states in a share of {} of "
        f"{len(llama)} training seeds (GPT-2: {above(gpt2, 'nu')}), that of k in "
        f"{above(llama, 'kappa')} (GPT-2: {above(gpt2, 'kappa')}): k* is there, v* need not be.",
        **share(above(llama, "nu"), len(llama)),
    )


def says(tables: Tables) -> Said:
    table, above_null = tables["medians"], []
    for architecture, rows in tables["quantities"].groupby("architecture", sort=False):
        k, v = ((rows[name] > rows[f"{name}_states_null"]).sum() for name in ("kappa", "nu"))
        above_null.append(f"{NAMES[architecture]} {k} and {v} of {len(rows)}")
    shown = medians_said(table, ["architecture"], QUANTITIES).rename(index=NAMES).T
    return [
        "One layer, one head, 32 dimensions, trained on the same sentences; test split, medians "
        f"over {table['n'].max()} training seeds with their exact 95% intervals. Training ends in "
        "several solutions, and which one a seed ends in may differ between machines: intervals "
        "can be compared between machines, single seeds and means of a few cannot. The training "
        "had no dropout, and the learning rate of decoders was chosen by their attention on the "
        "word in training sentences, among rates that classify these well. A decoder is read at "
        "its last token, which in half of these sentences is the informative word itself: its "
        "attention to itself counts, but the word then reaches the prediction without attention "
        "too. Cosines are absolute; random directions with the covariance of the states are the "
        "comparison to make, isotropic ones stand beside them. Seeds whose cosine is above that of "
        f"95% of random directions of their own states, key and value: {'; '.join(above_null)}.",
        shown.fillna("").rename_axis(index="quantity", columns=None),
    ]


STUDY = study(
    __name__,
    "k* and v* in decoders",
    "python scripts/decoders.py",
    decoders="One-layer models from scratch on the test split: pale dots are training seeds, "
    "points their median with its exact 95% interval. (a) Attention of the summary token on the "
    "informative word; (b) cosines of the directions in the weights with those of probes (dotted: "
    "95% of random directions with the covariance of the states); (c) accuracy after edits of the "
    "embeddings, and predictions turned by reflection.",
)
