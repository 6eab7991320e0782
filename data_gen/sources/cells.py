"""The values of a row: a text, a label, a span, a name; or one line that says what is wrong."""

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np

from data_gen.dataset import DatasetError
from data_gen.quoting import listed, quoted, spaced
from data_gen.tokenizer import special_token_in

MOST_CHARACTERS = 1_000_000  # of a text
LONGEST_NAME = 100  # characters of a label, a split or a pattern


class Cells:
    """The values of one row; ``where`` begins every error line."""

    def __init__(self, row: Any, where: str) -> None:
        self.where = where
        if not isinstance(row, Mapping):
            raise self.fail(f"must be a dictionary, not {quoted(row)}")
        self.row = row

    def fail(self, problem: str) -> DatasetError:
        return DatasetError(f"{self.where}: {problem}")

    def has(self, column: str) -> bool:
        value = self.row.get(column)
        return not (value is None or (isinstance(value, str) and not value.strip()))

    def get(self, column: str) -> Any:
        if column not in self.row:
            raise self.fail(f"no {column!r}; its columns are {listed(self.row)}")
        if not self.has(column):
            raise self.fail(f"the {column} is empty")
        return self.row[column]

    def string(self, column: str, most: int = LONGEST_NAME) -> str:
        value = self.get(column)
        if not isinstance(value, str):
            raise self.fail(f"the {column} must be a string, not {quoted(value)}")
        if len(value) > most:
            longest = f"{spaced(len(value))} characters; at most {spaced(most)}"
            raise self.fail(f"the {column} {quoted(value)} has {longest}")
        if any(c == "\0" or unicodedata.category(c) == "Cs" for c in value):
            raise self.fail(f"the {column} {quoted(value)} holds a NUL or half a character")
        return str(value)

    def text(self) -> str:
        text = self.string("text", MOST_CHARACTERS)
        if token := special_token_in(text):
            problem = f"{quoted(text)} holds {token}, which tokenizers read as a special token"
            raise self.fail(f"{problem}; use another word")
        return text

    def name(self, column: str, default: str) -> str:
        return self.string(column) if self.has(column) else default

    def label(self) -> str | int | float | bool:
        """A string or a number; strings are as in the file, without spaces at their ends."""
        label = _plain(self.get("label"))
        if isinstance(label, float) and not math.isfinite(label):
            raise self.fail(f"the label is {label}, not a number or a string")
        if not isinstance(label, str | int | float):
            raise self.fail(f"the label must be a string or a number, not {quoted(label)}")
        if isinstance(label, str):
            self.string("label")
            if label != label.strip() or not label.isprintable():
                raise self.fail(f"the label {quoted(label)} has odd spaces or signs")
        elif abs(label) >= 10**LONGEST_NAME:
            raise self.fail(f"the label is {quoted(label)}")
        return label

    def span(self, text: str) -> tuple[int, int]:
        """Start and end of the informative word: as given, or where the word stands."""
        if not (self.has("start") or self.has("end")):
            return self._place_of(self.string("word"), text)
        start, end = self._offset("start"), self._offset("end")
        enclosed = text[start:end]
        if not (0 <= start < end <= len(text) and enclosed.strip() == enclosed):
            raise self.fail(f"start and end must enclose a word of {quoted(text)}")
        # A part of one word may be meant, as scripts without spaces need; never a part of two.
        is_cut = any(re.fullmatch(r"\w\w", text[at - 1 : at + 1]) for at in (start, end) if at)
        if " " in enclosed and is_cut:
            raise self.fail(f"start and end enclose {quoted(enclosed)}, which cuts a word in two")
        if self.has("word"):
            one, other = enclosed.lower(), self.string("word").lower()
            if one not in other and other not in one:
                both = f"start and end enclose {quoted(enclosed)}, but the word is {quoted(other)}"
                raise self.fail(both)
        return start, end

    def _offset(self, column: str) -> int:
        """A whole number, as a number or in digits: 3, "3" or 3.0."""
        value = _plain(self.get(column))
        if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,12}(\.0*)?\s*", value):
            value = float(value)
        whole = type(value) is int or (isinstance(value, float) and value.is_integer())
        if not whole or not 0 <= value < 10**12:
            rule = f"start and end must enclose a word, in whole numbers, but {column} is"
            raise self.fail(f"{rule} {quoted(value)}")
        return int(value)

    def _place_of(self, word: str, text: str) -> tuple[int, int]:
        places = [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
        if len(places) == 1:
            return places[0]
        named = f"the word {quoted(word)}"
        if places:
            many = f"is {len(places)} times in {quoted(text)}; give start and end instead"
            raise self.fail(f"{named} {many}")
        forms = [unicodedata.normalize("NFC", each) for each in (word, text)]
        if forms[0] in forms[1] and word not in text:
            raise self.fail(f"{named} is in another Unicode form than the text; save both as NFC")
        raise self.fail(f"{named} is not in {quoted(text)}")


def _plain(value: Any) -> Any:
    """The value, as a Python number if it is one of numpy's."""
    return value.item() if isinstance(value, np.generic) else value
