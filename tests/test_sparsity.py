"""Sparsity and attribution give what is known by hand, on attention and models made by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import wordpiece
from torch import Tensor

from data_gen import build_tokenizer
from probing.attribution import gradient_shares, logit_differences, occlusion_shares, swap_flips
from probing.evaluation import summary_attention
from probing.models.presets import build_model
from probing.sparsity import (
    MEASURES,
    attention_mass,
    reading_layer,
    sparsity_by_sentence,
    sparsity_table,
)
from probing.states.tokens import States, Tokens
from probing.states.views import sentence_views

N = 5  # tokens of the sentences below: [CLS] a b c [SEP], of which b is informative
ONE_HOT = [0.0, 0, 1, 0, 0]
HALF = [0.0, 0.5, 0.5, 0, 0]
UNIFORM = [1 / N] * N
ON_CLS = [1.0, 0, 0, 0, 0]


def attending(*sentences: list[float], heads: int = 1, informative: int = 2) -> States:
    """One layer; all sentences are [CLS] words [SEP]."""
    lengths = [len(weights) for weights in sentences]
    offsets = np.cumsum([0, *lengths])
    special, decides = np.zeros(offsets[-1], bool), np.zeros(offsets[-1], bool)
    special[offsets[:-1]] = special[offsets[1:] - 1] = True
    decides[offsets[:-1] + informative] = True
    weights = np.concatenate([np.array(sentence, np.float32) for sentence in sentences])
    return States(
        Tokens(offsets, decides, special=special),
        attention=np.repeat(weights[:, None, None], heads, axis=2),
    )


BY_HAND = {
    "one token": (ONE_HOT, [1, 0, 1, 0, 1, 1, (N - 1) / N]),
    "two tokens": (HALF, [0.5, 0, 0, math.log(2), 2, 2, (N - 2) / N]),  # the first largest counts
    "all tokens": (UNIFORM, [1 / N, 2 / N, 0, math.log(N), N, N, 0]),
    "[CLS] alone": (ON_CLS, [0, 1, 0, 0, 1, 1, (N - 1) / N]),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_the_measures_are_those_computed_by_hand(name: str) -> None:
    weights, expected = BY_HAND[name]
    found = sparsity_by_sentence(attending(weights))
    assert tuple(found) == MEASURES
    assert [found[measure].shape for measure in MEASURES] == [(1, 1, 1)] * len(MEASURES)
    values = [found[measure].item() for measure in MEASURES]
    assert values == pytest.approx(expected, abs=1e-6)  # the weights are float32


def test_sentences_of_different_lengths_do_not_mix() -> None:
    sentences = [ONE_HOT, [0.25] * 4, HALF, [0.1] * 10, UNIFORM]
    together = sparsity_by_sentence(attending(*sentences))
    for i, sentence in enumerate(sentences):
        alone = sparsity_by_sentence(attending(sentence))
        for name in MEASURES:
            assert together[name][i] == pytest.approx(alone[name][0], abs=1e-12)


def test_the_uniform_baseline_forgets_the_attention_but_not_the_lengths() -> None:
    found = sparsity_by_sentence(attending(ONE_HOT, [0.0, 0, 1, 0]), uniform=True)
    assert found["mass"].ravel() == pytest.approx([1 / 5, 1 / 4])
    assert found["effective_tokens"].ravel() == pytest.approx([5, 4])
    assert found["gini"].ravel() == pytest.approx([0, 0], abs=1e-12)


def test_of_twenty_equal_tokens_nineteen_hold_95_percent() -> None:
    """Exactly 95%: rounding must not ask for one more."""
    assert sparsity_by_sentence(attending([1 / 20] * 20))["tokens_95"].item() == 19


@given(seed=st.integers(0, 2**32 - 1), length=st.integers(4, 30), sharpness=st.floats(0, 50))
def test_every_measure_keeps_its_bounds(seed: int, length: int, sharpness: float) -> None:
    scores = np.exp(sharpness * np.random.default_rng(seed).standard_normal(length))
    found = sparsity_by_sentence(attending(list(scores / scores.sum())))
    value = {name: values.item() for name, values in found.items()}
    eps = 1e-5  # of float32 sums
    assert -eps <= value["gini"] < 1
    assert 1 - eps <= value["effective_tokens"] <= length * (1 + eps)
    assert 1 <= value["tokens_95"] <= length
    assert 0 <= value["mass"] + value["mass_special"] <= 1 + eps
    assert value["top1"] == (np.argmax(scores) == 2)


def test_the_table_has_a_row_for_each_layer_and_head() -> None:
    several = attending(ONE_HOT, UNIFORM, heads=3)
    table = sparsity_table(several)
    assert table[["layer", "head"]].values.tolist() == [[1, 1], [1, 2], [1, 3]]
    assert table["mass"].tolist() == pytest.approx([0.6] * 3)


def test_the_reading_layer_is_the_one_that_looks_at_the_word() -> None:
    layers = [attending(weights, weights) for weights in (UNIFORM, HALF, UNIFORM)]
    attention = np.concatenate([layer.attention for layer in layers], axis=1)
    three = replace(layers[0], attention=attention)
    assert reading_layer(three) == 2
    assert attention_mass(three)[:, :, 0] == pytest.approx(np.array([[0.2, 0.5, 0.2]] * 2))


def test_states_without_attention_are_refused() -> None:
    without = replace(attending(ONE_HOT), attention=None)
    for measure in (sparsity_by_sentence, sparsity_table, reading_layer, attention_mass):
        with pytest.raises(ValueError, match="attention=True"):
            measure(without)


def test_a_view_shows_each_word_with_its_role_and_attention(sentiment: Any) -> None:
    rows = sentiment["test"].select(range(0, 2000, 400))
    tokenizer = build_tokenizer(sentiment["train"]["text"][:])
    model = build_model(tokenizer, "tiny", ["negative", "positive"], seed=0)
    states = summary_attention(model, tokenizer, rows)
    for i, view in enumerate(sentence_views(states, rows)):
        assert view.attention.sum(axis=0) == pytest.approx(1, abs=1e-5)
        assert view.roles[0] == view.roles[-1] == "special"
        words = view.words_only()
        assert words.words == rows[i]["words"]
        assert words.roles == rows[i]["roles"]
        assert words.attention.shape == (len(words.words), 1, 1)


def test_a_word_of_several_tokens_has_no_view(sentiment: Any) -> None:
    rows = sentiment["test"].select(range(3))
    tokenizer = wordpiece(sentiment["train"]["text"][:])
    model = build_model(tokenizer, "tiny", ["negative", "positive"], seed=0)
    with pytest.raises(ValueError, match="one token per word"):
        sentence_views(summary_attention(model, tokenizer, rows), rows)


# ---- attribution, on classifiers whose every weight is known


class BagOfWords(torch.nn.Module):
    """Logit difference = the sum of its words' values; words are one-hot, padding is not seen."""

    def __init__(self, tokenizer: Any, values: dict[str, float]) -> None:
        super().__init__()
        self.config = SimpleNamespace(is_encoder_decoder=False, _attn_implementation="eager")
        self.embeddings = torch.nn.Embedding(
            len(tokenizer), len(tokenizer), _weight=torch.eye(len(tokenizer))
        )
        self.values = torch.zeros(len(tokenizer))
        for word, value in values.items():
            self.values[tokenizer.get_vocab()[word]] = value

    @property
    def base_model(self) -> Any:
        return self

    @property
    def device(self) -> torch.device:
        return self.values.device

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.embeddings

    def forward(
        self,
        attention_mask: Tensor,
        input_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Any:
        states = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        difference = (states @ self.values * attention_mask).sum(1)
        return SimpleNamespace(logits=torch.stack([-difference / 2, difference / 2], dim=1))


OF_ADJECTIVES = {"nice": 1.0, "mean": -1, "cute": 1, "dreadful": -1, "aggressive": -1}
OF_ADJECTIVES["delightful"] = 1
OF_CITIES = {"nice.": 1.0, "clean.": 1, "dreadful.": -1, "dirty.": -1}
OPPOSITES = {
    word: [other for other, value in values.items() if value == -values[word]]
    for values in (OF_ADJECTIVES, OF_CITIES)
    for word in values
}


@pytest.fixture(scope="module")
def rows(sentiment: Any) -> list[dict[str, Any]]:
    train = sentiment["train"]
    return [train[i] for i in range(0, len(train), 97)]


@pytest.fixture(scope="module")
def tokenizer(sentiment: Any) -> Any:
    return build_tokenizer(sentiment["train"]["text"][:])


def test_the_planted_model_predicts_what_it_was_given(rows: Any, tokenizer: Any) -> None:
    model = BagOfWords(tokenizer, OF_ADJECTIVES)
    found = logit_differences(model, tokenizer, [row["text"] for row in rows])
    assert found.tolist() == [2 * row["label"] - 1 for row in rows]


@pytest.mark.parametrize("shares", [occlusion_shares, gradient_shares])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (OF_ADJECTIVES, 1.0),
        (OF_CITIES, 0.0),  # the control: the distractor decides
        ({word: 3 * value for word, value in OF_ADJECTIVES.items()} | OF_CITIES, 0.75),
        ({}, 0.0),  # nothing matters: 0, and no division by zero
    ],
)
def test_shares_are_those_of_the_weights(
    shares: Any, values: dict[str, float], expected: float, rows: Any, tokenizer: Any
) -> None:
    found = shares(BagOfWords(tokenizer, values), tokenizer, rows)
    assert found == pytest.approx(np.full(len(rows), expected), abs=1e-6)


def test_swaps_flip_the_prediction_where_the_model_looks(rows: Any, tokenizer: Any) -> None:
    rng = np.random.default_rng(0)
    reads = BagOfWords(tokenizer, OF_ADJECTIVES)
    found = swap_flips(reads, tokenizer, rows, OPPOSITES, rng)
    assert found == {"swap_informative": 1.0, "swap_distractor": 0.0}
    distracted = BagOfWords(tokenizer, OF_CITIES)  # the control
    found = swap_flips(distracted, tokenizer, rows, OPPOSITES, rng)
    assert found == {"swap_informative": 0.0, "swap_distractor": 1.0}


def test_without_distractors_their_swaps_are_no_number(sentiment: Any, tokenizer: Any) -> None:
    split = sentiment["ood_no_distractor"]
    few = [split[i] for i in range(0, len(split), 400)]
    reads = BagOfWords(tokenizer, OF_ADJECTIVES)
    found = swap_flips(reads, tokenizer, few, OPPOSITES, np.random.default_rng(0))
    assert found["swap_informative"] == 1
    assert math.isnan(found["swap_distractor"])


@pytest.mark.parametrize("training", [True, False])
def test_attribution_leaves_the_mode_as_it_was(training: bool, rows: Any, tokenizer: Any) -> None:
    model = BagOfWords(tokenizer, OF_ADJECTIVES).train(training)
    occlusion_shares(model, tokenizer, rows[:3])
    gradient_shares(model, tokenizer, rows[:3])
    assert model.training is training
