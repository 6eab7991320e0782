"""Activations are those of each sentence run alone, and leave neither trace nor stale cache."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from small_models import (
    D_MODEL,
    N_LAYERS,
    bert,
    byte_level,
    forward_rows,
    gpt2,
    roberta,
    said,
)
from torch import Tensor
from transformers import (
    BertModel,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
)

from data_gen import AlignmentError
from data_gen.quoting import quoted
from probing.states.attention import Call, attending
from probing.states.extraction import POSITIONS, extract, read
from probing.states.limits import check_finite, check_lengths, n_positions
from probing.states.parts import ActivationError
from probing.states.readout import Readout
from probing.states.recording import recorded
from probing.states.tokens import Tokens, tokenise

TOLERANCE = 1e-5  # the issue's; float32 sums in another order differ by about 1e-7 here


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def bytes_(sentiment: Any) -> Any:
    return byte_level(sentiment["train"]["text"][:])


CASES: dict[str, tuple[Callable[[int], Any], str]] = {
    "bert, words": (bert, "tokenizer"),
    "bert, pieces": (bert, "pieces"),
    "roberta, words": (roberta, "tokenizer"),
    "gpt2, bytes": (gpt2, "bytes_"),
    "gpt2, words": (gpt2, "tokenizer"),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, rows: Any) -> tuple[Any, Any, list[Any]]:
    """A model, its tokenizer, and what the model gives for each sentence alone."""
    build, name = CASES[request.param]
    tokenizer = request.getfixturevalue(name)
    model = build(len(tokenizer))
    return model, tokenizer, [alone(model, tokenizer, text) for text in rows["text"]]


def alone(model: Any, tokenizer: Any, text: str) -> tuple[Tensor, Tensor, list[int]]:
    """States (n_tokens, n_layers + 1, d_model), attention (layers, heads, n, n) and tokens.

    Written as anyone would by hand, with the whole model and no padding.
    """
    was_training, implementation = model.training, model.config._attn_implementation
    model.eval()
    model.set_attn_implementation("eager")
    inputs = tokenizer([text], return_tensors="pt", padding=False)
    with torch.no_grad():
        output = model(**inputs, output_hidden_states=True, output_attentions=True)
    model.train(was_training)
    model.set_attn_implementation(implementation)
    return (
        torch.cat(output.hidden_states).transpose(0, 1),
        torch.cat(output.attentions),
        inputs["input_ids"][0].tolist(),
    )


PROBE = [1, 1]  # the two short runs that say whether a model is causal


@pytest.mark.parametrize("max_tokens", [1, 40, 100, 4096])
@pytest.mark.parametrize("side", ["left", "right"])
def test_batches_equal_one_sentence_at_a_time(
    case: tuple[Any, Any, list[Any]],
    rows: Any,
    side: str,
    max_tokens: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, tokenizer, each_alone = case
    monkeypatch.setattr(tokenizer, "padding_side", side)
    found = extract(
        model,
        tokenizer,
        rows,
        positions=POSITIONS,
        attention=True,
        max_tokens_per_batch=max_tokens,
    )
    causal = isinstance(model, GPT2LMHeadModel)
    for i, (states, attention, ids) in enumerate(each_alone):
        here, summary = found.tokens.sentence(i), len(ids) - 1 if causal else 0
        assert found.tokens.ids[here].tolist() == ids
        words = torch.tensor([ids[j] not in special_ids(tokenizer) for j in range(len(ids))])
        informative = torch.from_numpy(found.tokens.informative[here])
        expected = {
            "tokens": states,
            "summary": states[summary],
            "mean": states[words].mean(0),
            "informative": states[informative].mean(0),
        }
        for name, value in expected.items():
            mine = found.stacked(name)[here if name == "tokens" else i]
            np.testing.assert_allclose(mine, value, atol=TOLERANCE, rtol=0, err_msg=name)
        read = attention[:, :, summary].permute(2, 0, 1)  # n_tokens, n_layers, n_heads
        np.testing.assert_allclose(found.attention[here], read, atol=TOLERANCE, rtol=0)


def special_ids(tokenizer: Any) -> list[int]:
    return list(tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"]))


def test_naive_left_padding_does_change_the_states(rows: Any, tokenizer: Any) -> None:
    """The control: what batches are compared with above can fail."""
    model, texts = bert(len(tokenizer)).eval(), rows["text"]
    inputs = tokenizer(texts, padding=True, padding_side="left", return_tensors="pt")
    shortest = int(inputs["attention_mask"].sum(1).argmin())
    with torch.no_grad():
        last = model(**inputs, output_hidden_states=True).hidden_states[-1]
    states, _, ids = alone(model, tokenizer, texts[shortest])
    assert (last[shortest, -len(ids) :] - states[:, -1]).abs().max() > 100 * TOLERANCE


def test_states_and_masks_have_the_promised_shapes(rows: Any, pieces: Any) -> None:
    found = extract(bert(len(pieces), BertModel), pieces, rows, positions=POSITIONS)
    tokens = found.tokens
    n, total = len(rows["text"]), int(tokens.offsets[-1])
    assert len(found) == n
    for name in POSITIONS:
        states = found.stacked(name)
        assert states.shape == (total if name == "tokens" else n, N_LAYERS + 1, D_MODEL)
        assert states.dtype == np.float32
        assert (found.at(1, name) == states[:, 1]).all()
    assert tokens.offsets.dtype == np.int64
    assert tokens.offsets.shape == (n + 1,)
    for mask in (tokens.special, tokens.informative):
        assert mask.shape == (total,)
        assert mask.dtype == bool
    assert found.attention is None


def test_the_informative_mask_spells_the_word(rows: Any, pieces: Any) -> None:
    tokens = extract(bert(len(pieces)), pieces, rows, positions=["summary"]).tokens
    several = 0
    for i, (text, span) in enumerate(zip(rows["text"], rows["span"], strict=True)):
        here = tokens.sentence(i)
        ids = tokens.ids[here][tokens.informative[here]]
        assert pieces.decode(ids) == text[slice(*span)].lower() == tokens.words[i]
        several += len(ids) > 1
        special = np.flatnonzero(tokens.special[here])
        assert special.tolist() == [0, here.stop - here.start - 1]
    assert several, "some words have several pieces"


def test_unknown_words_are_not_special_tokens(tokenizer: Any) -> None:
    rows = said(["my xyzzy is plugh"], [(12, 17)])
    tokens = extract(bert(len(tokenizer)), tokenizer, rows).tokens
    assert (tokens.ids == tokenizer.unk_token_id).sum() == 2
    assert tokens.special.tolist() == [True, False, False, False, False, True]


@pytest.mark.parametrize("max_tokens", [40, 4096])
def test_each_distinct_sentence_is_run_once(rows: Any, tokenizer: Any, max_tokens: int) -> None:
    model = bert(len(tokenizer))
    sizes = forward_rows(model)
    n = len(rows["text"])
    thrice = said(rows["text"] * 3, rows["span"] * 3)
    found = extract(model, tokenizer, thrice, max_tokens_per_batch=max_tokens)
    assert sizes[:2] == PROBE
    assert sum(sizes[2:]) == len(set(rows["text"])) < n
    np.testing.assert_array_equal(found.stacked("summary")[:n], found.stacked("summary")[n : 2 * n])


def test_the_anatomy_of_a_model_is_examined_once(rows: Any, tokenizer: Any) -> None:
    model = bert(len(tokenizer))
    sizes = forward_rows(model)
    extract(model, tokenizer, rows)
    assert sizes[:2] == PROBE
    sizes.clear()
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.mul_(2)  # other weights, the same anatomy
    extract(model, tokenizer, rows, attention=True)
    assert sum(sizes) == len(set(rows["text"]))


def test_a_model_that_an_edit_makes_look_causal_is_examined_again(
    rows: Any, tokenizer: Any
) -> None:
    """Without the outputs of its blocks no token sees another."""
    model = bert(len(tokenizer), BertModel)
    plain = extract(bert(len(tokenizer), BertModel), tokenizer, rows).stacked("summary")
    hooks = [
        layer.register_forward_hook(lambda module, args, out: args[0])
        for layer in model.encoder.layer
    ]
    blind = extract(model, tokenizer, rows).stacked("summary")
    for hook in hooks:
        hook.remove()
    np.testing.assert_array_equal(extract(model, tokenizer, rows).stacked("summary"), plain)
    assert np.abs(blind - plain).max() > 0.1


def test_tokens_are_taken_and_padded_without_loss(rows: Any, pieces: Any) -> None:
    tokens = tokenise(pieces, rows | {"label": np.arange(len(rows["text"])) % 2})
    order = np.array([5, 0, 5, 2])
    part = tokens.take(order)
    for i, j in enumerate(order):
        assert (part.ids[part.sentence(i)] == tokens.ids[tokens.sentence(j)]).all()
    assert (part.labels == tokens.labels[order]).all()
    padded = part.padded()
    assert (padded.ragged(padded.of(part.informative)).numpy() == part.informative).all()
    inputs = pieces([rows["text"][i] for i in order], padding=True, return_tensors="pt")
    for name in ("input_ids", "attention_mask"):
        assert torch.equal(padded.inputs[name], inputs[name])
    inner = tokens.words_only()
    assert not inner.special.any()
    assert (inner.lengths == tokens.lengths - 2).all()
    assert (inner.ids[inner.informative] == tokens.ids[tokens.informative]).all()


def test_one_text_with_two_spans_has_two_informative_words(tokenizer: Any) -> None:
    text = "The city is nice. my dog is nice"
    states = extract(bert(len(tokenizer)), tokenizer, said([text] * 2, [(28, 32), (21, 24)]))
    one, two = states.stacked("informative")
    assert np.abs(one - two).max() > 0.01
    np.testing.assert_array_equal(*states.stacked("mean"))


def test_batches_go_from_long_to_short_within_their_limit(rows: Any, tokenizer: Any) -> None:
    model = bert(len(tokenizer))
    shapes: list[tuple[int, int]] = []
    model.bert.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)),
        with_kwargs=True,
    )
    extract(model, tokenizer, rows, max_tokens_per_batch=64)
    lengths = [n for _, n in shapes[2:]]
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) > 1
    assert all(b * n <= 64 for b, n in shapes[2:])


def condition(model: Any) -> Any:
    """Everything about a model that a run may leave changed."""
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    attributes = [sorted(vars(module)) for module in model.modules()]
    modes = [module.training for module in model.modules()]
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    return hooks, attributes, modes, model.config._attn_implementation, str(model.config), weights


def assert_equal_condition(one: Any, two: Any) -> None:
    assert one[:-1] == two[:-1]
    assert all(torch.equal(one[-1][name], two[-1][name]) for name in one[-1])


@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("build", [bert, gpt2])
def test_the_model_is_left_as_found(
    rows: Any, tokenizer: Any, build: Callable[[int], Any], attention: bool
) -> None:
    model = build(len(tokenizer))  # in train mode, as built
    next(model.children()).eval()  # and a part of it frozen
    model.base_model.register_forward_hook(lambda *_: None)  # and a hook of someone's
    before = condition(model)
    extract(model, tokenizer, rows, attention=attention)
    assert_equal_condition(condition(model), before)

    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        extract(model, tokenizer, rows, attention=attention, progress=stop)
    assert_equal_condition(condition(model), before)
    with recorded(model):  # the control: inside, it is another
        assert not model.training
        assert torch.is_inference_mode_enabled()
    assert not torch.is_inference_mode_enabled()
    # And it still trains and still gives hidden states, as a model with half its hooks would not.
    output = model(torch.tensor([[5, 6, 7]]), output_hidden_states=True)
    assert len(output.hidden_states) == N_LAYERS + 1
    output.logits.sum().backward()


def test_a_hook_set_before_changes_what_is_recorded(rows: Any, tokenizer: Any) -> None:
    """Ablations show, in whichever order the library's own hooks came."""
    model = bert(len(tokenizer), BertModel)
    extract(model, tokenizer, rows)  # leaves no hooks of the library, which would come first
    plain = extract(model, tokenizer, rows).stacked("mean")
    handle = model.encoder.layer[0].register_forward_hook(lambda module, args, out: 0 * out)
    ablated = extract(model, tokenizer, rows).stacked("mean")
    handle.remove()
    assert np.abs(plain[:, 1]).max() > 0.1
    assert not ablated[:, 1].any()
    np.testing.assert_array_equal(extract(model, tokenizer, rows).stacked("mean"), plain)


def test_attention_of_a_model_in_train_mode_sums_to_one(rows: Any, tokenizer: Any) -> None:
    model = bert(len(tokenizer))
    assert model.training
    assert model.config.attention_probs_dropout_prob > 0
    found = extract(model, tokenizer, rows, attention=True)
    sums = np.add.reduceat(found.attention, found.tokens.offsets[:-1], axis=0)
    np.testing.assert_allclose(sums, 1, atol=TOLERANCE)


def test_attention_that_is_dropped_out_is_refused(rows: Any, tokenizer: Any) -> None:
    model = bert(len(tokenizer))

    def drop(call: Call) -> None:
        if call.layer == 2 and call.weights is not None:
            call.weights = torch.dropout(call.weights, 0.5, True)

    with (
        attending(model, drop, weights=True),
        pytest.raises(ActivationError, match="attention of layer 2 does not sum to 1"),
    ):
        extract(model, tokenizer, rows, attention=True)


def test_a_classifier_without_padding_token_runs_too(rows: Any, sentiment: Any) -> None:
    """GPT-2 has neither; its classifier alone refuses batches."""
    tokenizer = byte_level(sentiment["train"]["text"][:])
    tokenizer.pad_token = None
    model = gpt2(len(tokenizer), GPT2ForSequenceClassification)
    found = extract(model, tokenizer, rows)
    states, _, _ = alone(model, tokenizer, rows["text"][0])
    np.testing.assert_allclose(found.stacked("summary")[0], states[-1], atol=TOLERANCE)
    assert tokenizer.pad_token is None


# ---- what cannot be done is said in one line


def test_bad_requests_are_refused(rows: Any, tokenizer: Any) -> None:
    model = bert(len(tokenizer))
    with pytest.raises(ActivationError, match="no texts"):
        extract(model, tokenizer, said([], []))
    with pytest.raises(ValueError, match="columns of different lengths"):
        extract(model, tokenizer, said(["my dog"], []))
    with pytest.raises(ActivationError, match="unknown position 'first'; there are summary"):
        extract(model, tokenizer, rows, positions=["first"])
    with pytest.raises(ActivationError, match="a list of names"):
        extract(model, tokenizer, rows, positions="summary")
    with pytest.raises(ActivationError, match="at least 1"):
        extract(model, tokenizer, rows, max_tokens_per_batch=0)
    with pytest.raises(ActivationError, match="takes 512 at most"):
        extract(model, tokenizer, said(["dog " * 600], [(0, 3)]))
    with pytest.raises(ActivationError, match="not the model's tokenizer"):
        extract(bert(7), tokenizer, rows)
    with pytest.raises(AlignmentError, match="slow tokenizer"):
        extract(model, type("Slow", (), {"is_fast": False})(), said(["a"], [(0, 1)]))


def test_undefined_states_are_refused(rows: Any, tokenizer: Any) -> None:
    model = bert(len(tokenizer))
    with torch.no_grad():
        model.bert.encoder.layer[0].output.dense.bias[0] = float("nan")
    with pytest.raises(ActivationError, match="layer 1 of the model has infinite or undefined"):
        extract(model, tokenizer, rows)


def test_undefined_states_are_refused_by_the_text_that_has_them(rows: Any, tokenizer: Any) -> None:
    model, text = bert(len(tokenizer)), rows["text"][3]
    word = text[slice(*rows["span"][3])]
    with torch.no_grad():
        ids = tokenizer(word, add_special_tokens=False)["input_ids"]
        model.get_input_embeddings().weight[ids] = float("nan")
    sick = [each for each in rows["text"] if word in each]
    with pytest.raises(ActivationError, match="layer 0 of the model has infinite") as error:
        extract(model, tokenizer, rows)
    assert any(quoted(each) in str(error.value) for each in sick)
    tokens = tokenise(tokenizer, rows)
    with pytest.raises(ActivationError, match=f"for sentence {rows['text'].index(sick[0]) + 1};"):
        read(model, tokens)
    check_finite("layer 0", np.zeros((int(tokens.offsets[-1]), 3)), tokens)  # the control


@pytest.mark.parametrize(("positions", "fits"), [(11, False), (12, True)])
def test_roberta_begins_to_count_behind_its_padding_token(positions: int, fits: bool) -> None:
    """Of n embeddings of positions those up to pad_token_id, 0 here, are never used."""
    model = roberta(20)
    model.embeddings.position_embeddings = torch.nn.Embedding(positions, 16, padding_idx=0)
    assert n_positions(model) == positions - 1
    tokens = Tokens(np.array([0, 11]), np.ones(11, bool), ids=np.arange(1, 12))
    if fits:
        check_lengths(model, tokens)
        assert read(model, tokens, Readout("summary", np.ones(16), 0.0)).logits.shape == (1,)
    else:
        with pytest.raises(ActivationError, match="has 11 tokens, but the model takes 10 at most"):
            check_lengths(model, tokens)


def test_before_the_first_layer_cls_is_one_vector(tokenizer: Any, rows: Any) -> None:
    """So a probe of the initial embeddings has an accuracy of 0.50, the paper's first bar."""
    inputs = tokenizer(rows["text"], padding=True, return_tensors="pt")
    with torch.no_grad():
        states = bert(len(tokenizer)).eval()(**inputs, output_hidden_states=True).hidden_states
    assert (states[0][:, 0] == states[0][0, 0]).all()
    assert not torch.allclose(states[1][:, 0], states[1][0, 0]), "one layer later it is not"
