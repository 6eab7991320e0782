"""States in a folder: those that memory would hold, resumed, and never stale."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import bert, forward_rows, said

from probing.models.presets import build_model
from probing.states.extraction import POSITIONS, extract
from probing.states.parts import ActivationError
from probing.states.tokens import States

TOLERANCE = 1e-5  # the issue's; float32 sums in another order differ by about 1e-7 here


pytestmark = pytest.mark.usefixtures("one_thread")


def full(model: Any, tokenizer: Any, rows: Any, **options: Any) -> States:
    usual: dict[str, Any] = {"positions": POSITIONS, "attention": True, "max_tokens_per_batch": 64}
    return extract(model, tokenizer, rows, **usual | options)


def assert_same(one: States, two: States) -> None:
    assert one.pooled.keys() == two.pooled.keys()
    for name in one.pooled:
        np.testing.assert_array_equal(one.pooled[name], two.pooled[name])
    np.testing.assert_array_equal(one.layers, two.layers)
    assert one.attention is not None
    np.testing.assert_array_equal(one.attention, two.attention)


def stop_after(batches: int) -> Callable[[int, int], None]:
    seen = []

    def progress(done: int, of: int) -> None:
        seen.append(done)
        if len(seen) == batches:
            raise KeyboardInterrupt

    return progress


def test_a_folder_holds_what_memory_would(rows: Any, tokenizer: Any, tmp_path: Path) -> None:
    model = bert(len(tokenizer))
    found = full(model, tokenizer, rows, folder=tmp_path / "new" / "folder")
    assert all(isinstance(states, np.memmap) for states in [found.layers, *found.pooled.values()])
    assert_same(found, full(model, tokenizer, rows))
    sizes = forward_rows(model)
    assert_same(full(model, tokenizer, rows, folder=tmp_path / "new" / "folder"), found)
    assert sizes == [], "nothing was computed again"


@pytest.mark.parametrize("batches", [1, 3])
def test_an_interrupted_run_goes_on_where_it_was(
    rows: Any, tokenizer: Any, tmp_path: Path, batches: int
) -> None:
    model = bert(len(tokenizer))
    sizes = forward_rows(model)
    whole = full(model, tokenizer, rows)
    n_all = sum(sizes[2:])
    sizes.clear()
    with pytest.raises(KeyboardInterrupt):
        full(model, tokenizer, rows, folder=tmp_path, progress=stop_after(batches))
    assert len(sizes) == batches
    n_before = sum(sizes)
    assert 0 < n_before < n_all
    sizes.clear()
    assert_same(full(model, tokenizer, rows, folder=tmp_path), whole)
    assert sum(sizes) == n_all - n_before


def test_a_run_can_go_on_with_other_batches(rows: Any, tokenizer: Any, tmp_path: Path) -> None:
    model = bert(len(tokenizer))
    with pytest.raises(KeyboardInterrupt):
        full(model, tokenizer, rows, folder=tmp_path, progress=stop_after(2))
    found = full(model, tokenizer, rows, folder=tmp_path, max_tokens_per_batch=50)
    whole = full(model, tokenizer, rows)
    np.testing.assert_allclose(found.layers, whole.layers, atol=TOLERANCE)


@pytest.mark.parametrize("damage", ["remove", "cut"])
def test_a_damaged_array_is_computed_again(
    rows: Any, tokenizer: Any, tmp_path: Path, damage: str
) -> None:
    model = bert(len(tokenizer))
    whole = full(model, tokenizer, rows)
    full(model, tokenizer, rows, folder=tmp_path)
    path = tmp_path / "tokens.npy"
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-100])
    assert_same(full(model, tokenizer, rows, folder=tmp_path), whole)


def test_a_folder_of_anything_else_is_refused(
    rows: Any, tokenizer: Any, pieces: Any, tmp_path: Path
) -> None:
    n_words = max(len(tokenizer), len(pieces))
    model = bert(n_words)
    full(model, tokenizer, rows, folder=tmp_path)
    texts, spans = rows["text"], rows["span"]

    def refused(what: str, *args: Any, **options: Any) -> None:
        with pytest.raises(ActivationError, match=f"holds activations of another .*{what}"):
            full(*args, folder=tmp_path, **options)

    refused("list of texts", model, tokenizer, said(texts[1:], spans[1:]))
    refused("list of texts", model, tokenizer, said(texts[::-1], spans[::-1]))
    refused("arrays", model, tokenizer, rows, positions=["summary"])
    refused("arrays", model, tokenizer, rows, attention=False)
    refused("tokenizer", model, pieces, rows)
    refused("model", bert(n_words, seed=1), tokenizer, rows)
    with torch.no_grad():
        weight = model.bert.encoder.layer[1].output.dense.weight
        weight[0, 0] += 1e-3  # one number of one layer
        refused("model", model, tokenizer, rows)
        weight[0, 0] -= 1e-3
    changed = bert(n_words)  # the weights alone are not the model
    changed.config.layer_norm_eps = 0.1
    refused("model", changed, tokenizer, rows)
    same = bert(n_words, seed=0)
    tokenizer(texts, padding=True, truncation=True, max_length=100)  # leaves no trace in the key
    full(same, tokenizer, rows, folder=tmp_path)  # the control: an equal model is welcome


def test_a_folder_is_refused_when_hooks_could_change_the_states(
    rows: Any, tokenizer: Any, tmp_path: Path
) -> None:
    model = bert(len(tokenizer))
    model(torch.tensor([[5, 6]]), output_hidden_states=True)  # the library's own hooks may stay
    full(model, tokenizer, rows, folder=tmp_path / "library")
    model.bert.encoder.register_forward_hook(lambda *_: None)
    with pytest.raises(ActivationError, match="a hook on encoder"):
        full(model, tokenizer, rows, folder=tmp_path / "ours")


def test_a_folder_with_other_files_is_left_alone(rows: Any, tokenizer: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ActivationError, match="holds other files"):
        full(bert(len(tokenizer)), tokenizer, rows, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "manifest.json").write_text(json.dumps({"name": "of something else"}))
    with pytest.raises(ActivationError, match="damaged"):
        full(bert(len(tokenizer)), tokenizer, rows, folder=tmp_path)


# ---- logits


def classifier(tokenizer: Any, seed: int = 0) -> Any:
    return build_model(tokenizer, "tiny", ["negative", "positive"], seed)


def test_logits_are_those_that_the_model_gives_each_sentence_alone(
    rows: Any, tokenizer: Any
) -> None:
    model = classifier(tokenizer)
    states = extract(model, tokenizer, rows, positions=(), attention=True, logits=True)
    with torch.inference_mode():
        for text, logit in zip(rows["text"], states.logits, strict=True):
            negative, positive = model(**tokenizer(text, return_tensors="pt")).logits[0]
            assert logit == pytest.approx(float(positive - negative), abs=TOLERANCE)


def test_stored_logits_belong_to_one_classifier(rows: Any, tokenizer: Any, tmp_path: Path) -> None:
    """Two classifiers on one backbone have the same states, but not the same logits."""
    model, other = classifier(tokenizer), classifier(tokenizer)
    other.classifier.weight.data.neg_()
    asked: dict[str, Any] = {"positions": ("summary",), "folder": tmp_path / "x"}
    extract(model, tokenizer, rows, **asked)
    extract(other, tokenizer, rows, **asked)  # the states alone are the same
    asked["folder"] = tmp_path / "y"
    extract(model, tokenizer, rows, logits=True, **asked)
    with pytest.raises(ActivationError, match="another model"):
        extract(other, tokenizer, rows, logits=True, **asked)


def test_a_model_without_a_classifier_has_no_logits(rows: Any, tokenizer: Any) -> None:
    with pytest.raises(ActivationError, match="classifier with two labels"):
        extract(bert(len(tokenizer)).base_model, tokenizer, rows, logits=True)
