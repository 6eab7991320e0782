"""Fourteen families: what is read, changed and computed is what the library itself computes."""

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from architectures import D_MODEL, FAMILIES, N_HEADS, N_LAYERS, family_model
from small_models import byte_level
from torch import Tensor
from transformers import AutoModelForSequenceClassification, MPNetConfig, MPNetModel

from probing.arrays import unit
from probing.circuits.causal import Trial, causal_table
from probing.circuits.directions import directions_table, head_overlaps, state_directions
from probing.circuits.heads import head_directions
from probing.circuits.interventions import reading_only, without_heads
from probing.circuits.readouts import linear_readout
from probing.sentences import draw_by_word
from probing.sparsity import attention_mass
from probing.states.anatomy import anatomy_of, read_by
from probing.states.attention import NAME, Call, attending
from probing.states.editing import edited
from probing.states.extraction import extract, read
from probing.states.parts import ActivationError, blocks_of
from probing.states.readout import Readout
from probing.states.recording import recorded
from probing.states.tokens import Tokens, tokenise

TOLERANCE = 2e-5  # of float32 sums in another order, for states of size 1 to 10


@pytest.fixture(scope="module")
def tokenizer(sentiment: Any) -> Any:
    return byte_level(sentiment["train"]["text"][:])


@pytest.fixture(scope="module")
def rows(sentiment: Any) -> Any:
    split = sentiment["train"]
    return split.select(draw_by_word(split, 36))[:]


@pytest.fixture(scope="module")
def tokens(tokenizer: Any, rows: Any) -> Tokens:
    return tokenise(tokenizer, rows)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tokenizer: Any) -> tuple[str, Any]:
    return request.param, family_model(request.param, len(tokenizer))


READOUT = Readout("summary", np.linspace(-1, 1, D_MODEL), 0.0)


def test_states_and_attention_are_those_of_the_librarys_eager_run(
    family: Any, tokenizer: Any, rows: Any
) -> None:
    """In padded batches by our function; there one sentence at a time, without padding."""
    name, model = family
    states = extract(model, tokenizer, rows, positions=["tokens", "summary"], attention=True)
    assert anatomy_of(model).causal == FAMILIES[name].causal
    implementation = model.config._attn_implementation
    model.set_attn_implementation("eager")
    for i in range(0, len(rows["text"]), 7):
        inputs = tokenizer([rows["text"][i]], return_tensors="pt")
        with torch.inference_mode():
            output = model(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                output_hidden_states=True,
                output_attentions=True,
            )
        here, summary = states.tokens.sentence(i), -1 if FAMILIES[name].causal else 0
        expected = torch.cat(output.hidden_states).transpose(0, 1)
        np.testing.assert_allclose(states.stacked()[here], expected, atol=TOLERANCE, rtol=TOLERANCE)
        np.testing.assert_array_equal(
            states.stacked("summary")[i], states.stacked()[here][summary], "the summary token"
        )
        weights = torch.cat(output.attentions)[:, :, summary].permute(2, 0, 1)
        np.testing.assert_allclose(states.attention[here], weights, atol=TOLERANCE)
    model.set_attn_implementation(implementation)


def test_an_edit_of_a_layer_sees_the_state_that_is_recorded_there(
    family: Any, tokens: Tokens
) -> None:
    """At the last layer too, which most decoders normalise."""
    _, model = family
    padded, states = tokens.padded(), read(model, tokens, READOUT)
    seen: list[Tensor] = []

    def look(given: Tensor) -> Tensor:
        seen.append(given)
        return given

    for layer in range(N_LAYERS + 1):
        with edited(model, layer, look):
            read(model, tokens, READOUT, states=False)
        width = int(tokens.lengths.max())
        rows = padded.ragged(seen.pop().view(len(tokens), width, -1))
        np.testing.assert_allclose(rows, states.at(layer), atol=TOLERANCE, rtol=TOLERANCE)


def test_an_ablated_head_is_one_whose_part_of_the_projections_input_is_zero(
    family: Any, tokens: Tokens
) -> None:
    name, model = family
    whole = read(model, tokens, READOUT)
    for layer, head in ((1, 1), (2, N_HEADS)):
        projection = blocks_of(model)[layer - 1].get_submodule(FAMILIES[name].projection)

        def silence(module: Any, args: Any, head: int = head) -> Any:
            parts = args[0].clone().unflatten(-1, (N_HEADS, -1))
            parts[..., head - 1, :] = 0
            return (parts.flatten(-2),)

        with projection.register_forward_pre_hook(silence):
            by_hand = read(model, tokens, READOUT)
        with without_heads(model, [(layer, head)]):
            ablated = read(model, tokens, READOUT)
        states, expected = ablated.stacked(), by_hand.stacked()
        np.testing.assert_allclose(states, expected, atol=TOLERANCE, rtol=TOLERANCE)
        assert np.abs(states - whole.stacked()).max() > 0.01, "the control"


def test_the_summary_reads_what_it_is_told_to_read(family: Any, tokens: Tokens) -> None:
    """Every head that reads one token alone writes that token's value."""
    name, model = family
    tokens = read_by(model, tokens.take(np.flatnonzero(_one_token_words(tokens))))
    values: list[Tensor] = []
    inputs: list[Tensor] = []

    def look(module: Any, args: Any) -> None:
        inputs.append(args[0])

    def keep(call: Call) -> None:
        if call.layer == 2:
            values.append(call.per_head(call.value))

    projection = blocks_of(model)[1].get_submodule(FAMILIES[name].projection)
    with attending(model, keep), projection.register_forward_pre_hook(look):
        with reading_only(model, 2, tokens, "informative"):
            moved = read(model, tokens, READOUT)
        read(model, tokens, READOUT)
    assert (attention_mass(moved)[:, 1] == 1).all(), "and the attention that is recorded says so"
    padded = tokens.padded()
    expected = padded.ragged(values[0].transpose(1, 2).flatten(2))[tokens.informative]
    written, plain = (padded.ragged(each)[tokens.summary] for each in inputs)
    torch.testing.assert_close(written, expected, atol=TOLERANCE, rtol=TOLERANCE)
    assert not torch.allclose(plain, expected, atol=0.01), "the control: by itself it reads more"
    elsewhere = [padded.ragged(each)[~tokens.summary] for each in inputs]
    torch.testing.assert_close(*elsewhere, atol=TOLERANCE, rtol=TOLERANCE)


def _one_token_words(tokens: Tokens) -> Any:
    return np.add.reduceat(tokens.informative, tokens.offsets[:-1]) == 1


# ---- directions, by finite differences


@contextmanager
def keys_and_values(model: Any, layer: int) -> Iterator[list[tuple[Tensor, Tensor, Tensor]]]:
    kept: list[tuple[Tensor, Tensor, Tensor]] = []

    def keep(call: Call) -> None:
        if call.layer == layer:
            kept.append((call.query, call.per_head(call.key), call.per_head(call.value)))

    with attending(model, keep):
        yield kept


def test_directions_are_derivatives_of_the_score_and_of_the_readout(
    family: Any, tokens: Tokens
) -> None:
    """Along a random direction; all words or all tokens of a sentence are moved together, since
    the key and the value of a token depend on its own state alone.
    """
    _, model = family
    tokens = read_by(model, tokens.take(np.arange(0, 36, 6)))
    heads = {(each.layer, each.head): each for each in head_directions(model, tokens, READOUT)}
    assert len(heads) == N_LAYERS * N_HEADS
    u = torch.from_numpy(unit(np.random.default_rng(0).standard_normal(D_MODEL))).float()
    step, layer = 1e-2, 2
    words, summary = tokens.site("all words"), tokens.site("summary")
    moved = []
    with keys_and_values(model, layer) as kept:
        for size, mask in ((step, words), (-step, words), (step, None), (-step, None), (0.0, None)):
            with edited(model, layer - 1, partial(torch.add, size * u), mask):
                read(model, tokens, READOUT)
        query = torch.einsum("nq,nhqe->nhe", summary.float(), kept[-1][0])
    scores = [torch.einsum("nhe,nhte->nht", query, key) * words[:, None] for _, key, _ in kept[:2]]
    means = [(each.sum(2) / words.sum(1, keepdim=True)).mean(0) for each in scores]
    for head in range(N_HEADS):
        direction = heads[layer, head + 1]
        by_hand = (means[0] - means[1])[head] / (2 * step)
        assert float(direction.key @ u.numpy()) == pytest.approx(float(by_hand), rel=0.02, abs=1e-3)
        moved = [_reading(model, tokens, layer, head, values).mean() for _, _, values in kept[2:4]]
        by_hand = (moved[0] - moved[1]) / (2 * step)
        expected = float(direction.value @ u.numpy())
        assert expected == pytest.approx(float(by_hand), rel=0.02, abs=1e-3)


def _reading(model: Any, tokens: Tokens, layer: int, head: int, values: Tensor) -> Any:
    """The readout when one head, with its attention as it is, reads these values."""

    def replace(call: Call) -> None:
        if call.layer == layer and call.weights is not None:
            call.output = call.output.clone()
            read = call.weights[:, head] @ values[:, head]
            call.output[:, :, head] = read

    with attending(model, replace, weights=True):
        return read(model, tokens, READOUT).logits.astype(float)


def test_directions_that_are_planted_are_found(family: Any, tokens: Tokens) -> None:
    """What the weights of one head read is written into the states of the informative words."""
    _, model = family
    # Where the word is the summary itself, what is planted would change the query as well.
    tokens = tokens.take(np.flatnonzero(~tokens.informative[tokens.offsets[1:] - 1]))
    head = head_directions(model, tokens, READOUT)[0]
    k, v = unit(head.key), unit(head.value)
    labels = np.repeat(tokens.labels, tokens.lengths)[tokens.informative]
    size = np.linalg.norm(read(model, tokens, READOUT).at(0), axis=1).mean()
    planted = 2 * size * (k + np.where(labels == 1, 1.0, -1.0)[:, None] * v)
    shift = torch.from_numpy(planted).float()
    before = head_overlaps(head, state_directions(read(model, tokens, READOUT), 0))
    with edited(model, 0, lambda states: states + shift, tokens.site("informative")):
        after = head_overlaps(head, state_directions(read(model, tokens, READOUT), 0))
        table = directions_table(model, tokens, readout=READOUT, n_null=1000).iloc[0]
    assert min(after.kappa, after.nu) > 0.8
    assert max(abs(before.kappa), abs(before.nu)) < 0.6, "the control: nothing planted"
    # The gradients are those of the changed model: the key's hardly differ.
    assert table["kappa"] > max(0.6, table["kappa_null_95"])


# ---- the model is left as it was found


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_and_implementation_are_put_back(family: Any, tokens: Tokens, fails: bool) -> None:
    _, model = family
    implementation, hooks = model.config._attn_implementation, _n_hooks(model)
    plain = read(model, tokens, READOUT)

    def tap(call: Call) -> None:
        if fails and call.layer == N_LAYERS:
            raise RuntimeError("on purpose")

    with ExitStack() as stack:
        if fails:
            stack.enter_context(pytest.raises(RuntimeError, match="on purpose"))
        stack.enter_context(attending(model, tap))
        assert model.config._attn_implementation == NAME
        assert _n_hooks(model) == hooks + 2
        read(model, tokens, READOUT)
    assert model.config._attn_implementation == implementation
    assert _n_hooks(model) == hooks
    np.testing.assert_array_equal(read(model, tokens, READOUT).logits, plain.logits)


def _n_hooks(model: Any) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())


def test_taps_are_nested_and_only_see_their_own_model(tokenizer: Any, tokens: Tokens) -> None:
    one, two = (family_model(name, len(tokenizer)) for name in ("llama", "distilbert"))
    seen: list[tuple[str, int]] = []
    first = attending(one, lambda call: seen.append(("first", call.layer)))
    second = attending(one, lambda call: seen.append(("second", call.layer)))
    other = attending(two, lambda call: seen.append(("other", call.layer)))
    with first, other, second:
        with recorded(one) as record:
            record(**tokens.padded().inputs)
        assert seen == [("first", 1), ("second", 1), ("first", 2), ("second", 2)]
        seen.clear()
        with recorded(two) as record:
            record(**tokens.padded().inputs)
        assert seen == [("other", 1), ("other", 2)]


def test_a_copy_that_is_made_within_the_block_runs_without_taps(
    tokenizer: Any, tokens: Tokens
) -> None:
    model = family_model("llama", len(tokenizer))
    plain = read(model, tokens, READOUT).logits
    seen: list[int] = []
    with attending(model, lambda call: seen.append(call.layer)):
        copied = copy.deepcopy(model)
    with torch.inference_mode():
        last = copied(**tokens.padded().inputs).last_hidden_state
    assert seen == []
    logits = READOUT(last, read_by(model, tokens)).numpy()
    np.testing.assert_allclose(logits, plain, atol=TOLERANCE, rtol=TOLERANCE)


def test_a_model_that_does_not_dispatch_is_refused_in_one_line(
    tokenizer: Any, rows: Any, tokens: Tokens
) -> None:
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = MPNetConfig(vocab_size=len(tokenizer), intermediate_size=16, **sizes)
    model = MPNetModel(config).eval()
    assert extract(model, tokenizer, rows).at(2, "summary").shape == (36, 16), "its states are read"
    refused = pytest.raises(ActivationError, match="MPNetModel runs 0 of its 2 layers through")
    with refused:
        extract(model, tokenizer, rows, attention=True)
    readout = Readout("summary", np.ones(16), 0.0)
    for use in (head_directions, directions_table):
        with refused:
            use(model, tokens, readout=readout)
    with refused, without_heads(model, [(1, 1)]):
        extract(model, tokenizer, rows)
    assert model.config._attn_implementation != NAME


# ---- everything together


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_all_causal_tests_run_on_a_decoder(name: str, tokenizer: Any, sentiment: Any) -> None:
    train, test = (
        tokenise(tokenizer, sentiment[split].select(draw_by_word(sentiment[split], 48)))
        for split in ("train", "test")
    )
    model = family_model(name, len(tokenizer))
    readout = linear_readout(model, train, "summary")
    table = causal_table(Trial(model, train, test, readout), n_random=2, doses=[0.0, 1.0])
    by_test = table.groupby("test").size()
    assert set(by_test.index) == {
        "none", "erase value", "erase location", "reflect", "steer", "ablate head", "read only"
    }  # fmt: skip
    assert by_test["ablate head"] == N_LAYERS * (N_HEADS + 1)
    still = table[(table["test"] == "steer") & (table["dose"] == 0)]
    assert (still["flips"] == 0).all(), "steering by nothing changes nothing"
    several = table["edit"].str.startswith("random")
    assert (table["low"].isna() == several).all(), "means over random directions have no interval"
    assert (table["words"] == 6).all()


def test_a_decoder_with_a_classifier_is_read_by_its_own_head(tokenizer: Any, rows: Any) -> None:
    model = family_model("llama", len(tokenizer), AutoModelForSequenceClassification)
    tokens = tokenise(tokenizer, rows)
    logits = read(model, tokens).logits
    for i in (0, 17):
        inputs = tokenizer([rows["text"][i]], return_tensors="pt")
        with torch.inference_mode():
            alone = model(inputs["input_ids"]).logits[0]
        assert logits[i] == pytest.approx(float(alone[1] - alone[0]), abs=1e-4)
    model.config.pad_token_id = 7  # the library would look for the last token that is not 7
    with pytest.raises(ActivationError, match="by pad_token_id 7, but sentences are padded with 0"):
        read(model, tokens)
    with pytest.raises(ActivationError, match="by pad_token_id 7"):
        extract(model, tokenizer, rows, logits=True)


def test_a_run_that_stops_at_a_layer_has_the_states_of_a_whole_run(
    family: Any, tokenizer: Any, rows: Any
) -> None:
    """To the last bit, with batches side by side too; blocks above the layer do not run."""
    _, model = family
    options: dict[str, Any] = {"positions": ("tokens", "mean"), "max_tokens_per_batch": 64}
    whole = extract(model, tokenizer, rows, **options)
    runs: list[int] = []
    blocks = blocks_of(model)
    for layer in range(N_LAYERS + 1):
        runs.clear()
        with ExitStack() as counters:
            for i, block in enumerate(blocks, 1):
                forward = block.forward

                def counting(*args: Any, _i: int = i, _forward: Any = forward, **rest: Any) -> Any:
                    runs.append(_i)
                    return _forward(*args, **rest)

                block.forward = counting
                counters.callback(setattr, block, "forward", forward)
            states = extract(model, tokenizer, rows, layers=[layer], **options)
        assert states.layers == [layer]
        assert set(runs) == set(range(1, layer + 1)), "what is above is not computed"
        for position in options["positions"]:
            np.testing.assert_array_equal(states.at(layer, position), whole.at(layer, position))
    again = extract(model, tokenizer, rows, **options)
    np.testing.assert_array_equal(again.stacked(), whole.stacked(), "nothing is left behind")
