"""The doctor's verdict is that of the commands: what they refuse, it does not pass.

Subjects are architectures with tokenizers that lack special tokens, and data of several kinds. A
sound subject passes all checks and runs; of an unsound one it is known what refuses it, and how.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from architectures import family_model
from bad_input import ACCEPTED, REFUSED, Ended, command
from hostile_subjects import Row, own_rows, placed, saved, without, write_rows
from small_models import byte_level
from transformers import AutoModel, AutoModelForSequenceClassification

TEXTS = [row["text"] for row in [*own_rows(), *own_rows('"{}",')]]
QUICK: dict[str, list[Any]] = {  # options that make a command as short as it can be
    "doctor": [],
    "sparsity": ["--max-rows", 20],
    "probe": ["--no-controls", "--jobs", 1, "--layers", 1, "--probes", "summary", "location"],
    "causal": ["--tests", "ablate head", "--layers", 0, "--random", 1, "--sentences", 24],
    "extract": ["--probes", "summary"],
}


@dataclass(frozen=True)
class Subject:
    """A model and its data, what refuses them, and by which words."""

    family: str
    lacks: tuple[str, ...] = ()  # special tokens of the tokenizer
    classifies: bool = True
    configuration: tuple[tuple[str, Any], ...] = ()
    rows: Callable[[], list[Row]] = own_rows
    refusing: tuple[str, ...] = ()  # commands
    says: str = ""


SOUND = {
    f"{family} {kind} without {' and '.join(lacks) or 'nothing'}": Subject(
        family, lacks, classifies=kind == "classifier"
    )
    for family in ("bert", "gpt2", "llama", "mistral")
    for kind in ("classifier", "model")
    for lacks in ((), ("unk_token",), ("pad_token",), ("pad_token", "unk_token"))
}
SOUND |= {
    "a comma behind the word": Subject("gpt2", rows=lambda: own_rows("{},")),
    "quotes around the word": Subject("bert", rows=lambda: own_rows('"{}",')),
    "half of a compound": Subject("bert", rows=lambda: own_rows("un-{}")),
    "Chinese without spaces": Subject(
        "bert",
        rows=lambda: placed(
            [row | {"text": f"這部電影很{row['word']}嗎{i}"} for i, row in enumerate(own_rows())]
        ),
    ),
    "one label of a head": Subject("bert", configuration=(("num_labels", 1),)),
}
UNSOUND = {
    "padding of another token": Subject(
        "gpt2",
        configuration=(("pad_token_id", 7),),
        refusing=("sparsity", "causal"),
        says="pad_token_id 7",
    ),
    "three labels of a head, two of the data": Subject(
        "bert", configuration=(("num_labels", 3),), refusing=("causal",), says="two labels"
    ),
    "labels in another order": Subject(
        "bert",
        configuration=(("id2label", {0: "good", 1: "bad"}),),
        refusing=("doctor", "sparsity", "causal"),
        says="in another order",
    ),
    "texts longer than positions": Subject(
        "bert",
        rows=lambda: own_rows("{} and" + " so" * 200),
        refusing=tuple(QUICK),
        says="takes 128 at most",
    ),
    "spans that cut a token": Subject(
        "gpt2", rows=lambda: placed(own_rows(), before=1), refusing=tuple(QUICK), says="spell"
    ),
    "spans outside of the text": Subject(
        "bert", rows=lambda: placed(own_rows(), behind=99), refusing=tuple(QUICK), says="enclose"
    ),
    "no word but one": Subject(
        "bert",
        rows=lambda: own_rows(frames=["{}"]),
        refusing=("probe", "causal"),
        says="tokens of both kinds",
    ),
    "one training word per label": Subject(
        "bert",
        rows=lambda: [row for row in own_rows() if row["word"] not in ("lovely", "superb")],
        refusing=("probe",),
        says="only one informative word",
    ),
}


@cache
def trained_tokenizer() -> Any:
    return byte_level(TEXTS)


def ended(name: str, subject: Subject, folder: Path) -> Ended:
    """How a command ends on a subject, whose files are made when first needed."""
    model, data, output = folder / "model", folder / "own.jsonl", folder / "within"
    if not output.exists():
        output.mkdir()
        write_rows(data, subject.rows())
        tokenizer = without(trained_tokenizer(), *subject.lacks)
        kind = AutoModelForSequenceClassification if subject.classifies else AutoModel
        configuration = dict(subject.configuration)
        n_labels = configuration.pop("num_labels", 2)
        made = family_model(subject.family, len(tokenizer), kind, num_labels=n_labels)
        saved(model, made, tokenizer, **configuration)
    given = ["--model", model, "--data", data, *QUICK[name]]
    given += [] if name == "doctor" else ["--output", output / name]
    return command(name, given, within=output, seconds=60)


def passes(doctor: Ended) -> bool:
    return doctor.outcome == ACCEPTED


@pytest.mark.parametrize("name", [*QUICK])
def test_states_that_are_not_numbers_are_refused(name: str, tmp_path: Path) -> None:
    """Of one word of the test split: earlier sentences are already in the folder."""
    tokenizer, within = trained_tokenizer(), tmp_path / "within"
    model = family_model("bert", len(tokenizer))
    (piece,) = tokenizer(" great", add_special_tokens=False)["input_ids"][:1]
    model.get_input_embeddings().weight.data[piece] = 3e38  # finite, but not its square
    saved(tmp_path / "model", model, tokenizer)
    within.mkdir()
    data = write_rows(tmp_path / "own.jsonl", own_rows())
    given = ["--model", tmp_path / "model", "--data", data, *QUICK[name]]
    given += [] if name == "doctor" else ["--output", within / name]
    outcome = command(name, given, within=within, seconds=60)
    if name == "doctor":
        assert not passes(outcome)
    else:
        assert outcome.outcome == REFUSED, outcome.said
        assert "infinite" in outcome.said


@pytest.mark.parametrize(
    "name", ["gpt2 classifier without pad_token and unk_token", *list(SOUND)[-5:]]
)
def test_sound_subjects_pass_the_doctor(name: str, tmp_path: Path) -> None:
    doctor = ended("doctor", SOUND[name], tmp_path)
    assert passes(doctor), doctor.said
    sparsity = ended("sparsity", SOUND[name], tmp_path)
    assert sparsity.outcome == ACCEPTED, sparsity.said


@pytest.mark.parametrize("name", UNSOUND)
def test_what_a_command_refuses_the_doctor_does_not_pass(name: str, tmp_path: Path) -> None:
    subject = UNSOUND[name]
    assert not passes(ended("doctor", subject, tmp_path))
    for step in subject.refusing:
        outcome = ended(step, subject, tmp_path)
        assert outcome.outcome == REFUSED, (step, outcome.said)
        assert subject.says in outcome.said
