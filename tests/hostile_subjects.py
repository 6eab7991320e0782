"""Small models, tokenizers and own sentences, sound and unsound, as folders and files."""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

GOOD = ("nice", "lovely", "superb", "fine", "great")
BAD = ("awful", "foul", "nasty", "poor", "dull")
FRAMES = ("The red film was {} today", "My big dog is {} again", "Well it is {}")
N_TRAIN = 3  # words of each label
Row = dict[str, Any]


def own_rows(written: str = "{}", *, frames: Iterable[str] = FRAMES) -> list[Row]:
    """Balanced sentences of two labels; ``written`` puts marks around the informative word."""
    return [
        {
            "text": frame.format(written.format(word)),
            "label": label,
            "word": word,
            "split": "train" if place < N_TRAIN else "test",
        }
        for label, words in (("bad", BAD), ("good", GOOD))
        for place, word in enumerate(words)
        for frame in frames
    ]


def placed(rows: list[Row], before: int = 0, behind: int = 0) -> list[Row]:
    """The rows with start and end instead of the word, moved by some characters."""
    found = []
    for row in rows:
        start = row["text"].index(row["word"]) + before
        end = row["text"].index(row["word"]) + len(row["word"]) + behind
        found.append({key: row[key] for key in ("text", "label", "split")})
        found[-1] |= {"start": start, "end": end}
    return found


def write_rows(path: Path, rows: list[Row]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def without(tokenizer: Any, *tokens: str) -> Any:
    """A copy of the tokenizer that lacks some special tokens, such as "pad_token"."""
    changed = copy.deepcopy(tokenizer)
    for name in tokens:
        setattr(changed, name, None)
    return changed


def saved(folder: Path, model: Any, tokenizer: Any, **configuration: Any) -> Path:
    """The folder of a model and its tokenizer, the model with another configuration."""
    model = copy.deepcopy(model)
    for name, value in configuration.items():
        setattr(model.config, name, value)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
