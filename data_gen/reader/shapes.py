"""The shapes of a spec's values: tables, strings, lists of words; or one line of error."""

import re
import unicodedata
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from data_gen.quoting import listed, one_line, quoted, shortened, spaced
from data_gen.text_files import shown
from data_gen.tokenizer import special_token_in

MOST_CHARACTERS = 100_000  # of a string
MOST_WORDS = 5_000  # of a pattern or an entry
LONGEST_NAME = 100  # in bytes: the name of a split is part of a file name
LONGEST_KEY = 80  # characters of a key in an error line
MOST_COMPARED = 1_000  # names that are searched for a similar one
JOINERS = "\u200c\u200d"  # invisible, but part of words in Persian, Hindi and of emoji


class SpecError(ValueError):
    """A spec that cannot be used; the message is one line for the author of the spec."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class Shapes:
    """Checks of values; an error names the file and the key that are wrong."""

    def __init__(self, file: str | Path) -> None:
        self.file = shown(file)

    def fail(self, key: str, problem: str) -> SpecError:
        where = f"{self.file}: {shortened(key, LONGEST_KEY)}" if key else self.file
        return SpecError(f"{where}: {problem}")

    def keys(self, key: str, table: Any, *, required: str, optional: str) -> None:
        """Check that the table has all required keys and no unknown one."""
        self.table(key, table)
        for name in required.split():
            if name not in table:
                raise self.fail(key, f"the key {name!r} is missing")
        for name in table:
            self.known(key, "key", name, (required + " " + optional).split())

    def known(self, key: str, kind: str, name: Any, names: Collection[str]) -> None:
        """Check that the name is one of the names, and suggest one if it is not."""
        if isinstance(name, str) and name in names:
            return
        few = len(names) <= MOST_COMPARED and len(str(name)) <= LONGEST_NAME
        close = get_close_matches(str(name), names, n=1) if few else []
        hint = f"did you mean {quoted(close[0])}?" if close else f"known are {listed(names)}"
        raise self.fail(key, f"unknown {kind} {quoted(name)}; {hint}")

    def table(self, key: str, value: Any, *, most: int | None = None) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(key, f"must be a table, not {quoted(value)}")
        if not value:
            raise self.fail(key, "the table is empty")
        if most and len(value) > most:
            raise self.fail(key, f"has {spaced(len(value))} entries; at most {spaced(most)}")
        for name in value:
            if not isinstance(name, str):
                raise self.fail(key, f"the key {quoted(name)} must be a string")
            if name and (not name.isprintable() or len(name.encode()) > LONGEST_NAME):
                rule = f"printable characters, at most {LONGEST_NAME} bytes"
                raise self.fail(key, f"the name {quoted(name)} must be of {rule}")
        return value

    def string(self, key: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self.fail(key, f"must be a string, not {quoted(value)}")
        if len(value) > MOST_CHARACTERS:
            most = f"at most {spaced(MOST_CHARACTERS)}"
            raise self.fail(key, f"has {spaced(len(value))} characters; {most}")
        return value

    def prose(self, key: str, value: Any) -> str:
        """Text for readers, of one line or several."""
        text = self.string(key, value)
        if odd := [c for c in text if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]:
            raise self.fail(key, f"holds the control character {odd[0]!r}; leave it out")
        return text

    def flag(self, key: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self.fail(key, f"must be true or false, not {quoted(value)}")
        return value

    def strings(self, key: str, value: Any, *, unique: bool = True) -> tuple[str, ...]:
        """A list of entries, each of words with single spaces between them."""
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self.fail(key, f"must be a list of strings, not {quoted(value)}")
        if not value:
            raise self.fail(key, "the list is empty; give at least one entry")
        seen = set()
        for entry in value:
            if unique and entry in seen:
                raise self.fail(key, f"{quoted(entry)} is listed twice")
            seen.add(entry)
            self.entry(key, entry)
        return tuple(value)

    def entry(self, key: str, entry: str) -> None:
        words = self.string(key, entry).split()
        if entry != " ".join(words):
            rule = "must have single ordinary spaces between words and none at its ends"
            raise self.fail(key, f"{quoted(entry)} {rule}")
        if len(words) > MOST_WORDS:
            most = f"at most {spaced(MOST_WORDS)}"
            raise self.fail(key, f"{quoted(entry)}: {spaced(len(words))} words; {most}")
        if fault := fault_of(entry):
            raise self.fail(key, f"{quoted(entry)} {fault}")


def fault_of(entry: str) -> str:
    """What makes an entry another one than it seems to be, or nothing."""
    if entry.isascii() and entry.isprintable() and "[" not in entry:  # nearly all
        return ""
    if token := special_token_in(entry):
        return f"holds {token}, which tokenizers read as a special token; use another word"
    for character in entry:
        if unicodedata.category(character) in ("Cc", "Cf", "Cs") and character not in JOINERS:
            return f"holds the invisible character {character!a}; leave it out"
    if not unicodedata.is_normalized("NFC", entry):
        return "has letters of several characters (Unicode NFD); write it in the form NFC"
    return ""


def is_name(text: str) -> bool:
    """Whether the text is made of letters, digits and _."""
    return re.fullmatch(r"\w+", text) is not None
