"""The reader of specs: TOML tables become slots, patterns and splits, or one line of error."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import cycle, islice
from typing import Any

from data_gen.fillers import lengthened
from data_gen.patterns import INFORMATIVE, NEUTRAL, ROLES, Element, Pattern
from data_gen.splits import Split

RESERVED = ("all", "tokenizer")  # all splits, for load_dataset; a folder of generate_data.py
MAX_SENTENCES = 2**62  # what a 64-bit index and the shuffled order of permutation.py can address
MAX_FILLERS = 1000  # sentences beside one that decides
Templates = Mapping[str, tuple[str, ...]]


class SpecError(ValueError):
    """A spec that cannot be used; the message is one line for the author of the spec."""


@dataclass(frozen=True)
class Slot:
    """A place to be filled: its role, and its word lists by vocabulary (training, held_out, ...).

    An entry of a list is one word, several words ("Good evening,") or nothing ("").
    """

    role: str
    words: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Lexicon:
    """The words of a spec: its slots, and the polarity of its informative words."""

    slots: Mapping[str, Slot]
    labels: tuple[str, ...]  # label names, in the order of their numbers
    polarity: Mapping[str, int]  # informative word -> label


class SpecReader:
    """Turns the tables of a TOML file into values, or names the file and the key that are wrong."""

    def __init__(self, file: str) -> None:
        self.file = file

    def fail(self, key: str, problem: str) -> SpecError:
        return SpecError(f"{self.file}: {key}: {problem}" if key else f"{self.file}: {problem}")

    # ---- shapes

    def keys(self, key: str, table: Any, *, required: str, optional: str) -> None:
        """Check that the table has all required keys and no unknown one."""
        self.table(key, table)
        for name in required.split():
            if name not in table:
                raise self.fail(key, f"the key {name!r} is missing")
        for name in table:
            self.known(key, "key", name, (required + " " + optional).split())

    def known(self, key: str, kind: str, name: Any, names: Iterable[str]) -> None:
        """Check that the name is one of the names, and suggest one if it is not."""
        if name not in (known := list(names)):
            close = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            raise self.fail(key, f"unknown {kind} {name!r}; {hint}")

    def table(self, key: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(key, f"must be a table, not {value!r}")
        if not value:
            raise self.fail(key, "the table is empty")
        return value

    def string(self, key: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self.fail(key, f"must be a string, not {value!r}")
        return value

    def flag(self, key: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self.fail(key, f"must be true or false, not {value!r}")
        return value

    def strings(self, key: str, value: Any, *, unique: bool = True) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self.fail(key, f"must be a list of strings, not {value!r}")
        if not value:
            raise self.fail(key, "the list is empty; give at least one entry")
        for word, n in Counter(value).items():
            if word != " ".join(word.split()):
                rule = "must have single ordinary spaces between words and none at its ends"
                raise self.fail(key, f"{word!r} {rule}")
            if unique and n > 1:
                raise self.fail(key, f"{word!r} is listed twice")
        return tuple(value)

    # ---- the parts of a spec

    def lexicon(self, slots: Any, polarity: Any) -> Lexicon:
        labels = tuple(self.table("polarity", polarity))
        if len(labels) < 2:
            raise self.fail("polarity", f"needs at least two labels, has only {labels[0]!r}")
        label_of: dict[str, int] = {}
        for number, label in enumerate(labels):
            key = f"polarity.{label}"
            if not re.fullmatch(r"[\w-]+", label):
                raise self.fail(key, "a label is made of letters, digits, - and _")
            for word in self.strings(key, polarity[label]):
                if word in label_of:
                    other = labels[label_of[word]]
                    raise self.fail(key, f"{word!r} has two polarities, {other!r} as well")
                label_of[word] = number
        table = self.table("slots", slots)
        read = {name: self.slot(name, table, label_of) for name in table}
        return Lexicon(read, labels, label_of)

    def slot(self, name: str, slots: dict[str, Any], label_of: dict[str, int]) -> Slot:
        key = f"slots.{name}"
        if not re.fullmatch(r"\w+", name):
            raise self.fail(key, "a slot's name is made of letters, digits and _")
        lists = dict(self.table(key, slots[name]))
        role = lists.pop("role", NEUTRAL)
        if "like" in lists:  # the word lists of another slot
            lists = {**self.lists_like(key, lists.pop("like"), slots), **lists}
        self.known(f"{key}.role", "role", role, ROLES)
        if not lists:
            raise self.fail(key, 'has no words; give a list such as training = ["red", "blue"]')
        words = {name: self.strings(f"{key}.{name}", entries) for name, entries in lists.items()}
        for vocabulary, entries in words.items():
            for word in entries if role == INFORMATIVE else ():
                where = f"{key}.{vocabulary}"
                if len(word.split()) != 1:
                    raise self.fail(where, f"an informative entry is one word, not {word!r}")
                if word not in label_of:
                    problem = f"the informative word {word!r} has no polarity; add it to [polarity]"
                    raise self.fail(where, problem)
        return Slot(role, words)

    def lists_like(self, key: str, other: Any, slots: dict[str, Any]) -> dict[str, Any]:
        """The word lists of the slot that ``like`` names, which must have lists of its own."""
        self.known(f"{key}.like", "slot", self.string(f"{key}.like", other), slots)
        lists = dict(self.table(f"slots.{other}", slots[other]))
        if "like" in lists:
            raise self.fail(
                f"{key}.like", f"{other!r} takes its words from another slot; name that"
            )
        lists.pop("role", None)
        return lists

    def template(self, name: str, template: Any, lexicon: Lexicon) -> tuple[str, ...]:
        """The words and {SLOTS} of a template, with exactly one informative slot among them."""
        key = f"patterns.{name}"
        (checked,) = self.strings(key, [self.string(key, template)])
        words, informative = tuple(checked.split()), []
        for word in words:
            if slot := slot_name(word)[0]:
                self.known(key, "slot", slot, lexicon.slots)
                informative += [slot] if lexicon.slots[slot].role == INFORMATIVE else []
            elif re.search(r"[{}]", word):
                alone = "only punctuation may stand behind a slot, as in {NAME}."
                raise self.fail(key, f"{word!r}: {alone}")
        if len(informative) != 1:
            slots = " and ".join(informative) or "none"
            raise self.fail(key, f"needs exactly one informative slot, has {slots}: {checked!r}")
        return words

    def splits(self, table: Any, templates: Templates, lexicon: Lexicon) -> dict[str, Split]:
        if "train" not in self.table("splits", table):
            names = ", ".join(table)
            raise self.fail("splits", f"there must be a split named train, not only {names}")
        return {name: self.split(name, entry, templates, lexicon) for name, entry in table.items()}

    def split(self, name: str, table: Any, templates: Templates, lexicon: Lexicon) -> Split:
        key = f"splits.{name}"
        if not re.fullmatch(r"\w+", name):
            raise self.fail(key, "a split's name is made of letters, digits and _")
        if name in RESERVED:
            raise self.fail(key, f"{name!r} is reserved, here or by load_dataset; rename it")
        optional = "isolates extended allow_repeats sample fillers"
        self.keys(key, table, required="patterns words", optional=optional)
        words = table["words"] if isinstance(table["words"], dict) else {"default": table["words"]}
        for slot, vocabulary in words.items():
            self.string(f"{key}.words", vocabulary)
            self.known(f"{key}.words", "slot", slot, ["default", *lexicon.slots])
        patterns = []
        for pattern in self.strings(f"{key}.patterns", table["patterns"], unique=False):
            self.known(f"{key}.patterns", "pattern", pattern, templates)
            elements = tuple(self.element(key, word, words, lexicon) for word in templates[pattern])
            patterns.append(Pattern(pattern, elements))
        if "fillers" in table:
            patterns = self.lengthened(key, patterns, table["fillers"], words, lexicon)
        split = Split(
            name,
            tuple(patterns),
            isolates=self.string(f"{key}.isolates", table.get("isolates", "")),
            extended=self.flag(f"{key}.extended", table.get("extended", False)),
            allow_repeats=self.flag(f"{key}.allow_repeats", table.get("allow_repeats", False)),
            sample=self.sample(f"{key}.sample", table.get("sample", 0), patterns),
        )
        if max(split.n_sentences, *(pattern.n_sentences for pattern in patterns)) > MAX_SENTENCES:
            raise self.fail(key, "has more than 2^62 sentences; use fewer slots or words")
        if split.extended and name == "train":
            raise self.fail(f"{key}.extended", "the training split is always built; leave it out")
        return split

    def lengthened(
        self,
        key: str,
        patterns: list[Pattern],
        fillers: Any,
        words: dict[str, str],
        lexicon: Lexicon,
    ) -> list[Pattern]:
        """Each pattern twice: with the fillers, so many sentences of slots in turn, on one side."""
        where = f"{key}.fillers"
        self.keys(where, fillers, required="slots sentences", optional="")
        slots, n = self.strings(f"{where}.slots", fillers["slots"]), fillers["sentences"]
        for slot in slots:
            self.known(f"{where}.slots", "slot", slot, lexicon.slots)
            if (role := lexicon.slots[slot].role) != NEUTRAL:
                raise self.fail(f"{where}.slots", f"{slot!r} is {role}; fillers are neutral")
        if type(n) is not int or not 1 <= n <= MAX_FILLERS:
            rule = f"must be a whole number from 1 to {MAX_FILLERS}, not {n!r}"
            raise self.fail(f"{where}.sentences", rule)
        names = islice(cycle(slots), n)
        elements = [self.element(key, f"{{{slot}}}", words, lexicon) for slot in names]
        longer: list[Pattern] = []
        for pattern in patterns:
            try:
                longer += lengthened(pattern, elements)
            except ValueError as error:
                problem = f"{pattern.name!r} cannot stand before fillers: {error}"
                raise self.fail(where, problem) from error
        return longer

    def sample(self, key: str, n: Any, patterns: list[Pattern]) -> int:
        """The number of sentences to draw, equally many per pattern and informative word."""
        if type(n) is not int or n < 0:
            raise self.fail(key, f"must be a whole number of sentences, not {n!r}")
        cells = sum(len(pattern.informative.choices) for pattern in patterns)
        if n % cells:
            raise self.fail(
                key, f"must be a multiple of {cells}, one per pattern and word, not {n}"
            )
        for pattern in patterns:
            most = pattern.n_sentences // len(pattern.informative.choices)
            if n // cells > most:
                few = f"{pattern.name!r} has only {most} sentences per word"
                raise self.fail(key, f"{n} are {n // cells} per pattern and word, but {few}")
        return n

    def element(self, key: str, word: str, words: dict[str, str], lexicon: Lexicon) -> Element:
        """The element of a pattern for a word of its template: that word, or the slot it names."""
        name, suffix = slot_name(word)
        if not name:
            return Element(choices=((word,),))
        slot, vocabulary = lexicon.slots[name], words.get(name, words.get("default", ""))
        self.known(f"{key}.words", f"vocabulary of slot {name},", vocabulary, slot.words)
        entries = slot.words[vocabulary]
        if suffix and "" in entries:
            raise self.fail(f"slots.{name}.{vocabulary}", f'"" leaves {suffix!r} of {word!r} alone')
        is_informative = slot.role == INFORMATIVE
        labels = tuple(lexicon.polarity[entry] for entry in entries) if is_informative else None
        choices = tuple(tuple((entry + suffix).split()) for entry in entries)
        return Element(choices, slot.role, labels, suffix)


def slot_name(word: str) -> tuple[str, str]:
    """NAME and "." for the word "{NAME}." of a template, two empty texts for a literal word."""
    match = re.fullmatch(r"\{(\w+)\}([^\w\s{}]*)", word)
    return (match[1], match[2]) if match else ("", "")
