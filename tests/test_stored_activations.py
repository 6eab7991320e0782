"""States in a folder: those that memory would hold, resumed, and never stale."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file
from small_models import bert, forward_rows, said

from probing.models.presets import build_model
from probing.states.extraction import POSITIONS, extract
from probing.states.parts import ActivationError
from probing.states.store import FINISHED, LOCK
from probing.states.tokens import States

TOLERANCE = 1e-5  # the issue's; float32 sums in another order differ by about 1e-7 here


pytestmark = pytest.mark.usefixtures("one_thread")


def full(model: Any, tokenizer: Any, rows: Any, **options: Any) -> States:
    usual: dict[str, Any] = {"positions": POSITIONS, "attention": True, "max_tokens_per_batch": 64}
    return extract(model, tokenizer, rows, **usual | options)


def assert_same(one: States, two: States) -> None:
    assert set(one.hidden) == set(two.hidden)
    for layer, position in one.hidden:
        np.testing.assert_array_equal(one.at(layer, position), two.at(layer, position))
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
    files = {path.name for path in (tmp_path / "new" / "folder").glob("*.safetensors")}
    assert files == {
        f"{name}.safetensors" for name in ("layer-00", "layer-01", "layer-02", "attention")
    }
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
    np.testing.assert_allclose(found.stacked(), whole.stacked(), atol=TOLERANCE)


@pytest.mark.parametrize("damage", ["remove", "cut"])
def test_a_damaged_array_is_computed_again(
    rows: Any, tokenizer: Any, tmp_path: Path, damage: str
) -> None:
    model = bert(len(tokenizer))
    whole = full(model, tokenizer, rows)
    full(model, tokenizer, rows, folder=tmp_path)
    path = tmp_path / "layer-01.safetensors"
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
    refused("precision", model, tokenizer, rows, storage_dtype="bfloat16")
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
    with pytest.raises(ActivationError, match="holds other files"):
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
    with pytest.raises(ActivationError, match="logits need a classifier"):
        extract(bert(len(tokenizer)).base_model, tokenizer, rows, logits=True)


# ---- one file per layer


def test_a_folder_keeps_and_computes_only_the_layers_asked_for(
    rows: Any, tokenizer: Any, tmp_path: Path
) -> None:
    model = bert(len(tokenizer))
    whole = extract(model, tokenizer, rows, positions=POSITIONS)
    states = extract(model, tokenizer, rows, positions=POSITIONS, layers=[1], folder=tmp_path)
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["layer-01.safetensors"]
    assert states.layers == [1]
    for position in POSITIONS:
        np.testing.assert_array_equal(states.at(1, position), whole.at(1, position))
    with pytest.raises(ValueError, match="no layer 2; extract with this layer"):
        states.at(2, "summary")


def test_files_are_plain_safetensors(rows: Any, tokenizer: Any, tmp_path: Path) -> None:
    model = bert(len(tokenizer))
    states = full(model, tokenizer, rows, folder=tmp_path)
    for layer in states.layers:
        tensors = load_file(tmp_path / f"layer-{layer:02}.safetensors")
        assert set(tensors) == set(POSITIONS)
        for position, tensor in tensors.items():
            np.testing.assert_array_equal(tensor, states.at(layer, position))


def test_a_part_of_a_folder_is_read_without_a_run(
    rows: Any, tokenizer: Any, tmp_path: Path
) -> None:
    model = bert(len(tokenizer))
    whole = full(model, tokenizer, rows, folder=tmp_path)
    sizes = forward_rows(model)
    part = extract(model, tokenizer, rows, positions=["mean"], layers=[0, 2], folder=tmp_path)
    assert sizes == []
    assert part.layers == [0, 2]
    assert {position for _, position in part.hidden} == {"mean"}
    np.testing.assert_array_equal(part.at(2, "mean"), whole.at(2, "mean"))


def test_a_folder_that_lacks_an_array_is_refused(rows: Any, tokenizer: Any, tmp_path: Path) -> None:
    model = bert(len(tokenizer))
    extract(model, tokenizer, rows, positions=["mean"], layers=[0, 2], folder=tmp_path)
    lacking = "holds activations of another choice of arrays, without"
    for options, name in (
        ({"positions": ["summary"]}, "0 summary"),
        ({"positions": ["mean"]}, "1 mean"),
        ({"positions": ["mean"], "layers": [2], "attention": True}, "attention"),
    ):
        with pytest.raises(ActivationError, match=f"{lacking} {name}"):
            extract(model, tokenizer, rows, folder=tmp_path, **options)


def test_a_part_asked_of_an_unfinished_folder_finishes_all_of_it(
    rows: Any, tokenizer: Any, tmp_path: Path
) -> None:
    model = bert(len(tokenizer))
    with pytest.raises(KeyboardInterrupt):
        full(model, tokenizer, rows, folder=tmp_path, progress=stop_after(2))
    asked: dict[str, Any] = {"positions": ["mean"], "layers": [2], "max_tokens_per_batch": 64}
    extract(model, tokenizer, rows, folder=tmp_path, **asked)
    sizes = forward_rows(model)
    finished = full(model, tokenizer, rows, folder=tmp_path)
    assert sizes == [], "nothing is left to do"
    assert_same(finished, full(model, tokenizer, rows))


def test_bfloat16_on_disk_is_the_rounded_state_in_half_of_the_space(
    rows: Any, tokenizer: Any, tmp_path: Path
) -> None:
    model = bert(len(tokenizer))
    exact = full(model, tokenizer, rows, folder=tmp_path / "exact")
    rounded = full(model, tokenizer, rows, folder=tmp_path / "half", storage_dtype="bfloat16")
    for layer, position in exact.hidden:
        expected = torch.from_numpy(exact.at(layer, position)).bfloat16().float()
        found = rounded.at(layer, position)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)
        assert np.abs(found - exact.at(layer, position)).max() > 0, "the control: it is rounded"
    sizes = [
        (tmp_path / kind / "layer-01.safetensors").stat().st_size for kind in ("exact", "half")
    ]
    assert sizes[0] < 2 * sizes[1] < sizes[0] + 1000  # but for the header
    again = full(model, tokenizer, rows, folder=tmp_path / "half")  # as it is stored
    np.testing.assert_array_equal(again.at(1), rounded.at(1))


def test_states_of_a_folder_travel_as_a_path(rows: Any, tokenizer: Any, tmp_path: Path) -> None:
    """To another process: the files are read there."""
    model = bert(len(tokenizer))
    stored = full(model, tokenizer, rows, folder=tmp_path).words_only()
    held = full(model, tokenizer, rows).words_only()
    sent = [pickle.dumps(states.only(1, "tokens").hidden) for states in (stored, held)]
    assert len(sent[0]) < len(sent[1]) / 2
    for data in sent:
        np.testing.assert_array_equal(pickle.loads(data)[1, "tokens"], held.at(1))


def test_a_file_that_was_cut_later_is_one_clear_line(
    rows: Any, tokenizer: Any, tmp_path: Path
) -> None:
    states = full(bert(len(tokenizer)), tokenizer, rows, folder=tmp_path)
    path = tmp_path / "layer-01.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ActivationError, match=r"layer-01\.safetensors is missing or damaged"):
        states.at(1)


def test_two_extractions_do_not_write_to_one_folder(
    rows: Any, tokenizer: Any, tmp_path: Path
) -> None:
    model = bert(len(tokenizer))

    def meanwhile(done: int, total: int) -> None:
        with pytest.raises(ActivationError, match="another extraction is writing"):
            full(bert(len(tokenizer)), tokenizer, rows, folder=tmp_path)

    full(model, tokenizer, rows, folder=tmp_path, progress=meanwhile)


def test_a_finished_folder_is_read_while_another_job_holds_the_lock(
    rows: Any, tokenizer: Any, tmp_path: Path
) -> None:
    model = bert(len(tokenizer))
    whole = full(model, tokenizer, rows, folder=tmp_path)
    lock = FileLock(tmp_path / LOCK)
    with lock:
        assert_same(full(model, tokenizer, rows, folder=tmp_path), whole)
    (tmp_path / FINISHED).write_bytes(bytes(len((tmp_path / FINISHED).read_bytes())))
    with lock, pytest.raises(ActivationError, match="another extraction"):  # the control
        full(model, tokenizer, rows, folder=tmp_path)


def test_states_for_another_process_are_checked_first(rows: Any, tokenizer: Any) -> None:
    states = extract(bert(len(tokenizer)), tokenizer, rows, layers=[1], positions=["mean"])
    with pytest.raises(ValueError, match="no layer 2; extract with this layer"):
        states.only(2, "mean")
    with pytest.raises(ValueError, match="no 'tokens'; extract with this position"):
        states.only(1, "tokens")


def test_a_text_without_a_word_is_refused(tokenizer: Any) -> None:
    texts = {"text": ["my dog is nice", " "]}
    with pytest.raises(ActivationError, match="text ' ' has only special tokens"):
        extract(bert(len(tokenizer)), tokenizer, texts, positions=["mean"])


@pytest.mark.parametrize(
    ("layers", "message"), [([3], "layers are 0 to 2"), ([-1], "no layer -1"), ([], "is empty")]
)
def test_layers_that_are_not_there_are_refused(
    rows: Any, tokenizer: Any, layers: list[int], message: str
) -> None:
    with pytest.raises(ActivationError, match=message):
        extract(bert(len(tokenizer)), tokenizer, rows, layers=layers)
