"""The files of a model's folder: which are read, and that each is an ordinary file.

A symbolic link is followed wherever it leads (the hub's cache consists of links, and large weights
are often linked), but it must end at an ordinary file. A name that stands *in* a file of the model,
such as a shard in an index, must be a plain name: it cannot lead out of the folder.
"""

import json
import stat
from pathlib import Path
from typing import Any

from data_gen.quoting import one_line, quoted
from probing.models.errors import ModelError

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
# What decides states: patterns, of which the key of a result has every file.
CONTENT = (
    *(CONFIG, INDEX, "*.safetensors"),
    *("tokenizer*.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "*.bpe.model", "spiece.model"),
)
UNUSED = ("generation_config.json", "chat_template.jinja", "processor_config.json")
LARGEST_JSON = 16 * 2**20  # bytes of a config; the largest ones, with many labels, have one million
LARGEST_TOKENIZER = 2**30


def path_of(name: str) -> Path:
    """The path of this name, whether or not anything is there; refuse what cannot be a path."""
    if not name.strip():
        raise ModelError("the name of a model is empty")
    try:
        Path(name).is_dir()
    except OSError as error:
        raise ModelError(f"{name} is not the name of a model ({error.strerror})") from error
    return Path(name)


def model_files(folder: Path) -> list[Path]:
    """The files that decide what ``load_model`` returns, all of them ordinary files, in order.

    >>> model_files(Path("results/transformer"))
    """
    if not is_there(folder / CONFIG):
        raise ModelError(f"{folder} holds no model: it has no {CONFIG}")
    for name in UNUSED:  # the library reads these as well
        if is_there(folder / name):
            ordinary(folder / name)
    files = sorted({path for pattern in CONTENT for path in folder.glob(pattern)})
    for path in files:
        limit = LARGEST_TOKENIZER if path.suffix != ".safetensors" else None
        ordinary(path, limit)
    return files


def is_there(path: Path) -> bool:
    """Whether anything has this name, a broken link as well."""
    return path.is_symlink() or path.exists()


def ordinary(path: Path, largest: int | None = None) -> Path:
    """The path, if an ordinary file is there that is not empty; other kinds may never end."""
    try:
        status = path.stat()
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"{path} is not an ordinary file but {_kind(status.st_mode)}")
    if status.st_size == 0:  # so are the endless files of /proc
        raise ModelError(f"{path} is empty; copy the model again")
    if largest is not None and status.st_size > largest:
        raise ModelError(f"{path} has {status.st_size} bytes; at most {largest} are read")
    return path


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a small file."""
    text = ordinary(path, LARGEST_JSON).read_bytes()
    try:
        content = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ModelError(f"{path} is not JSON: {one_line(why, 120)}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} holds {quoted(content)} and not a JSON object")
    return content


def is_plain_name(name: Any) -> bool:
    """Whether this is the name of a file in the same folder, without a path."""
    return isinstance(name, str) and name not in ("", ".", "..") and not set("/\\\0:") & set(name)
