"""Controls tell knowing from learning, on states where it is known which is which."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from datasets import concatenate_datasets
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from data_gen import build_tokenizer, read_data
from probing.controls import description_length
from probing.controls.description_length import (
    CODE_GRID,
    FRACTIONS,
    fraction_blocks,
    label_code,
    location_code,
    logit_path,
    online_code,
    word_blocks,
)
from probing.controls.table import Effort, control_rows, control_splits, control_table
from probing.controls.tasks import (
    LabelTasks,
    LocationTasks,
    declared_locations,
    word_assignments,
)
from probing.models.presets import build_model
from probing.probes.linear import LinearProbe
from probing.sentences import informative_words
from probing.states.tokens import Tokens
from studies.findings import Finding
from studies.making import make
from studies.practice import controls as script
from studies.storage.results import write_json
from studies.study import Tables

D, N_WORDS = 30, 24
EFFORT = Effort(n_draws=2, n_orders=3, n_directions=5)


def labelled(kind: str, n: int, seed: int) -> tuple[Any, Any, Any]:
    """States, labels and words. Of the label: a direction; of the word: one coordinate each."""
    rng = np.random.default_rng(seed)
    words = rng.permutation(n) % N_WORDS
    y = words % 2
    X = 0.3 * rng.standard_normal((n, D))
    if kind == "signal":
        X[:, 0] += 4.0 * (2 * y - 1)
    elif kind == "identity":
        X[np.arange(n), words] += 8.0
    return X, y, words


def label_tasks(kind: str) -> LabelTasks:
    parts = {"train": labelled(kind, 960, 0), "held_out": labelled(kind, 480, 1)}
    tokens = {
        name: Tokens(np.arange(len(X) + 1), np.ones(len(X), bool), labels=y, words=words)
        for name, (X, y, words) in parts.items()
    }
    return LabelTasks({name: part[0] for name, part in parts.items()}, tokens)


def rows_of(tasks: Any, seed: int = 0) -> pd.DataFrame:
    return pd.DataFrame(control_rows(tasks, EFFORT, seed)).set_index("task")


@pytest.fixture(scope="module")
def found() -> dict[str, pd.DataFrame]:
    return {kind: rows_of(label_tasks(kind)) for kind in ("signal", "identity", "noise")}


def test_a_planted_signal_is_selective_and_its_code_is_short(found: Any) -> None:
    label, control = found["signal"].loc["label"], found["signal"].loc["control task"]
    assert label["accuracy"] > 0.99
    assert control["accuracy"] < 0.75, "words have nothing of their own to be known by"
    assert label["selectivity"] > 0.25
    assert label["compression"] > 20
    assert label["word_compression"] > 6, "new words are read at once; 24 / 2 is the most"
    assert control["word_compression"] < 1.1


def test_words_known_by_heart_are_accurate_but_not_selective(found: Any) -> None:
    label, control = found["identity"].loc["label"], found["identity"].loc["control task"]
    assert label["accuracy"] > 0.99
    assert abs(label["selectivity"]) < 0.02
    assert label["compression"] > 3, "accuracy and the code by sentence do not see the difference"
    assert label["word_compression"] < 1.1, "the code by word does"
    assert control["compression"] == pytest.approx(label["compression"], rel=0.2)


def test_a_known_word_costs_more_bits_than_a_signal(found: Any) -> None:
    """Twenty-four words have to be seen first; a direction only once."""
    assert found["identity"].loc["label"]["bits"] > 1.5 * found["signal"].loc["label"]["bits"]


def test_where_there_is_nothing_every_task_is_at_chance(found: Any) -> None:
    noise = found["noise"]
    # four standard errors of 480 sentences are .09
    assert (noise["accuracy"] - 0.5).abs().max() < 0.1
    assert_allclose(noise["compression"].dropna(), 1, atol=0.03)
    assert_allclose(noise["word_compression"].dropna(), 1, atol=0.03)


def test_shuffled_labels_and_random_directions_find_nothing_in_a_signal(found: Any) -> None:
    signal = found["signal"]
    assert signal.loc["shuffled labels"]["compression"] == pytest.approx(1, abs=0.03)
    # A random direction sees a share of the signal, which fills one of 30 dimensions here.
    assert signal.loc["random direction"]["accuracy"] < signal.loc["label"]["accuracy"] - 0.1
    assert (signal["seconds"] > 0).all()


# ---- the online code


def test_the_fractions_are_those_of_voita_and_titov() -> None:
    blocks = fraction_blocks(10_000, np.random.default_rng(0))
    ends = np.cumsum([len(block) for block in blocks])
    assert ends.tolist() == [10, 20, 40, 80, 160, 320, 625, 1250, 2500, 5000, 10_000]
    assert sorted(np.concatenate(blocks)) == list(range(10_000))
    few = fraction_blocks(20, np.random.default_rng(0))
    assert len(few) < len(FRACTIONS), "cuts that coincide are one"
    assert all(len(block) for block in few)


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_of_a_learnable_label_only_the_first_block_costs(
    C: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two points, +1 and -1, in equal numbers: after n rows the coefficient w is the minimum of
    n log(1 + exp(-w)) + w^2 / (2 C), and each row of the next block costs log2(1 + exp(-w)).
    """
    n = 10_000
    y = np.arange(n) % 2
    X = (2.0 * y - 1)[:, None]
    ends = [math.ceil(fraction * n) for fraction in FRACTIONS]
    blocks = np.split(np.arange(n), ends[:-1])

    def cost(seen: int, block: int) -> float:
        w = brentq(lambda w: seen / (1 + math.exp(w)) - w / C, 0, 50)
        return block * math.log1p(math.exp(-w)) / math.log(2)

    expected = [ends[0], *(cost(a, b - a) for a, b in pairwise(ends))]
    usual = label_code(X, y, blocks, grid=(C,))
    monkeypatch.setattr(description_length, "TOLERANCE", 1e-10)
    code = label_code(X, y, blocks, grid=(C,))
    assert_allclose(code.block_bits, expected, rtol=1e-4)
    assert usual.bits == pytest.approx(code.bits, rel=0.02), "the tolerance in use costs little"
    if C == 100:
        assert code.bits < ends[0] + 2


def test_random_labels_cost_what_a_uniform_code_does() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2000, D)), rng.permutation(np.arange(2000) % 2)
    code = label_code(X, y, fraction_blocks(2000, rng))
    assert code.uniform_bits == 2000
    assert code.uniform_bits / code.bits == pytest.approx(1, abs=0.01)
    # The control: a single weak penalty bets on what it learnt by heart, and loses.
    assert 2000 / label_code(X, y, fraction_blocks(2000, rng), grid=(100.0,)).bits < 0.8


def test_the_mixture_costs_two_bits_more_than_the_best_penalty_at_most() -> None:
    X, y, _ = labelled("identity", 500, 3)
    blocks = fraction_blocks(500, np.random.default_rng(0))
    single = [label_code(X, y, blocks, grid=(C,)).bits for C in CODE_GRID]
    mixed = label_code(X, y, blocks).bits
    # Fits that start from the solution before end a little elsewhere within their tolerance.
    assert mixed <= min(single) + math.log2(len(CODE_GRID)) + 0.02 * min(single)
    assert max(single) > mixed + 5, "the control: the wrong penalty is worse"


def test_a_mixture_of_two_known_codes_is_the_average_of_their_probabilities() -> None:
    blocks = [np.array([0]), np.array([1]), np.array([2])]
    bits = np.array([[0.0, 1.0, 3.0], [0.0, 2.0, 1.0]])
    code = online_code(blocks, np.ones(3), lambda seen, block: bits[:, block], 2)
    # First block: uniform. Then -log2 of (2^-1 + 2^-2) / 2, and of (2^-4 + 2^-3) / 2 in all.
    assert_allclose(np.cumsum(code.block_bits), [1, 1 - math.log2(0.375), 1 - math.log2(0.09375)])
    assert code.uniform_bits == 3


@pytest.mark.parametrize("n", [20, 200])
def test_the_path_gives_the_logits_of_the_probe(n: int) -> None:
    """In the span of the rows (20 of them in 30 dimensions) or not; labels are as frequent."""
    X, y, _ = labelled("signal", n, 4)
    new = labelled("signal", 50, 5)[0]
    logits = logit_path(X, y == 1, new, (0.01, 1.0))
    for C, found in zip((0.01, 1.0), logits, strict=True):
        expected = LinearProbe(C=C, standardize=False).fit(X, y).decision_function(new)
        assert_allclose(found, expected, rtol=0.05, atol=0.05 * np.abs(expected).max())


def test_word_blocks_hold_one_word_each_behind_one_of_each_label() -> None:
    _, y, words = labelled("noise", 240, 6)
    blocks = word_blocks(words, np.random.default_rng(0), y)
    assert [len(set(words[block])) for block in blocks] == [2] + [1] * (N_WORDS - 2)
    assert set(y[blocks[0]]) == {0, 1}
    assert sorted(np.concatenate(blocks)) == list(range(240))
    orders = [word_blocks(words, np.random.default_rng(seed), y) for seed in (0, 1)]
    assert (np.concatenate(orders[0]) == np.concatenate(blocks)).all()
    assert (np.concatenate(orders[1]) != np.concatenate(blocks)).any()


# ---- control tasks


def test_any_labels_of_words_may_be_drawn_as_many_of_each_as_in_truth() -> None:
    words = np.repeat(["nice", "mean", "cute", "dreadful", "aggressive", "delightful"], 5)
    y = np.isin(words, ["nice", "cute", "delightful"]).astype(int)
    labels = pd.DataFrame(word_assignments(words, y, 2000, np.random.default_rng(0)))
    assert (labels.sum(axis=1) == 3).all()
    assert len(labels.drop_duplicates()) == 20, "all of them, the truth and its reverse too"
    truth = pd.Series(dict(zip(words, y, strict=True)))
    agreed = (labels == truth[labels.columns]).sum(axis=1)
    best = np.maximum(agreed, 6 - agreed).mean()
    assert best == pytest.approx((2 * 6 + 18 * 4) / 20, abs=0.06)  # four standard errors
    with pytest.raises(ValueError, match="one label each"):
        word_assignments(["a", "a", "b"], [0, 1, 1], 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="two labels"):
        word_assignments(["a", "b"], [1, 1], 3, np.random.default_rng(0))


def test_the_declared_token_has_the_highest_priority_of_its_sentence() -> None:
    keys, offsets = np.array([5, 6, 7, 6, 8, 6]), np.array([0, 3, 6])
    declared = declared_locations(keys, offsets, {5: 0.2, 6: 0.9, 7: 0.5})
    assert declared.tolist() == [False, True, False, True, False, True]
    declared = declared_locations(keys, offsets, {5: 0.2, 7: 0.5, 8: 0.1})
    assert declared.tolist() == [False, False, True, False, True, False]


def located(kind: str, n: int, seed: int) -> tuple[Any, Tokens]:
    """Five tokens per sentence, of twenty types. One is marked along e0, or types are one-hot and
    the informative token is one of four types.
    """
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, 5 * n + 1, 5)
    types = 4 + rng.integers(16, size=5 * n)
    place = offsets[:-1] + rng.integers(5, size=n)
    types[place] = rng.permutation(n) % 4
    informative = np.zeros(5 * n, dtype=bool)
    informative[place] = True
    X = 0.3 * rng.standard_normal((5 * n, D))
    if kind == "signal":
        X[place, 0] += 5.0
    else:
        X[np.arange(5 * n), types] += 8.0
    return X, Tokens(offsets, informative, ids=types, words=types[place])


def location_tasks(kind: str) -> LocationTasks:
    parts = {"train": located(kind, 240, 0), "held_out": located(kind, 240, 1)}
    X, tokens = {}, {}
    for name, part in parts.items():
        X[name], tokens[name] = part
    return LocationTasks(X, tokens)


def test_a_marked_place_is_selective_and_types_known_by_heart_are_not() -> None:
    signal, identity = (rows_of(location_tasks(kind)) for kind in ("signal", "identity"))
    for rows in (signal, identity):
        assert rows.loc["label"]["accuracy"] > 0.95
        assert rows.loc["shuffled labels"]["compression"] == pytest.approx(1, abs=0.05)
    assert signal.loc["control types"]["accuracy"] < 0.5
    assert signal.loc["control positions"]["accuracy"] < 0.5
    assert signal.loc["label"]["selectivity"] > 0.5
    assert identity.loc["label"]["selectivity"] < 0.2
    assert signal.loc["label"]["word_compression"] > 2 * identity.loc["label"]["word_compression"]


def test_the_place_of_one_word_in_four_costs_two_bits() -> None:
    rng = np.random.default_rng(0)
    states, offsets = rng.standard_normal((400, 5)), np.arange(0, 401, 4)
    informative = np.tile([True, False, False, False], 100)
    blocks = fraction_blocks(100, rng)
    code = location_code(states, Tokens(offsets, informative), blocks)
    assert code.uniform_bits == pytest.approx(200)
    assert code.uniform_bits / code.bits == pytest.approx(1, abs=0.05)
    pairs = np.tile([True, True, False, False], 100)  # a word of two tokens: one bit
    assert location_code(states, Tokens(offsets, pairs), blocks).uniform_bits == pytest.approx(100)


def test_equal_seeds_give_equal_controls_and_others_do_not() -> None:
    first, again, other = (rows_of(label_tasks("noise"), seed) for seed in (0, 0, 1))
    timeless = [column for column in first if column != "seconds"]
    pd.testing.assert_frame_equal(first[timeless], again[timeless])
    assert not first[timeless].equals(other[timeless])


# ---- the script


@pytest.fixture(scope="module")
def folder(sentiment: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = build_tokenizer([text for split in sentiment.values() for text in split["text"][:]])
    path = tmp_path_factory.mktemp("model")
    build_model(tokenizer, "tiny", ["negative", "positive"], seed=0).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def test_the_script_writes_its_table(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = script.Options(
        model=str(folder), layers=(1,), max_rows=200, draws=1, jobs=1, output=tmp_path / "controls"
    )
    make(script.STUDY, options)
    table = pd.read_parquet(options.output / "controls.parquet")
    assert set(table["model"]) == {"trained", "untrained"}
    assert set(table["layer"]) == {1}
    assert len(table) == 2 * (4 + 4 + 5)
    assert {"selectivity", "compression", "word_compression", "seconds"} <= set(table.columns)
    said = capsys.readouterr().out
    assert "selectivity" in said
    assert "compression is that of" in said
    make(script.STUDY, replace(options, no_codes=True, output=tmp_path / "without"))
    table = pd.read_parquet(tmp_path / "without" / "controls.parquet")
    assert "compression" not in table.columns
    assert "compression is that of" not in capsys.readouterr().out
    with pytest.raises(ValueError, match="--layers"):
        make(
            script.STUDY, script.Options(model=str(folder), layers=(7,), output=tmp_path / "other")
        )


def selectivity(tmp_path: Path, control: float, untrained: float) -> Finding:
    """The finding where layer 3 has the best score; ``untrained`` is the 5% quantile over draws."""
    rows = [
        {"probe": "value", "model": model, "layer": layer, "task": task, "accuracy": accuracy}
        | {"low_5": low, "cv_score": score, "draws": 20, "selectivity": 1.0 - control}
        for layer, score in ((2, 0.8), (3, 0.9))
        for model, task, accuracy, low in (
            ("trained", "label", 1.0, 1.0),
            ("trained", "control task", control, control - 0.1),
            ("untrained", "label", 1.0, 1.0),
            ("untrained", "control task", 0.9, untrained),
        )
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "controls.parquet")
    write_json(tmp_path / "settings.json", {"model": "minilm", "data": "sentiment-wide"})
    (finding,) = script.selectivity(Tables(tmp_path))
    return finding


def test_selectivity_is_compared_with_what_random_labels_give_an_untrained_model(
    tmp_path: Path,
) -> None:
    finding = selectivity(tmp_path, control=0.7, untrained=0.75)
    assert finding.verdict == "held"
    assert "by 0.300 more often" in finding.sentence
    assert "(layer 3;" in finding.sentence
    for control, untrained in ((0.8, 0.75), (1.0, 1.0)):  # 0 is not above 0
        assert selectivity(tmp_path, control, untrained).verdict == "missed"


def test_the_layer_can_be_chosen_by_the_score_that_chose_the_penalty(found: Any) -> None:
    label = found["signal"].loc["label"]
    assert label["cv_score"] > 0.95
    assert found["noise"].loc["label"]["cv_score"] < 0.7
    assert np.isnan(found["signal"].loc["control task"]["cv_score"]), "C is that of the label"
    control = found["signal"].loc["control task"]
    assert control["low_5"] <= control["accuracy"]


def test_held_out_sentences_are_of_the_training_split_and_not_fitted(sentiment: Any) -> None:
    parts = control_splits(sentiment, max_sentences=400)
    texts = {name: set(split["text"][:]) for name, split in parts.items()}
    sizes = {name: len(split) for name, split in parts.items()}
    assert sizes == {"train": 400, "held_out": 100, "test": 100, "ood_tokens": 100}
    assert not texts["train"] & texts["held_out"]
    everything = set(sentiment["train"]["text"][:])
    assert texts["train"] | texts["held_out"] <= everything
    small = type(sentiment)({"train": sentiment["train"].select(range(50))})
    sizes = {name: len(split) for name, split in control_splits(small, max_sentences=400).items()}
    assert sizes == {"train": 40, "held_out": 10}


def test_own_words_of_one_sentence_each_are_fitted_or_left_out(tmp_path: Path) -> None:
    """A control task has no label for a word that is held out alone."""
    sides = {"good": [f"fine{i}" for i in range(60)], "bad": [f"poor{i}" for i in range(60)]}
    rows = [
        {"text": f"{how} it was {word}", "word": word, "label": label, "split": "train"}
        for label, words in sides.items()
        for i, word in enumerate(words)
        for how in ("Well", "So")[: 1 if i else 2]  # one word per label has a second sentence
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "own.csv", index=False)
    own = read_data(str(tmp_path / "own.csv"))
    single = {"train": own["train"].filter(lambda row: row["text"].startswith("Well"))}
    with pytest.raises(ValueError, match="several training sentences per word"):
        control_splits(type(own)(single), max_sentences=400)
    second = own["train"].filter(lambda row: row["text"].startswith("So"))
    own["train"] = concatenate_datasets([own["train"], *[second] * 20])
    parts = control_splits(own, max_sentences=400)
    words = {name: informative_words(split) for name, split in parts.items()}
    assert {"fine0", "poor0"} == set(words["held_out"]) < set(words["train"])
    rng = np.random.default_rng(0)
    tokens = {
        name: Tokens(
            np.arange(len(split) + 1),
            np.ones(len(split), bool),
            labels=np.array(split["label"]),
            words=np.array(words[name]),
        )
        for name, split in parts.items()
    }
    drawn = LabelTasks({}, tokens).draws("control task", 1, rng)[0]
    assert len(drawn["held_out"]) == len(parts["held_out"])


def test_states_without_held_out_sentences_and_unknown_probes_are_refused() -> None:
    with pytest.raises(ValueError, match="control_splits"):
        control_table({"train": None})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="no controls"):
        control_table({"train": None, "held_out": None}, probes=("head",))  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="at least 1"):
        Effort(n_draws=0)
