"""Batches that run at the same time give what they give one after the other."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import bert, gpt2

from probing.states import extraction
from probing.states.attention import attending
from probing.states.batches import side_by_side
from probing.states.extraction import POSITIONS, extract
from probing.states.parts import ActivationError

TOLERANCE = 1e-5  # as in test_activations.py


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def runners(monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, int]]:
    """The threads that ran a batch, with their numbers of torch threads."""
    seen: set[tuple[int, int]] = set()
    run_batch = extraction._run_batch

    def spy(*args: Any) -> Any:
        seen.add((threading.get_ident(), torch.get_num_threads()))
        return run_batch(*args)

    monkeypatch.setattr(extraction, "_run_batch", spy)
    return seen


def short(model: Any, tokenizer: Any, rows: Any, **options: Any) -> dict[str, Any]:
    """Pooled and token states, by batches of three sentences."""
    usual: dict[str, Any] = {"positions": POSITIONS, "max_tokens_per_batch": 40}
    states = extract(model, tokenizer, rows, **(usual | options))
    return {name: states.stacked(name) for name in POSITIONS}


def assert_same(one: dict[str, Any], two: dict[str, Any], tolerance: float = 0.0) -> None:
    for name, values in one.items():
        np.testing.assert_allclose(values, two[name], atol=tolerance, rtol=0, err_msg=name)


@pytest.mark.parametrize("build", [bert, gpt2])
def test_states_do_not_depend_on_which_batch_is_faster(
    rows: Any, tokenizer: Any, runners: Any, build: Any
) -> None:
    model = build(len(tokenizer))
    first = short(model, tokenizer, rows)
    assert {threads for _, threads in runners} == {1}
    assert threading.get_ident() not in {thread for thread, _ in runners}
    for _ in range(5):
        assert_same(short(model, tokenizer, rows), first)
    torch.set_num_threads(1)
    runners.clear()
    assert_same(short(model, tokenizer, rows), first)
    assert runners == {(threading.get_ident(), 1)}


def test_a_resumed_run_has_the_last_digits_of_a_whole_one(
    rows: Any, tokenizer: Any, tmp_path: Path
) -> None:
    model = bert(len(tokenizer))
    whole = short(model, tokenizer, rows)
    counts = []

    def stop(done: int, total: int) -> None:
        counts.append((done, total))
        if len(counts) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        short(model, tokenizer, rows, folder=tmp_path, progress=stop)
    assert 0 < counts[0][0] < counts[1][0] < counts[1][1], "progress is in order"
    resumed = short(model, tokenizer, rows, folder=tmp_path)
    assert_same(resumed, whole)


def test_the_number_of_threads_is_left_as_found(rows: Any, tokenizer: Any) -> None:
    model = bert(len(tokenizer))
    short(model, tokenizer, rows)
    with torch.no_grad():
        model.bert.encoder.layer[0].output.dense.bias[0] = float("nan")
    with pytest.raises(ActivationError, match="infinite or undefined"):
        short(model, tokenizer, rows)
    assert torch.get_num_threads() == 4
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [4]
    assert not model.bert.encoder.layer[0]._forward_hooks


def test_batches_run_alone_where_one_could_change_another(
    rows: Any, tokenizer: Any, runners: set[tuple[int, int]]
) -> None:
    model = bert(len(tokenizer))
    alone = {(threading.get_ident(), 4)}
    with attending(model, lambda call: None):
        short(model, tokenizer, rows)
    assert runners == alone
    with torch.autocast("cpu", torch.bfloat16):
        rough = short(model, tokenizer, rows)
    short(model, tokenizer, rows, attention=True)
    with model.bert.register_forward_hook(lambda *_: None):
        short(model, tokenizer, rows)
    assert runners == alone
    exact = short(model, tokenizer, rows)
    assert len(runners) > 1, "the control"
    assert np.abs(rough["mean"] - exact["mean"]).max() > 1e-4, "autocast holds in each batch"


def test_results_come_in_order_and_few_wait() -> None:
    begun: list[int] = []

    def batches() -> Iterator[int]:
        for i in range(20):
            begun.append(i)
            yield i

    def run(i: int) -> int:
        assert torch.is_inference_mode_enabled()
        return i * i

    results = []
    for result in side_by_side(run, batches(), at_once=4):
        results.append(result)
        assert len(begun) <= len(results) + 4
    assert results == [i * i for i in range(20)]


def test_sentences_of_one_length_need_no_mask(
    rows: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that holds several lengths has a mask: the control."""
    masks: list[bool] = []
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def spy(*args: Any, **options: Any) -> Any:
        masks.append(options["attn_mask"] is not None)
        return sdpa(*args, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    model = bert(len(tokenizer))
    lengths = [len(ids) for ids in tokenizer(rows["text"])["input_ids"]]
    longest = [i for i, n in enumerate(lengths) if n == max(lengths)]
    equal = {name: [values[i] for i in longest] for name, values in rows.items()}
    extract(model, tokenizer, equal)
    assert not any(masks)
    extract(model, tokenizer, rows)
    assert any(masks)


def test_a_batch_keeps_its_threads_when_others_set_theirs() -> None:
    begun, changed = threading.Event(), threading.Event()

    def batches() -> Iterator[int]:
        yield 0
        begun.wait()
        torch.set_num_threads(4)
        changed.set()

    def run(batch: int) -> int:
        begun.set()
        changed.wait()
        return torch.get_num_threads()

    assert list(side_by_side(run, batches(), at_once=2)) == [2]
