"""Specs: TOML files that describe datasets, refused if the dataset would not be sound.

A refusal is a SpecError with one line: the file, the key, what is wrong and what to do.
docs/dataset.md explains the format with a worked example.
"""

import hashlib
import tomllib
from dataclasses import dataclass
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

from data_gen.proofs import repeated_sentence, shared_sentence
from data_gen.spec_reader import Lexicon, SpecError, SpecReader
from data_gen.splits import Split

ABOUT = "description source license language"  # optional, free text
SPEC_FOLDER = Path(__file__).parent / "specs"


@dataclass(frozen=True)
class Spec:
    """A sound dataset description: every split is balanced and shares no sentence with another."""

    name: str
    description: str
    source: str  # where the data comes from, its licence and language: for the dataset card
    license: str
    language: str
    lexicon: Lexicon
    splits: dict[str, Split]
    text: str = ""  # the file's text, stored with the generated data

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def builtin_specs() -> list[str]:
    """The names of the specs that come with this package.

    >>> "sentiment" in builtin_specs()
    True
    """
    return sorted(path.stem for path in SPEC_FOLDER.glob("*.toml"))


def read_spec(spec: str | Path | Spec) -> Spec:
    """Read a built-in spec by name ("sentiment") or any other by the path of its TOML file.

    A Spec is returned as it is.

    >>> read_spec("sentiment").splits["train"][0].text
    """
    if isinstance(spec, Spec):
        return spec
    path = SPEC_FOLDER / f"{spec}.toml" if str(spec) in builtin_specs() else Path(spec)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SpecError(
            f"{spec}: no such spec: give the path of a TOML file or one of "
            f"{', '.join(builtin_specs())} ({error.strerror})"
        ) from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8 text: {error.reason}") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise SpecError(f"{path}: not valid TOML: nested too deeply") from error
    return parse_spec(table, file=str(path), text=text)


def parse_spec(table: dict[str, Any], *, file: str = "spec", text: str = "") -> Spec:
    """The spec of a dictionary with the content of a TOML file, after checking it.

    Error messages name ``file``; ``text`` is the file's text.

    >>> parse_spec(tomllib.loads(read_spec("sentiment").text), file="mine").lexicon.labels
    """
    reader = SpecReader(file)
    reader.keys("", table, required="polarity slots patterns splits", optional=f"name {ABOUT}")
    about = {key: reader.string(key, table.get(key, "")) for key in ABOUT.split()}
    about["name"] = reader.string("name", table.get("name", Path(file).stem))
    lexicon = reader.lexicon(table["slots"], table["polarity"])
    patterns = reader.table("patterns", table["patterns"])
    templates = {name: reader.template(name, patterns[name], lexicon) for name in patterns}
    splits = reader.splits(table["splits"], templates, lexicon)
    _check_balance(reader, splits, lexicon.labels)
    _check_repeats(reader, splits)
    return Spec(**about, lexicon=lexicon, splits=splits, text=text)


def _check_balance(reader: SpecReader, splits: dict[str, Split], labels: tuple[str, ...]) -> None:
    for split in splits.values():
        counts = split.label_counts(len(labels))
        if len(set(counts)) != 1:
            counted = ", ".join(
                f"{count} {label}" for label, count in zip(labels, counts, strict=True)
            )
            choices = [pattern.informative.choices for pattern in split.patterns]
            words = ", ".join(dict.fromkeys(choice[0] for choice in chain(*choices)))
            raise reader.fail(
                f"splits.{split.name}",
                f"is not balanced: {counted}; give each label equally many of the words {words}",
            )


def _check_repeats(reader: SpecReader, splits: dict[str, Split]) -> None:
    """Fail if a sentence arises twice: in one pattern, in two patterns or in two splits."""
    for split in splits.values():
        patterns = () if split.allow_repeats else split.patterns
        key = f"splits.{split.name}.patterns"
        for pattern in patterns:
            if (sentence := repeated_sentence(pattern)) is not None:
                raise reader.fail(key, f"{pattern.name!r} generates {sentence!r} in two ways")
        for a, b in combinations(patterns, 2):
            if (sentence := shared_sentence(a, b)) is not None:
                raise reader.fail(key, f"{a.name!r} and {b.name!r} both generate {sentence!r}")
    for first, second in combinations(splits.values(), 2):
        for a, b in product(first.patterns, second.patterns):
            if (sentence := shared_sentence(a, b)) is not None:
                both = f"{first.name} ({a.name}) and {second.name} ({b.name})"
                raise reader.fail("splits", f"{both} share {sentence!r}")
