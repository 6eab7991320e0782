"""Mutations of valid input: of a file's text, and of the values in its JSON or TOML."""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator

HOSTILE_TEXTS = (  # inserted somewhere
    *("", " ", "\n", "\n\n", "\r", "\r\n", "\t", "\0", "\x1b[2J", "\u0085", "\u2028", "\u202e"),
    *("\u200b", "\ufeff", "e\u0301", "\U0001f600", "'", '"', '"""', "\\", "\\u0000", ",", ";", ":"),
    *("[", "]", "{", "}", "[[", "{}", "{KEY}", "{{", "=", "#", "---", ": &a *a", "!!python/x", "|"),
    *("[UNK]", "[SEP]", "<script>", "../", "/dev/zero", "NaN", "-1", "1e999", "0", "true", "null"),
    *("x" * 4000, "a " * 2000, "[" * 2000, '{"a":' * 2000, "9" * 5000),
)
HOSTILE_VALUES: tuple[Any, ...] = (  # in place of any value
    *(None, True, False, 0, -1, 1, 2, 3, 1.5, -0.5, 10**6, 10**10, 2**63, 10**400, 1e308),
    *(math.nan, math.inf, -math.inf, "", " ", "x", "0", "12", "[UNK]", "\0", "\x1b[2J", "a\nb"),
    *("../../etc/passwd", "/dev/zero", "http://localhost/x", "org/kernel", "flash_attention_2"),
    *("x" * 5000, [], {}, [None], [[]], [1, 2], ["a", "a"], {"a": 1}, {"": None}, {"0": {}}),
)


def mutated_text(text: str, rng: Rng) -> str:
    """The text after one to three edits of its characters or lines."""
    for _ in range(rng.integers(1, 4)):
        text = _pick(rng, (_insert, _insert, _cut, _lines))(text, rng)
    return text


def _insert(text: str, rng: Rng) -> str:
    i = _place(text, rng)
    return text[:i] + _pick(rng, HOSTILE_TEXTS) + text[i:]


def _cut(text: str, rng: Rng) -> str:
    i = _place(text, rng)
    if rng.random() < 0.2:  # the rest of the file is lost
        return text[:i]
    return text[:i] + text[i + int(rng.integers(1, 30)) :]


def _lines(text: str, rng: Rng) -> str:
    """A line twice, or not at all, or in another place, or in another case."""
    lines = text.split("\n")
    i, j = (int(rng.integers(len(lines))) for _ in range(2))
    edits: tuple[Callable[[], Any], ...] = (
        lambda: lines.insert(j, lines[i]),
        lambda: lines.pop(i),
        lambda: lines.insert(j, lines.pop(i)),
        lambda: lines.__setitem__(i, lines[i].swapcase()),
    )
    _pick(rng, edits)()
    return "\n".join(lines)


def _place(text: str, rng: Rng) -> int:
    return int(rng.integers(len(text) + 1))


def mutated_value(value: Any, rng: Rng) -> Any:
    """A copy of nested dictionaries and lists after one or two changes, at any depth."""
    value = copy.deepcopy(value)
    for _ in range(rng.integers(1, 3)):
        places = list(_places(value))
        if not places:
            return _pick(rng, HOSTILE_VALUES)
        # Half of the time not deep: most of a tokenizer's places are entries of its vocabulary.
        shallow = [place for place in places if place[2] <= 2]
        parent, key, _ = _pick(rng, shallow if rng.random() < 0.5 else places)
        _pick(rng, (_replace, _replace, _replace, _remove, _rename, _nest, _repeat))(
            parent, key, rng
        )
    return value


def _places(value: Any, depth: int = 1) -> Any:
    """Every (container, key, depth) below a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key, depth
        if isinstance(inner, dict | list):
            yield from _places(inner, depth + 1)


def _replace(parent: Any, key: Any, rng: Rng) -> None:
    parent[key] = copy.deepcopy(_pick(rng, HOSTILE_VALUES))


def _remove(parent: Any, key: Any, rng: Rng) -> None:
    del parent[key]


def _rename(parent: Any, key: Any, rng: Rng) -> None:
    if isinstance(parent, dict):
        value = parent.pop(key)
        parent[_pick(rng, (f"{key}x", str(key).upper(), "", f"../{key}", "x" * 300))] = value


def _nest(parent: Any, key: Any, rng: Rng) -> None:
    for _ in range(_pick(rng, (1, 2, 90))):
        parent[key] = [parent[key]] if rng.random() < 0.5 else {"x": parent[key]}


def _repeat(parent: Any, key: Any, rng: Rng) -> None:
    """The value of another place of the same container, or a list that is much longer."""
    keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
    other = parent[_pick(rng, keys)]
    parent[key] = (
        other * 3000 if isinstance(other, list) and len(other) < 10 else copy.deepcopy(other)
    )


def _pick(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]
