"""The header of a GGUF file, read as data and within the bounds of the file.

The library's parser believes every count and length. This one keeps the single values and the
shapes of the tensors, and checks that everything that the header announces is in the file.
"""

import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

from data_gen.quoting import quoted
from probing.models.errors import ModelError
from probing.models.inspection.configs import MOST
from probing.models.inspection.files import ordinary
from probing.models.inspection.sizes import check_sizes
from probing.models.inspection.weights import Stored

DAMAGED = "truncated, damaged or not a GGUF model that the library knows"
MAGIC, VERSIONS = b"GGUF", (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"}
SCALARS[12] = "d"
STRING, ARRAY = 8, 9
LONGEST_STRING = 2**24
MOST_DIMENSIONS = 4
BLOCK = re.compile(r"blk\.(\d{1,9})\.")  # the tensor of a layer
SIZES = {  # the library's names, and those of the format
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "vocab_size": "vocab_size",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
}


@dataclass(frozen=True)
class Header:
    """The single values of a GGUF file by key (None: a list), and its tensors by name."""

    values: dict[str, Any]
    tensors: dict[str, Stored]


def read_gguf_header(path: Path) -> Header:
    """The header of the file; refuse one that is truncated, damaged or announces too much.

    >>> read_gguf_header(Path("model.gguf")).values["general.architecture"]
    """
    ordinary(path)
    with path.open("rb") as file:
        try:
            return _Parser(file, path.stat().st_size).header()
        except (struct.error, UnicodeDecodeError, _DamagedError) as error:
            why = str(error) or "its header is not text"
            raise ModelError(f"{path} is {DAMAGED} ({why})") from error


class _DamagedError(Exception):
    pass


class _Parser:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size = file, size

    def header(self) -> Header:
        if self.file.read(4) != MAGIC:
            raise _DamagedError("it does not begin with GGUF")
        if (version := self.scalar("I")) not in VERSIONS:
            raise _DamagedError(f"version {version} of the format; {VERSIONS} are known")
        n_tensors, n_values = self.count(least=24), self.count(least=13)
        values = dict(self.key_and_value() for _ in range(n_values))
        tensors: dict[str, Stored] = {}
        for _ in range(n_tensors):
            name, tensor, offset = self.tensor()
            if name in tensors or offset > self.size:
                raise _DamagedError(f"tensor {quoted(name)} is there twice or behind the end")
            tensors[name] = tensor
        return Header(values, tensors)

    def scalar(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self.file.read(struct.calcsize(f"<{kind}")))[0]

    def count(self, *, least: int) -> int:
        """A number of things of at least so many bytes each, which must be in the file."""
        number = int(self.scalar("Q"))
        if number * least > self.size - self.file.tell():
            raise _DamagedError(f"it announces {number} entries, more than it has room for")
        return number

    def text(self) -> str:
        length = self.count(least=1)
        if length > LONGEST_STRING:
            raise _DamagedError(f"a text of {length} bytes")
        return self.file.read(length).decode()

    def key_and_value(self) -> tuple[str, Any]:
        key, kind = self.text(), self.scalar("I")
        if kind != ARRAY:
            return key, self.value(kind)
        self.skip_array()
        return key, None

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.text()
        if kind not in SCALARS:
            raise _DamagedError(f"type {kind} of a value is not known")
        return self.scalar(SCALARS[kind])

    def skip_array(self) -> None:
        kind = self.scalar("I")
        if kind in SCALARS:
            width = struct.calcsize(f"<{SCALARS[kind]}")
            self.file.seek(self.count(least=width) * width, 1)
        elif kind == STRING:
            for _ in range(self.count(least=8)):
                self.file.seek(self.count(least=1), 1)
        else:
            raise _DamagedError(f"a list of values of type {kind}")

    def tensor(self) -> tuple[str, Stored, int]:
        name, n_dimensions = self.text(), self.scalar("I")
        if n_dimensions > MOST_DIMENSIONS:
            raise _DamagedError(f"tensor {quoted(name)} has {n_dimensions} dimensions")
        shape = tuple(self.scalar("Q") for _ in range(n_dimensions))
        kind, offset = self.scalar("I"), self.scalar("Q")
        if math.prod(shape) > 8 * self.size:  # one bit each
            raise _DamagedError(f"tensor {quoted(name)} is larger than the file")
        return name, Stored(f"GGML {kind}", shape), offset


def check_gguf(path: Path) -> None:
    """Refuse a file whose header asks for more than the file holds."""
    header = read_gguf_header(path)
    kind = header.values.get("general.architecture")
    if not isinstance(kind, str) or not header.tensors:
        raise ModelError(f"{path} is not a GGUF model: it names no architecture or has no tensors")
    for key, value in header.values.items():
        is_count = key.startswith(f"{kind}.") and key.endswith("_count") and value is not None
        if is_count and (type(value) is not int or not 0 <= value <= MOST):
            raise ModelError(f"{path}: {key} is {quoted(value)}; it must be from 0 to {MOST}")
    layers = header.values.get(f"{kind}.block_count")
    for name in header.tensors:  # the library would leave these out
        block = BLOCK.match(name)
        if block and isinstance(layers, int) and int(block[1]) >= layers:
            raise ModelError(f"{path} has {quoted(name)}, but says that it has {layers} layers")
    sizes = {field: header.values.get(f"{kind}.{key}") for field, key in SIZES.items()}
    check_sizes(str(path), SimpleNamespace(**sizes), header.tensors)
