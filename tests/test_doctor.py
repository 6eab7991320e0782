"""Each check of the doctor passes on a healthy model and finds the fault planted for it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from architectures import family_model
from datasets import Dataset, DatasetDict
from small_models import bert, byte_level, gpt2
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import BertModel, GPT2Model, PreTrainedTokenizerFast

from data_gen import build_tokenizer
from probing.doctor.checks import DOCTOR, examine
from probing.doctor.of_data import _fault_of_span
from probing.doctor.subject import Patient
from probing.models.pretrained import untrained_like
from probing.sentences import draw
from probing.states import extraction
from probing.states.extraction import extract
from probing.states.fingerprint import key_of
from probing.states.tokens import States
from studies.command_line import run


def part_of(dataset: Any) -> Any:
    """A part of the main splits, as many of each label."""

    def part(split: Any, n: int) -> Any:
        labels = np.array(split["label"][:])
        rows = [np.flatnonzero(labels == label) for label in (0, 1)]
        return split.select(np.concatenate([each[draw(len(each), n)] for each in rows]))

    names = ("train", "test", "ood_tokens", "ood_structure")
    return type(dataset)({name: part(dataset[name], 30) for name in names})


@pytest.fixture(scope="module")
def some(sentiment: Any) -> Any:
    return part_of(sentiment)


@pytest.fixture(scope="module")
def tokenizer(sentiment: Any) -> Any:
    return build_tokenizer(sentiment["train"]["text"][:])


@pytest.fixture
def healthy(some: Any, tokenizer: Any) -> Patient:
    return Patient(bert(len(tokenizer), BertModel).eval(), tokenizer, some)


def failed(patient: Patient) -> set[str]:
    return {finding.name for finding in examine(patient) if not finding.passed}


def test_a_healthy_model_passes_every_check(healthy: Patient) -> None:
    findings = examine(healthy)
    assert [finding.name for finding in findings if not finding.passed] == []
    assert len({finding.name for finding in findings}) == len(DOCTOR) == 13
    assert all(finding.measured and finding.protects_from for finding in findings)


@pytest.mark.parametrize(
    ("length", "words", "passed"), [(1, 0, True), (99, 1, True), (99, 0, False)]
)
def test_long_first_states_are_named_if_the_word_that_decides_stands_first(
    healthy: Patient, length: float, words: int, passed: bool
) -> None:
    def with_long_first(*args: Any, **options: Any) -> States:
        states = extract(*args, **options)
        first = states.tokens.positions == 1  # behind [CLS]
        hidden = {key: np.where(first[:, None], length * x, x) for key, x in states.hidden.items()}
        return replace(states, hidden=hidden)

    texts = [f"{'so ' * words}{word} is the dog" for word in ("nice", "mean")]
    spans = [(text.index(" is") - 4, text.index(" is")) for text in texts]
    own = DatasetDict({"train": Dataset.from_dict({"text": texts, "span": spans})})
    found = DOCTOR["first words"](replace(healthy, dataset=own, extract=with_long_first))
    assert found.passed == passed, found.measured
    assert f"{0 if words else 2} of 2 sentences" in found.measured


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3", "opt", "modernbert", "gemma2"])
def test_a_healthy_model_of_another_family_passes_every_check(
    name: str, sentiment: Any, some: Any
) -> None:
    tokenizer = byte_level(sentiment["train"]["text"][:])
    assert failed(Patient(family_model(name, len(tokenizer)), tokenizer, some)) == set()


# ---- faults of the model


class Blind:
    """Forgets the attention mask: padding is seen."""

    def forward(self, *args: Any, attention_mask: Any = None, **options: Any) -> Any:
        mask = torch.ones_like(attention_mask)
        return super().forward(*args, attention_mask=mask, **options)  # type: ignore[misc]


class Silent:
    """Keeps sdpa whatever is asked for, and so gives no attention."""

    def set_attn_implementation(self, *args: Any, **options: Any) -> None:
        pass


class Unnormalised:
    """Its attention is what dropout leaves of it."""

    def forward(self, *args: Any, **options: Any) -> Any:
        output = super().forward(*args, **options)  # type: ignore[misc]
        if output.attentions:
            output.attentions = tuple(layer * 1.1 for layer in output.attentions)
        return output


class Shifted:
    """Names each state after the layer above it."""

    def forward(self, *args: Any, **options: Any) -> Any:
        output = super().forward(*args, **options)  # type: ignore[misc]
        if states := output.hidden_states:
            output.hidden_states = (states[0] / 2, *states[:-1])
        return output


class Short:
    """Leaves a layer out."""

    def forward(self, *args: Any, **options: Any) -> Any:
        output = super().forward(*args, **options)  # type: ignore[misc]
        if output.hidden_states:
            output.hidden_states = output.hidden_states[1:]
        return output


class Remembering:
    """Answers from memory, whatever hooks have been put on it since."""

    def forward(self, *args: Any, **options: Any) -> Any:
        memory = self.__dict__.setdefault("memory", {})
        key = str((options["input_ids"].tolist(), options.get("output_hidden_states")))
        if key not in memory:
            memory[key] = super().forward(*args, **options)  # type: ignore[misc]
        return memory[key]


def faulty(fault: type, family: Any, n_words: int) -> Any:
    """A model of a family with a fault; the library asks forward for the mask by its name."""

    def forward(
        self: Any, input_ids: Any = None, attention_mask: Any = None, **options: Any
    ) -> Any:
        named = {"input_ids": input_ids, "attention_mask": attention_mask}
        return super(kind, self).forward(**named, **options)

    between = type(fault.__name__, (fault, family), {})
    kind: Any = type(fault.__name__, (between,), {"forward": forward})
    build = bert if family is BertModel else gpt2
    return build(n_words, kind).eval()


MODELS = {
    "batched = unbatched": Blind,
    "attention": Silent,
    "captured layers": Shifted,
    "interventions show": Remembering,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_fault_of_the_model_is_found(name: str, healthy: Patient) -> None:
    model = faulty(MODELS[name], BertModel, len(healthy.tokenizer))
    assert name in failed(replace(healthy, model=model))


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name] is not Blind])
def test_a_fault_of_a_decoder_is_found(name: str, sentiment: Any, some: Any) -> None:
    """Forgotten padding is not one: no token of a decoder sees what comes behind it."""
    tokenizer = byte_level(sentiment["train"]["text"][:])
    model = faulty(MODELS[name], GPT2Model, len(tokenizer))
    found = failed(Patient(model, tokenizer, some))
    assert name in found
    assert not found & {"padding side", "unknown words", "spans", "seeds"}, "what is not at fault"


def test_a_decoder_padded_on_the_left_is_found(sentiment: Any, some: Any) -> None:
    tokenizer = byte_level(sentiment["train"]["text"][:])
    patient = Patient(gpt2(len(tokenizer), GPT2Model).eval(), tokenizer, some)
    assert failed(replace(patient, extract=naive)) == {"padding side"}


def test_padding_is_seen_where_no_batch_of_ours_would_have_any(healthy: Patient) -> None:
    """Sentences of two lengths, half of them of each, run in two batches without padding."""
    split = healthy.dataset["train"]
    sizes = np.array([len(words) for words in split["words"][:]])
    rows = [np.flatnonzero(sizes == size)[:2] for size in (sizes.min(), sizes.max())]
    few = type(healthy.dataset)({"train": split.select(np.concatenate(rows))})
    patient = replace(healthy, dataset=few)
    assert DOCTOR["batched = unbatched"](patient).passed
    blind = replace(patient, model=faulty(Blind, BertModel, len(healthy.tokenizer)))
    assert not DOCTOR["batched = unbatched"](blind).passed


def test_a_model_that_the_causal_tests_refuse_shows_no_interventions(healthy: Patient) -> None:
    """Its attention does not go through the library's interface; its states can be edited."""

    def apart(self: Any, *args: Any, **options: Any) -> Any:
        del options
        return args[0], None

    model = bert(len(healthy.tokenizer), BertModel).eval()
    for block in model.encoder.layer:
        block.attention.self.forward = apart.__get__(block.attention.self)
    found = DOCTOR["interventions show"](replace(healthy, model=model))
    assert not found.passed
    assert "AttentionInterface" in found.measured


def test_heads_that_write_nothing_are_found(healthy: Patient) -> None:
    """Ablating them changes no prediction, which says nothing about what they read."""
    model = bert(len(healthy.tokenizer), BertModel).eval()
    for block in model.encoder.layer:
        block.attention.output.dense.weight.data.zero_()
    found = DOCTOR["interventions show"](replace(healthy, model=model))
    assert not found.passed
    assert "change no prediction" in found.measured


def test_attention_that_does_not_sum_to_one_and_a_missing_layer_are_found(healthy: Patient) -> None:
    n_words = len(healthy.tokenizer)
    for fault, name in ((Unnormalised, "attention"), (Short, "captured layers")):
        assert name in failed(replace(healthy, model=faulty(fault, BertModel, n_words)))


def test_a_forgotten_hook_is_found(healthy: Patient) -> None:
    handle = healthy.model.encoder.layer[0].register_forward_hook(lambda *_: None)
    assert "model left as found" in failed(healthy)
    handle.remove()
    assert failed(healthy) == set()


# ---- faults of what all results go through


def naive(model: Any, tokenizer: Any, rows: Any, **options: Any) -> States:
    """Pads on the side that the tokenizer prefers, and lets the positions shift."""
    right = extract(model, tokenizer, rows, **options)
    inputs = tokenizer(list(rows["text"]), return_tensors="pt", padding=True)
    with torch.no_grad():
        states = model.base_model(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            output_hidden_states=True,
        ).hidden_states
    mask = inputs["attention_mask"].bool()
    hidden = {(i, "tokens"): layer[mask].numpy() for i, layer in enumerate(states)}
    return replace(right, hidden=dict(right.hidden) | hidden)


def leaking(model: Any, *args: Any, **options: Any) -> States:
    found = extract(model, *args, **options)
    model.base_model.encoder.layer[0].register_forward_hook(lambda *_: None)
    return found


def training(model: Any, *args: Any, **options: Any) -> States:
    found = extract(model, *args, **options)
    model.train()
    return found


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("padding side", naive),
        ("model left as found", leaking),
        ("model left as found", training),
    ],
)
def test_a_fault_of_the_extraction_is_found(
    name: str, fault: Callable[..., Any], healthy: Patient
) -> None:
    assert name in failed(replace(healthy, extract=fault))


@pytest.mark.parametrize(
    "fault",
    [
        lambda model, seed: untrained_like(model, 0),  # the seed controls nothing
        lambda model, seed: untrained_like(model, int(torch.seed() % 2**31)),  # no seed repeats
    ],
)
def test_seeds_that_do_nothing_or_do_not_repeat_are_found(
    fault: Callable[..., Any], healthy: Patient
) -> None:
    assert "seeds" in failed(replace(healthy, untrained=fault))


@pytest.mark.parametrize(
    "left_out",
    ["model", "tokenizer", "list of texts and spans"],
)
def test_a_cache_key_that_leaves_something_out_is_found(
    left_out: str, healthy: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def incomplete(*args: Any, **options: Any) -> Any:
        return key_of(*args, **options) | {left_out: "whatever it is"}

    monkeypatch.setattr(extraction, "key_of", incomplete)
    assert failed(healthy) == {"cache keys"}


# ---- faults of the words and the splits


def test_a_tokenizer_that_knows_no_word_is_found(healthy: Patient) -> None:
    assert "unknown words" in failed(replace(healthy, tokenizer=build_tokenizer(["nothing here"])))


def test_a_tokenizer_that_leaves_words_out_is_found(healthy: Patient) -> None:
    """Without [UNK], and without all bytes, letters that it does not know have no token."""
    letters = Tokenizer(models.BPE())
    letters.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(show_progress=False)
    texts = healthy.dataset["train"]["text"][:]
    letters.train_from_iterator(["".join(set("".join(texts)) - set("very"))], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters)
    found = DOCTOR["unknown words"](replace(healthy, tokenizer=tokenizer))
    assert not found.passed
    assert "words without a token: train" in found.measured


def changed(patient: Patient, name: str, edit: Callable[[Any], Any]) -> Patient:
    dataset = type(patient.dataset)({**patient.dataset, name: edit(patient.dataset[name])})
    return replace(patient, dataset=dataset)


def test_shifted_spans_are_found(healthy: Patient) -> None:
    def shift(row: Any) -> Any:
        return {"span": [row["span"][0] - 3, row["span"][1] - 3]}

    assert "spans" in failed(changed(healthy, "test", lambda split: split.map(shift)))

    def neighbour(row: Any) -> Any:
        """Spans and words agree with each other, but on the wrong word."""
        place = row["location"] - 1
        start = len(" ".join([*row["words"][:place], ""]))
        return {"location": place, "span": [start, start + len(row["words"][place])]}

    assert "spans" in failed(changed(healthy, "test", lambda split: split.map(neighbour)))


SPANS = {  # text, span: is it a fault?
    "the word": ("my dog is nice", (10, 14), False),
    "a comma behind it": ("my dog is nice, he said", (10, 14), False),
    "with its comma": ("my dog is nice, he said", (10, 15), False),
    "quotes around it": ("my dog is 'nice', he said", (11, 15), False),
    "brackets": ("my dog (nice!) is here", (8, 12), False),
    "a compound": ("my well-made dog", (8, 12), False),
    "a Chinese word": ("这部电影很好看吗", (5, 7), False),
    "an Arabic stem": ("الكلب والجميل هنا", (9, 13), False),
    "an emoji": ("my dog is 👍🏽", (10, 12), False),
    "cut at its end": ("my dog is nice", (10, 13), True),
    "cut at its start": ("my dog is nice", (11, 14), True),
    "two words": ("my dog is nice", (7, 14), True),
    "empty": ("my dog is nice", (10, 10), True),
    "behind the text": ("my dog is nice", (10, 99), True),
    "a neighbour": ("my dog is nice", (3, 6), True),
}


@pytest.mark.parametrize("name", SPANS)
def test_a_span_is_a_word_or_its_core(name: str) -> None:
    text, span, is_fault = SPANS[name]
    words = text.split()
    location = 3 if name == "a neighbour" else text[: span[0]].count(" ")
    roles = ["informative" if i == location else "neutral" for i in range(len(words))]
    row = {"text": text, "span": span, "words": words, "roles": roles, "location": location}
    assert bool(_fault_of_span(row)) == is_fault
    assert _fault_of_span(row | {"roles": ["neutral"] * len(words)}), "not the informative word"
    assert _fault_of_span(row | {"text": f" {text}"}), "a text that words do not spell"


BALANCES = {  # labels of train and of test: is it a fault?
    "equal": ([0, 0, 1, 1], [0, 1], False),
    "as even as seven can be": ([0, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1], False),
    "three labels": ([0, 0, 1, 1, 2, 2], [0, 1, 2, 2], False),
    "five and two": ([0, 0, 1, 1], [0] * 5 + [1] * 2, True),
    "one label in test": ([0, 0, 1, 1], [0, 0], True),
    "one sentence": ([0, 0, 1, 1], [0], True),
    "a label that train lacks": ([0, 0, 1, 1], [0, 1, 2], True),
    "one label in all": ([0, 0], [0, 0], True),
    "one word for a label": ([0, 1, 1], [0, 1], True),
}


@pytest.mark.parametrize("name", BALANCES)
def test_a_split_is_as_balanced_as_its_size_allows(name: str, healthy: Patient) -> None:
    train, test, is_fault = BALANCES[name]

    def split(labels: list[int]) -> Any:
        texts = [f"word{i} here" for i in range(len(labels))]
        spans = [(0, len(text) - 5) for text in texts]
        return Dataset.from_dict({"text": texts, "span": spans, "label": labels})

    dataset = DatasetDict(train=split(train), test=split(test))
    found = DOCTOR["splits balanced"](replace(healthy, dataset=dataset))
    assert found.passed != is_fault, found.measured


def test_a_text_with_two_informative_words_is_not_a_repeat(healthy: Patient) -> None:
    rows = {"text": ["good food, bad service"] * 2, "span": [(0, 4), (11, 14)]}
    patient = replace(healthy, dataset=DatasetDict(train=Dataset.from_dict(rows)))
    assert DOCTOR["splits disjoint"](patient).passed
    rows["span"] = [(0, 4), (0, 4)]
    patient = replace(healthy, dataset=DatasetDict(train=Dataset.from_dict(rows)))
    assert not DOCTOR["splits disjoint"](patient).passed


def test_sentences_that_read_the_same_backwards_are_no_fault_of_a_cache(healthy: Patient) -> None:
    same = [0, 1, 0]
    dataset = type(healthy.dataset)({"train": healthy.dataset["train"].select(same)})
    assert DOCTOR["cache keys"](replace(healthy, dataset=dataset)).passed


def test_punctuation_behind_the_word_that_decides_is_not_a_fault(wide: Any) -> None:
    tokenizer, some = build_tokenizer(wide["train"]["text"][:]), part_of(wide)
    rows = list(some["train"])
    assert any(row["words"][row["location"]].endswith(".") for row in rows), "there is some"
    patient = Patient(bert(len(tokenizer), BertModel).eval(), tokenizer, some)
    assert failed(patient) == set()


def test_a_sentence_in_two_splits_and_one_that_counts_twice_are_found(healthy: Patient) -> None:
    train = healthy.dataset["train"]
    assert failed(changed(healthy, "test", lambda _: train)) == {"splits disjoint"}
    twice = [*range(len(train)), *range(len(train))]
    assert failed(changed(healthy, "train", lambda split: split.select(twice))) == {
        "splits disjoint"
    }


def test_an_unbalanced_split_is_found(healthy: Patient) -> None:
    def more_of_one(split: Any) -> Any:
        return split.filter(lambda row: row["label"] == 1 or len(row["text"]) % 2)

    assert failed(changed(healthy, "test", more_of_one)) == {"splits balanced"}


# ---- the script


@pytest.fixture(scope="module")
def folder(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    bert(len(tokenizer), BertModel).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.mark.parametrize(
    ("model", "spec", "code", "said"),
    [
        ("good", "sentiment", 0, "13 of 13 checks passed"),
        ("good", "sentiment-as-released", 1, "2304 in test"),  # the slip in the released data
        ("./nowhere", "sentiment", 2, "not a folder"),
    ],
)
def test_the_script_says_what_it_found_by_its_exit_code(
    model: str,
    spec: str,
    code: int,
    said: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(folder) if model == "good" else model
    stopped = 0
    try:
        run("doctor", ["--model", path, "--data", spec], prog="doctor.py")
    except SystemExit as stop:
        stopped = int(stop.code or 0)
    printed = capsys.readouterr()
    assert stopped == code, printed.out + printed.err
    assert said in printed.out + printed.err
