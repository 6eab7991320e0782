"""Any model can be probed: loading refuses what it must, and the study fills its table."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from local_hub import COMMIT
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch_file
from safetensors.torch import save_file as save_torch_file
from sklearn.linear_model import LogisticRegression
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
)

from data_gen import build_dataset, build_tokenizer
from probing.models import packaged
from probing.models.errors import ModelError
from probing.models.presets import build_model
from probing.models.pretrained import Head, load_model, revision_of, untrained_like
from probing.probes.by_layer import (
    Probed,
    chosen_layers,
    fit_probes,
    layer_means,
    probe_cells,
    probe_states,
    probe_table,
)
from probing.probes.locate_and_read import LocateAndRead
from probing.probes.splits import SplitStates, read_splits
from probing.sentences import at_most, draw, informative_words
from probing.states.extraction import extract
from probing.states.tokens import States, Tokens
from probing.statistics import accuracy_columns
from studies.making import make
from studies.practice import probes, sparsity


@pytest.fixture(scope="module")
def reviews() -> Any:
    """A part of every split of the restaurant reviews."""
    dataset = build_dataset("restaurant")
    parts = {name: split.select(range(0, len(split), 11)) for name, split in dataset.items()}
    return type(dataset)(parts)


@pytest.fixture(scope="module")
def tokenizer_of_reviews(reviews: Any, sentiment: Any) -> Any:
    texts = [text for split in reviews.values() for text in split["text"][:]]
    return build_tokenizer([*texts, *sentiment["train"]["text"][:]])


@pytest.fixture(scope="module")
def folder(tokenizer_of_reviews: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model on disk, whose tokenizer knows every word."""
    tokenizer = tokenizer_of_reviews
    path = tmp_path_factory.mktemp("model")
    build_model(tokenizer, "tiny", ["negative", "positive"], seed=0).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def test_minilm_is_there_and_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = load_model("minilm")
    assert model.config.num_hidden_layers == 6
    assert tokenizer.is_fast
    assert not model.training
    other = replace(packaged.PACKAGED["minilm"], sha256="0" * 64)
    monkeypatch.setitem(packaged.PACKAGED, "minilm", other)
    with pytest.raises(ModelError, match="sha256"):
        load_model("minilm")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nowhere", "not a folder"),
        ("a/b/c", "not a folder"),
        (__file__, "not a folder"),
        ("no-such-model-at-all", "hub"),
    ],
)
def test_a_model_that_is_not_there_is_one_clear_line(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as error:
        load_model(name)
    assert "\n" not in str(error.value)


def test_a_model_on_the_hub_is_loaded_by_name_and_later_from_the_cache(
    folder: Path, tmp_path: Path
) -> None:
    environment = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    program = [sys.executable, str(Path(__file__).with_name("local_hub.py")), str(folder)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert "Retry" not in done.stderr, "nothing but one line where there is no hub"
    found = json.loads(done.stdout.splitlines()[-1])
    weights = float(sum(p.detach().sum() for p in load_model(str(folder))[0].parameters()))
    assert found["there"]["weights"] == pytest.approx(weights)
    assert found["cached"]["weights"] == found["there"]["weights"]
    for outcome in (found["there"], found["cached"]):
        assert outcome["revision"] == COMMIT
    assert revision_of(str(folder)) is None
    assert "has no model somebody/no-model" in found["unknown"]["error"]
    assert "it does not answer" in found["offline"]["error"]


def test_a_folder_without_a_model_and_a_corrupt_one_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="holds no model"):
        load_model(str(tmp_path))
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    assert load_model(str(tmp_path))[0] is not None, "the control: a good copy loads"
    (tmp_path / "model.safetensors").write_bytes(b"garbage")
    with pytest.raises(ModelError, match="holds no model"):
        load_model(str(tmp_path))


def test_a_folder_that_lacks_weights_is_refused_and_not_completed_at_random(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    weights = load_torch_file(tmp_path / "model.safetensors")
    missing = "bert.encoder.layer.0.output.dense.weight"
    del weights[missing]
    save_torch_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"is not complete: its weights lack encoder.layer.0"):
        load_model(str(tmp_path))
    del weights["bert.pooler.dense.weight"], weights["classifier.weight"]
    weights[missing] = load_torch_file(folder / "model.safetensors")[missing]
    save_torch_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert load_model(str(tmp_path))[0] is not None, "states do not depend on the pooler"
    with pytest.raises(ModelError, match=r"has no classifier head: .* bert.pooler"):
        load_model(str(tmp_path), head="classifier")


def test_a_head_is_that_of_the_checkpoint_or_an_error(folder: Path, tmp_path: Path) -> None:
    classifier, tokenizer = load_model(str(folder), head="classifier")
    assert classifier.config.id2label == {0: "negative", 1: "positive"}
    config = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config |= {"intermediate_size": 8, "vocab_size": len(tokenizer)}
    models = {
        "masked": BertForMaskedLM(BertConfig(**config)),
        "distil": DistilBertModel(DistilBertConfig(dim=8, n_heads=2, n_layers=1, hidden_dim=8)),
        "headless": LlamaModel(LlamaConfig(**config, tie_word_embeddings=False)),
        "language": LlamaForCausalLM(LlamaConfig(**config)),
    }
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    language, _ = load_model(str(tmp_path / "language"), head="language")
    assert language.lm_head.out_features == len(tokenizer), "the control"
    wrongs: list[tuple[str, Head, str]] = [
        ("masked", "language", "it is an encoder"),
        ("distil", "language", "its architecture has none"),
        ("headless", "language", "its weights lack lm_head.weight"),
        ("language", "classifier", "its weights lack score.weight"),
    ]
    for name, head, why in wrongs:
        with pytest.raises(ModelError, match=f"{name} has no {head} head: {why}") as error:
            load_model(str(tmp_path / name), head=head)
        assert "\n" not in str(error.value)


def test_the_untrained_control_has_the_architecture_but_not_the_weights(folder: Path) -> None:
    model, _ = load_model(str(folder))
    control = untrained_like(model, seed=1)
    weights, others = model.state_dict(), control.state_dict()
    assert weights.keys() == others.keys()
    name = "embeddings.word_embeddings.weight"
    assert (weights[name] != others[name]).any()
    assert (untrained_like(model, seed=1).state_dict()[name] == others[name]).all()


def test_the_study_fills_its_table_and_shuffled_labels_are_worse(
    folder: Path, reviews: Any
) -> None:
    model, tokenizer = load_model(str(folder))
    states = read_splits(model, tokenizer, reviews, max_token_sentences=60)
    fits = fit_probes(states, probes=("summary", "value", "location", "reader", "head"), C=1.0)
    table = probe_table(fits, states)
    assert len(table) == 5 * 2 * len(reviews)
    assert table["accuracy"].between(0, 1).all()
    assert (table["low"] <= table["accuracy"] + 1e-9).all()
    assert (table["accuracy"] <= table["high"] + 1e-9).all()
    # At the informative word itself even random embeddings tell training words apart.
    value = table[(table["probe"] == "value") & (table["split"] == "test")]
    assert (value["accuracy"] == 1).all()
    control = probe_states(states, probes=("value",), C=1.0, shuffled=True, seed=1)
    assert control[control["split"] == "test"]["accuracy"].max() < 1
    means = layer_means(probe_cells(fits, states)).set_index(["probe", "split"])["accuracy"]
    only = table[(table["probe"] == "summary") & (table["layer"] == 1) & (table["split"] == "test")]
    assert means["summary", "test"] == pytest.approx(only["accuracy"].iloc[0])
    assert set(chosen_layers(table)["layer"]) == {1}


@pytest.fixture
def guesses(reviews: Any) -> Any:
    """Probes of the embeddings and of two layers that are right at random, words differently."""
    rng = np.random.default_rng(0)
    states, fits = {}, {}
    for name in ("train", "ood_tokens"):
        rows = reviews[name][:]
        n = len(rows["text"])
        tokens = Tokens(
            offsets=np.arange(n + 1),
            informative=np.ones(n, dtype=bool),
            words=informative_words(rows),
            patterns=rows["pattern"],
        )
        few = tokens.take(np.sort(rng.permutation(n)[: n // 2]))
        states[name] = SplitStates(States(tokens), States(few))
    for probe, layer in product(("summary", "reader"), (0, 1, 2)):
        right = {}
        for name, split in states.items():
            tokens = split.of(probe).tokens
            share = dict(zip(tokens.words.tolist(), rng.random(len(tokens)), strict=True))
            right[name] = rng.random(len(tokens)) < [share[word] for word in tokens.words]
        fits[probe, layer] = Probed(None, right, 1.0, 0.5)
    return fits, states


def test_cells_suffice_for_accuracies_and_for_means_over_layers(guesses: Any) -> None:
    """Counts by word and pattern say what sentences say, also about intervals."""
    fits, states = guesses
    cells = probe_cells(fits, states)
    table = probe_table(fits, states).set_index(["probe", "layer", "split"])
    means = layer_means(cells).set_index(["probe", "split"])
    for probe, split in means.index:
        tokens = states[split].of(probe).tokens
        correct = {layer: fits[probe, layer].correct[split] for layer in (0, 1, 2)}
        for layer, right in correct.items():
            rows = cells.query("probe == @probe and layer == @layer and split == @split")
            row = table.loc[(probe, layer, split)]
            assert rows["sentences"].sum() == len(tokens)
            assert row[["accuracy", "low", "high", "words"]].tolist() == pytest.approx(
                list(accuracy_columns(right, tokens.words).values())
            )
            first = rows.iloc[0]
            here = (tokens.words == first["word"]) & (tokens.patterns == first["pattern"])
            assert (first["sentences"], first["correct"]) == (here.sum(), right[here].sum())
        both = (correct[1].astype(float) + correct[2]) / 2  # without the embeddings
        expected = list(accuracy_columns(both, tokens.words).values())
        assert means.loc[(probe, split)].tolist() == pytest.approx(expected)


SMALL_SPEC = """
[polarity]
negative = ["bland", "terrible"]
positive = ["delicious", "wonderful"]
[slots.TASTE]
role = "informative"
all = ["bland", "delicious", "terrible", "wonderful"]
[slots.DISH]
training = ["soup", "pasta", "curry"]
held_out = ["salad", "stew"]
[patterns]
plain = "The {DISH} was {TASTE}"
other = "What a {TASTE} {DISH}"
[splits.train]
patterns = ["plain", "other"]
words = { default = "training", TASTE = "all" }
[splits.test]
patterns = ["plain", "other"]
words = { default = "held_out", TASTE = "all" }
"""


def test_the_script_writes_its_tables_and_refuses_bad_input(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "probes"
    (tmp_path / "small.toml").write_text(SMALL_SPEC)
    options: dict[str, Any] = {"model": str(folder), "data": str(tmp_path / "small.toml")}
    make(probes.STUDY, probes.Options(**options, probes=("value",), jobs=1, output=output))
    printed = capsys.readouterr().out
    for model in (folder.name, "untrained", "shuffled labels"):
        assert re.search(rf"^{model} +value ", printed, re.MULTILINE), printed
    assert re.search(r"split +train \(4 words\) +test \(4 words\)", printed), printed
    found = re.search(r"^shuffled labels +value (.*)", printed, re.MULTILINE)
    assert found
    assert re.fullmatch(r"( +0\.\d\d \(\d\.\d\d to \d\.\d\d\)){2}", found[1]), "over draws"
    assert re.search(rf"^{folder.name} +value +1\.00 \[0\.40, 1\.00\]", printed, re.MULTILINE)
    assert "intervals over so few words are exact, but wide" in " ".join(printed.split())
    table = pd.read_parquet(output / "probes.parquet")
    assert set(table["model"]) == {"trained", "untrained"}
    assert table.loc[table["control"] != "none", ["low", "high"]].isna().all(axis=None)
    document = (Path(__file__).parent.parent / "docs" / "your-own-model.md").read_text()
    (lines,) = re.findall(r"^```text\n(cells = .*?)^```$", document, re.MULTILINE | re.DOTALL)
    lines = lines.replace("results/kettles", str(output)).replace("reader", "value")
    exec(lines, {"pd": pd})
    printed = capsys.readouterr().out
    assert re.search(r"^1 +bland +4 +4$", printed, re.MULTILINE), "two dishes, two patterns"
    located = probes.Options(**options, probes=("location",), jobs=1, output=tmp_path / "located")
    make(probes.STUDY, located)
    assert "shuffled labels" not in capsys.readouterr().out, "it has no labels"
    with pytest.raises(ValueError, match="--layers"):
        make(probes.STUDY, probes.Options(model=str(folder), layers=(7,), output=tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_the_results_do_not_depend_on_the_number_of_processes(folder: Path, reviews: Any) -> None:
    model, tokenizer = load_model(str(folder))
    states = read_splits(model, tokenizer, reviews, max_token_sentences=60)
    one, two = (
        probe_states(states, probes=("head", "reader", "summary"), C=1.0, jobs=jobs)
        for jobs in (1, 2)
    )
    pd.testing.assert_frame_equal(one, two)


def test_the_papers_protocol_is_what_its_notebook_does(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the released rows scikit-learn's own logistic regression finds the same bars."""
    options = probes.Options(
        model=str(folder),
        protocol="paper",
        no_controls=True,
        max_rows=400,
        jobs=1,
        output=tmp_path / "probes",
    )
    make(probes.STUDY, options)
    assert "mean over layer 1 (of 1)" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "probes" / "chosen.parquet").exists(), "the paper chooses no layer"
    splits = pd.read_parquet(tmp_path / "probes" / "splits.parquet").set_index("split")
    assert splits.loc["train", ["sentences", "of"]].tolist() == [400, 15_552]
    bars = pd.read_parquet(tmp_path / "probes" / "bars.parquet").set_index(["model", "split"])
    assert bars.loc[("BERT", "initial"), "accuracy"] == 0.5
    table = pd.read_parquet(tmp_path / "probes" / "probes.parquet")
    assert set(table["probe"]) == {"summary"}
    assert set(table["C"]) == {1.0}
    at = table.set_index(["layer", "split"])["accuracy"]
    assert bars.loc[("trained", "initial"), "accuracy"] == at[0, "test"]
    assert bars.loc[("trained", "ood_tokens"), "accuracy"] == at[1, "ood_tokens"]
    released = at_most(build_dataset("sentiment-as-released"), 400)
    model, tokenizer = load_model(str(folder))
    states = {
        name: extract(model, tokenizer, split, positions=["summary"]).at(1, "summary")
        for name, split in released.items()
    }
    theirs = LogisticRegression(C=1.0, max_iter=1000, tol=1e-6)
    theirs.fit(states["train"], released["train"]["label"][:])
    ours = table[table["layer"] == 1].set_index("split")["accuracy"]
    for name, split in released.items():
        expected = theirs.score(states[name], split["label"][:])
        assert ours[name] == pytest.approx(expected, abs=0.02), name


def test_decoders_are_probed_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tokenizer_of_reviews: Any
) -> None:
    config = GPT2Config(
        n_layer=1, n_head=2, n_embd=16, vocab_size=len(tokenizer_of_reviews), n_positions=64
    )
    torch.manual_seed(0)
    GPT2Model(config).save_pretrained(tmp_path / "decoder")
    tokenizer_of_reviews.save_pretrained(tmp_path / "decoder")
    (tmp_path / "small.toml").write_text(SMALL_SPEC)
    make(
        probes.STUDY,
        probes.Options(
            model=str(tmp_path / "decoder"),
            data=str(tmp_path / "small.toml"),
            no_controls=True,
            jobs=1,
            output=tmp_path / "probes",
        ),
    )
    table = pd.read_parquet(tmp_path / "probes" / "probes.parquet")
    value = table[(table["probe"] == "value") & (table["split"] == "test")]
    assert (value["accuracy"] == 1).all()
    chosen = pd.read_parquet(tmp_path / "probes" / "chosen.parquet")
    assert set(chosen["probe"]) == set(probes.Options.probes), "one rule for all"
    assert set(chosen["layer"]) == {1}, "above the embeddings"
    both = chosen.merge(table, on=["probe", "layer", "split"], suffixes=("", "_of_table"))
    assert len(both) == len(chosen) == 12
    assert (both["accuracy"] == both["accuracy_of_table"]).all()
    splits = pd.read_parquet(tmp_path / "probes" / "splits.parquet").set_index("split")
    assert (chosen["sentences"] == chosen["split"].map(splits["sentences"])).all()
    printed = capsys.readouterr().out
    places = [printed.index(text) for text in ("head  ", "reader  ", "Accuracy, mean over")]
    assert places == sorted(places), "every probe at its own layer, those told nothing first"
    plane = pd.read_parquet(tmp_path / "probes" / "plane.parquet")
    assert set(plane["role"]) == {"informative", "neutral"}
    directions = load_file(tmp_path / "probes" / "directions.safetensors")
    assert directions["layers"].tolist() == [0, 1]
    model, tokenizer = load_model(str(tmp_path / "decoder"))
    states = read_splits(model, tokenizer, build_dataset(tmp_path / "small.toml"))
    reader = LocateAndRead().fit(*states["train"].at(1, "reader"))
    np.testing.assert_allclose(directions["k_hat"][1], reader.k_hat_, atol=1e-6)
    np.testing.assert_allclose(directions["v_hat"][1], reader.v_hat_, atol=1e-6)


def test_the_sparsity_script_tells_a_classifier_from_an_encoder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.toml").write_text(SMALL_SPEC)
    output = tmp_path / "sparsity"
    options: dict[str, Any] = {"data": str(tmp_path / "small.toml")}
    make(sparsity.STUDY, sparsity.Options(model=str(folder), output=output, **options))
    table = pd.read_parquet(output / "sparsity.parquet")
    assert set(table["model"]) == {"trained", "untrained", "uniform"}
    uniform = table[(table["model"] == "uniform") & (table["split"] == "test")]
    assert uniform["gini"].to_numpy() == pytest.approx(0, abs=1e-6)
    depends = pd.read_parquet(output / "dependence.parquet")
    assert depends[["occlusion_share", "gradient_share"]].stack().between(0, 1).all()
    with pytest.raises(ValueError, match="--max-rows"):
        make(sparsity.STUDY, sparsity.Options(model=str(folder), max_rows=0, output=tmp_path / "x"))


def test_drawn_rows_hold_every_word_about_as_often(sentiment: Any) -> None:
    """Every tenth row of the first training pattern holds three of the six adjectives."""
    words = np.array(informative_words(sentiment["train"]))
    _, counts = np.unique(words[draw(len(words), 1500)], return_counts=True)
    assert len(counts) == 6
    assert counts.min() > 200
    assert len(np.unique(words[:5184:10])) == 3, "the trap is real"
