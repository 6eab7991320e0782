"""The causal tests as a command, on any model and with any readout."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from architectures import family_model
from small_models import byte_level
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from probing.circuits.heads import abs_cosines, random_directions
from probing.circuits.readouts import centred, linear_readout, word_readout
from probing.sentences import draw_by_word, with_suffix
from probing.states.extraction import extract, read
from probing.states.tokens import tokenise
from studies.command_line import run
from studies.practice.causal import evenly_spaced

SUFFIX = "In short, it is"
WORDS = ("my", "is")  # which the small tokenizer has as one token each


@pytest.fixture(scope="module")
def tokenizer(sentiment: Any) -> Any:
    return byte_level([*sentiment["train"]["text"][:500], SUFFIX])


@pytest.fixture(scope="module")
def rows(sentiment: Any) -> Any:
    return sentiment["train"].select(draw_by_word(sentiment["train"], 36))[:]


# ---- readouts


def test_a_suffix_adds_words_and_moves_nothing(rows: Any, tokenizer: Any) -> None:
    longer = with_suffix(rows, SUFFIX)
    assert longer["text"][0] == f"{rows['text'][0]} {SUFFIX}"
    assert longer["span"] == rows["span"]
    before, after = tokenise(tokenizer, rows), tokenise(tokenizer, longer)
    for name in ("informative", "distractor"):
        for i in range(len(before)):
            masks = [getattr(each, name)[each.sentence(i)] for each in (before, after)]
            assert (masks[1][: len(masks[0])] == masks[0]).all()
            assert not masks[1][len(masks[0]) :].any()
    assert rows["text"][0].split()[-1] == rows["words"][0][-1], "the columns are not changed"


def test_two_words_are_read_as_the_language_model_says_them(rows: Any, tokenizer: Any) -> None:
    model = family_model("llama", len(tokenizer), AutoModelForCausalLM)
    readout = word_readout(model, tokenizer, *WORDS)
    tokens = tokenise(tokenizer, with_suffix(rows, SUFFIX))
    logits = read(model, tokens, readout).logits
    one, other = (tokenizer(f" {word}")["input_ids"][0] for word in WORDS)
    for i in (0, 20):
        inputs = tokenizer([f"{rows['text'][i]} {SUFFIX}"], return_tensors="pt")
        with torch.inference_mode():
            last = model(inputs["input_ids"]).logits[0, -1]
        assert logits[i] == pytest.approx(float(last[one] - last[other]), abs=1e-4)
    unequal = np.append(np.flatnonzero(tokens.labels == 0), np.flatnonzero(tokens.labels)[:6])
    for part in (tokens, tokens.take(unequal)):
        balanced = read(model, part, centred(readout, model, part)).logits > 0
        assert balanced.sum() == pytest.approx((part.labels == 1).sum(), abs=1)


def test_words_that_cannot_be_read_are_refused(tokenizer: Any) -> None:
    model = family_model("gpt2", len(tokenizer), AutoModelForCausalLM)
    with pytest.raises(ValueError, match="'xylophone' is not one token"):
        word_readout(model, tokenizer, "my", "xylophone")
    with pytest.raises(ValueError, match="the same token"):
        word_readout(model, tokenizer, "my", "my")
    with pytest.raises(ValueError, match="no language head"):
        word_readout(model.base_model, tokenizer, *WORDS)
    with pytest.raises(ValueError, match="BertModel is not a decoder"):
        word_readout(family_model("bert", len(tokenizer)), tokenizer, *WORDS)


@pytest.mark.parametrize("site", ["all words", "summary"])
def test_a_linear_readout_is_a_probe_of_the_states_it_names(
    site: str, rows: Any, tokenizer: Any
) -> None:
    model = family_model("qwen3", len(tokenizer))
    tokens = tokenise(tokenizer, rows)
    readout = linear_readout(model, tokens, site)
    position = "mean" if site == "all words" else site
    states = extract(model, tokenizer, rows, positions=[position])
    pooled = states.at(states.layers[-1], position)
    by_hand = pooled @ readout.coef.numpy() + readout.intercept
    logits = read(model, tokens, readout).logits
    assert logits == pytest.approx(by_hand, abs=1e-3)
    assert np.mean((logits > 0) == (tokens.labels == 1)) > 0.6, "fitted to these sentences"


def test_random_directions_can_vary_as_states_do() -> None:
    rng = np.random.default_rng(0)
    states = rng.standard_normal((4000, 3)) * [10, 1, 0.1] + 5
    drawn = random_directions(3, 20_000, rng, states)
    assert np.cov(drawn, rowvar=False) == pytest.approx(
        np.cov(states, rowvar=False), rel=0.1, abs=1
    )
    along = np.array([1.0, 0, 0])
    # Nearly all of the variance lies along the first axis, and so does a random direction.
    assert np.median(abs_cosines(along, drawn)) > 0.9
    assert np.median(abs_cosines(along, random_directions(3, 2000, rng))) < 0.6


# ---- the command


def saved(model: Any, tokenizer: Any, folder: Path) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def causal(*arguments: str) -> None:
    few = ["--sentences", "24", "--random", "1", "--layers", "0", "1"]
    run("causal", [*arguments, *few], prog="causal.py")


@pytest.mark.parametrize(
    ("name", "kind", "readout"),
    [
        ("gpt2", AutoModelForCausalLM, "words"),
        ("llama", AutoModelForSequenceClassification, "classifier"),
        ("qwen3", None, "summary"),
        ("bert", None, "mean"),
    ],
)
def test_the_command_runs_on_any_model(
    name: str,
    kind: Any,
    readout: str,
    tokenizer: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = [] if kind is None else [kind]
    model = saved(family_model(name, len(tokenizer), *options), tokenizer, tmp_path / "model")
    words = (
        ["--readout", "words", "--words", *WORDS, "--suffix", SUFFIX] if readout == "words" else []
    )
    causal("--model", model, *words, "--output", str(tmp_path / "out"))
    subject = pd.read_parquet(tmp_path / "out" / "subject.parquet").iloc[0]
    assert subject["readout"] == readout, "chosen by what the model ends with"
    table = pd.read_parquet(tmp_path / "out" / "causal.parquet")
    assert set(table["layer"].dropna()) <= {0, 1, 2}
    assert {"random", "random (states)", "LEACE", "v_hat"} <= set(table["edit"])
    assert (tmp_path / "out" / "causal.png").is_file()
    assert "Causal tests of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--readout", "words"], "needs a prompt that the word follows"),
        (["--split", "nowhere"], "no split 'nowhere'; there are train"),
        (["--heads", "9"], "--heads must lie between 1 and 2"),
        (["--heads", "1", "--tests", "reflect"], "--heads belongs to --tests"),
        (["--words", "a", "b"], "--words belongs to --readout words"),
        (["--readout", "classifier"], "has no classifier head"),
        (["--device", "cuda:99"], "'cuda:99' is not a device here"),
    ],
)
def test_bad_requests_are_one_line(
    options: list[str],
    said: str,
    tokenizer: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = saved(family_model("gpt2", len(tokenizer)), tokenizer, tmp_path / "model")
    with pytest.raises(SystemExit) as stopped:
        causal("--model", model, *options, "--output", str(tmp_path / "out"))
    assert stopped.value.code == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert said in errors[-1]
    assert not (tmp_path / "out").exists()


def test_a_classifier_with_its_labels_in_another_order_is_refused(
    tokenizer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = family_model("llama", len(tokenizer), AutoModelForSequenceClassification)
    model.config.id2label = {0: "positive", 1: "negative"}
    folder = saved(model, tokenizer, tmp_path / "model")
    for command in ("causal", "sparsity"):
        with pytest.raises(SystemExit):
            run(command, ["--model", folder, "--output", str(tmp_path / "out")])
        said = capsys.readouterr().err
        assert "positive, negative in the classifier, negative, positive in " in said


def test_layers_are_spread_from_the_embeddings_to_the_last() -> None:
    assert evenly_spaced(30) == (0, 5, 10, 15, 20, 25, 30)
    assert evenly_spaced(2) == (0, 1, 2)
    assert evenly_spaced(1) == (0, 1)
