"""Specs: TOML files that describe datasets, refused if the dataset would not be sound.

A refusal is a SpecError with one line: the file, the key, what is wrong and what to do.
docs/dataset.md explains the format with a worked example.
"""

import hashlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_gen.quoting import shortened
from data_gen.reader.lexicon import Lexicon, LexiconReader
from data_gen.reader.shapes import Shapes, SpecError
from data_gen.reader.soundness import check_balance, check_repeats
from data_gen.reader.splits import SplitReader
from data_gen.splits import Split
from data_gen.text_files import exists, read_text, shown

ABOUT = "description source license language"  # optional, free text
MOST_BYTES = 2_000_000  # of a file
MOST_PARTS = 20  # of a key, a.b.c
STRING = re.compile(r""" "(?:[^"\\\n]|\\.)*+"? | '[^'\n]*+'? """, re.VERBOSE)
DEEP_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}")
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
    path = Path(spec)
    if str(spec) in builtin_specs():
        path = SPEC_FOLDER / f"{spec}.toml"
    elif not exists(path) or path.is_dir():
        hint = f"give the path of a TOML file or one of {', '.join(builtin_specs())}"
        raise SpecError(f"{shown(path)}: no such spec: {hint}")
    text = read_text(path, most_bytes=MOST_BYTES, error=SpecError).replace("\r\n", "\n")
    return parse_spec(_toml(text, path), file=str(path), text=text)


def _toml(text: str, path: Path) -> dict[str, Any]:
    shapes = Shapes(path)
    if "\r" in text:
        raise shapes.fail("", "has lines that end in a carriage return alone; save it with \\n")
    # tomllib takes time in the square of the number of parts of a key.
    if DEEP_KEY.search(STRING.sub("x", text)):
        raise shapes.fail("", f"a key has more than {MOST_PARTS} parts with dots between them")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise shapes.fail("", "not valid TOML: nested too deeply") from None
    except ValueError as error:  # not only TOMLDecodeError: a number of 5 000 digits
        raise shapes.fail("", f"not valid TOML: {shortened(str(error), 150)}") from None


def parse_spec(table: dict[str, Any], *, file: str = "spec", text: str = "") -> Spec:
    """The spec of a dictionary with the content of a TOML file, after checking it.

    Error messages name ``file``; ``text`` is the file's text.

    >>> parse_spec(tomllib.loads(read_spec("sentiment").text), file="mine").lexicon.labels
    """
    shapes = Shapes(file)
    shapes.keys("", table, required="polarity slots patterns splits", optional=f"name {ABOUT}")
    about = {key: shapes.prose(key, table.get(key, "")) for key in ABOUT.split()}
    about["name"] = shapes.prose("name", table.get("name", Path(file).stem))
    lexicon = LexiconReader(shapes, table["slots"], table["polarity"]).lexicon()
    splits = SplitReader(shapes, lexicon, table["patterns"]).splits(table["splits"])
    check_balance(shapes, splits, lexicon.labels)
    check_repeats(shapes, splits)
    return Spec(**about, lexicon=lexicon, splits=splits, text=text)
