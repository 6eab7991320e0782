"""Sparsity and attribution give what is known by hand, on attention and models made by hand."""

import copy
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
from probing.attribution import (
    gradient_shares,
    hiding_token,
    label_logits,
    occlusion_shares,
    opposites_in,
    replaced,
    swap_flips,
)
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


@pytest.mark.parametrize("build", [build_tokenizer, wordpiece])
def test_a_view_shows_each_token_with_its_role_and_attention(build: Any, sentiment: Any) -> None:
    rows = sentiment["test"].select(range(0, 2000, 400))
    tokenizer = build(sentiment["train"]["text"][:])
    model = build_model(tokenizer, "tiny", ["negative", "positive"], seed=0)
    states = summary_attention(model, tokenizer, rows)
    for i, view in enumerate(sentence_views(states, rows)):
        assert view.attention.sum(axis=0) == pytest.approx(1, abs=1e-5)
        assert view.roles[0] == view.roles[-1] == "special"
        tokens = view.words_only()
        assert tokens.attention.shape == (len(tokens.words), 1, 1)
        # By hand: each word is spelled by its tokens, all of one role but for the mark behind it.
        parts, shown = [], iter(zip(tokens.words, tokens.roles, strict=True))
        for word, role in zip(rows[i]["words"], rows[i]["roles"], strict=True):
            spelled = ""
            while spelled != word:
                part, own = next(shown)
                assert own == ("neutral" if part == "." else role), (word, part)
                spelled += part
                parts.append(part)
        assert parts == tokens.words
        several = len(parts) > len(rows[i]["words"]) + 1  # one full stop
        assert several == (build is wordpiece)


def test_a_view_needs_attention(sentiment: Any) -> None:
    rows = sentiment["test"].select(range(3))
    tokenizer = build_tokenizer(sentiment["train"]["text"][:])
    model = build_model(tokenizer, "tiny", ["negative", "positive"], seed=0)
    states = summary_attention(model, tokenizer, rows)
    with pytest.raises(ValueError, match="attention=True"):
        sentence_views(replace(states, attention=None), rows)


# ---- attribution, on classifiers whose every weight is known


SENTIMENT = {"nice": 1.0, "cute": 1, "delightful": 1, "clean": 1}
SENTIMENT |= {"mean": -1.0, "dreadful": -1, "aggressive": -1, "dirty": -1}
OPPOSITES = {
    word: [other for other in SENTIMENT if SENTIMENT[other] == -SENTIMENT[word]]
    for word in SENTIMENT
}


class BagOfWords(torch.nn.Module):
    """Logit difference = the sum of its words' sentiments; padding is not seen.

    Words are one-hot. A distractor is the same token as an adjective, but stands before a full
    stop: sentiments count ``distractor`` times there, and ``adjective`` times elsewhere.
    """

    def __init__(self, tokenizer: Any, adjective: float, distractor: float) -> None:
        super().__init__()
        self.config = SimpleNamespace(is_encoder_decoder=False, _attn_implementation="eager")
        self.config.get_text_config = lambda: self.config
        self.config.pad_token_id = tokenizer.pad_token_id
        self.embeddings = torch.nn.Embedding(
            len(tokenizer), len(tokenizer), _weight=torch.eye(len(tokenizer))
        )
        self.values, self.stop = torch.zeros(len(tokenizer)), tokenizer.get_vocab()["."]
        self.adjective, self.distractor = adjective, distractor
        for word, value in SENTIMENT.items():
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
        before_stop = states[:, 1:, self.stop].detach().bool()
        before_stop = torch.nn.functional.pad(before_stop, (0, 1))
        weights = torch.where(before_stop, self.distractor, self.adjective) * attention_mask
        difference = (states @ self.values * weights).sum(1)
        return SimpleNamespace(logits=torch.stack([-difference / 2, difference / 2], dim=1))


@pytest.fixture(scope="module")
def rows(sentiment: Any) -> list[dict[str, Any]]:
    train = sentiment["train"]
    return [train[i] for i in range(0, len(train), 97)]


@pytest.fixture(scope="module")
def tokenizer(sentiment: Any) -> Any:
    return build_tokenizer(sentiment["train"]["text"][:])


def test_the_planted_model_predicts_what_it_was_given(rows: Any, tokenizer: Any) -> None:
    texts = [row["text"] for row in rows]
    found = np.diff(label_logits(BagOfWords(tokenizer, 1.0, 0.0), tokenizer, texts))[:, 0]
    assert found.tolist() == [2 * row["label"] - 1 for row in rows]
    found = np.diff(label_logits(BagOfWords(tokenizer, 0.0, 1.0), tokenizer, texts))[:, 0]
    assert found.tolist() == [SENTIMENT[row["words"][3].rstrip(".")] for row in rows]


@pytest.mark.parametrize("shares", [occlusion_shares, gradient_shares])
@pytest.mark.parametrize(
    ("adjective", "distractor", "expected"),
    [
        (1.0, 0.0, 1.0),
        (0.0, 1.0, 0.0),  # the control: the distractor decides
        (3.0, 1.0, 0.75),
        (0.0, 0.0, 0.0),  # nothing matters: 0, and no division by zero
    ],
)
def test_shares_are_those_of_the_weights(
    shares: Any, adjective: float, distractor: float, expected: float, rows: Any, tokenizer: Any
) -> None:
    found = shares(BagOfWords(tokenizer, adjective, distractor), tokenizer, rows)
    assert found == pytest.approx(np.full(len(rows), expected), abs=1e-6)


def test_swaps_flip_the_prediction_where_the_model_looks(rows: Any, tokenizer: Any) -> None:
    rng = np.random.default_rng(0)
    reads = BagOfWords(tokenizer, 1.0, 0.0)
    found = swap_flips(reads, tokenizer, rows, OPPOSITES, rng)
    assert found == {"swap_informative": 1.0, "swap_distractor": 0.0}
    distracted = BagOfWords(tokenizer, 0.0, 1.0)  # the control
    found = swap_flips(distracted, tokenizer, rows, OPPOSITES, rng)
    assert found == {"swap_informative": 0.0, "swap_distractor": 1.0}


def test_without_distractors_their_swaps_are_no_number(sentiment: Any, tokenizer: Any) -> None:
    split = sentiment["ood_no_distractor"]
    few = [split[i] for i in range(0, len(split), 400)]
    reads = BagOfWords(tokenizer, 1.0, 0.0)
    found = swap_flips(reads, tokenizer, few, OPPOSITES, np.random.default_rng(0))
    assert found["swap_informative"] == 1
    assert math.isnan(found["swap_distractor"])


def test_a_mark_behind_a_word_stays_when_the_word_is_replaced() -> None:
    words = ["my", "dog", "is", "nice.", "Really", ":("]
    assert replaced(words, 3, "mean") == ["my", "dog", "is", "mean.", "Really", ":("]
    assert replaced(words, 1, "cat")[1] == "cat"
    assert replaced(words, 5, "[UNK]")[5] == "[UNK]", "a word of marks alone is replaced whole"
    assert words[3] == "nice.", "the sentence itself is left as it was"


# unk_token and mask_token by their ids, of which 0 is the padding: what hides a word
HIDING: dict[str, tuple[dict[str, int | None], str]] = {
    "both": ({"unk_token": 1, "mask_token": 2}, "unk_token"),
    "no unknown token": ({"unk_token": None, "mask_token": 2}, "mask_token"),
    "padding is the unknown token": ({"unk_token": 0, "mask_token": 2}, "mask_token"),
    "neither": ({"unk_token": None, "mask_token": None}, ""),
    "padding is both": ({"unk_token": 0, "mask_token": 0}, ""),
}


@pytest.mark.parametrize("name", HIDING)
def test_a_word_is_hidden_by_a_token_that_is_not_padding(name: str, tokenizer: Any) -> None:
    ids, expected = HIDING[name]
    tokens = {token: None if i is None else token for token, i in ids.items()}
    fake = SimpleNamespace(**tokens, **{f"{token}_id": i for token, i in ids.items()})
    model = BagOfWords(tokenizer, 1.0, 0.0)
    model.config.pad_token_id = 0
    assert hiding_token(model, fake) == expected


def test_shares_are_the_same_without_an_unknown_token(rows: Any, tokenizer: Any) -> None:
    """The planted model does not see [UNK]: a word that is left out has the same effect."""
    without = copy.deepcopy(tokenizer)
    without.unk_token = without.mask_token = None
    model = BagOfWords(tokenizer, 3.0, 1.0)
    expected = occlusion_shares(model, tokenizer, rows[:5])
    assert occlusion_shares(model, without, rows[:5]) == pytest.approx(expected)
    alone = [{"text": "nice", "words": ["nice"], "location": 0}]
    assert occlusion_shares(model, without, alone) == pytest.approx(1), "nothing else is there"


def test_without_a_word_of_the_other_label_a_swap_is_no_number(rows: Any, tokenizer: Any) -> None:
    positive = [row for row in rows if row["label"] == 1]
    found = swap_flips(
        BagOfWords(tokenizer, 1.0, 0.0),
        tokenizer,
        positive,
        opposites_in(positive),
        np.random.default_rng(0),
    )
    assert math.isnan(found["swap_informative"])


def test_a_word_with_a_mark_behind_it_is_replaced_by_words_without() -> None:
    row = {"words": ["the", "sea", "is", "wild.", "my", "dog", "is", "nice!"], "location": 7}
    row |= {"roles": ["neutral"] * 3 + ["distractor"] + ["neutral"] * 3 + ["informative"]}
    other = row | {"words": ["the", "sea", "is", "nice,", "my", "dog", "is", "mean"]}
    third = row | {"words": ["the", "sea", "is", "calm", "my", "dog", "is", "mean."]}
    found = opposites_in([row | {"label": 1}, other | {"label": 0}, third | {"label": 0}])
    assert found == {
        "nice": ["mean"],  # informative somewhere, so replaced by the opposite
        "mean": ["nice"],
        "wild": ["calm", "nice"],
        "calm": ["nice", "wild"],
    }


@pytest.mark.parametrize("training", [True, False])
def test_attribution_leaves_the_mode_as_it_was(training: bool, rows: Any, tokenizer: Any) -> None:
    model = BagOfWords(tokenizer, 1.0, 0.0).train(training)
    occlusion_shares(model, tokenizer, rows[:3])
    gradient_shares(model, tokenizer, rows[:3])
    assert model.training is training
