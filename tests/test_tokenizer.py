"""The word-level tokenizer knows the training words and says how much it does not know."""

import re
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from data_gen import build_tokenizer, split_words, unknown_shares


def words_and_marks(text: str) -> list[str]:
    """Independent of the tokenizers library: runs of letters, and each mark by itself."""
    return re.findall(r"\w+|[^\w\s]", text)


def test_vocabulary_is_the_training_words_and_five_special_tokens(
    tokenizer: Any, sentiment: Any
) -> None:
    words = {word for text in sentiment["train"]["text"][:] for word in words_and_marks(text)}
    assert "." in words
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    assert set(tokenizer.get_vocab()) == words | special
    assert tokenizer.pad_token_id == 0


def test_sentences_become_cls_words_sep(tokenizer: Any, sentiment: Any) -> None:
    text = sentiment["train"][1234]["text"]
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
    assert tokens == ["[CLS]", *words_and_marks(text), "[SEP]"]


def test_a_distractor_is_the_same_token_as_the_word_that_decides(tokenizer: Any) -> None:
    distractor, stop, decides = (
        tokenizer("The city is nice. my dog is nice")["input_ids"][i] for i in (4, 5, 9)
    )
    assert distractor == decides
    assert stop == tokenizer.get_vocab()["."]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, how are you?", ["Hello", ",", "how", "are", "you", "?"]),
        ("so ... nice!?", ["so", ".", ".", ".", "nice", "!", "?"]),
        ("caf\u00e9\u2026 \u00abnice\u00bb", ["caf\u00e9", "\u2026", "\u00ab", "nice", "\u00bb"]),
        ("well-kept  dog\n", ["well", "-", "kept", "dog"]),
        ("", []),
    ],
)
def test_punctuation_is_split_off_in_any_alphabet(text: str, words: list[str]) -> None:
    assert split_words(text) == words == words_and_marks(text)
    if words:
        tokenizer = build_tokenizer([text])
        assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"][1:-1]) == words


def test_without_ends_sentences_are_words_padded_on_the_right(sentiment: Any) -> None:
    tokenizer = build_tokenizer(sentiment["train"]["text"][:], ends=False)
    rows = sentiment["train"][1200:1240]
    batch = tokenizer(rows["text"], padding=True, return_special_tokens_mask=True)
    assert set(batch) == {"input_ids", "attention_mask", "special_tokens_mask"}, "no token types"
    sentences = list(map(words_and_marks, rows["text"]))
    longest = max(map(len, sentences))
    assert longest > min(map(len, sentences)), "the control: some are padded"
    for words, ids, mask, special in zip(sentences, *batch.values(), strict=True):
        padding = longest - len(words)
        assert tokenizer.convert_ids_to_tokens(ids) == [*words, *["[PAD]"] * padding]
        assert mask == [1] * len(words) + [0] * padding
        assert special == [1 - here for here in mask]
    assert unknown_shares(tokenizer, sentiment)["train"] == 0


def test_unseen_words_are_unknown(tokenizer: Any) -> None:
    ids = tokenizer("The city is lovely", add_special_tokens=False)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["The", "city", "is", "[UNK]"]


def test_unknown_shares_are_those_of_the_definition(tokenizer: Any, sentiment: Any) -> None:
    known = {word for text in sentiment["train"]["text"][:] for word in words_and_marks(text)}
    shares = unknown_shares(tokenizer, sentiment)
    assert shares["train"] == 0
    for name, split in sentiment.items():
        words = [word for text in split["text"][:] for word in words_and_marks(text)]
        assert shares[name] == pytest.approx(sum(w not in known for w in words) / len(words))
    assert min(shares[name] for name in ("ood_tokens", "ood_structure", "ood_structure_tokens")) > 0


@pytest.mark.parametrize("text", ["my [MASK] is nice", "my dog is nice[MASK]."])
def test_a_text_with_a_special_token_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\[MASK\]"):
        build_tokenizer(["my dog is nice", text])


@pytest.mark.parametrize("ends", [True, False])
def test_auto_tokenizer_loads_what_was_saved(ends: bool, sentiment: Any, tmp_path: Path) -> None:
    tokenizer = build_tokenizer(sentiment["train"]["text"][:], ends=ends)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    texts = sentiment["test"]["text"][:100]
    options = {"padding": True, "return_tensors": "np"}
    for key, array in tokenizer(texts, **options).items():
        assert (loaded(texts, **options)[key] == array).all()
    assert loaded.unk_token_id == tokenizer.unk_token_id
    assert loaded.model_input_names == tokenizer.model_input_names
