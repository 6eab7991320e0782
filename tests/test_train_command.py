"""The command trains, resumes, writes what the Hugging Face tools open, and fails in one line."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from small_models import same_weights
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from data_gen import build_dataset, read_spec, split_words
from probing.models.augmentation import PLAIN, Augmentation
from probing.models.inspection.checkpoints import last_checkpoint
from probing.models.packaged import VECTORS
from probing.models.presets import ARCHITECTURES
from probing.models.training import TrainingConfig
from studies.command_line import run
from studies.making import make
from studies.practice import transformer
from studies.rendering import as_text
from studies.study import Tables

SCRIPT = Path(__file__).parent.parent / "scripts" / "train_transformer.py"

pytestmark = pytest.mark.usefixtures("one_thread")


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
EPOCHS = 8
STEPS = EPOCHS * 1280 // 64  # checkpoints at 50, 100, 150 and the last


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spec") / "toy.toml"
    path.write_text(SPEC)
    return path


def command(spec: Path, output: Path, architecture: str) -> list[str]:
    given = ["--spec", str(spec), "--output", str(output), "--epochs", str(EPOCHS)]
    return [str(SCRIPT), *given, "--architecture", architecture]


ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def start(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *arguments], env=ENVIRONMENT, **pipes, **options)


@pytest.fixture(scope="module", params=["bert", "modernbert", "llama"])
def architecture(request: pytest.FixtureRequest) -> Any:
    """Both encoders, and a decoder; tests/test_training.py trains a gpt2."""
    return request.param


@pytest.fixture(scope="module")
def written(spec: Path, architecture: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of an undisturbed run."""
    output = tmp_path_factory.mktemp("written") / "model"
    options = transformer.Options(spec=str(spec), output=output, architecture=architecture)
    make(transformer.STUDY, replace(options, epochs=EPOCHS))
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


def test_chance_by_construction_is_called_so(written: Path) -> None:
    tables = Tables(written)
    unknown = tables["metrics"].set_index("split")["unknown_words"]
    assert unknown.to_dict() == {"train": False, "ood_tokens": True, "ood_short": False}
    shown = transformer.says(tables)[0]
    assert shown["words"].tolist() == [4, 2, 4]
    assert shown.loc["train", "accuracy"] == "1.000 [0.398, 1.000]", "four of four words"
    assert shown.loc["ood_tokens", "accuracy"] == "0.500 *"
    assert "[" not in shown.loc["ood_tokens", "attention on the word"]
    text = as_text(transformer.says(tables))
    assert "0.5 by construction" in text.replace("\n", " ")
    assert max(map(len, text.splitlines())) <= 80
    assert "\\" not in text, "pandas marks with it a table that goes on below"


@pytest.mark.parametrize(("lowest", "ending"), [(0.97, "on 2."), (0.7, "ood_position.")])
def test_the_verdict_counts_splits_and_names_those_that_fail(lowest: float, ending: str) -> None:
    table = pd.DataFrame(
        {"accuracy": [1.0, lowest], "attention_mass": [1.0, lowest], "unknown_words": False},
        index=["train", "ood_position"],
    )
    assert transformer.verdict(table).endswith(ending)
    assert ("expected to fail" in transformer.verdict(table)) == (lowest < 0.9)


def test_wide_tables_go_on_below_and_no_line_is_folded() -> None:
    table = pd.DataFrame({f"column {i}": ["x" * 20] * 2 for i in range(9)}, index=["a", "b"])
    lines = as_text([table]).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.count("x" * 20) for line in lines) == 18
    assert all(line[:1] in ("a", "b", " ", "") for line in lines)
    assert as_text([table.iloc[:, :0]]), "a table without columns"


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
    other = "The city is good. his blue cat is fine the clean gray goat is fine"  # longer
    with torch.inference_mode():
        batch = model(**tokenizer([text, other], padding=True, return_tensors="pt")).logits
    assert torch.allclose(batch[0], logits, atol=1e-5), "padding changes nothing"


def assert_same_result(folder: Path, other: Path) -> None:
    a, b = metrics(folder), metrics(other)
    assert a.pop("seconds") > 0 < b.pop("seconds")
    assert a == b
    weights = [load_file(path / "model.safetensors") for path in (folder, other)]
    assert same_weights(*weights)


def test_a_training_goes_on_from_a_checkpoint_to_the_same_result(
    written: Path,
    spec: Path,
    architecture: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same as being killed, in this process: training stops behind the first checkpoint."""
    options = transformer.Options(spec=str(spec), output=tmp_path / "model", epochs=EPOCHS)
    config = replace(options, architecture=architecture)
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


def test_the_option_names_every_architecture_and_its_learning_rate() -> None:
    known = list(ARCHITECTURES)
    assert list(get_args(transformer.ArchitectureName)) == known
    assert list(transformer.LEARNING_RATES) == known
    rates = {"bert": 1e-3, "modernbert": 3e-3, "gpt2": 5e-3, "llama": 5e-3}
    for name in get_args(transformer.ArchitectureName):
        options = transformer.Options(architecture=name)
        assert options.resolved().learning_rate == rates[name]
        assert replace(options, learning_rate=0.5).resolved().learning_rate == 0.5
    with pytest.raises(ValueError, match="--learning-rate must be at least 1e-30, not 0"):
        TrainingConfig(learning_rate=replace(options, learning_rate=0.0).rate)


def test_tiny_models_have_the_names_of_their_folders(tmp_path: Path) -> None:
    names = {"bert": "tiny", "gpt2": "tiny-gpt2", "llama": "tiny-llama"}
    names["modernbert"] = "tiny-modernbert"
    for architecture in get_args(transformer.ArchitectureName):
        models = transformer.tiny_models(tmp_path, 2, architecture)
        assert list(models) == [f"{names[architecture]}-{seed}" for seed in range(2)]
        for seed, (name, options) in enumerate(models.items()):
            assert options.output == tmp_path / name
            assert (options.seed, options.architecture) == (seed, architecture)
            assert options.snapshots
    assert transformer.tiny_models(tmp_path, 2) == transformer.tiny_models(tmp_path, 2, "bert")


def test_checkpoints_of_other_settings_are_not_resumed(tmp_path: Path) -> None:
    options = transformer.Options(preset="small", output=tmp_path / "x")
    folder = transformer.checkpoint_folder(options, True)
    (folder / "checkpoint-50").mkdir()
    assert transformer.checkpoint_folder(options, True) == folder
    assert (folder / "checkpoint-50").exists()
    transformer.checkpoint_folder(replace(options, architecture="gpt2"), True)
    assert not (folder / "checkpoint-50").exists()


def test_two_processes_train_to_the_same_accuracy(
    written: Path, spec: Path, architecture: str, tmp_path: Path
) -> None:
    if architecture != "bert":
        pytest.skip("processes share sentences in the same way, whatever the architecture")
    output = tmp_path / "model"
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29517"]
    with start(*launcher, *command(spec, output, architecture)) as process:
        out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert out.count("written to") == 1, "one process reports"
    # Sums of gradients are rounded in another order: one sentence of a small split may flip.
    assert metrics(output)["accuracy"] == pytest.approx(metrics(written)["accuracy"], abs=0.02)
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "x", "--preset", "huge"], "invalid choice 'huge'"),
        (["--output", "x", "--architecture", "rnn"], "invalid choice 'rnn'"),
        (["--output", "x", "--control", "swapped"], "--embeddings corpus"),
        ([*"--output x --control swapped --embeddings glove".split()], "--embeddings corpus"),
        (["--output", "x", "--control", "shuffled"], "--embeddings glove, corpus or a file"),
        (["--output", "x", "--control", "upset"], "invalid choice 'upset'"),
        (
            ["--output", "x", "--embeddings", "glove.txt"],
            "glove.txt: no such file, nor scratch, corpus or glove",
        ),
        (["--output", "x", "--plain", "--shuffle"], "leave out --shuffle"),
        (["--output", "x", "--spec", "poems"], "poems"),
        (["--output", "file"], "not a result of slr-probing"),
        (["--output", "file", "--overwrite"], "not a result of slr-probing"),
        (["--output", "file/x"], "not a writable folder"),
        (["--output", "x", "--learning-rate", "1e30"], "lower the learning rate"),
    ],
)
def test_bad_input_is_one_clear_line_and_leaves_nothing(
    arguments: list[str],
    message: str,
    spec: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("thesis\n")
    data = [] if "--spec" in arguments else ["--spec", str(spec)]
    with pytest.raises(SystemExit, match="2"):
        run("train", [*data, *arguments], prog=SCRIPT.name)
    errors = capfd.readouterr().err
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
        (
            {"embeddings": "corpus", "control": "swapped", "spec": "restaurant"},
            "restaurant has no held-out words of a slot ADJECTIVE",
        ),
    ],
)
def test_bad_input_that_is_seen_late_leaves_nothing_either(
    options: dict[str, Any], message: str, spec: Path, tmp_path: Path
) -> None:
    given = {"spec": str(spec)} | options
    config = transformer.Options(output=tmp_path / "x", **given)
    with pytest.raises(ValueError, match=message):
        make(transformer.STUDY, config)
    assert list(tmp_path.iterdir()) == []


def test_validation_takes_every_training_row_once_and_nothing_else(spec: Path) -> None:
    dataset = build_dataset(str(spec), extended=True)
    parts = transformer.validation_split(dataset)
    assert set(parts) == {"train", "validation"}
    train, validation = (parts[name]["text"][:] for name in parts)
    assert len(train) == 4 * len(validation)
    assert sorted(train + validation) == sorted(dataset["train"]["text"][:])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_vectors_of_a_file_become_rows_of_the_words_it_has(
    name: Any, spec: Path, tmp_path: Path
) -> None:
    (tmp_path / "glove.txt").write_text("good 0.6 0.8\nthe 1 2\nfair 3 0\nunheard 5 6\n")
    options = transformer.Options(spec=str(spec), embeddings=str(tmp_path / "glove.txt"))
    options, dataset = replace(options, architecture=name), build_dataset(str(spec))
    tokenizer, rows = transformer.word_vectors_of(options, read_spec(str(spec)), dataset)
    ids = tokenizer.get_vocab()
    assert rows.shape == (len(tokenizer), 2)
    scale = (1 + 3 + math.sqrt(5)) / 3  # their mean norm
    assert rows[ids["good"]] == pytest.approx([0.6 / scale, 0.8 / scale])
    assert rows[ids["fair"]] == pytest.approx([3 / scale, 0]), "a new adjective, which it knows"
    assert rows[ids["The"]] == pytest.approx([1 / scale, 2 / scale]), "in lower case"
    assert rows[ids["my"]].tolist() == [0, 0]
    assert "unheard" not in ids
    assert bool(tokenizer.num_special_tokens_to_add()) == (name in ("bert", "modernbert"))


def test_words_of_a_file_are_tokens_in_the_order_in_which_the_dataset_has_them() -> None:
    """Not in that of a set, which differs between processes: a resumed run had other tokens."""
    dataset = build_dataset("sentiment")
    texts = [text for split in dataset.values() for text in split["text"][:]]
    words = list(dict.fromkeys(word for text in texts for word in split_words(text)))
    options = transformer.Options(embeddings="glove")
    tokenizer, _ = transformer.word_vectors_of(options, read_spec("sentiment"), dataset)
    learned = set(split_words(" ".join(dataset["train"]["text"][:])))
    new = [word for word in words if word not in learned and word in tokenizer.get_vocab()]
    assert len(new) > 10
    assert tokenizer.convert_tokens_to_ids(new) == sorted(tokenizer.convert_tokens_to_ids(new))


@pytest.mark.parametrize(("preset", "width"), [("tiny", 32), ("small", 50)])
def test_glove_fits_every_preset_and_its_control_has_the_same_vectors_elsewhere(
    preset: Any, width: int, spec: Path
) -> None:
    options = transformer.Options(spec=str(spec), embeddings="glove", preset=preset)
    dataset = build_dataset(str(spec))

    def vectors(options: transformer.Options) -> Any:
        return transformer.word_vectors_of(options, read_spec(str(spec)), dataset)

    (tokenizer, rows), (_, control), (_, other) = map(
        vectors, [options, replace(options, control="shuffled"),
                  replace(options, control="shuffled", seed=1)],
    )  # fmt: skip
    assert rows.shape == (len(tokenizer), width)
    special = tokenizer.all_special_ids
    assert not rows[special].any()
    known = np.linalg.norm(np.delete(rows, special, axis=0), axis=1)
    assert (known > 0).all(), "GloVe knows every word of the dataset"
    assert known.mean() == pytest.approx(1)
    assert sorted(control.tolist()) == sorted(rows.tolist())
    assert not np.array_equal(control, rows)
    assert not np.array_equal(control, other), "the seed decides"


def test_glove_that_is_not_there_or_damaged_is_one_clear_line(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = transformer.Options(spec=str(spec), embeddings="glove", output=tmp_path / "x")
    glove = VECTORS["glove"]
    for wrong, message in (
        (replace(glove, module="no_such_package"), "glove is not installed: pip install simple"),
        (replace(glove, sha256="0" * 64), r"glove.6B.50d.txt is damaged or another .* \(sha256\)"),
    ):
        monkeypatch.setitem(VECTORS, "glove", wrong)
        with pytest.raises(ValueError, match=message) as error:
            make(transformer.STUDY, options)
        assert "\n" not in str(error.value)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Augmentation()),
        ({"plain": True}, PLAIN),
        ({"shuffle": True}, Augmentation(word_dropout=0.3, shuffling=1.0)),
    ],
)
def test_options_decide_what_is_hidden_and_moved(
    options: dict[str, Any], expected: Augmentation, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("probing.models.training.train", lambda *args, **_: seen.append(args[4]))
    transformer.trained(transformer.Options(spec=str(spec), **options), Path("x"), quiet=True)
    (config,) = seen
    assert config.augmentation == expected


def test_only_the_word_embeddings_are_frozen(spec: Path, tmp_path: Path) -> None:
    options = transformer.Options(spec=str(spec), embeddings="glove", output=tmp_path / "model")
    model, _, _ = transformer.trained(options, tmp_path / "checkpoints", quiet=True)
    frozen = [name for name, each in model.named_parameters() if not each.requires_grad]
    assert frozen == ["bert.embeddings.word_embeddings.weight"]


def test_max_rows_gives_the_same_model_evaluated_on_fewer_sentences(
    spec: Path, tmp_path: Path
) -> None:
    whole = transformer.Options(spec=str(spec), output=tmp_path / "model")
    few = replace(whole, max_rows=50, output=tmp_path / "few")
    for options in (whole, few):
        make(transformer.STUDY, options)
    weights = [load_file(each.output / "model.safetensors") for each in (whole, few)]
    assert same_weights(*weights)
    rows = [Tables(each.output)["metrics"].set_index("split")["rows"] for each in (whole, few)]
    assert rows[0]["train"] == 1280
    assert rows[1].tolist() == [min(50, n) for n in rows[0]]
    with pytest.raises(ValueError, match="--max-rows"):
        make(transformer.STUDY, replace(few, max_rows=0, output=tmp_path / "x"))


def test_models_with_frozen_vectors_are_named_after_them(tmp_path: Path) -> None:
    (name,) = transformer.tiny_models(tmp_path, 1, embeddings="glove")
    assert name == "tiny-glove-0"
    assert transformer.tiny_models(tmp_path, 1, embeddings="glove")[name].snapshots


def test_splits_of_longer_texts_are_left_out_with_a_note(
    wide: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = transformer.without_long_splits(wide, quiet=False)
    long = [name for name in wide if "_long_" in name]
    assert list(kept) == [name for name in wide if name not in long]
    assert capsys.readouterr().out.strip().endswith(", ".join(long))
    assert list(transformer.without_long_splits(kept, quiet=False)) == list(kept)
    assert capsys.readouterr().out == ""
