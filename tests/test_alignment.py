"""Spans become token positions for every kind of fast tokenizer, and wrong ones are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import byte_level, wordpiece, wrap
from tokenizers import (
    Tokenizer,
    models,
    pre_tokenizers,
)
from transformers import AutoTokenizer

from data_gen import AlignmentError, align_spans, build_tokenizer
from probing import tokenise


def byte_level_untrimmed(texts: list[str]) -> Any:
    return byte_level(texts, trim_offsets=False)


BUILDERS = [build_tokenizer, wordpiece, byte_level, byte_level_untrimmed]


@pytest.fixture(scope="module", params=BUILDERS, ids=lambda build: build.__name__)
def tokenizer(request: pytest.FixtureRequest, sentiment: Any) -> Any:
    return request.param(sentiment["train"]["text"][:])


@pytest.fixture(params=BUILDERS, ids=lambda build: build.__name__)
def build_any(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("split", ["train", "ood_tokens", "ood_structure"])
def test_positions_are_those_of_the_word_alone(
    tokenizer: Any, sentiment: Any, split: str, side: str
) -> None:
    rows = sentiment[split].shuffle(seed=0)[:200]
    found = align_spans(tokenizer, rows["text"], rows["span"], padding_side=side)
    lengths = {len(ids) for ids in found.encoding["input_ids"]}
    assert len(lengths) == 1, "a padded batch"
    for row, positions in enumerate(found.positions):
        # Independent of offsets: the tokens of the text before the word come before it.
        text, (start, end) = rows["text"][row], rows["span"][row]
        without_specials = {"add_special_tokens": False}
        n_before = len(tokenizer(text[:start].rstrip(), **without_specials)["input_ids"])
        n_through = len(tokenizer(text[:end], **without_specials)["input_ids"])
        ids = found.encoding["input_ids"][row]
        first = next(i for i, token in enumerate(ids) if token != tokenizer.pad_token_id)
        first += tokenizer.convert_ids_to_tokens(ids[first]) == "[CLS]"
        expected = range(first + n_before, first + n_through)
        # Before a byte-level word may stand a token of its own for the space.
        assert positions == tuple(i for i in expected if tokenizer.decode([ids[i]]).strip())


@pytest.mark.parametrize("split", ["train", "ood_structure"])
def test_masks_of_many_sentences_are_those_of_each_alone(
    tokenizer: Any, sentiment: Any, split: str
) -> None:
    """Roles are looked up word by word here; tokenise does it for all tokens at once.

    The full stop behind a distractor is a token of its own, and not a distractor.
    """
    rows = sentiment[split].shuffle(seed=1)[:100]
    tokens = tokenise(tokenizer, rows)
    for i, (text, words, roles) in enumerate(
        zip(rows["text"], rows["words"], rows["roles"], strict=True)
    ):
        encoding = tokenizer(text, return_offsets_mapping=True)
        ends = np.cumsum([len(word) + 1 for word in words])
        role_of = [
            roles[np.searchsorted(ends, max(a, b - 1), side="right")] if a < b else "special"
            for a, b in encoding["offset_mapping"]
        ]
        here = tokens.sentence(i)
        assert tokens.ids[here].tolist() == encoding["input_ids"]
        for role, mask in (("informative", tokens.informative), ("distractor", tokens.distractor)):
            letters = [text[a:b].strip(" .") != "" for a, b in encoding["offset_mapping"]]
            expected = [own == role and full for own, full in zip(role_of, letters, strict=True)]
            spaces = [text[a:b].strip() == "" for a, b in encoding["offset_mapping"]]
            got = [bool(x and not s) for x, s in zip(mask[here], spaces, strict=True)]
            assert got == expected, (text, role)


def test_a_mark_behind_the_informative_word_is_not_part_of_it(build_any: Any, wide: Any) -> None:
    """The wide dataset glues full stops and commas to informative words and distractors."""
    tokenizer = build_any(wide["train"]["text"][:2000])
    rows = wide["train"].shuffle(seed=0)[:300]
    tokens = tokenise(tokenizer, rows)
    glued = 0
    for i, (text, words, roles) in enumerate(
        zip(rows["text"], rows["words"], rows["roles"], strict=True)
    ):
        here = tokens.sentence(i)
        characters = tokens.characters[here]
        masks = {"informative": tokens.informative[here], "distractor": tokens.distractor[here]}
        for role, mask in masks.items():
            spelled = "".join(text[a:b] for a, b in characters[mask]).replace(" ", "")
            pairs = zip(words, roles, strict=True)
            assert spelled == "".join(word.strip(".,") for word, own in pairs if own == role)
        assert not (masks["informative"] & masks["distractor"]).any()
        marks = [text[a:b].strip() in set(".,") for a, b in characters]
        for mask in masks.values():
            assert not (mask & marks & (characters[:, 1] > characters[:, 0])).any()
        glued += words[rows["location"][i]].endswith(".")
    assert glued > 30, "the control: some informative words have a full stop"


def test_a_token_of_a_distractor_and_its_mark_is_a_distractor() -> None:
    """A tokenizer that splits at spaces alone has one token for "nice."."""
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "is": 2, "nice.": 3, "dog": 4, "mean": 5}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words = ["is", "nice.", "dog", "is", "mean"]
    roles = ["neutral", "distractor", "neutral", "neutral", "informative"]
    rows = {"text": [" ".join(words)], "span": [(16, 20)], "words": [words], "roles": [roles]}
    tokens = tokenise(wrap(tokenizer), rows)
    assert tokens.distractor.tolist() == [False, True, False, False, False]
    assert tokens.informative.tolist() == [False, False, False, False, True]


def test_words_of_several_pieces_are_found_whole(sentiment: Any) -> None:
    tokenizer = wordpiece(sentiment["train"]["text"][:])
    text = "The city is nice. my dog is aggressive"
    found = align_spans(tokenizer, [text], [(28, 38)])
    assert len(found.positions[0]) > 1
    ids = [found.encoding["input_ids"][0][i] for i in found.positions[0]]
    assert tokenizer.decode(ids) == "aggressive"


def test_letters_of_several_bytes_are_found_whole(sentiment: Any) -> None:
    tokenizer = byte_level(sentiment["train"]["text"][:])
    text = "my dog is f\u00e9roce today \U0001f600 yes"
    for word in ("f\u00e9roce", "\U0001f600", "yes"):
        start = text.index(word)
        (positions,) = align_spans(tokenizer, [text], [(start, start + len(word))]).positions
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode([ids[i] for i in positions]).strip() == word


def test_tensors_can_be_asked_for(tokenizer: Any, sentiment: Any) -> None:
    rows = sentiment["train"][:3]
    found = align_spans(tokenizer, rows["text"], rows["span"], return_tensors="pt")
    assert found.encoding["input_ids"].shape[0] == 3


def test_a_saved_and_loaded_tokenizer_aligns_the_same(
    tokenizer: Any, sentiment: Any, tmp_path: Path
) -> None:
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    rows = sentiment["ood_tokens"][:50]
    again = align_spans(loaded, rows["text"], rows["span"])
    assert again.positions == align_spans(tokenizer, rows["text"], rows["span"]).positions


def test_a_word_cut_off_by_truncation_is_refused(tokenizer: Any) -> None:
    with pytest.raises(AlignmentError, match=r"truncated|spell"):
        align_spans(
            tokenizer,
            ["The city is nice. my dog is aggressive"],
            [(28, 38)],
            truncation=True,
            max_length=5,
        )


@pytest.mark.parametrize("span", [(0, 2), (26, 32), (29, 32)])
def test_a_span_that_is_not_a_word_is_refused(span: tuple[int, int], sentiment: Any) -> None:
    tokenizer = build_tokenizer(sentiment["train"]["text"][:])
    with pytest.raises(AlignmentError, match="spell"):
        align_spans(tokenizer, ["The city is nice. my dog is nice"], [span])


@pytest.mark.parametrize("span", [(3, 3), (90, 95), (-4, 40), (28, 99), (27, 32)])
def test_a_span_outside_of_the_text_is_refused(span: tuple[int, int], sentiment: Any) -> None:
    tokenizer = build_tokenizer(sentiment["train"]["text"][:])
    with pytest.raises(AlignmentError, match="outside"):
        align_spans(tokenizer, ["The city is nice. my dog is nice"], [span])


def test_a_tokenizer_that_joins_words_is_refused() -> None:
    tokenizer = Tokenizer(models.WordLevel({"my dog": 0, "[UNK]": 1, "[PAD]": 2}, "[UNK]"))
    with pytest.raises(AlignmentError, match="joins or cuts"):
        align_spans(wrap(tokenizer), ["my dog"], [(3, 6)])


def test_a_slow_tokenizer_and_a_missing_span_are_refused(tokenizer: Any) -> None:
    with pytest.raises(AlignmentError, match="no texts"):
        align_spans(tokenizer, [], [])
    with pytest.raises(AlignmentError, match="one text, one row"):
        align_spans(tokenizer, ["my dog"], [(3, 6)], text_pair=["is nice"])
    with pytest.raises(AlignmentError, match="one span per text"):
        align_spans(tokenizer, ["a", "b"], [(0, 1)])

    class Slow:
        is_fast = False

    with pytest.raises(AlignmentError, match="slow tokenizer"):
        align_spans(Slow(), ["a"], [(0, 1)])
