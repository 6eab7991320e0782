"""Checks of the data: are its words known, its spans right, its splits apart and balanced?"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from data_gen.quoting import quoted
from probing.doctor.finding import check
from probing.doctor.subject import Patient
from probing.sentences import columns_of, draw, informative_words
from probing.states.tokens import tokenise, unknown

MAX_UNKNOWN = 0.01  # share of [UNK], or of words without a token, in the training split
MAX_IMBALANCE = 0.02  # of a label's share around equal shares
SPANS_PER_SPLIT = 500


@check("unknown words", "a tokenizer that is not the model's: every word the same [UNK]")
def unknown_words(patient: Patient) -> tuple[bool, str]:
    unknowns, lost = {}, {}
    for name, split in patient.dataset.items():
        texts = [split["text"][int(i)] for i in draw(len(split), SPANS_PER_SPLIT)]
        options = {"add_special_tokens": False, "return_offsets_mapping": True}
        encoded = patient.tokenizer(texts, **options)
        ids = np.concatenate(encoded["input_ids"])
        unknowns[name] = float(unknown(patient.tokenizer, ids).mean()) if len(ids) else 0.0
        pairs = zip(texts, encoded["offset_mapping"], strict=True)
        words = [has_token for text, places in pairs for has_token in _has_token(text, places)]
        lost[name] = 1 - float(np.mean(words))
    measured = f"[UNK]: {_listed(unknowns)}"
    if any(lost.values()):
        measured += f"; words without a token: {_listed(lost)}"
    return max(unknowns["train"], lost["train"]) <= MAX_UNKNOWN, measured


def _has_token(text: str, places: list[tuple[int, int]]) -> list[bool]:
    """For each word, whether some token covers one of its letters.

    Tokenizers without [UNK] that do not know all bytes leave a word out and say nothing.
    """
    covered = np.zeros(len(text) + 1, dtype=int)
    for start, end in places:
        covered[start] += 1
        covered[end] -= 1
    letters = np.append(0, np.cumsum(np.cumsum(covered) > 0))
    return [bool(letters[word.end()] > letters[word.start()]) for word in re.finditer(r"\S+", text)]


def _listed(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.1%}" for name, share in shares.items() if share) or "none"


@check("spans", "reading the state of a neighbour of the word that decides")
def spans(patient: Patient) -> tuple[bool, str]:
    rows = patient.sentences(SPANS_PER_SPLIT)
    for row in rows:
        if fault := _fault_of_span(row):
            return False, f"{fault}, in {row['split']}"
    columns = {name: [row[name] for row in rows] for name in ("text", "span")}
    if tokenise(patient.tokenizer, columns).words_only().informative.all():
        return False, "the sentences have no words but the informative ones"
    return True, f"{len(rows)} spans decode to their words"


def _fault_of_span(row: dict[str, Any]) -> str:
    """What is wrong with a sentence's span; nothing if it is the informative word or its core.

    Marks around the word do not belong to its core ("Masterful" of "'Masterful',"), and a span may
    be a part of a compound ("made" of "well-made") or of a text without spaces.
    """
    words, location, (start, end) = row["words"], row["location"], row["span"]
    if row["text"] != " ".join(words):
        return f"words that do not spell {quoted(row['text'])}"
    word, spelled = words[location], quoted(row["text"][start:end])
    first = len(" ".join([*words[:location], ""]))
    if not first <= start < end <= first + len(word) or row["roles"][location] != "informative":
        return f"{spelled} where {quoted(word)} should be"
    ends = (word[start - first - 1 : start - first + 1], word[end - first - 1 : end - first + 1])
    if any(len(pair) == 2 and all(map(_is_cased, pair)) for pair in ends):
        return f"{spelled} is cut out of {quoted(word)}"
    return ""


def _is_cased(letter: str) -> bool:
    """A letter of a script that has capitals, whose words stand between spaces or marks."""
    return unicodedata.category(letter) in {"Lu", "Ll", "Lt"}


@check("splits disjoint", "test sentences that were trained on, or that count twice")
def disjoint(patient: Patient) -> tuple[bool, str]:
    columns = {name: columns_of(split) for name, split in patient.dataset.items()}
    held_by = Counter(text for split in columns.values() for text in set(split["text"]))
    shared = sum(n > 1 for n in held_by.values())
    # A text that is there twice for the sake of two of its words is not a repeat.
    rows = {
        name: [*zip(split["text"], map(tuple, split["span"]), strict=True)]
        for name, split in columns.items()
    }
    within = {name: len(split) - len(set(split)) for name, split in rows.items()}
    repeats = ", ".join(f"{n} in {name}" for name, n in within.items() if n)
    measured = f"{shared} sentences in two splits, repeats: {repeats or 'none'}"
    return not shared and not repeats, measured


@check("splits balanced", "an accuracy above one half that is only the larger class")
def balanced(patient: Patient) -> tuple[bool, str]:
    counts = {name: Counter(split["label"][:]) for name, split in patient.dataset.items()}
    n_labels = len(counts["train"])
    share, name = max((max(n.values()) / n.total(), name) for name, n in counts.items())
    measured = f"{n_labels} labels, the largest share is {share:.1%} (in {name})"
    lacking = [name for name, n in counts.items() if n.keys() != counts["train"].keys()]
    if lacking:
        measured += f"; {', '.join(lacking)} does not have the labels of train"
    single = n_labels > _labels_of_several_words(patient.dataset["train"])
    if single:
        measured += "; a label of train has one informative word alone"
    even = all(_is_even(n, n_labels) for n in counts.values())
    return n_labels > 1 and even and not lacking and not single, measured


def _labels_of_several_words(train: Any) -> int:
    """The number of labels that more than one informative word stands for: the others are words."""
    words: dict[Any, set[str]] = {}
    for label, word in zip(train["label"][:], informative_words(train), strict=True):
        words.setdefault(label, set()).add(word)
    return sum(len(each) > 1 for each in words.values())


def _is_even(counts: Counter[Any], n_labels: int) -> bool:
    """Whether no label has more than its share; seven sentences of two labels are 4 and 3."""
    largest, total = max(counts.values()), counts.total()
    return largest <= math.ceil(total / n_labels) or largest / total - 1 / n_labels <= MAX_IMBALANCE
