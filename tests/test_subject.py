"""What commands on any model look at when nobody says so, and what they say about it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from data_gen import build_dataset, build_tokenizer
from studies.practice import controls, probes, sparsity, transformer
from studies.settings import differences, settings_of
from studies.storage.results import write_json
from studies.study import Tables
from studies.subject import Subject, model_name, trained_on
from studies.tools import doctor


def checkpoint(folder: Path, spec: str, *, with_spec: bool = True) -> str:
    folder.mkdir()
    write_json(folder / "settings.json", {"made_by": "slr-probing", "spec": spec})
    if with_spec:
        (folder / "spec.toml").write_text("")
    return str(folder)


def test_a_checkpoint_is_probed_on_what_it_was_trained_on(tmp_path: Path) -> None:
    built_in = checkpoint(tmp_path / "a", "restaurant")
    assert Subject(model=built_in).resolved().data == "restaurant"
    own = checkpoint(tmp_path / "b", "my.toml, sha256 123")
    assert Subject(model=own).resolved().data == str(tmp_path / "b" / "spec.toml")
    assert Subject(model=own, data="sentiment").resolved().data == "sentiment", "if asked"


def test_other_models_are_probed_on_sentiment(tmp_path: Path) -> None:
    assert trained_on("minilm") == "sentiment"
    assert trained_on(str(tmp_path)) == "sentiment", "somebody else's folder"
    older = checkpoint(tmp_path / "c", "my.toml, sha256 123", with_spec=False)
    assert trained_on(older) == "sentiment"
    (tmp_path / "settings.json").write_text("[]")
    assert trained_on(str(tmp_path)) == "sentiment", "not settings of ours"


def test_a_model_that_is_yet_to_be_trained_is_not_looked_for_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"train_transformer.py makes results/transformer"):
        Subject(model="results/transformer").resolved()


def test_every_command_on_a_model_says_where_it_runs_and_in_which_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        "probing.models.pretrained.load_model", lambda name, **how: asked.update(how, name=name)
    )
    for study in (probes, controls, sparsity, doctor):
        options = study.Options(model="smollm2", device="cuda:1", dtype="bfloat16")
        options.load("language")
        expected = {"name": "smollm2", "device": "cuda:1", "dtype": "bfloat16"}
        assert asked == expected | {"head": "language", "device_map": None}
    probes.Options(device_map="auto").load()
    assert asked == {
        "name": "minilm", "device": "auto", "dtype": "float32", "head": None, "device_map": "auto",
    }  # fmt: skip


def test_precision_decides_a_result_and_the_device_does_not(tmp_path: Path) -> None:
    options = probes.Options(output=tmp_path)
    settings = settings_of(probes.STUDY, options)
    assert settings["dtype"] == "float32"
    elsewhere = replace(options, device="cpu", device_map="auto")
    assert settings_of(probes.STUDY, elsewhere) == settings
    coarse = settings_of(probes.STUDY, replace(options, dtype="bfloat16"))
    assert differences(settings, coarse) == ["dtype float32 instead of bfloat16"]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("smollm2", "SmolLM2"),
        ("minilm", "MiniLM"),
        ("mpnet", "MPNet"),
        ("my.gguf, sha256 12", "my.gguf"),
    ],
)
def test_pages_write_the_name_of_a_model(key: str, name: str, tmp_path: Path) -> None:
    write_json(tmp_path / "settings.json", {"model": key})
    assert model_name(Tables(tmp_path)) == name


def test_the_papers_protocol_has_its_own_data() -> None:
    options = probes.Options(protocol="paper").resolved()
    assert options.data == "sentiment-as-released"
    assert options.resolved() == options
    wrongs: list[dict[str, Any]] = [{"data": "sentiment"}, {"probes": ("value",)}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="--protocol paper"):
            probes.Options(protocol="paper", **wrong)


@pytest.fixture(scope="module")
def reviews() -> Any:
    return build_dataset("restaurant")


def test_sentences_of_which_the_model_knows_no_informative_word_are_refused(reviews: Any) -> None:
    texts = ["The waiter was friendly and the room was cosy"]
    with pytest.raises(
        ValueError, match=r"no informative word is known to minilm: all are \[UNK\]"
    ):
        Subject(data="restaurant").check_known_words(build_tokenizer(texts), reviews)


def test_splits_of_unknown_words_are_named(
    reviews: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    Subject().check_known_words(build_tokenizer(reviews["train"]["text"][:]), reviews)
    assert "in ood_tokens, ood_structure_tokens" in capsys.readouterr().out
    whole = build_tokenizer([text for split in reviews.values() for text in split["text"][:]])
    Subject().check_known_words(whole, reviews)
    assert capsys.readouterr().out == "", "all words are known: nothing to say"


def test_a_split_of_few_words_is_called_so() -> None:
    splits = pd.DataFrame({"words": [6, 40]}, index=["test", "wide"])
    assert "`test` (6)" in probes.few(splits)
    assert "`wide`" not in probes.few(splits)
    assert probes.few(splits.loc[["wide"]]) == ""


def test_more_epochs_are_suggested_where_training_was_too_short() -> None:
    options = transformer.Options(epochs=2)
    short = pd.DataFrame({"split": ["train"], "accuracy": [0.5]})
    hint = transformer.advice(short, options, 192)
    assert "after 6 steps; more epochs may help: --epochs 84" in hint
    assert transformer.advice(short.assign(accuracy=0.95), options, 192) == ""
