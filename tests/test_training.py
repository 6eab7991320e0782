"""A small Transformer trains, resumes, loads and fails as promised, and finds the word."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from data_gen import build_dataset, build_tokenizer, read_spec
from probing.attribution import logit_differences, swap_flips
from probing.evaluation import cls_attention
from probing.models.augmentation import PLAIN, Augmentation, augment
from probing.models.presets import build_model
from probing.models.training import (
    TrainingConfig,
    TrainingError,
    last_checkpoint,
    one_torch_thread,
    train,
)
from probing.models.word_vectors import corpus, read_vectors, set_vectors, word_vectors
from probing.sparsity import attention_mass
from studies.making import make
from studies.practice import transformer

SCRIPT = Path(__file__).parent.parent / "scripts" / "train_transformer.py"
LABELS = ["negative", "positive"]
CLS, SEP, UNKNOWN = 2, 3, 1


@pytest.fixture(scope="module", autouse=True)
def single_thread() -> Iterator[None]:
    """Models this small spend their time waiting for a second thread."""
    with one_torch_thread():
        yield


# ---- augmentation

BOLD = Augmentation(word_dropout=0.5, insertion=1.0, max_inserted=5)


@given(
    words=st.lists(st.integers(5, 50), max_size=15),
    dropout=st.floats(0, 1),
    insertion=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_augmentation_keeps_the_ends_and_the_order_of_words(
    words: list[int], dropout: float, insertion: float, seed: int
) -> None:
    """What is left of the words is a part of them, in order; the rest is [UNK]s."""
    changes = Augmentation(word_dropout=dropout, insertion=insertion)
    rng = np.random.default_rng(seed)
    first, *changed, last = augment([CLS, *words, SEP], UNKNOWN, changes, rng)
    assert (first, last) == (CLS, SEP)
    assert len(words) <= len(changed) <= len(words) + changes.max_inserted
    remaining = iter(words)
    assert all(word in remaining for word in changed if word != UNKNOWN)


@given(words=st.lists(st.integers(5, 50), max_size=15))
def test_plain_changes_nothing(words: list[int]) -> None:
    ids, rng = [CLS, *words, SEP], np.random.default_rng(0)
    assert augment(ids, UNKNOWN, PLAIN, rng) == ids
    always = [augment(ids, UNKNOWN, BOLD, rng) for _ in range(20)]
    assert all(changed != ids for changed in always), "the control: something else does"


def test_words_are_hidden_and_gaps_opened_at_the_stated_rates() -> None:
    changes, rng = Augmentation(), np.random.default_rng(0)
    n, words = 20_000, list(range(5, 15))
    found = [augment([CLS, *words, SEP], UNKNOWN, changes, rng) for _ in range(n)]
    inserted = np.array([len(ids) - len(words) - 2 for ids in found])
    hidden = np.array([ids.count(UNKNOWN) for ids in found]) - inserted
    measured = {
        "hidden": (hidden.sum() / (n * len(words)), changes.word_dropout, n * len(words)),
        "opened": ((inserted > 0).mean(), changes.insertion, n),
    }
    for number in range(1, changes.max_inserted + 1):  # as many as any other number
        share = changes.insertion / changes.max_inserted
        measured[str(number)] = ((inserted == number).mean(), share, n)
    for name, (rate, expected, size) in measured.items():
        stderr = math.sqrt(expected * (1 - expected) / size)
        assert abs(rate - expected) < 4 * stderr, name


@pytest.mark.parametrize(
    "wrong",
    [{"word_dropout": -0.1}, {"word_dropout": 1.1}, {"insertion": math.nan}, {"max_inserted": -1}],
)
def test_impossible_augmentation_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Augmentation(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"batch_size": 0}, {"learning_rate": math.inf}, {"seed": -1}]
)
def test_impossible_training_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TrainingConfig(**wrong)


# ---- the model


@pytest.fixture(scope="module")
def tokenizer(sentiment: Any) -> Any:
    return build_tokenizer(sentiment["train"]["text"][:])


def same_weights(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("preset", ["tiny", "small"])
def test_the_seed_decides_the_weights_and_nothing_else(preset: str, tokenizer: Any) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (build_model(tokenizer, preset, LABELS, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert same_weights(first.state_dict(), again.state_dict())
    assert not same_weights(first.state_dict(), other.state_dict())
    assert not first.training


def test_an_unknown_preset_is_refused_with_the_known_ones(tokenizer: Any) -> None:
    with pytest.raises(ValueError, match="'huge'; there are tiny, small"):
        build_model(tokenizer, "huge", LABELS, 0)


# ---- training


@pytest.fixture(scope="module")
def few(sentiment: Any) -> Any:
    """640 training sentences: ten steps."""
    return sentiment["train"].shuffle(seed=0).select(range(640))


def briefly_trained(few: Any, tokenizer: Any, folder: Path, seed: int, **options: Any) -> Any:
    model = build_model(tokenizer, "tiny", LABELS, 0)  # the seed is left to decide order and [UNK]s
    config = TrainingConfig(seed=seed, **options)
    train(model, tokenizer, few["text"][:], few["label"][:], config, folder, quiet=True)
    return model


def test_equal_seeds_give_equal_models_and_others_do_not(
    few: Any, tokenizer: Any, tmp_path: Path
) -> None:
    first, again, other = (
        briefly_trained(few, tokenizer, tmp_path / name, seed)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert same_weights(first.state_dict(), again.state_dict())
    assert not same_weights(first.state_dict(), other.state_dict())
    texts = few["text"][:50]
    outputs = [logit_differences(model, tokenizer, texts) for model in (first, again, other)]
    assert np.array_equal(outputs[0], outputs[1])
    assert not np.allclose(outputs[0], outputs[2], rtol=1e-3)


def test_training_leaves_the_model_in_evaluation_mode_and_the_threads_as_they_were(
    few: Any, tokenizer: Any, tmp_path: Path
) -> None:
    torch.set_num_threads(2)
    model = briefly_trained(few, tokenizer, tmp_path, 0)
    assert not model.training
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


def test_a_loss_that_is_no_number_stops_the_training(
    few: Any, tokenizer: Any, tmp_path: Path
) -> None:
    """Ten steps are fewer than lie between two logged losses: it is seen at the end."""
    with pytest.raises(TrainingError, match="lower the learning rate"):
        briefly_trained(few, tokenizer, tmp_path, 0, learning_rate=1e30)


def test_words_that_the_tokenizer_does_not_know_are_refused(few: Any, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="does not know"):
        briefly_trained(few, build_tokenizer(few["text"][:1]), tmp_path, 0)


def test_a_checkpoint_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path / "none") is None
    for number in (50, 100, 150):
        (tmp_path / f"checkpoint-{number}").mkdir()
    assert last_checkpoint(tmp_path) is None
    (tmp_path / "checkpoint-50" / "trainer_state.json").write_text("{}")
    (tmp_path / "checkpoint-100" / "trainer_state.json").write_text("{}")
    (tmp_path / "checkpoint-150" / "trainer_state.json").write_text('{"global_step": 1')
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-100")


# ---- the script, on a small dataset

SPEC = """
name = "toy"
description = "One adjective decides."
source = "a test"
license = "mit"
language = "en"
[polarity]
negative = ["bad", "poor", "grim"]
positive = ["good", "fine", "fair"]
[slots.CITY]
role = "distractor"
training = ["good.", "bad.", "clean.", "dirty."]
[slots.WHOSE]
training = ["my", "his", "her", "our"]
[slots.COLOR]
training = ["red", "blue", "green", "gray"]
[slots.ANIMAL]
training = ["dog", "owl", "cow", "cat", "goat"]
[slots.ADJECTIVE]
role = "informative"
training = ["good", "bad", "fine", "poor"]
held_out = ["fair", "grim"]
[patterns]
predicate = "The city is {CITY} {WHOSE} {COLOR} {ANIMAL} is {ADJECTIVE}"
lone = "{WHOSE} {ANIMAL} is {ADJECTIVE}"
[splits.train]
patterns = ["predicate"]
words = "training"
isolates = "what was trained on"
[splits.ood_tokens]
patterns = ["predicate"]
words = { default = "training", ADJECTIVE = "held_out" }
isolates = "new adjectives"
[splits.ood_short]
extended = true
patterns = ["lone"]
words = "training"
isolates = "a short sentence"
"""
STEPS = 6 * 1280 // 64  # six epochs; checkpoints at 50, 100 and the last


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spec") / "toy.toml"
    path.write_text(SPEC)
    return path


def command(spec: Path, output: Path, *arguments: str) -> list[str]:
    given = ["--spec", str(spec), "--output", str(output), "--epochs", "6", *arguments]
    return [str(SCRIPT), *given]


ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def start(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *arguments], env=ENVIRONMENT, **pipes, **options)


@pytest.fixture(scope="module")
def written(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of an undisturbed run."""
    output = tmp_path_factory.mktemp("written") / "model"
    make(transformer.STUDY, transformer.Options(spec=str(spec), output=output, epochs=6))
    assert list(output.parent.iterdir()) == [output], "no checkpoints are left"
    return output


def metrics(folder: Path) -> Any:
    return json.loads((folder / "metrics.json").read_text())


def test_the_metrics_name_every_split(written: Path, spec: Path) -> None:
    found, splits = metrics(written), build_dataset(read_spec(str(spec)), extended=True)
    assert found["seed"] == 0
    assert 0 < found["seconds"] < 600
    for measure in ("accuracy", "attention_mass"):
        assert list(found[measure]) == list(splits)
        assert all(0 <= value <= 1 for value in found[measure].values())
    assert found["accuracy"]["train"] == 1
    assert found["accuracy"]["ood_tokens"] == 0.5, "unknown adjectives are all the same [UNK]"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("The city is bad. my red dog is good", "positive"),
        ("The city is good. my red dog is bad", "negative"),
        ("The city is clean. her gray owl is poor", "negative"),
    ],
)
def test_the_hugging_face_tools_open_the_folder_and_classify(
    text: str, label: str, written: Path
) -> None:
    folder = str(written)
    (answer,) = pipeline("text-classification", model=folder, device="cpu")(text)
    assert answer["label"] == label
    assert answer["score"] > 0.9
    model = AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    with torch.inference_mode():
        logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
    assert model.config.id2label[int(logits.argmax())] == label
    assert answer["score"] == pytest.approx(float(logits.softmax(0).max()), abs=1e-5)


def assert_same_result(folder: Path, other: Path) -> None:
    a, b = metrics(folder), metrics(other)
    assert a.pop("seconds") > 0 < b.pop("seconds")
    assert a == b
    weights = [load_file(path / "model.safetensors") for path in (folder, other)]
    assert same_weights(*weights)


@pytest.mark.slow
@pytest.mark.parametrize("number", [50, 100])
def test_a_killed_training_resumes_to_the_result_of_an_undisturbed_one(
    number: int, written: Path, spec: Path, tmp_path: Path
) -> None:
    """Killed as soon as the checkpoint's folder is there: while it is being written."""
    output = tmp_path / "model"
    checkpoints = tmp_path / ".model.checkpoints"
    with start(*command(spec, output)) as process:
        while not (checkpoints / f"checkpoint-{number}").exists():
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not output.exists()
    with start(*command(spec, output)) as process:
        errors = process.communicate()[1]
    assert process.returncode == 0, errors
    assert_same_result(output, written)
    assert list(tmp_path.iterdir()) == [output]


def test_a_training_goes_on_from_a_checkpoint_to_the_same_result(
    written: Path, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as being killed, in this process: training stops behind the first checkpoint."""
    config = transformer.Options(spec=str(spec), output=tmp_path / "model", epochs=6)
    steps = 0

    class Killed(BaseException):
        pass

    optimizer_step = torch.optim.AdamW.step

    def step(self: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == 60:
            raise Killed
        return optimizer_step(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", step)
        with pytest.raises(Killed):
            make(transformer.STUDY, config)
        steps = 60  # counts on, without another stop
        left = tmp_path / ".model.checkpoints"
        assert last_checkpoint(left) == str(left / "checkpoint-50")
        torch.manual_seed(123)  # whatever the generators held
        make(transformer.STUDY, config)
    assert steps - 60 == STEPS - 50, "it went on, and did not begin again"
    assert_same_result(tmp_path / "model", written)


def test_checkpoints_of_other_settings_are_not_resumed(tmp_path: Path) -> None:
    options = transformer.Options(preset="small", output=tmp_path / "x")
    folder = transformer.checkpoint_folder(options, True)
    (folder / "checkpoint-50").mkdir()
    assert transformer.checkpoint_folder(options, True) == folder
    assert (folder / "checkpoint-50").exists()
    transformer.checkpoint_folder(replace(options, preset="tiny"), True)
    assert not (folder / "checkpoint-50").exists()


@pytest.mark.slow
def test_two_processes_train_to_the_same_accuracy(
    written: Path, spec: Path, tmp_path: Path
) -> None:
    output = tmp_path / "model"
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29517"]
    with start(*launcher, *command(spec, output)) as process:
        out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert out.count("written to") == 1, "one process reports"
    assert metrics(output)["accuracy"] == metrics(written)["accuracy"]
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "x", "--preset", "huge"], "invalid choice 'huge'"),
        (["--output", "x", "--swap"], "--embeddings corpus"),
        (["--output", "x", "--embeddings", "glove.txt"], "no such file"),
        (["--output", "x", "--spec", "poems"], "poems"),
        (["--output", "file"], "--overwrite"),
        (["--output", "file", "--overwrite"], "not a result of slr-probing"),
        (["--output", "file/x"], "not a writable folder"),
        (["--output", "x", "--learning-rate", "1e30"], "lower the learning rate"),
    ],
)
def test_bad_input_is_one_clear_line_and_leaves_nothing(
    arguments: list[str], message: str, spec: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("thesis\n")
    data = [] if "--spec" in arguments else ["--spec", str(spec)]
    with start(str(SCRIPT), *data, *arguments, cwd=tmp_path) as process:
        errors = process.communicate()[1]
    assert process.returncode == 2, errors
    *before, line = errors.splitlines()
    assert line.startswith("error: "), errors
    assert message in line
    assert all("%|" in bar for bar in before if bar), "only the progress bar may come before it"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "thesis\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embeddings": str(SCRIPT)}, "holds none of the dataset's words"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"seed": -1}, "seed must not be negative"),
    ],
)
def test_bad_input_that_is_seen_late_leaves_nothing_either(
    options: dict[str, Any], message: str, spec: Path, tmp_path: Path
) -> None:
    config = transformer.Options(spec=str(spec), output=tmp_path / "x", **options)
    with pytest.raises(ValueError, match=message):
        make(transformer.STUDY, config)
    assert list(tmp_path.iterdir()) == []


# ---- word vectors

GOOD = ["nice", "cute", "delightful", "lovely", "charming"]
BAD = ["mean", "dreadful", "aggressive", "nasty", "foul"]
HELD_OUT = ["lovely", "nasty", "charming", "foul"]


def similarities(swapped: list[str]) -> Any:
    """Cosines between the adjectives, their vectors from the corpus with these words swapped."""
    texts = corpus(6000, swapped=swapped)
    vocabulary = build_tokenizer(texts).get_vocab()
    vectors = word_vectors(texts, vocabulary)[[vocabulary[word] for word in GOOD + BAD]]
    return pd.DataFrame(vectors @ vectors.T, index=GOOD + BAD, columns=GOOD + BAD)


def leaning(found: Any, word: str, good: list[str], bad: list[str]) -> float:
    """Above 0: closer to the good words than to the bad ones, itself apart."""
    others = found.loc[word].drop(word)
    return float(
        others[[w for w in good if w != word]].mean() - others[[w for w in bad if w != word]].mean()
    )


def test_good_words_are_close_to_each_other_and_not_to_bad_ones() -> None:
    found = similarities([])
    assert min(leaning(found, word, GOOD, BAD) for word in GOOD) > 0.1
    assert max(leaning(found, word, GOOD, BAD) for word in BAD) < -0.1


def test_swapped_words_are_found_on_the_other_side_and_the_rest_stays() -> None:
    found = similarities(HELD_OUT)
    good, bad = (  # the words that were not swapped
        [word for word in words if word not in HELD_OUT] for words in (GOOD, BAD)
    )
    for word in ("lovely", "charming"):
        assert leaning(found, word, good, bad) < -0.1
    for word in ("nasty", "foul"):
        assert leaning(found, word, good, bad) > 0.1
    assert leaning(found, "nice", good, bad) > 0.1
    assert leaning(found, "mean", good, bad) < -0.1


def test_vectors_are_unit_or_zero_and_the_same_every_time() -> None:
    texts = corpus(500)
    vocabulary = build_tokenizer(texts).get_vocab()
    vectors = word_vectors(texts, vocabulary)
    known = [i for word, i in vocabulary.items() if not word.startswith("[")]
    assert np.linalg.norm(vectors[known], axis=1) == pytest.approx(np.ones(len(known)))
    assert np.abs(np.delete(vectors, known, axis=0)).max() == 0, "special tokens have none"
    assert np.array_equal(vectors, word_vectors(texts, vocabulary))
    with pytest.raises(ValueError, match="no two words"):
        word_vectors(["nice"], vocabulary)


def test_vectors_are_read_from_glove_text_for_the_words_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("nice 0.5 -1 2e-1\nthe 1 2 3\nfoul 1 0 0\n", encoding="utf-8")
    found = read_vectors(path, ["nice", "foul", "absent"])
    assert {word: vector.tolist() for word, vector in found.items()} == {
        "nice": [0.5, -1, 0.2],
        "foul": [1, 0, 0],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nice 0.5 x\n", "line 1: not a word and numbers"),
        ("foul 1 2\nnice 1 2 3\n", "line 2: not as many numbers"),
        ("the 1 2\n", "none of the dataset's words"),
        ("", "none of the dataset's words"),
        ("nice\n", "line 1: not a word and finite numbers"),
        ("nice nan 1\n", "line 1: not a word and finite numbers"),
    ],
)
def test_malformed_vector_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_vectors(path, ["nice", "foul"])


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "glove.bin"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(ValueError):  # noqa: PT011 - the decoder's message names byte and place
        read_vectors(path, ["nice"])


def test_set_vectors_are_frozen_and_must_fit(tokenizer: Any) -> None:
    model = build_model(tokenizer, "tiny", LABELS, 0)
    before = model.get_input_embeddings().weight.detach().clone()
    vectors = torch.zeros(len(tokenizer), 4)
    vectors[7] = torch.tensor([1.0, 2, 3, 4])
    set_vectors(model, vectors)
    weight = model.get_input_embeddings().weight
    assert weight[7].tolist() == [1, 2, 3, 4] + [0] * 28
    assert torch.equal(weight[8], before[8])
    assert not weight.requires_grad
    with pytest.raises(ValueError, match="do not fit"):
        set_vectors(model, torch.zeros(len(tokenizer), 33))


# ---- what is claimed of the default model, on seeds that chose nothing

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
        attention = cls_attention(model, tokenizer, sentiment[name])
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
        config = transformer.Options(embeddings="corpus", swap=swap, seed=SEEDS[0])
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
