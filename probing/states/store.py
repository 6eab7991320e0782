"""Stores for the states of many sentences: in memory, or in a folder with one file per layer.

A folder holds safetensors files: layer-00.safetensors and so on with one tensor per position, and
attention and logits if asked for. Rows are in the order of the sentences; they are written where
they belong as they are computed, by one process or by several side by side. finished.bin has one
byte per distinct sentence (longest first), which is 1 once its rows are on disk: a run that was
killed is resumed from there. manifest.json says what the states were made from: a cache whose key
is incomplete returns the states of another model, so a folder of other inputs is refused.
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open

from probing.arrays import BoolArray, FloatArray, IntArray, as_array, as_bytes, rounded_to
from probing.states.parts import ActivationError, foreign_hooks
from probing.states.processes import from_first, rank_and_size, wait_for_all

Name = Any  # of an array: (layer, position), "attention" or "logits"
Shapes = Mapping[Name, tuple[int, ...]]
DTYPES = {"float32": "F32", "bfloat16": "BF16"}  # on disk: what safetensors calls them
SIZES = {"float32": 4, "bfloat16": 2}  # bytes per number
MANIFEST, FINISHED, LOCK = "manifest.json", "finished.bin", ".lock"
PARTIAL = f"{MANIFEST}.partial"
FORMAT = 2  # of the folder; raised when the same inputs would give other arrays
SYNC_SECONDS = 1.0  # between two moments at which all that was written is on disk for good


class MemoryStore:
    """The arrays in memory, in float32."""

    def __init__(self, shapes: Shapes, n_sentences: int) -> None:
        self.shapes = shapes
        self.arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        self.finished = np.zeros(n_sentences, dtype=bool)

    def put(self, name: Name, rows: IntArray, values: FloatArray) -> None:
        self.arrays[name][rows] = values

    def finish(self, places: slice) -> None:
        self.finished[places] = True

    def states(self, names: Iterable[Name]) -> Mapping[Name, FloatArray]:
        return {name: self.arrays[name] for name in names}

    def array(self, name: Name) -> FloatArray:
        return self.arrays[name]


class FolderStore:
    """The arrays in a folder that may hold more of them; see ``open_folder``."""

    def __init__(self, folder: Path, shapes: Shapes, dtype: str, finished: BoolArray) -> None:
        self.folder, self.shapes, self.dtype, self.finished = folder, shapes, dtype, finished
        self._pending: list[slice] = []
        self._synced = time.monotonic()
        self._starts = {name: start_of(folder, name) for name in shapes}
        # Plain files: pages of a memory map would count as memory in use.
        paths = [folder / file_of(name)[0] for name in shapes]
        self._files = {path: path.open("r+b", buffering=0) for path in [*paths, folder / FINISHED]}

    def put(self, name: Name, rows: IntArray, values: FloatArray) -> None:
        """Write rows, sorted, where they belong: each run of neighbours at once."""
        file = self._files[self.folder / file_of(name)[0]]
        row_bytes = math.prod(self.shapes[name][1:]) * SIZES[self.dtype]
        data = rounded_to(self.dtype, values)
        ends = [*(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        first = 0
        for end in ends:
            file.seek(self._starts[name] + int(rows[first]) * row_bytes)
            write_all(file, data[first * row_bytes : end * row_bytes])
            first = end

    def finish(self, places: slice) -> None:
        self.finished[places] = True
        self._pending.append(places)
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Bring all rows to disk, and only then count their sentences as finished."""
        *arrays, finished = self._files.values()
        for file in arrays:
            os.fsync(file.fileno())
        for places in self._pending:
            finished.seek(places.start)
            write_all(finished, memoryview(b"\1" * (places.stop - places.start)))
        os.fsync(finished.fileno())
        self._pending, self._synced = [], time.monotonic()

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def states(self, names: Iterable[Name]) -> Mapping[Name, FloatArray]:
        return StoredArrays(self.folder, tuple(names))

    def array(self, name: Name) -> FloatArray:
        return read_array(self.folder, name)


def write_all(file: FileIO, data: memoryview) -> None:
    """Write all bytes: a plain file may take a part of them."""
    while len(data):
        data = data[file.write(data) or 0 :]


@dataclass(frozen=True)
class StoredArrays(Mapping[Name, FloatArray]):
    """The arrays of a folder, each read when it is asked for; another process gets the path alone.

    An array of float32 is a memory map: a layer that nobody reads costs nothing.
    """

    folder: Path
    names: tuple[Name, ...]

    def __getitem__(self, name: Name) -> FloatArray:
        if name not in self.names:
            raise KeyError(name)
        return read_array(self.folder, name)

    def __iter__(self) -> Iterator[Name]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def read_array(folder: Path, name: Name) -> FloatArray:
    """An array of a folder, in float32 (as a memory map, if it is stored so)."""
    file, tensor = file_of(name)
    try:
        with safe_open(folder / file, "pt") as arrays:
            return as_array(arrays.get_tensor(tensor))
    except (OSError, SafetensorError) as error:
        reason = f"{folder / file} is missing or damaged ({error})"
        raise ActivationError(f"{reason}; extract again") from None


@contextmanager
def open_folder(
    folder: Path, key: dict[str, Any], shapes: Shapes, n_sentences: int, dtype: str | None = None
) -> Iterator[FolderStore]:
    """The store of a folder, new or begun earlier from the same inputs, for this job alone.

    ``key`` is that of ``key_of``. A folder that holds more arrays than ``shapes`` will do: where it
    is not finished, ``FolderStore.shapes`` names all that are to be written. ``dtype`` is that of
    the files; None is that of the folder, and float32 for a new one.
    """
    earlier = manifest_of(folder, key, dtype)  # in each process: a refusal must not leave one alone
    asked = {label_of(name): shape for name, shape in shapes.items()}
    if earlier and (missing := sorted(asked.keys() - earlier["arrays"].keys())):
        raise ActivationError(
            f"{folder} holds activations of another choice of arrays, without {missing[0]}; "
            "delete it or give another folder"
        )
    held, dtype = dict(shapes), dtype or "float32"
    if earlier:
        held = {name_of(label): tuple(shape) for label, shape in earlier["arrays"].items()}
        dtype = str(earlier["dtype"])
    wait_for_all()
    is_first = rank_and_size()[0] == 0
    lock = None
    if is_first:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, blocking=False, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout:
            raise ActivationError(f"another extraction is writing to {folder}") from None
        if not earlier or not is_whole(folder, held, dtype, n_sentences):
            arrays = {label_of(name): list(shape) for name, shape in held.items()}
            manifest = {"key": key, "dtype": dtype, "arrays": arrays}
            (folder / PARTIAL).write_text(json.dumps(manifest, indent=1))
            (folder / PARTIAL).replace(folder / MANIFEST)
            create(folder, held, dtype, n_sentences)
    try:
        wait_for_all()
        flags = np.frombuffer((folder / FINISHED).read_bytes(), dtype=np.uint8) == 1
        finished = from_first(flags)
        whole = shapes if finished.all() else held
        store = FolderStore(folder, whole, dtype, finished)
        try:
            yield store
        finally:  # also if it was interrupted: what is finished need not be computed again
            store.sync()
            store.close()
        wait_for_all()
    finally:
        if lock:
            lock.release()


def manifest_of(folder: Path, key: dict[str, Any], dtype: str | None) -> dict[str, Any] | None:
    """The manifest of a folder, or None if it is new; a folder of other inputs is refused."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        if folder.exists() and {path.name for path in folder.iterdir()} - {PARTIAL, LOCK}:
            raise ActivationError(f"{folder} holds other files; give a folder of its own")
        return None
    try:
        stored = json.loads(manifest.read_text())
        earlier, arrays = dict(stored["key"]), dict(stored["arrays"])
        if stored["dtype"] not in DTYPES or not all(map(name_of, arrays)):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise ActivationError(f"{manifest} is damaged; delete {folder}") from None
    names = sorted(earlier | key)
    differs = [name for name in names if earlier.get(name) != key.get(name)]
    differs += ["precision"] if dtype not in (None, stored["dtype"]) else []
    if differs:
        raise ActivationError(
            f"{folder} holds activations of another {' and '.join(differs)}; "
            "delete it or give another folder"
        )
    return dict(stored)


def stored_dtype(folder: Path | None) -> str:
    """The precision of the states in a folder and its sub-folders; float32 where there are none."""
    manifests = [] if folder is None else [*folder.rglob(MANIFEST)]
    dtypes = set()
    for path in manifests:
        try:
            dtypes.add(str(json.loads(path.read_text())["dtype"]))
        except (ValueError, KeyError, TypeError):
            raise ActivationError(f"{path} is damaged; delete {path.parent}") from None
    return " and ".join(sorted(dtypes)) or "float32"


# ---- files


def file_of(name: Name) -> tuple[str, str]:
    """The file of an array, and its tensor there."""
    if isinstance(name, str):
        return f"{name}.safetensors", name
    layer, position = name
    return f"layer-{layer:02}.safetensors", position


def label_of(name: Name) -> str:
    """The name of an array in a manifest: "attention", or "3 summary"."""
    return name if isinstance(name, str) else f"{name[0]} {name[1]}"


def name_of(label: str) -> Name:
    layer, _, position = label.partition(" ")
    return (int(layer), position) if position else label


def header_of(shapes: Mapping[str, tuple[int, ...]], dtype: str) -> bytes:
    """The first bytes of a safetensors file: the length of a JSON text, and the text."""
    header, end = {}, 0
    for tensor, shape in shapes.items():
        start, end = end, end + math.prod(shape) * SIZES[dtype]
        header[tensor] = {
            "dtype": DTYPES[dtype],
            "shape": list(shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8 bytes
    return len(text).to_bytes(8, "little") + text


def files_of(shapes: Shapes, dtype: str) -> dict[str, tuple[bytes, int]]:
    """The header and the size of each file."""
    files: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        file, tensor = file_of(name)
        files.setdefault(file, {})[tensor] = shape
    headers = {file: header_of(tensors, dtype) for file, tensors in files.items()}
    numbers = {file: sum(map(math.prod, tensors.values())) for file, tensors in files.items()}
    return {
        file: (head, len(head) + numbers[file] * SIZES[dtype]) for file, head in headers.items()
    }


def create(folder: Path, shapes: Shapes, dtype: str, n_sentences: int) -> None:
    """Make files of full size in which no sentence is finished."""
    (folder / FINISHED).write_bytes(b"\0" * n_sentences)
    for file, (header, size) in files_of(shapes, dtype).items():
        with (folder / file).open("wb") as stream:
            stream.write(header)
            stream.truncate(size)


def is_whole(folder: Path, shapes: Shapes, dtype: str, n_sentences: int) -> bool:
    """Whether all files are there; if one is missing or cut, all sentences are computed again."""
    sizes = {file: size for file, (_, size) in files_of(shapes, dtype).items()}
    sizes[FINISHED] = n_sentences
    paths = {folder / file: size for file, size in sizes.items()}
    if not all(path.is_file() and path.stat().st_size == size for path, size in paths.items()):
        return False
    for file, (header, _) in files_of(shapes, dtype).items():
        with (folder / file).open("rb") as stream:
            if stream.read(len(header)) != header:
                return False
    return True


def start_of(folder: Path, name: Name) -> int:
    """The place of an array's first byte in its file."""
    file, tensor = file_of(name)
    with (folder / file).open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    return 8 + length + int(header[tensor]["data_offsets"][0])


# ---- what states depend on


def key_of(model: Any, tokenizer: Any, asked: list[Any], *, logits: bool) -> dict[str, Any]:
    """Everything that the arrays depend on; error messages use these names."""
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    for changing in ("padding", "truncation"):  # leftovers of the tokenizer's last call
        settings.pop(changing, None)

    def sha256(value: Any) -> str:
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

    return {
        "format": FORMAT,
        "version of torch": str(torch.__version__),
        "version of transformers": transformers.__version__,
        "list of texts and spans": sha256(asked),
        "model": fingerprint(model if logits else model.base_model),
        "tokenizer": sha256(settings),
    }


def fingerprint(model: Any) -> str:
    """SHA-256 of all that a model's results depend on: its class, configuration and weights.

    Hooks change states too, but have no hash: a model with hooks is refused.
    """
    for name in foreign_hooks(model):
        raise ActivationError(
            f"a hook on {name} may change its states, which a folder cannot record; "
            "extract without a folder"
        )
    config = model.config.to_dict()
    for name in ("_name_or_path", "transformers_version", "architectures"):
        config.pop(name, None)  # where it came from, not what it computes
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    digest.update(type(model).__name__.encode())
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(as_bytes(tensor))
    return digest.hexdigest()
