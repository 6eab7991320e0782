"""The Transformer in the page computes what torch computes: words, attention, logits, edits."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from page import in_node
from safetensors.torch import load_file

from data_gen import split_words
from probing.circuits.interventions import Erase, Reflect, Steer
from probing.circuits.learning import learning_curve, snapshots
from probing.models.presets import build_model
from probing.models.pretrained import load_model
from probing.models.training import SNAPSHOTS
from probing.sentences import draw_by_word
from probing.states.editing import edited
from probing.states.extraction import read
from probing.states.tokens import tokenise
from studies.pages import live, report, story
from studies.storage.tables import ResultError

SCRIPTS = ["shared/special.js", "shared/bytes.js", "model/transformer.js"]
MODEL = "makeTransformer(given.model)"
PARITY = 1e-4  # of logits and attention


@pytest.fixture(scope="module")
def folder(live_results: Path) -> Path:
    return live_results / report.LIVE


@pytest.fixture(scope="module")
def data(folder: Path) -> dict[str, Any]:
    return json.loads(json.dumps(live.live_model(folder)))


@pytest.fixture
def loaded(folder: Path) -> tuple[Any, Any]:
    return load_model(str(folder), head="classifier")


def page_readings(data: Any, texts: list[str], options: Any = None) -> Any:
    """What the page reads: ``options`` are the same for all texts, or one for each."""
    each = options if isinstance(options, list) else [options or {}] * len(texts)
    values = {"model": data, "texts": texts, "options": each}
    each_text = "given.texts.map((text, i) => model.read(text, given.options[i]))"
    code = f"(() => {{ const model = {MODEL}; return {each_text}; }})()"
    return in_node(SCRIPTS, code, values)


def some_of_all_splits(sentiment: Any, count: int = 50) -> Any:
    """So many sentences of each split, all eleven, as one table of rows."""
    from datasets import concatenate_datasets

    parts = [sentiment[name].shuffle(seed=1).select(range(count)) for name in sentiment]
    return concatenate_datasets(parts)


def assert_same(states: Any, readings: Any) -> None:
    tokens = states.tokens
    for i, reading in enumerate(readings):
        span = tokens.sentence(i)
        assert abs(reading["logit"] - states.logits[i]) < PARITY
        attention = np.asarray(states.attention[span])[:, 0, 0]
        assert np.abs(np.array(reading["attention"]) - attention).max() < PARITY


# ---- parity


@pytest.mark.parametrize("number", [0, 8, 16, -1], ids=["first", "early", "late", "final"])
def test_the_page_reads_550_sentences_as_torch_does(
    number: int, data: Any, folder: Path, loaded: Any, sentiment: Any
) -> None:
    model, tokenizer = loaded
    rows = some_of_all_splits(sentiment)
    step, path = list(snapshots(folder / SNAPSHOTS).items())[number]
    if number != -1:  # the page has these in half precision; the last is the model itself
        model.load_state_dict({name: x.half().float() for name, x in load_file(path).items()})
    states = read(model, tokenise(tokenizer, rows))
    readings = page_readings(data, rows["text"][:], {"step": step})
    assert len(readings) == 550
    assert_same(states, readings)
    for i, reading in enumerate(readings):
        ids = states.tokens.ids[states.tokens.sentence(i)].tolist()
        assert reading["tokens"] == tokenizer.convert_ids_to_tokens(ids)


def test_half_precision_moves_logits_by_little(data: Any, folder: Path, loaded: Any) -> None:
    """All snapshots but the last are rounded: no verdict changes, and no logit by 0.05."""
    model, tokenizer = loaded
    texts = [story.SENTENCE, *story.EXAMPLES.values()]
    spans = [(text.rindex(" ") + 1, len(text)) for text in texts]
    tokens = tokenise(tokenizer, {"text": texts, "span": spans})
    for step, path in snapshots(folder / SNAPSHOTS).items():
        model.load_state_dict(load_file(path))
        exact = read(model, tokens).logits
        rounded = np.array([one["logit"] for one in page_readings(data, texts, {"step": step})])
        assert np.abs(rounded - exact).max() < 0.05
        certain = np.abs(exact) > 0.05
        assert ((rounded > 0) == (exact > 0))[certain].all()


def test_coordinates_are_projections_in_the_units_that_the_page_says(
    data: Any, loaded: Any, sentiment: Any
) -> None:
    """On the sentences of the fit: 0 and 1 along k_hat, -1 and 1 along v_hat."""
    model, tokenizer = loaded
    split = sentiment["train"].select(draw_by_word(sentiment["train"], live.N_SENTENCES))
    tokens = tokenise(tokenizer, split)
    readings = page_readings(data, split["text"][:])
    k, v = (np.concatenate([reading[name] for reading in readings]) for name in "kv")
    others = ~tokens.special & ~tokens.informative
    assert abs(k[others].mean()) < 1e-5
    assert abs(k[tokens.informative].mean() - 1) < 1e-5
    means = [v[tokens.informative][tokens.labels == label].mean() for label in (0, 1)]
    np.testing.assert_allclose(means, [-1, 1], atol=1e-5)
    states = read(model, tokens)
    np.testing.assert_allclose(k, story.along(states.at(0), data["axes"]["k"]), atol=1e-5)


EDITS = [("erase", "v"), ("erase", "k"), ("reflect", "v"), ("steer", "v")]


@pytest.mark.parametrize(("edit", "along"), EDITS)
@pytest.mark.parametrize("site", ["informative", "distractor"])
def test_edits_are_those_of_the_causal_tests(
    edit: str, along: str, site: str, data: Any, loaded: Any, sentiment: Any
) -> None:
    model, tokenizer = loaded
    rows = sentiment["test"].shuffle(seed=2).select(range(60))
    tokens = tokenise(tokenizer, rows)
    axis = data["axes"][along]
    where = tokens.site(site)
    made = {
        "erase": Erase(axis["direction"], axis["mean"]),
        "reflect": Reflect(axis["direction"], axis["zero"]),
        "steer": Steer(axis["direction"], np.full(len(rows), 2 * axis["unit"])),
    }[edit]
    with edited(model, 0, made, where):
        states = read(model, tokens)
    places = where.int().argmax(1).tolist()
    options = [{"edits": [{"edit": edit, "along": along, "token": place}]} for place in places]
    assert_same(states, page_readings(data, rows["text"][:], options))


def test_two_edits_act_one_after_the_other_and_half_an_edit_is_half_a_move(data: Any) -> None:
    def reading(*edits: tuple[str, str, float]) -> Any:
        one = [{"edit": e, "along": a, "amount": x, "token": 11} for e, a, x in edits]
        return page_readings(data, [story.SENTENCE], {"edits": one})[0]

    def v(*edits: tuple[str, str, float]) -> float:
        return float(reading(*edits)["v"][11])

    assert np.isclose(v(("erase", "v", 0.5)), (v() + v(("erase", "v", 1.0))) / 2)
    assert np.isclose(v(("steer", "v", -2.0)), v() - 4)  # the labels are 2 apart
    assert np.isclose(v(("reflect", "v", 1.0)), -v())
    assert np.isclose(v(("steer", "v", 1.0), ("reflect", "v", 1.0)), -(v() + 2))
    assert reading(("reflect", "v", 0.0)) == reading()


def test_the_curve_is_that_of_the_study_and_the_readings_are_those_of_torch(
    data: Any, folder: Path, loaded: Any, sentiment: Any
) -> None:
    model, tokenizer = loaded
    parts = (sentiment[name] for name in ("train", "test"))
    train, test = (
        tokenise(tokenizer, part.select(draw_by_word(part, live.N_SENTENCES))) for part in parts
    )
    curve = learning_curve(model, folder / SNAPSHOTS, train, test)
    assert data["curve"]["step"] == curve["step"].tolist()
    assert len(data["curve"]["step"]) == len(data["snapshots"]) + 1 == 24
    np.testing.assert_allclose(data["curve"]["kappa"], curve["kappa"], atol=1e-4)
    readings = page_readings(data, [one["text"] for one in data["readings"]])
    for written, computed in zip(data["readings"], readings, strict=True):
        assert written["label"] == computed["label"]
        assert abs(written["logit"] - computed["logit"]) <= 0.005 + PARITY
        for name in ("attention", "k", "v"):
            np.testing.assert_allclose(written[name], computed[name], atol=2e-4)


def test_the_first_sentence_tells_the_story(data: Any) -> None:
    """The distractor's swap changes nothing, that of the word that decides turns the verdict."""
    plain, distractor, word = data["readings"]
    assert plain["tokens"][int(np.argmax(plain["attention"]))] == "nice"
    assert plain["label"] == distractor["label"] == "positive"
    assert word["label"] == "negative"
    assert abs(plain["logit"] - distractor["logit"]) < 0.02
    # The sentence is one of the grammar; that is what its menus offer.
    slots = {slot["name"]: slot["words"] for slot in data["slots"]}
    assert "lovely" in slots["Adjective"]
    assert slots["City"] == ["nice", "dreadful", "clean", "dirty"]


# ---- words


def page_words(texts: list[str]) -> Any:
    special = [f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")]
    code = (
        f"given.map((text) => splitWords(text, {json.dumps(special)}).map((piece) => piece.word))"
    )
    return in_node(SCRIPTS, code, texts)


HOSTILE = [
    "",
    "   ",
    "</script><script>alert(1)</script>",
    'it\'s "nice"',
    "nice\U0001f642. \U0001f469\u200d\U0001f469\u200d\U0001f467",  # emoji, three joined to one
    "a\u00a0b\u2003c\u0085d\ufeffe",  # kinds of white space, and a mark that is none
    "\u00bfqu\u00e9? \u00abnice\u00bb \u2014 \u201cx\u201d \u2018y\u2019 \u00a1no!",
    "$5 + 3 = 8 ^ 2 ~ `x` | <y>",
    "\u540d\u8a5e\u3001\u52d5\u8a5e\u3002",
    "na\u00efve cafe\u0301",
    "[MASK]nice[UNK] [mask] [CLS",
    "\u0130stanbul \u00df \ufb01",
    "\U0001d54f\U00010100x",
    "no-one's business...",
    "\t nice \n dreadful \r\n",
]


def test_words_are_split_as_the_tokenizer_splits_them(loaded: Any) -> None:
    _, tokenizer = loaded
    plain = [text for text in HOSTILE if "[" not in text]
    assert page_words(plain) == [split_words(text) for text in plain]
    ids = tokenizer(HOSTILE)["input_ids"]
    unknown = tokenizer.unk_token
    for text, words, numbers in zip(HOSTILE, page_words(HOSTILE), ids, strict=True):
        known = [word if word in tokenizer.get_vocab() else unknown for word in words]
        assert known == tokenizer.convert_ids_to_tokens(numbers)[1:-1], text


def test_random_texts_are_split_as_the_tokenizer_splits_them() -> None:
    """In one run of node, as its start is what takes time."""
    texts: list[str] = []

    @given(st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=30))
    def collect(text: str) -> None:
        texts.append(text)

    collect()
    rng = np.random.default_rng(0)
    marks = "\u00a7\u00b6\u00b7\u2020\u2030\u2032\u203b\u2047\u2e2e\u3001\u301c\u30fb"
    signs = list(
        f" .,'-_$\u20ac{marks}\u00ad\u200b\u2028\u3000\U0001f642\u00e9\u0416aZ9\u0663\u00b2\u00bd"
    )
    texts += ["".join(rng.choice(signs, 12)) for _ in range(500)]
    assert page_words(texts) == [split_words(text) for text in texts]


def test_long_texts_are_read_as_far_as_the_model_has_places(data: Any, loaded: Any) -> None:
    model, tokenizer = loaded
    text = " ".join(["nice", "dreadful"] * 250)
    (reading,) = page_readings(data, [text])
    assert len(reading["tokens"]) == 64
    assert reading["dropped"] == 500 - 62
    inputs = tokenizer(text, truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        logits = model(inputs["input_ids"]).logits[0]
    assert abs(reading["logit"] - float(logits[1] - logits[0])) < PARITY


@pytest.mark.parametrize(
    "options",
    [
        {"step": 7},
        {"edits": [{"edit": "erase", "along": "x", "token": 1}]},
        {"edits": [{"edit": "melt", "along": "v", "token": 1}]},
        {"edits": [{"edit": "erase", "along": "v", "token": 99}]},
    ],
)
def test_an_impossible_request_is_refused(options: Any, data: Any) -> None:
    asked = f"{MODEL}.read('nice', given.options)"
    code = f"(() => {{ try {{ {asked}; }} catch (error) {{ return String(error); }} }})()"
    said = in_node(SCRIPTS, code, {"model": data, "options": options})
    assert said.startswith("RangeError: no s")


# ---- what is refused


def test_only_a_model_that_the_page_can_run_is_written_down(tmp_path: Path, tokenizer: Any) -> None:
    for preset, architecture in (("small", "bert"), ("tiny", "modernbert")):
        model = build_model(tokenizer, preset, ["negative", "positive"], 0, architecture)
        model.save_pretrained(tmp_path / preset)
        tokenizer.save_pretrained(tmp_path / preset)
        with pytest.raises(ResultError, match="one layer, one head"):
            live.live_model(tmp_path / preset)


def test_a_model_without_snapshots_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(ValueError, match="--snapshots"))
        model = build_model(tokenizer, "tiny", ["negative", "positive"], seed=0)
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        live.live_model(tmp_path)
