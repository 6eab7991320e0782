"""Models on other devices and in other precisions, as far as a machine without a GPU can show.

The ``meta`` device stands for a GPU: its tensors have shapes but no numbers, and every operation
that mixes it with the CPU, which a GPU would refuse, is an error here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from architectures import D_MODEL, N_HEADS, N_LAYERS, family_model
from small_models import byte_level
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from probing.circuits.causal import Trial
from probing.circuits.heads import head_directions
from probing.circuits.interventions import Erase, Leace, Reflect, Steer, reading_only, without_heads
from probing.doctor.checks import examine
from probing.doctor.subject import Patient
from probing.probes.locate_and_read import LocateAndRead
from probing.sentences import at_most, draw_by_word
from probing.states import extraction
from probing.states.anatomy import anatomy_of
from probing.states.editing import edited
from probing.states.extraction import POSITIONS, extract
from probing.states.readout import Readout
from probing.states.tokens import tokenise

ROOT = Path(__file__).parent.parent
READOUT = Readout("summary", np.linspace(-1, 1, D_MODEL), 0.0)


class OneDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses operations on tensors of two devices; what is copied to the CPU is 0."""

    copies = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, aten = kwargs or {}, torch.ops.aten
        leaves = tree_leaves((args, kwargs))
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        if not any(each.is_meta for each in tensors):
            return func(*args, **kwargs)
        asks = (aten.is_nonzero.default, aten.item.default, aten._local_scalar_dense.default)
        if func in asks:
            return True  # the library asks whether there is padding
        if torch.device("cpu") in [each for each in leaves if isinstance(each, torch.device)]:
            self.copies += 1
            return torch.zeros(args[0].shape, dtype=args[0].dtype)
        assert all(each.is_meta or not each.ndim for each in tensors), f"{func} mixes devices"
        return func(*args, **kwargs)


@pytest.fixture(scope="module")
def tokenizer(sentiment: Any) -> Any:
    return byte_level(sentiment["train"]["text"][:])


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[OneDevice]:
    monkeypatch.setattr(
        extraction,
        "_attention",
        lambda recording, tokens, texts=None: tokens.padded().layers(recording.attention),
    )  # zeros do not sum to 1
    with OneDevice() as mode:  # type: ignore[no-untyped-call]
        yield mode


def test_the_stand_in_for_a_gpu_refuses_what_a_gpu_refuses(elsewhere: OneDevice) -> None:
    there, here = torch.zeros(3, device="meta"), torch.zeros(3)
    with pytest.raises(AssertionError, match="mixes devices"):
        there * here
    assert (there + there).is_meta
    assert not (there + there).cpu().any()
    assert elsewhere.copies == 1


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "qwen3", "gemma2"])
def test_no_tensor_is_left_behind_on_the_cpu(
    name: str, tokenizer: Any, sentiment: Any, elsewhere: OneDevice
) -> None:
    model = family_model(name, len(tokenizer))
    anatomy_of(model)  # from numbers, which the stand-in does not have
    model = model.to("meta")
    rows = sentiment["train"].select(draw_by_word(sentiment["train"], 12))[:]
    states = extract(model, tokenizer, rows, positions=POSITIONS, attention=True)
    assert states.at(N_LAYERS, "summary").shape == (12, D_MODEL)
    assert states.attention.shape == (states.tokens.offsets[-1], N_LAYERS, N_HEADS)
    tokens = tokenise(tokenizer, rows)
    heads = head_directions(model, tokens, READOUT)
    assert heads[-1].value.shape == (D_MODEL,)
    trial = Trial(model, tokens, tokens, READOUT)
    u, n = np.ones(D_MODEL), int(tokens.informative.sum())
    X, y = np.random.default_rng(0).standard_normal((50, D_MODEL)), np.arange(50) % 2
    for edit in (Erase(u, 0.5), Reflect(u, 0.5), Steer(u, np.ones(n)), Leace.fit(X, y)):
        after = trial.run(edited(model, 1, edit, tokens.site("informative")))
        assert after.logits.shape == (12,)
    trial.run(without_heads(model, [(1, 2)]))
    trial.run(reading_only(model, 1, tokens, "informative"))
    assert elsewhere.copies > 10


# ---- precision


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2"])
def test_bfloat16_gives_the_states_of_float32_within_its_precision(
    name: str, tokenizer: Any, sentiment: Any
) -> None:
    """bfloat16 has 8 bits: each of some twenty roundings of a state is off by up to 1 in 256."""
    rows = sentiment["train"].select(draw_by_word(sentiment["train"], 60))[:]
    model = family_model(name, len(tokenizer))
    exact = extract(model, tokenizer, rows, positions=["tokens"], attention=True)
    model = model.to(torch.bfloat16)
    rounded = extract(model, tokenizer, rows, positions=["tokens"], attention=True)
    assert rounded.stacked().dtype == np.float32
    sizes, errors = (
        np.sqrt((each**2).mean(axis=(0, 2)))
        for each in (exact.stacked(), rounded.stacked() - exact.stacked())
    )
    assert (errors < 0.05 * sizes).all()
    assert (errors > 1e-4 * sizes).all(), "the control: it is another precision"
    assert np.sqrt(((rounded.attention - exact.attention) ** 2).mean()) < 0.02
    readers = [
        LocateAndRead(C=1.0).fit(each.at(1), each.tokens).score(each.at(1), each.tokens)
        for each in (exact.words_only(), rounded.words_only())
    ]
    assert abs(readers[0] - readers[1]) < 0.1


def test_the_doctor_allows_for_the_precision(tokenizer: Any, sentiment: Any) -> None:
    model = family_model("llama", len(tokenizer)).to(torch.bfloat16)
    names = ("train", "test", "ood_structure")
    part = at_most(type(sentiment)({name: sentiment[name] for name in names}), 200)
    findings = examine(Patient(model, tokenizer, part))
    # Whether 200 random sentences are balanced is not the model's business.
    assert [each.name for each in findings if not each.passed] in ([], ["splits balanced"])
