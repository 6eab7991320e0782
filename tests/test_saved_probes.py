"""A saved probe gives the same answers to the last bit; damaged and foreign files are refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted_states import NAMES

from data_gen import build_tokenizer, own_dataset
from probing.models.presets import build_model
from probing.probes.head import SingleLocationHead
from probing.probes.linear import LinearProbe
from probing.probes.locate_and_read import LocateAndRead
from probing.probes.location import LocationProbe
from probing.probes.saved.folder import ARRAYS, DESCRIPTION, load_probe, save_probe
from probing.probes.saved.probe import Origin, SavedProbe, SavedProbeError, word_around
from probing.probes.splits import POOLED
from probing.states.extraction import extract
from probing.states.parts import ActivationError
from probing.states.tokens import tokenise

WORDS = {"bad": ["stale", "foul"], "fair": ["plain", "usual"], "good": ["tasty", "fine"]}
ROWS = [
    {"text": f"The {dish} was {word}, they said", "label": label, "word": word, "split": "train"}
    for label, words in WORDS.items()
    for word in words
    for dish in ("soup", "warm bread", "curry")
]
TEXTS = ["The curry was tasty.", "They said the soup was foul, the bread too", "plain"]
Subject = tuple[Any, Any]  # a model and its tokenizer
ESTIMATORS: dict[str, Any] = {
    "summary": LinearProbe(),
    "mean": LinearProbe(C=0.3, standardize=False),
    "value": LinearProbe(C=1.0),
    "location": LocationProbe(C=1.0),
    "reader": LocateAndRead(),
    "head": SingleLocationHead(C=1.0),
    "max": SingleLocationHead(C=1.0, pooling="max"),
    "heads": SingleLocationHead(C=1.0, n_heads=3, max_iter=20),
}


@pytest.fixture(scope="module")
def subject() -> Subject:
    tokenizer = build_tokenizer([*(row["text"] for row in ROWS), *TEXTS])
    return build_model(tokenizer, "tiny", ["bad", "good"], seed=0), tokenizer


def fitted(subject: Subject, probe: str, n_labels: int, *, names: bool = False) -> SavedProbe:
    """A probe of one layer, fitted to sentences of two or three labels."""
    rows = [row for row in ROWS if n_labels == 3 or row["label"] != "fair"]
    train = own_dataset(rows)["train"]
    labels = train.features["label"].names
    position = POOLED.get(probe, "tokens")
    states = extract(*subject, train, positions=(position,))
    states = states.words_only() if position == "tokens" else states
    X, tokens = states.at(1, position), states.tokens
    y = np.array(labels)[tokens.labels] if names else tokens.labels
    estimator = ESTIMATORS[probe]
    if probe in POOLED:
        estimator = estimator.fit(X, y, tokens.words)
    else:
        estimator = estimator.fit(X, replace(tokens, labels=y))
    return SavedProbe.of(estimator, probe, 1, labels, Origin.of("here", subject[0]))


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("probe", ESTIMATORS)
def test_a_probe_saved_and_loaded_gives_the_same_bits(
    probe: str, n_labels: int, names: bool, subject: Subject, tmp_path: Path
) -> None:
    saved = fitted(subject, probe, n_labels, names=names)
    save_probe(tmp_path / "probe", saved)
    assert {file.name for file in tmp_path.rglob("*")} == {"probe", ARRAYS, DESCRIPTION}
    loaded = load_probe(tmp_path / "probe")
    spans = [(14, 19), (23, 27), (0, 5)] if probe == "value" else None
    table, again = (each.apply(*subject, TEXTS, spans) for each in (saved, loaded))
    pd.testing.assert_frame_equal(table, again, check_exact=True)
    expected = () if probe == "location" else ("bad", "good") if n_labels == 2 else tuple(NAMES)
    assert loaded.labels == expected
    assert loaded.estimator.get_params() == saved.estimator.get_params()
    assert_same_attributes(saved.estimator, loaded.estimator)


def assert_same_attributes(ours: Any, theirs: Any) -> None:
    assert vars(ours).keys() == vars(theirs).keys()
    for name, value in vars(ours).items():
        other = vars(theirs)[name]
        if hasattr(value, "get_params"):
            assert_same_attributes(value, other)
        elif isinstance(value, np.ndarray):
            assert (value.dtype, value.shape) == (other.dtype, other.shape), name
            assert value.tobytes() == other.tobytes(), name
        else:
            assert value == other, name


def test_the_answers_are_those_of_the_estimator(subject: Subject) -> None:
    saved = fitted(subject, "reader", 2)
    table = saved.apply(*subject, TEXTS)
    states = extract(*subject, {"text": TEXTS}, positions=("tokens",)).words_only()
    logits = saved.estimator.decision_function(states.at(1), states.tokens)
    assert table["score"].tolist() == logits.tolist()
    assert table["label"].tolist() == ["good" if logit > 0 else "bad" for logit in logits]
    assert table["weight"].between(0, 1).all()
    # The words that the model was trained on are the informative ones of the sentences fitted to.
    seen = saved.apply(*subject, [row["text"] for row in ROWS if row["label"] != "fair"])
    assert seen["word"].tolist() == [row["word"] for row in ROWS if row["label"] != "fair"]
    assert seen["label"].tolist() == [row["label"] for row in ROWS if row["label"] != "fair"]
    head = fitted(subject, "head", 2).apply(*subject, TEXTS)
    assert head["weight"].between(0.1, 1).all()
    location = fitted(subject, "location", 2).apply(*subject, TEXTS)
    assert list(location) == ["text", "score", "word", "weight"]


@pytest.mark.parametrize(
    ("start", "end", "word"), [(10, 12, "nice"), (9, 14, "nice"), (14, 15, "."), (0, 2, "my")]
)
def test_the_word_around_a_token(start: int, end: int, word: str) -> None:
    assert word_around("my dog is nice.", start, end) == word


def test_texts_without_spans_have_no_informative_token(subject: Subject) -> None:
    tokens = tokenise(subject[1], {"text": TEXTS})
    assert not tokens.informative.any()
    assert tokens.words is None
    spans = [(14, 19), (23, 27), (0, 5)]
    known = extract(*subject, {"text": TEXTS, "span": spans}, positions=("mean",))
    states = extract(*subject, {"text": TEXTS}, positions=("mean",))
    assert (states.at(1, "mean") == known.at(1, "mean")).all()
    with pytest.raises(ActivationError, match="no spans"):
        extract(*subject, {"text": TEXTS})


def test_a_probe_refuses_what_it_cannot_read(subject: Subject) -> None:
    value, reader = (fitted(subject, probe, 2) for probe in ("value", "reader"))
    with pytest.raises(SavedProbeError, match="'value' reads the informative word"):
        value.apply(*subject, TEXTS)
    with pytest.raises(SavedProbeError, match="text 2 is empty"):
        reader.apply(*subject, ["fine", " "])
    with pytest.raises(SavedProbeError, match="list of texts"):
        reader.apply(*subject, "fine")
    other = build_model(subject[1], "tiny", ["bad", "good"], seed=1)
    with pytest.raises(SavedProbeError, match=r"not the model .* \('here', 'float32'\)"):
        reader.apply(other, subject[1], TEXTS)
    with pytest.raises(SavedProbeError, match="layer 9 of 1"):
        replace(reader, layer=9).apply(*subject, TEXTS)


def test_a_probe_is_not_overwritten_and_is_written_whole(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = fitted(subject, "summary", 2)

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("probing.probes.saved.folder.save_file", full)
    with pytest.raises(OSError, match="no space"):
        save_probe(tmp_path / "probe", saved)
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    save_probe(tmp_path / "probe", saved)
    with pytest.raises(FileExistsError, match="exists"):
        save_probe(tmp_path / "probe", saved)


def described(**changes: Any) -> Any:
    def change(folder: Path) -> None:
        description = json.loads((folder / DESCRIPTION).read_text())
        (folder / DESCRIPTION).write_text(json.dumps(description | changes))

    return change


def estimator(**changes: Any) -> Any:
    def change(folder: Path) -> None:
        description = json.loads((folder / DESCRIPTION).read_text())
        description["estimator"] |= changes
        (folder / DESCRIPTION).write_text(json.dumps(description))

    return change


def text(name: str, content: bytes) -> Any:
    return lambda folder: (folder / name).write_bytes(content)


def truncated(folder: Path) -> None:
    content = (folder / ARRAYS).read_bytes()
    (folder / ARRAYS).write_bytes(content[: len(content) // 2])


DAMAGES = {
    "no description": (lambda folder: (folder / DESCRIPTION).unlink(), "probe.json is missing"),
    "no arrays": (lambda folder: (folder / ARRAYS).unlink(), "safetensors is missing"),
    "truncated": (truncated, "is damaged"),
    "not JSON": (text(DESCRIPTION, b"{format: 1"), "is damaged"),
    "only a format": (text(DESCRIPTION, b'{"format": 1}'), "is damaged"),
    "another format": (described(format=2), "format 2 is not known"),
    "another probe": (described(probe="os.system"), "no probe 'os.system'"),
    "other parameters": (estimator(parameters={"c": 1}), "is damaged.*unexpected keyword"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_foreign_folder_is_one_clear_line(
    damage: str, subject: Subject, tmp_path: Path
) -> None:
    folder = tmp_path / "probe"
    save_probe(folder, fitted(subject, "head", 2))
    load_probe(folder)  # the control
    change, message = DAMAGES[damage]
    change(folder)
    with pytest.raises(SavedProbeError, match=message) as error:
        load_probe(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
