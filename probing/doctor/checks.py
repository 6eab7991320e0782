"""Checks for silent faults: most failures in this field give numbers, not errors.

Each check examines one thing that can be wrong with a model, its tokenizer or its dataset, and says
what it measured and what it protects from. A check that raises has failed, and reports the error.
"""

import copy
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from data_gen import align_spans
from probing.arrays import as_array
from probing.doctor.subject import (
    TOLERANCE,
    Patient,
    alone,
    condition,
    distance,
    eager_attention,
)
from probing.progress import Progress
from probing.sentences import bare, draw
from probing.states.editing import edited
from probing.states.fingerprint import fingerprint
from probing.states.parts import ActivationError, blocks_of
from probing.temporary import temporary_folder

MAX_UNKNOWN = 0.01  # share of [UNK] in the training split
MAX_IMBALANCE = 0.02  # of a label's share around equal shares
SPANS_PER_SPLIT = 500


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    name: str
    passed: bool
    measured: str
    protects_from: str


DOCTOR: dict[str, Callable[[Patient], Finding]] = {}


def check(name: str, protects_from: str) -> Callable[..., Any]:
    """Register a function of a Patient that returns (passed, measured) as a check of the doctor."""

    def register(examined: Callable[[Patient], tuple[bool, str]]) -> Callable[[Patient], Finding]:
        def examination(patient: Patient) -> Finding:
            try:
                passed, measured = examined(patient)
            except Exception as error:
                message = " ".join(str(error).split()) or "no message"
                passed, measured = False, f"{type(error).__name__}: {message}"
            return Finding(name, bool(passed), measured, protects_from)

        return DOCTOR.setdefault(name, examination)

    return register


def examine(patient: Patient, progress: Progress | None = None) -> list[Finding]:
    """The findings of all checks, in order; a failing check does not stop the others.

    ``progress(done, total)`` counts checks.

    >>> [finding.name for finding in examine(patient) if not finding.passed]
    """
    findings: list[Finding] = []
    for examination in DOCTOR.values():
        findings.append(examination(patient))
        if progress:
            progress(len(findings), len(DOCTOR))
    return findings


# ---- the model


# This check is first: what an earlier check left behind would count as the original state.
@check("model left as found", "a hook, mode or weight that stays behind and changes later results")
def left_as_found(patient: Patient) -> tuple[bool, str]:
    before = condition(patient.model)
    patient.run(attention=True)
    for layer in range(len(blocks_of(patient.model)) + 1):
        with edited(patient.model, layer, lambda states: states + 0):
            alone(patient, max_sentences=1)
    after = condition(patient.model)
    changed = ", ".join(name for name in before if before[name] != after[name])
    measured = f"{after['hooks']} foreign hooks; changed: {changed or 'nothing'}"
    return not changed and not after["hooks"], measured


@check("batched = unbatched", "states that depend on which sentences share a batch")
def batched(patient: Patient) -> tuple[bool, str]:
    together = patient.run().stacked()
    each = [
        np.stack([as_array(layer[0]) for layer in recording.states], 1)
        for recording in alone(patient)
    ]
    error = distance(together, np.concatenate(each))
    return error < patient.tolerance, f"states differ by {error:.1e} of the largest"


@check("padding side", "positions, and so states, that shift with the side of the padding")
def padding_side(patient: Patient) -> tuple[bool, str]:
    tokenizers = [copy.deepcopy(patient.tokenizer) for _ in range(2)]
    tokenizers[0].padding_side, tokenizers[1].padding_side = "right", "left"
    error = distance(*(patient.run(tokenizer=tokenizer).stacked() for tokenizer in tokenizers))
    return error < patient.tolerance, f"left and right differ by {error:.1e} of the largest state"


@check("attention", "empty attention (sdpa), weights after dropout, or those of another token")
def attention(patient: Patient) -> tuple[bool, str]:
    states = patient.run(positions=(), attention=True)
    config = patient.model.config.get_text_config()
    if states.attention is None or not states.attention.size:
        return False, "no attention was returned"
    sums = np.add.reduceat(states.attention, states.tokens.offsets[:-1])
    error = float(np.abs(sums - 1).max())
    n_layers, n_heads = states.attention.shape[1:]
    right = (n_layers, n_heads) == (config.num_hidden_layers, config.num_attention_heads)
    first = states.tokens.sentence(0)
    others = distance(eager_attention(patient), states.attention[first])
    measured = f"{n_layers} layers of {n_heads} heads, rows sum to 1 within {error:.1e}, "
    measured += f"differ by {others:.1e} from the library's"
    return right and max(error, others) < patient.tolerance, measured


@check("captured layers", "hidden states that are not those of the layer they are named after")
def captured_layers(patient: Patient) -> tuple[bool, str]:
    seen: list[torch.Tensor] = []

    def look(states: torch.Tensor) -> torch.Tensor:
        seen.append(states)
        return states

    n_layers = len(blocks_of(patient.model))
    with ExitStack() as stack:
        for layer in range(1, n_layers + 1):
            stack.enter_context(edited(patient.model, layer, look))
        recording = alone(patient, max_sentences=1)[0]
    states = [layer[0] for layer in recording.states]
    pairs, tolerance = zip(seen, states[1:], strict=True), patient.tolerance
    wrong = [i + 1 for i, pair in enumerate(pairs) if distance(*pair) > tolerance]
    distinct = all(distance(below, above) > TOLERANCE for below, above in pairwise(states))
    how = f"wrong at layer {wrong[0]}" if wrong else "all differ" if distinct else "two are equal"
    measured = f"{len(states)} states for {n_layers} layers and the embeddings; {how}"
    return distinct and not wrong, measured


@check("interventions show", "ablations that change nothing, reported as having no effect")
def interventions(patient: Patient) -> tuple[bool, str]:
    before = alone(patient, max_sentences=1)[0]
    missed = []
    for number in range(1, len(before.states)):
        size = before.states[number].abs().max().item()
        generator = torch.Generator().manual_seed(patient.seed)
        shift = size * torch.randn(before.states[number].shape[-1], generator=generator)
        with edited(patient.model, number, partial(_shifted, shift)):
            after = alone(patient, max_sentences=1)[0]
        changed = distance(after.states[number], before.states[number])
        spared = distance(after.states[number - 1], before.states[number - 1])
        if changed < 0.1 or spared > patient.tolerance:
            missed.append(number)
    n_layers = len(before.states) - 1
    return not missed, f"seen at {n_layers - len(missed)} of {n_layers} layers, not below them"


def _shifted(shift: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    return states + shift.to(states.device)


# ---- the words


@check("unknown words", "a tokenizer that is not the model's: every word the same [UNK]")
def unknown_words(patient: Patient) -> tuple[bool, str]:
    shares = {}
    for name, split in patient.dataset.items():
        texts = [split["text"][int(i)] for i in draw(len(split), SPANS_PER_SPLIT)]
        ids = np.concatenate(patient.tokenizer(texts, add_special_tokens=False)["input_ids"])
        shares[name] = float(np.mean(ids == patient.tokenizer.unk_token_id))
    listed = ", ".join(f"{name} {share:.1%}" for name, share in shares.items() if share) or "none"
    return shares["train"] <= MAX_UNKNOWN, f"[UNK]: {listed}"


@check("spans", "reading the state of a neighbour of the word that decides")
def spans(patient: Patient) -> tuple[bool, str]:
    rows = patient.sentences(SPANS_PER_SPLIT)
    for row in rows:
        spelled, word = row["text"][slice(*row["span"])], row["words"][row["location"]]
        if spelled not in (word, bare(word)) or row["roles"][row["location"]] != "informative":
            return False, f"{spelled!r} where {word!r} should be, in {row['split']}"
    align_spans(patient.tokenizer, [row["text"] for row in rows], [row["span"] for row in rows])
    return True, f"{len(rows)} spans decode to their words"


# ---- the splits


@check("splits disjoint", "test sentences that were trained on, or that count twice")
def disjoint(patient: Patient) -> tuple[bool, str]:
    texts = {name: split["text"][:] for name, split in patient.dataset.items()}
    within = {name: len(split) - len(set(split)) for name, split in texts.items()}
    held_by = Counter(text for split in texts.values() for text in set(split))
    shared = sum(n > 1 for n in held_by.values())
    repeats = ", ".join(f"{n} in {name}" for name, n in within.items() if n)
    measured = f"{shared} sentences in two splits, repeats: {repeats or 'none'}"
    return not shared and not repeats, measured


@check("splits balanced", "an accuracy above one half that is only the larger class")
def balanced(patient: Patient) -> tuple[bool, str]:
    n_labels = len(set(patient.dataset["train"]["label"][:]))
    share, name = max(
        (max(Counter(split["label"][:]).values()) / len(split), name)
        for name, split in patient.dataset.items()
    )
    measured = f"{n_labels} labels, the largest share is {share:.1%} (in {name})"
    return n_labels > 1 and share - 1 / n_labels <= MAX_IMBALANCE, measured


# ---- randomness and caches


@check("seeds", "a seed that controls nothing, or results that no seed repeats")
def seeds(patient: Patient) -> tuple[bool, str]:
    first, again, other = (
        fingerprint(patient.untrained(patient.model, patient.seed + i)) for i in (0, 0, 1)
    )
    equal, different = ("agree" if first == seeded else "differ" for seeded in (again, other))
    return first == again != other, f"equal seeds {equal}, other seeds {different}"


@check("cache keys", "stored states of another model, tokenizer, text or position")
def cache_keys(patient: Patient) -> tuple[bool, str]:
    tokenizer = copy.deepcopy(patient.tokenizer)
    tokenizer.add_tokens(["a-word-that-no-text-holds"])
    options: dict[str, Any] = {"positions": ("summary",)}
    changes: dict[str, dict[str, Any]] = {
        "model": {"model": patient.untrained(patient.model, patient.seed + 1)},
        "tokenizer": {"tokenizer": tokenizer},
        "texts": {"rows": {name: column[::-1] for name, column in patient.columns().items()}},
        "positions": {"positions": ("mean",)},
        "attention": {"attention": True},
    }
    accepted = []
    with temporary_folder("slr-probing-doctor-") as folder:
        first = patient.run(**options, folder=folder)
        again = patient.run(**options, folder=folder)
        for name, changed in changes.items():
            with suppress(ActivationError):
                patient.run(**options | changed, folder=folder)
                accepted.append(name)
        same = np.array_equal(first.stacked("summary"), again.stacked("summary"))
        del first, again  # memory maps of files that are about to be deleted
    but = f"but not another {' or '.join(accepted)}" if accepted else "read back its own"
    measured = f"refused {len(changes) - len(accepted)} of {len(changes)} others, {but}"
    return same and not accepted, measured
