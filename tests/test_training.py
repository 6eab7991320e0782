"""Seeds decide a model, and a training that cannot go well stops or is refused."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_models import same_weights
from transformers import BertConfig, BertForSequenceClassification

from data_gen import build_tokenizer
from probing.attribution import label_logits
from probing.models.augmentation import Augmentation
from probing.models.presets import ARCHITECTURES, PRESETS, build_model
from probing.models.training import (
    SNAPSHOTS,
    TrainingConfig,
    TrainingError,
    augmented_epochs,
    input_noise,
    snapshot_steps,
    train,
)

LABELS = ["negative", "positive"]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def words_only(sentiment: Any) -> Any:
    """The tokenizer of a decoder."""
    return build_tokenizer(sentiment["train"]["text"][:], ends=False)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_seed_decides_the_weights_and_nothing_else(
    preset: str, architecture: str, tokenizer: Any, words_only: Any
) -> None:
    known = tokenizer if ARCHITECTURES[architecture].ends else words_only
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (
        build_model(known, preset, LABELS, seed, architecture) for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert same_weights(first.state_dict(), again.state_dict())
    assert not same_weights(first.state_dict(), other.state_dict())
    assert not first.training
    assert all(m.p == 0 for m in first.modules() if isinstance(m, torch.nn.Dropout))
    sizes = ("num_hidden_layers", "num_attention_heads", "hidden_size")
    assert tuple(getattr(first.config, name) for name in sizes) == PRESETS[preset]
    assert first.config.pad_token_id == known.pad_token_id


@pytest.mark.parametrize("preset", PRESETS)
def test_the_weights_of_bert_are_those_of_the_library(preset: str, tokenizer: Any) -> None:
    """Results of every version so far are of these weights."""
    n_layers, n_heads, d_model = PRESETS[preset]
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=d_model,
        num_hidden_layers=n_layers,
        num_attention_heads=n_heads,
        intermediate_size=4 * d_model,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    torch.manual_seed(3)
    expected = BertForSequenceClassification(config).state_dict()
    assert same_weights(build_model(tokenizer, preset, LABELS, 3).state_dict(), expected)


def test_unknown_names_are_refused_with_the_known_ones(tokenizer: Any) -> None:
    with pytest.raises(ValueError, match="no preset 'huge'; there are tiny, pair, small"):
        build_model(tokenizer, "huge", LABELS, 0)
    known = "there are bert, modernbert, gpt2, llama"
    with pytest.raises(ValueError, match=f"no architecture 'rnn'; {known}"):
        build_model(tokenizer, "tiny", LABELS, 0, "rnn")


def test_a_tokenizer_of_the_other_kind_is_refused(tokenizer: Any, words_only: Any) -> None:
    """Else an encoder would be read at the first word, and a decoder at [SEP]."""
    with pytest.raises(ValueError, match=r"llama needs a tokenizer .* ends=False"):
        build_model(tokenizer, "tiny", LABELS, 0, "llama")
    with pytest.raises(ValueError, match=r"bert needs a tokenizer .* ends=True"):
        build_model(words_only, "tiny", LABELS, 0)


@pytest.mark.parametrize("ends", [0, 1])
def test_all_words_are_augmented_and_the_ends_are_not(ends: int) -> None:
    sentence, unknown = [2, 10, 11, 12, 3], 1
    always = Augmentation(word_dropout=1.0, insertion=0.5, max_inserted=2)
    config = TrainingConfig(epochs=50, augmentation=always)
    epochs = augmented_epochs([sentence], [1], unknown, config, ends=ends)
    assert len(epochs) == 50
    for row in epochs:
        ids = row["input_ids"]
        assert (ids[:ends], ids[len(ids) - ends :]) == (sentence[:ends], sentence[5 - ends :])
        assert set(ids[ends : len(ids) - ends]) == {unknown}


def test_sentences_are_shuffled_between_the_ends() -> None:
    cls, sep, stop, unknown = 2, 3, 4, 1
    moved = Augmentation(word_dropout=0.0, insertion=0.0, shuffling=1.0)
    config = TrainingConfig(epochs=50, augmentation=moved)
    text = [cls, 10, 11, stop, 12, sep]
    orders = {tuple(text), (cls, 12, 10, 11, stop, sep)}
    for mark, expected in ((stop, orders), (None, {tuple(text)})):
        epochs = augmented_epochs([text], [1], unknown, config, stop=mark)
        assert {tuple(row["input_ids"]) for row in epochs} == expected


@pytest.mark.parametrize("ends", [True, False])
def test_training_shuffles_at_the_full_stops_of_the_tokenizer(
    ends: bool, few: Any, tokenizer: Any, words_only: Any, tmp_path: Path
) -> None:
    """All texts of this split have a full stop behind their first sentence."""
    known, architecture = (tokenizer, "bert") if ends else (words_only, "gpt2")
    model = build_model(known, "tiny", LABELS, 0, architecture)
    seen, embed = [], model.get_input_embeddings()
    hook = embed.register_forward_pre_hook(lambda module, args: seen.extend(args[0].tolist()))
    moved = Augmentation(word_dropout=0.0, insertion=0.0, shuffling=1.0)
    config = TrainingConfig(augmentation=moved)
    train(model, known, few["text"][:], few["label"][:], config, tmp_path, quiet=True)
    hook.remove()
    texts = {known.decode(ids, skip_special_tokens=True) for ids in seen}
    plain = {known.decode(ids, skip_special_tokens=True) for ids in known(few["text"][:]).input_ids}
    swapped = {" ".join([*text.split(" . ")[::-1], "."]) for text in plain}
    assert texts <= plain | swapped
    shares = [len(texts & orders) / len(plain) for orders in (plain, swapped)]
    # Each text has one of two orders: half of them, within four standard errors.
    assert all(abs(share - 0.5) < 4 * 0.5 / math.sqrt(len(plain)) for share in shares)


ROUNDING = {"bert": 1e-12, "modernbert": 1e-5}  # ModernBERT's softmax is in single precision


def attention_of_cls(
    tokenizer: Any, preset: str, architecture: str, texts: list[str], layer: int
) -> Any:
    """Attention (texts, tokens) of [CLS] in a layer of a model with large random weights."""
    model = build_model(tokenizer, preset, LABELS, 0, architecture).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim == 2:
                drawn = torch.randn(weights.shape, generator=generator, dtype=torch.float64)
                weights.copy_(0.3 * drawn)
        model.set_attn_implementation("eager")
        inputs = tokenizer(texts, return_tensors="pt")
        return model(**inputs, output_attentions=True).attentions[layer][:, 0, 0].numpy()


@pytest.mark.parametrize("architecture", ROUNDING)
def test_one_layer_cannot_tell_a_distractor_from_the_word_that_decides_by_context(
    architecture: str, tokenizer: Any
) -> None:
    """[CLS] scores a token of the first layer by its word and its place, whatever stands around it.

    In both texts "nice" is token 4 and "mean" token 9. In the first text "mean" decides, in the
    second "nice" does, yet the ratio of their attention weights is the same in both: a layer that
    looks at the right word in one looks at the wrong word in the other. The second of two layers
    scores states that have seen the context.
    """
    texts = ["The city is nice. my dog is mean", "my dog is nice. The city is mean"]
    words = [tokenizer.tokenize(text) for text in texts]
    assert all((found[3], found[8]) == ("nice", "mean") for found in words), "[CLS] is before them"
    ratios = {}
    for preset, layer in (("tiny", 0), ("pair", 0), ("pair", 1)):
        attention = attention_of_cls(tokenizer, preset, architecture, texts, layer)
        if architecture == "modernbert" and (preset, layer) == ("pair", 0):
            assert (attention[:, [4, 9]] == 0).all(), "a local layer: [CLS] sees neither word"
            continue
        assert not np.allclose(attention[0], attention[1], rtol=1e-3), "other words have changed"
        ratios[preset, layer] = np.log(attention[:, 4] / attention[:, 9])
    exact = ROUNDING[architecture]
    for first, second in (ratios[key] for key in ratios if key[1] == 0):
        assert first == pytest.approx(second, abs=exact)
    assert abs(ratios["pair", 1][0] - ratios["pair", 1][1]) > 0.01, "the control: two layers can"


@pytest.mark.parametrize("architecture", ROUNDING)
def test_in_one_layer_no_other_word_moves_the_ratio_of_two_weights(
    architecture: str, tokenizer: Any
) -> None:
    rng = np.random.default_rng(0)
    others = [word for word in tokenizer.get_vocab() if word.isalpha()]
    texts = []
    for _ in range(20):
        words = list(rng.choice(others, size=10))
        words[3], words[8] = "nice", "mean"
        texts.append(" ".join(words))
    attention = attention_of_cls(tokenizer, "tiny", architecture, texts, 0)
    ratio = np.log(attention[:, 4] / attention[:, 9])
    assert np.ptp(ratio) < ROUNDING[architecture]
    assert np.ptp(np.log(attention[:, 4] / attention[:, 5])) > 0.1, "another word, another score"


def test_a_small_gpt2_learns_and_reads_its_last_word_but_padding(
    sentiment: Any, words_only: Any, tmp_path: Path
) -> None:
    rows = sentiment["train"].shuffle(seed=0)
    few, others = rows.select(range(1920)), rows.select(range(1920, 2400))
    model = build_model(words_only, "tiny", LABELS, 0, "gpt2")
    config = TrainingConfig(epochs=3, learning_rate=5e-3)
    train(model, words_only, few["text"][:], few["label"][:], config, tmp_path, quiet=True)
    logits = np.diff(label_logits(model, words_only, others["text"][:]))[:, 0]
    assert np.mean((logits > 0) == (np.array(others["label"][:]) == 1)) > 0.95
    alone = [np.diff(label_logits(model, words_only, [text]))[0, 0] for text in others["text"][:20]]
    assert np.allclose(logits[:20], alone, atol=1e-4), "padding changes nothing"


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"batch_size": 0}, {"learning_rate": math.inf}, {"seed": -1}]
)
def test_impossible_training_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TrainingConfig(**wrong)


@pytest.fixture(scope="module")
def few(sentiment: Any) -> Any:
    """640 training sentences: ten steps."""
    return sentiment["train"].shuffle(seed=0).select(range(640))


def briefly_trained(few: Any, tokenizer: Any, folder: Path, seed: int, **options: Any) -> Any:
    model = build_model(tokenizer, "tiny", LABELS, 0)  # the seed is left to decide order and [UNK]s
    config = TrainingConfig(seed=seed, **options)
    train(model, tokenizer, few["text"][:], few["label"][:], config, folder, quiet=True)
    return model


def test_equal_seeds_give_equal_models_and_others_do_not(
    few: Any, tokenizer: Any, tmp_path: Path
) -> None:
    first, again, other = (
        briefly_trained(few, tokenizer, tmp_path / name, seed)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert same_weights(first.state_dict(), again.state_dict())
    assert not same_weights(first.state_dict(), other.state_dict())
    texts = few["text"][:50]
    outputs = [
        np.diff(label_logits(model, tokenizer, texts))[:, 0] for model in (first, again, other)
    ]
    assert np.array_equal(outputs[0], outputs[1])
    assert not np.allclose(outputs[0], outputs[2], rtol=1e-3)


def test_training_leaves_the_model_in_evaluation_mode_and_the_threads_as_they_were(
    few: Any, tokenizer: Any, tmp_path: Path
) -> None:
    torch.set_num_threads(2)
    model = briefly_trained(few, tokenizer, tmp_path, 0)
    assert not model.training
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


def test_a_loss_that_is_no_number_stops_the_training(
    few: Any, tokenizer: Any, tmp_path: Path
) -> None:
    """Ten steps are fewer than lie between two logged losses: it is seen at the end."""
    with pytest.raises(TrainingError, match="lower the learning rate"):
        briefly_trained(few, tokenizer, tmp_path, 0, learning_rate=1e30)


def test_words_that_the_tokenizer_does_not_know_are_refused(few: Any, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="does not know"):
        briefly_trained(few, build_tokenizer(few["text"][:1]), tmp_path, 0)


def test_snapshots_are_the_model_on_its_way(few: Any, tokenizer: Any, tmp_path: Path) -> None:
    """The first is the start, the last the trained model, and the first steps lie closest."""
    model = build_model(tokenizer, "tiny", LABELS, seed=0)
    texts, labels = few["text"][:], few["label"][:]
    options: dict[str, Any] = {"quiet": True, "snapshots": True}
    train(model, tokenizer, texts, labels, TrainingConfig(seed=0), tmp_path, **options)
    files = sorted((tmp_path / SNAPSHOTS).iterdir())
    steps = [int(path.stem.removeprefix("step-")) for path in files]
    assert steps == snapshot_steps(steps[-1])
    assert steps[0] == 0
    first, last = load_file(files[0]), load_file(files[-1])
    start = build_model(tokenizer, "tiny", LABELS, seed=0).state_dict()
    assert same_weights(first, start)
    assert same_weights(last, model.state_dict())
    assert not same_weights(first, last)
    gaps = np.diff(snapshot_steps(1000))
    assert len(gaps) == 23
    assert (np.diff(gaps) >= -1).all(), "but for rounding they grow"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_noise_on_the_input_is_there_in_training_only_and_goes_again(
    architecture: str, tokenizer: Any, words_only: Any
) -> None:
    known = tokenizer if ARCHITECTURES[architecture].ends else words_only
    model = build_model(known, "tiny", LABELS, 0, architecture)
    words = model.get_input_embeddings()
    ids = torch.arange(len(known)).repeat(40)
    plain = words(ids)
    with input_noise(model, std=0.5, seed=0):
        model.eval()
        assert torch.equal(words(ids), plain)
        model.train()
        noise = (words(ids) - plain).detach()
    n = noise.numel()
    assert abs(float(noise.mean())) < 4 * 0.5 / math.sqrt(n)
    assert abs(float(noise.std()) - 0.5) < 4 * 0.5 / math.sqrt(2 * n)
    assert torch.equal(words(ids), plain)
