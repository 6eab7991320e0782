"""What is claimed of the default model, on seeds that chose nothing."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from probing.attribution import logit_differences, swap_flips
from probing.evaluation import summary_attention
from probing.models.presets import build_model
from probing.models.training import (
    TrainingConfig,
    train,
)
from probing.sparsity import attention_mass
from studies.practice import transformer

LABELS = ["negative", "positive"]

pytestmark = pytest.mark.usefixtures("one_thread")


SEEDS = range(2000, 2010)  # used for nothing else
OPPOSITES = {
    "nice.": ["dreadful."],
    "dreadful.": ["nice."],
    "clean.": ["dirty."],
    "dirty.": ["clean."],
    "nice": ["mean", "dreadful", "aggressive"],
    "cute": ["mean", "dreadful", "aggressive"],
    "delightful": ["mean", "dreadful", "aggressive"],
    "mean": ["nice", "cute", "delightful"],
    "dreadful": ["nice", "cute", "delightful"],
    "aggressive": ["nice", "cute", "delightful"],
}


def accuracy(model: Any, tokenizer: Any, split: Any) -> float:
    predicted = logit_differences(model, tokenizer, split["text"][:]) > 0
    return float(np.mean(predicted == np.array(split["label"][:], dtype=bool)))


def measures(model: Any, tokenizer: Any, sentiment: Any) -> dict[str, float]:
    row = {}
    for name in ("test", "ood_structure", "ood_tokens"):
        row[name] = accuracy(model, tokenizer, sentiment[name])
        attention = summary_attention(model, tokenizer, sentiment[name])
        row[f"mass_{name}"] = float(attention_mass(attention)[:, 0].mean())
    test = sentiment["test"]
    rows = [test[i] for i in range(0, len(test), 4)]
    return row | swap_flips(model, tokenizer, rows, OPPOSITES, np.random.default_rng(0))


@pytest.fixture(scope="module")
def ten_seeds(sentiment: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One row a seed, untrained and trained."""
    split, rows = sentiment["train"], []
    texts, labels = split["text"][:], split["label"][:]
    for seed in SEEDS:
        model = build_model(tokenizer, "tiny", LABELS, seed)
        rows.append({"seed": seed, "trained": False} | measures(model, tokenizer, sentiment))
        folder = tmp_path_factory.mktemp("checkpoints")
        train(model, tokenizer, texts, labels, TrainingConfig(seed=seed), folder, quiet=True)
        shutil.rmtree(folder)
        rows.append({"seed": seed, "trained": True} | measures(model, tokenizer, sentiment))
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format="%.4f"))  # pytest -s shows it
    return table


@pytest.mark.slow
def test_tiny_generalises_to_new_words_and_structures(ten_seeds: Any) -> None:
    trained = ten_seeds[ten_seeds["trained"]]
    assert (trained["test"] >= 0.99).sum() >= 9
    assert (trained["ood_structure"] >= 0.99).sum() >= 9
    assert (ten_seeds[~ten_seeds["trained"]]["test"] < 0.8).all(), "the control: untrained"


@pytest.mark.slow
def test_new_adjectives_are_at_chance_by_construction(ten_seeds: Any) -> None:
    """All are the same [UNK], and half of them are good."""
    assert (ten_seeds["ood_tokens"] == 0.5).all()


@pytest.mark.slow
def test_attention_is_on_the_informative_word_once_trained(ten_seeds: Any) -> None:
    trained, untrained = (ten_seeds[ten_seeds["trained"] == is_it] for is_it in (True, False))
    for split in ("test", "ood_structure"):
        assert trained[f"mass_{split}"].min() >= 0.95
        assert untrained[f"mass_{split}"].between(0.05, 0.12).all()


@pytest.mark.slow
def test_swaps_flip_for_the_informative_word_alone(ten_seeds: Any) -> None:
    trained = ten_seeds[ten_seeds["trained"]]
    assert trained["swap_informative"].min() >= 0.99
    assert trained["swap_distractor"].max() <= 0.01


@pytest.mark.slow
def test_corpus_vectors_carry_new_adjectives_and_the_swapped_corpus_turns_them(
    tmp_path: Path,
) -> None:
    found = {}
    for swap in (False, True):
        config = transformer.Options(embeddings="corpus", seed=SEEDS[0])
        config = replace(config, control="swapped" if swap else "none")
        folder = tmp_path / str(swap)
        model, tokenizer, dataset = transformer.trained(config, folder, quiet=True)
        found[swap] = {
            name: accuracy(model, tokenizer, dataset[name])
            for name in ("test", "ood_structure", "ood_tokens", "ood_structure_tokens")
        }
    print(found)
    assert min(found[False].values()) >= 0.99
    assert min(found[True]["test"], found[True]["ood_structure"]) >= 0.99, "known adjectives stay"
    assert max(found[True]["ood_tokens"], found[True]["ood_structure_tokens"]) <= 0.01
