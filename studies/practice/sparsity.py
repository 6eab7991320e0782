"""Token-wise sparsity of a model: how much does it look at, and depend on, the word that decides?

For every layer and head the attention of [CLS] (mass on the informative word, top-1 rate, entropy,
effective number of tokens, tokens for 95% of the mass, Gini), beside an untrained model and
uniform attention. Of a classifier also what its predictions depend on: shares of occlusion and of
gradient x input, and how often a swapped word changes the prediction.
"""

from dataclasses import dataclass
from pathlib import Path

from studies.practice.subject import Subject
from studies.study import Options as StudyOptions
from studies.study import Result, Said, Tables, study


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, Subject):
    model: str = "results/transformer"
    """The folder of a model (scripts/train_transformer.py makes one), minilm, or a hub name."""
    max_rows: int = 1000
    """At most this many sentences of each split, drawn at random."""
    output: Path = Path("results/sparsity")
    """Folder for the tables."""


def run(options: Options) -> Result:
    if options.max_rows < 1:
        raise ValueError(f"--max-rows must be at least 1, not {options.max_rows}")

    from data_gen import read_data
    from probing.evaluation import compare_dependence, compare_sparsity
    from probing.models.pretrained import load_model, untrained_like

    model, tokenizer = load_model(options.model)
    classifies = any("Classification" in name for name in model.config.architectures or [])
    if classifies:
        model, tokenizer = load_model(options.model, classifier=True)
    dataset = read_data(options.data)
    models = {"trained": model, "untrained": untrained_like(model, options.seed)}
    sparsity = compare_sparsity(models, tokenizer, dataset, max_sentences=options.max_rows)
    tables = {"sparsity": sparsity}
    if classifies:
        tables["dependence"] = compare_dependence(models, tokenizer, dataset)
    return Result(tables)


def says(tables: Tables) -> Said:
    test = tables["sparsity"].query("split == 'test'").drop(columns="split").round(3)
    said = [
        "Attention of [CLS] on the test split, by layer and head:",
        test.set_index(["model", "layer", "head"]),
    ]
    if "dependence" in tables:
        depends = tables["dependence"].round(3).set_index(["model", "split"])
        said += ["What the prediction depends on:", depends]
    return said


STUDY = study(__name__, "Attention by layer and head", "python scripts/sparsity.py")
