"""Activations are those of each sentence run alone, and leave neither trace nor stale cache."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_alignment import byte_level, wordpiece
from torch import Tensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    RobertaConfig,
    RobertaModel,
)

from data_gen import AlignmentError, build_tokenizer
from probing.states.anatomy import ActivationError
from probing.states.extraction import POSITIONS, extract
from probing.states.recording import recorded
from probing.states.tokens import States, tokenise

N_LAYERS, N_HEADS, D_MODEL = 2, 2, 16
TOLERANCE = 1e-5  # the issue's; float32 sums in another order differ by about 1e-7 here


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Models this small spend their time waiting for a second thread."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def bert(n_words: int, model: Any = BertForSequenceClassification, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return model(
        BertConfig(
            vocab_size=n_words,
            hidden_size=D_MODEL,
            num_hidden_layers=N_LAYERS,
            num_attention_heads=N_HEADS,
            intermediate_size=32,
            initializer_range=0.3,  # states that differ visibly
        )
    )


def gpt2(n_words: int, model: Any = GPT2LMHeadModel) -> Any:
    torch.manual_seed(0)
    shape = {"n_embd": D_MODEL, "n_layer": N_LAYERS, "n_head": N_HEADS, "n_positions": 128}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return model(GPT2Config(vocab_size=n_words, initializer_range=0.3, **shape, **ends))


def roberta(n_words: int) -> Any:
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=n_words,
        hidden_size=D_MODEL,
        num_hidden_layers=N_LAYERS,
        num_attention_heads=N_HEADS,
        intermediate_size=32,
        initializer_range=0.3,
        pad_token_id=0,
        max_position_embeddings=128,
    )
    return RobertaModel(config)


@pytest.fixture(scope="module")
def rows(sentiment: Any) -> Any:
    """Sentences of several lengths, some of them twice."""
    found = [sentiment[name].shuffle(seed=0)[:8] for name in ("train", "ood_structure")]
    texts = [text for part in found for text in part["text"]]
    spans = [tuple(span) for part in found for span in part["span"]]
    return said(texts + texts[5:7], spans + spans[5:7])


def said(texts: Any, spans: Any) -> dict[str, Any]:
    """The columns that extraction needs."""
    return {"text": texts, "span": spans}


@pytest.fixture(scope="module")
def words(sentiment: Any) -> Any:
    return build_tokenizer(sentiment["train"]["text"][:])


@pytest.fixture(scope="module")
def pieces(sentiment: Any) -> Any:
    return wordpiece(sentiment["train"]["text"][:])


@pytest.fixture(scope="module")
def bytes_(sentiment: Any) -> Any:
    return byte_level(sentiment["train"]["text"][:])


CASES: dict[str, tuple[Callable[[int], Any], str]] = {
    "bert, words": (bert, "words"),
    "bert, pieces": (bert, "pieces"),
    "roberta, words": (roberta, "words"),
    "gpt2, bytes": (gpt2, "bytes_"),
    "gpt2, words": (gpt2, "words"),
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


def forward_rows(model: Any) -> list[int]:
    """A list that grows by the batch size at each run."""
    sizes: list[int] = []
    forward = model.base_model.forward

    def counting(*, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Any:
        sizes.append(len(input_ids))
        return forward(input_ids=input_ids, attention_mask=attention_mask, **options)

    model.base_model.forward = counting
    return sizes


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
            "cls": states[summary],
            "mean": states[words].mean(0),
            "informative": states[informative].mean(0),
        }
        for name, value in expected.items():
            mine = found.layers[here] if name == "tokens" else found.pooled[name][i]
            np.testing.assert_allclose(mine, value, atol=TOLERANCE, rtol=0, err_msg=name)
        read = attention[:, :, summary].permute(2, 0, 1)  # n_tokens, n_layers, n_heads
        np.testing.assert_allclose(found.attention[here], read, atol=TOLERANCE, rtol=0)


def special_ids(tokenizer: Any) -> list[int]:
    return list(tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"]))


def test_naive_left_padding_does_change_the_states(rows: Any, words: Any) -> None:
    """The control: what batches are compared with above can fail."""
    model, texts = bert(len(words)).eval(), rows["text"]
    inputs = words(texts, padding=True, padding_side="left", return_tensors="pt")
    shortest = int(inputs["attention_mask"].sum(1).argmin())
    with torch.no_grad():
        last = model(**inputs, output_hidden_states=True).hidden_states[-1]
    states, _, ids = alone(model, words, texts[shortest])
    assert (last[shortest, -len(ids) :] - states[:, -1]).abs().max() > 100 * TOLERANCE


def test_states_and_masks_have_the_promised_shapes(rows: Any, pieces: Any) -> None:
    found = extract(bert(len(pieces), BertModel), pieces, rows, positions=POSITIONS)
    tokens = found.tokens
    n, total = len(rows["text"]), int(tokens.offsets[-1])
    assert len(found) == n
    for name in POSITIONS:
        states = found.layers if name == "tokens" else found.pooled[name]
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
    tokens = extract(bert(len(pieces)), pieces, rows, positions=["cls"]).tokens
    several = 0
    for i, (text, span) in enumerate(zip(rows["text"], rows["span"], strict=True)):
        here = tokens.sentence(i)
        ids = tokens.ids[here][tokens.informative[here]]
        assert pieces.decode(ids) == text[slice(*span)].lower() == tokens.words[i]
        several += len(ids) > 1
        special = np.flatnonzero(tokens.special[here])
        assert special.tolist() == [0, here.stop - here.start - 1]
    assert several, "some words have several pieces"


def test_unknown_words_are_not_special_tokens(words: Any) -> None:
    rows = said(["my xyzzy is plugh"], [(12, 17)])
    tokens = extract(bert(len(words)), words, rows).tokens
    assert (tokens.ids == words.unk_token_id).sum() == 2
    assert tokens.special.tolist() == [True, False, False, False, False, True]


@pytest.mark.parametrize("max_tokens", [40, 4096])
def test_each_distinct_sentence_is_run_once(rows: Any, words: Any, max_tokens: int) -> None:
    model = bert(len(words))
    sizes = forward_rows(model)
    n = len(rows["text"])
    thrice = said(rows["text"] * 3, rows["span"] * 3)
    found = extract(model, words, thrice, max_tokens_per_batch=max_tokens)
    assert sizes[:2] == PROBE
    assert sum(sizes[2:]) == len(set(rows["text"])) < n
    np.testing.assert_array_equal(found.pooled["cls"][:n], found.pooled["cls"][n : 2 * n])


def test_the_anatomy_of_a_model_is_examined_once(rows: Any, words: Any) -> None:
    model = bert(len(words))
    sizes = forward_rows(model)
    extract(model, words, rows)
    assert sizes[:2] == PROBE
    sizes.clear()
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.mul_(2)  # other weights, the same anatomy
    extract(model, words, rows, attention=True)
    assert sum(sizes) == len(set(rows["text"]))


def test_a_model_that_an_edit_makes_look_causal_is_examined_again(rows: Any, words: Any) -> None:
    """Without the outputs of its blocks no token sees another."""
    model = bert(len(words), BertModel)
    plain = extract(bert(len(words), BertModel), words, rows).pooled["cls"]
    hooks = [
        layer.register_forward_hook(lambda module, args, out: args[0])
        for layer in model.encoder.layer
    ]
    blind = extract(model, words, rows).pooled["cls"]
    for hook in hooks:
        hook.remove()
    np.testing.assert_array_equal(extract(model, words, rows).pooled["cls"], plain)
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


def test_one_text_with_two_spans_has_two_informative_words(words: Any) -> None:
    text = "The city is nice. my dog is nice"
    pooled = extract(bert(len(words)), words, said([text] * 2, [(28, 32), (21, 24)])).pooled
    one, two = pooled["informative"]
    assert np.abs(one - two).max() > 0.01
    np.testing.assert_array_equal(*pooled["mean"])


def test_batches_go_from_long_to_short_within_their_limit(rows: Any, words: Any) -> None:
    model = bert(len(words))
    shapes: list[tuple[int, int]] = []
    model.bert.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)),
        with_kwargs=True,
    )
    extract(model, words, rows, max_tokens_per_batch=64)
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
    rows: Any, words: Any, build: Callable[[int], Any], attention: bool
) -> None:
    model = build(len(words))  # in train mode, as built
    next(model.children()).eval()  # and a part of it frozen
    model.base_model.register_forward_hook(lambda *_: None)  # and a hook of someone's
    before = condition(model)
    extract(model, words, rows, attention=attention)
    assert_equal_condition(condition(model), before)

    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        extract(model, words, rows, attention=attention, progress=stop)
    assert_equal_condition(condition(model), before)
    with recorded(model, attention=attention):  # the control: inside, it is another
        assert not model.training
        assert torch.is_inference_mode_enabled()
        assert (model.config._attn_implementation == "eager") == attention
    assert not torch.is_inference_mode_enabled()
    # And it still trains and still gives hidden states, as a model with half its hooks would not.
    output = model(torch.tensor([[5, 6, 7]]), output_hidden_states=True)
    assert len(output.hidden_states) == N_LAYERS + 1
    output.logits.sum().backward()


def test_a_hook_set_before_changes_what_is_recorded(rows: Any, words: Any) -> None:
    """Ablations show, in whichever order the library's own hooks came."""
    model = bert(len(words), BertModel)
    extract(model, words, rows)  # leaves no hooks of the library, which would come first
    plain = extract(model, words, rows).pooled["mean"]
    handle = model.encoder.layer[0].register_forward_hook(lambda module, args, out: 0 * out)
    ablated = extract(model, words, rows).pooled["mean"]
    handle.remove()
    assert np.abs(plain[:, 1]).max() > 0.1
    assert not ablated[:, 1].any()
    np.testing.assert_array_equal(extract(model, words, rows).pooled["mean"], plain)


def test_attention_of_a_model_in_train_mode_sums_to_one(rows: Any, words: Any) -> None:
    model = bert(len(words))
    assert model.training
    assert model.config.attention_probs_dropout_prob > 0
    found = extract(model, words, rows, attention=True)
    sums = np.add.reduceat(found.attention, found.tokens.offsets[:-1], axis=0)
    np.testing.assert_allclose(sums, 1, atol=TOLERANCE)


def test_attention_that_is_missing_or_dropped_out_is_refused(words: Any) -> None:
    model = bert(len(words))
    inputs = {"input_ids": torch.tensor([[5, 6, 7]]), "attention_mask": torch.ones(1, 3).long()}
    with recorded(model, attention=True) as record:
        assert len(record(**inputs).attention) == N_LAYERS
        model.set_attn_implementation("sdpa")  # the default: () and no error
        with pytest.raises(ActivationError, match="attention of 0 of 2 layers"):
            record(**inputs)
        model.set_attn_implementation("eager")
        model.train()
        with pytest.raises(ActivationError, match="do not sum to 1"):
            for _ in range(20):
                record(**inputs)


def test_a_classifier_without_padding_token_runs_too(rows: Any, sentiment: Any) -> None:
    """GPT-2 has neither; its classifier alone refuses batches."""
    tokenizer = byte_level(sentiment["train"]["text"][:])
    tokenizer.pad_token = None
    model = gpt2(len(tokenizer), GPT2ForSequenceClassification)
    found = extract(model, tokenizer, rows)
    states, _, _ = alone(model, tokenizer, rows["text"][0])
    np.testing.assert_allclose(found.pooled["cls"][0], states[-1], atol=TOLERANCE)
    assert tokenizer.pad_token is None


# ---- folders


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


def test_a_folder_holds_what_memory_would(rows: Any, words: Any, tmp_path: Path) -> None:
    model = bert(len(words))
    found = full(model, words, rows, folder=tmp_path / "new" / "folder")
    assert all(isinstance(states, np.memmap) for states in [found.layers, *found.pooled.values()])
    assert_same(found, full(model, words, rows))
    sizes = forward_rows(model)
    assert_same(full(model, words, rows, folder=tmp_path / "new" / "folder"), found)
    assert sizes == [], "nothing was computed again"


@pytest.mark.parametrize("batches", [1, 3])
def test_an_interrupted_run_goes_on_where_it_was(
    rows: Any, words: Any, tmp_path: Path, batches: int
) -> None:
    model = bert(len(words))
    sizes = forward_rows(model)
    whole = full(model, words, rows)
    n_all = sum(sizes[2:])
    sizes.clear()
    with pytest.raises(KeyboardInterrupt):
        full(model, words, rows, folder=tmp_path, progress=stop_after(batches))
    assert len(sizes) == batches
    n_before = sum(sizes)
    assert 0 < n_before < n_all
    sizes.clear()
    assert_same(full(model, words, rows, folder=tmp_path), whole)
    assert sum(sizes) == n_all - n_before


def test_a_run_can_go_on_with_other_batches(rows: Any, words: Any, tmp_path: Path) -> None:
    model = bert(len(words))
    with pytest.raises(KeyboardInterrupt):
        full(model, words, rows, folder=tmp_path, progress=stop_after(2))
    found = full(model, words, rows, folder=tmp_path, max_tokens_per_batch=50)
    whole = full(model, words, rows)
    np.testing.assert_allclose(found.layers, whole.layers, atol=TOLERANCE)


@pytest.mark.parametrize("damage", ["remove", "cut"])
def test_a_damaged_array_is_computed_again(
    rows: Any, words: Any, tmp_path: Path, damage: str
) -> None:
    model = bert(len(words))
    whole = full(model, words, rows)
    full(model, words, rows, folder=tmp_path)
    path = tmp_path / "tokens.npy"
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-100])
    assert_same(full(model, words, rows, folder=tmp_path), whole)


def test_a_folder_of_anything_else_is_refused(
    rows: Any, words: Any, pieces: Any, tmp_path: Path
) -> None:
    n_words = max(len(words), len(pieces))
    model = bert(n_words)
    full(model, words, rows, folder=tmp_path)
    texts, spans = rows["text"], rows["span"]

    def refused(what: str, *args: Any, **options: Any) -> None:
        with pytest.raises(ActivationError, match=f"holds activations of another .*{what}"):
            full(*args, folder=tmp_path, **options)

    refused("list of texts", model, words, said(texts[1:], spans[1:]))
    refused("list of texts", model, words, said(texts[::-1], spans[::-1]))
    refused("positions", model, words, rows, positions=["cls"])
    refused("attention", model, words, rows, attention=False)
    refused("tokenizer", model, pieces, rows)
    refused("model", bert(n_words, seed=1), words, rows)
    with torch.no_grad():
        weight = model.bert.encoder.layer[1].output.dense.weight
        weight[0, 0] += 1e-3  # one number of one layer
        refused("model", model, words, rows)
        weight[0, 0] -= 1e-3
    changed = bert(n_words)  # the weights alone are not the model
    changed.config.layer_norm_eps = 0.1
    refused("model", changed, words, rows)
    same = bert(n_words, seed=0)
    words(texts, padding=True, truncation=True, max_length=100)  # leaves no trace in the key
    full(same, words, rows, folder=tmp_path)  # the control: an equal model is welcome


def test_a_folder_is_refused_when_hooks_could_change_the_states(
    rows: Any, words: Any, tmp_path: Path
) -> None:
    model = bert(len(words))
    model(torch.tensor([[5, 6]]), output_hidden_states=True)  # the library's own hooks may stay
    full(model, words, rows, folder=tmp_path / "library")
    model.bert.encoder.register_forward_hook(lambda *_: None)
    with pytest.raises(ActivationError, match="a hook on encoder"):
        full(model, words, rows, folder=tmp_path / "ours")


def test_a_folder_with_other_files_is_left_alone(rows: Any, words: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ActivationError, match="holds other files"):
        full(bert(len(words)), words, rows, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "manifest.json").write_text(json.dumps({"name": "of something else"}))
    with pytest.raises(ActivationError, match="damaged"):
        full(bert(len(words)), words, rows, folder=tmp_path)


# ---- what cannot be done is said in one line


def test_bad_requests_are_refused(rows: Any, words: Any) -> None:
    model = bert(len(words))
    with pytest.raises(ActivationError, match="no texts"):
        extract(model, words, said([], []))
    with pytest.raises(ActivationError, match="one span per text"):
        extract(model, words, said(["my dog"], []))
    with pytest.raises(ActivationError, match="unknown position 'first'; there are cls"):
        extract(model, words, rows, positions=["first"])
    with pytest.raises(ActivationError, match="a list of names"):
        extract(model, words, rows, positions="cls")
    with pytest.raises(ActivationError, match="at least 1"):
        extract(model, words, rows, max_tokens_per_batch=0)
    with pytest.raises(ActivationError, match="takes 512 at most"):
        extract(model, words, said(["dog " * 600], [(0, 3)]))
    with pytest.raises(ActivationError, match="not the model's tokenizer"):
        extract(bert(7), words, rows)
    with pytest.raises(AlignmentError, match="slow tokenizer"):
        extract(model, type("Slow", (), {"is_fast": False})(), said(["a"], [(0, 1)]))


def test_undefined_states_are_refused(rows: Any, words: Any) -> None:
    model = bert(len(words))
    with torch.no_grad():
        model.bert.encoder.layer[0].output.dense.bias[0] = float("nan")
    with pytest.raises(ActivationError, match="infinite or undefined"):
        extract(model, words, rows)
