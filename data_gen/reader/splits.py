"""The patterns and the splits of a spec."""

import re
from itertools import cycle, islice
from typing import Any

from data_gen.fillers import lengthened
from data_gen.patterns import INFORMATIVE, NEUTRAL, Element, Pattern
from data_gen.quoting import listed, quoted, spaced
from data_gen.reader.lexicon import Lexicon
from data_gen.reader.shapes import Shapes, fault_of, is_name
from data_gen.splits import Split

DEVICES = [f"{device}{number}" for device in ("com", "lpt") for number in range(1, 10)]
# All splits, for load_dataset; a folder of generate_data.py; names that Windows keeps for itself.
RESERVED = {"all", "tokenizer", "con", "prn", "aux", "nul", *DEVICES}
MAX_SENTENCES = 2**62  # what a 64-bit index and the shuffled order of permutation.py can address
MAX_FILLERS = 1000  # sentences beside one that decides
MAX_SAMPLE = 10_000_000  # the places of sampled sentences are held in memory
MAX_SPLITS = 1_000
MAX_ELEMENTS = 2_000_000  # words and slots of the patterns of all splits


class SplitReader:
    """Reads the tables patterns and splits."""

    def __init__(self, shapes: Shapes, lexicon: Lexicon, patterns: Any) -> None:
        self.shapes, self.lexicon = shapes, lexicon
        self._elements: dict[tuple[str, str], Element] = {}  # shared by all patterns
        self._n_elements = 0
        table = shapes.table("patterns", patterns)
        self.templates = {name: self._template(name, table[name]) for name in table}

    def splits(self, table: Any) -> dict[str, Split]:
        if "train" not in self.shapes.table("splits", table, most=MAX_SPLITS):
            problem = f"there must be a split named train, not only {listed(table)}"
            raise self.shapes.fail("splits", problem)
        names: dict[str, str] = {}
        for name in table:
            if name.lower() in names:
                both = f"{quoted(names[name.lower()])} and {quoted(name)}"
                raise self.shapes.fail("splits", f"{both} differ only in case; rename one")
            names[name.lower()] = name
        return {name: self._split(name, entry) for name, entry in table.items()}

    def _template(self, name: str, template: Any) -> tuple[str, ...]:
        """The words and {SLOTS} of a template, with exactly one informative slot among them."""
        key, slots = f"patterns.{name}", self.lexicon.slots
        (checked,) = self.shapes.strings(key, [self.shapes.string(key, template)])
        words, informative = tuple(checked.split()), []
        for word in words:
            if slot := slot_name(word)[0]:
                self.shapes.known(key, "slot", slot, slots)
                informative += [slot] if slots[slot].role == INFORMATIVE else []
            elif re.search(r"[{}]", word):
                alone = "only punctuation may stand behind a slot, as in {NAME}."
                raise self.shapes.fail(key, f"{quoted(word)}: {alone}")
        if len(informative) != 1:
            has = " and ".join(listed([slot]) for slot in informative[:3]) or "none"
            problem = f"needs exactly one informative slot, has {has}: {quoted(checked)}"
            raise self.shapes.fail(key, problem)
        return words

    def _split(self, name: str, table: Any) -> Split:
        key, shapes = f"splits.{name}", self.shapes
        if not is_name(name):
            raise shapes.fail(key, "a split's name is made of letters, digits and _")
        if name.lower() in RESERVED:
            problem = f"{name!r} is reserved: here, by load_dataset or by Windows; rename it"
            raise shapes.fail(key, problem)
        optional = "isolates extended allow_repeats sample fillers"
        shapes.keys(key, table, required="patterns words", optional=optional)
        words = table["words"] if isinstance(table["words"], dict) else {"default": table["words"]}
        for slot, vocabulary in words.items():
            shapes.string(f"{key}.words", vocabulary)
            shapes.known(f"{key}.words", "slot", slot, ["default", *self.lexicon.slots])
        patterns = self._patterns(key, table["patterns"], words)
        if "fillers" in table:
            patterns = self._lengthened(key, patterns, table["fillers"], words)
        split = Split(
            name,
            tuple(patterns),
            isolates=shapes.prose(f"{key}.isolates", table.get("isolates", "")),
            extended=shapes.flag(f"{key}.extended", table.get("extended", False)),
            allow_repeats=shapes.flag(f"{key}.allow_repeats", table.get("allow_repeats", False)),
            sample=self._sample(f"{key}.sample", table.get("sample", 0), patterns),
        )
        if max(split.n_sentences, *(pattern.n_sentences for pattern in patterns)) > MAX_SENTENCES:
            raise shapes.fail(key, "has more than 2^62 sentences; use fewer slots or words")
        if split.extended and name == "train":
            raise shapes.fail(f"{key}.extended", "the training split is always built; leave it out")
        return split

    def _patterns(self, key: str, names: Any, words: dict[str, str]) -> list[Pattern]:
        patterns = []
        for name in self.shapes.strings(f"{key}.patterns", names, unique=False):
            self.shapes.known(f"{key}.patterns", "pattern", name, self.templates)
            template = self.templates[name]
            self._count(key, len(template))
            elements = tuple(self._element(key, word, words) for word in template)
            patterns.append(Pattern(name, elements))
        return patterns

    def _count(self, key: str, n: int) -> None:
        self._n_elements += n
        if self._n_elements > MAX_ELEMENTS:
            most = f"{spaced(MAX_ELEMENTS)} words and slots"
            raise self.shapes.fail(key, f"with it the patterns of the splits have more than {most}")

    def _lengthened(
        self, key: str, patterns: list[Pattern], fillers: Any, words: dict[str, str]
    ) -> list[Pattern]:
        """Each pattern twice: with the fillers, so many sentences of slots in turn, on one side."""
        where, shapes, known = f"{key}.fillers", self.shapes, self.lexicon.slots
        shapes.keys(where, fillers, required="slots sentences", optional="")
        slots, n = shapes.strings(f"{where}.slots", fillers["slots"]), fillers["sentences"]
        for slot in slots:
            shapes.known(f"{where}.slots", "slot", slot, known)
            if (role := known[slot].role) != NEUTRAL:
                raise shapes.fail(
                    f"{where}.slots", f"{quoted(slot)} is {role}; fillers are neutral"
                )
        if type(n) is not int or not 1 <= n <= MAX_FILLERS:
            rule = f"must be a whole number from 1 to {MAX_FILLERS}, not {quoted(n)}"
            raise shapes.fail(f"{where}.sentences", rule)
        self._count(where, 2 * n * len(patterns) + sum(len(p.elements) for p in patterns))
        names = islice(cycle(slots), n)
        elements = [self._element(key, f"{{{slot}}}", words) for slot in names]
        longer: list[Pattern] = []
        for pattern in patterns:
            try:
                longer += lengthened(pattern, elements)
            except ValueError as error:
                problem = f"{quoted(pattern.name)} cannot stand before fillers: {error}"
                raise shapes.fail(where, problem) from error
        return longer

    def _sample(self, key: str, n: Any, patterns: list[Pattern]) -> int:
        """The number of sentences to draw, equally many per pattern and informative word."""
        if type(n) is not int or not 0 <= n <= MAX_SAMPLE:
            rule = f"a whole number of sentences, at most {spaced(MAX_SAMPLE)}"
            raise self.shapes.fail(key, f"must be {rule}, not {quoted(n)}")
        cells = sum(len(pattern.informative.choices) for pattern in patterns)
        if n % cells:
            rule = f"must be a multiple of {cells}, one per pattern and word, not {n}"
            raise self.shapes.fail(key, rule)
        for pattern in patterns:
            most = pattern.n_sentences // len(pattern.informative.choices)
            if n // cells > most:
                few = f"{quoted(pattern.name)} has only {most} sentences per word"
                problem = f"{n} are {n // cells} per pattern and word, but {few}"
                raise self.shapes.fail(key, problem)
        return n

    def _element(self, key: str, word: str, words: dict[str, str]) -> Element:
        """The element of a pattern for a word of its template: that word, or the slot it names."""
        name, suffix = slot_name(word)
        vocabulary = words.get(name, words.get("default", "")) if name else ""
        if (word, vocabulary) not in self._elements:
            if name:
                element = self._slot_element(key, name, suffix, vocabulary)
            else:
                element = Element(choices=((word,),))
            self._elements[word, vocabulary] = element
        return self._elements[word, vocabulary]

    def _slot_element(self, key: str, name: str, suffix: str, vocabulary: str) -> Element:
        slot, polarity = self.lexicon.slots[name], self.lexicon.polarity
        lists = f"vocabulary of slot {name},"
        self.shapes.known(f"{key}.words", lists, vocabulary, slot.words)
        entries, where = slot.words[vocabulary], f"slots.{name}.{vocabulary}"
        for entry in entries if suffix else ():
            if not entry:
                alone = f'"" leaves {suffix!r} of {f"{{{name}}}{suffix}"!r} alone'
                raise self.shapes.fail(where, alone)
            if fault := fault_of(entry + suffix):
                raise self.shapes.fail(where, f"{quoted(entry + suffix)} {fault}")
        labels = tuple(map(polarity.__getitem__, entries)) if slot.role == INFORMATIVE else None
        choices = tuple(tuple((entry + suffix).split()) for entry in entries)
        return Element(choices, slot.role, labels, suffix)


def slot_name(word: str) -> tuple[str, str]:
    """NAME and "." for the word "{NAME}." of a template, two empty texts for a literal word."""
    match = re.fullmatch(r"\{(\w+)\}([^\w\s{}]*)", word)
    return (match[1], match[2]) if match else ("", "")
