"""Stores for the states of many sentences: in memory, or in a folder with one file per layer.

A folder holds safetensors files: layer-00.safetensors and so on with one tensor per position, and
attention and logits if asked for. Rows are in the order of the sentences; they are written where
they belong as they are computed, by one process or by several side by side. finished.bin has one
byte per distinct sentence (longest first), which is 1 once its rows are on disk: a run that was
killed is resumed from there. manifest.json says what the states were made from: a cache whose key
is incomplete returns the states of another model, so a folder of other inputs is refused.
"""

import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open

from probing.arrays import BoolArray, FloatArray, IntArray, as_array, rounded_to
from probing.processes import from_first, rank_and_size, wait_for_all
from probing.states.parts import ActivationError

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
        self._files: dict[str, int] = {}  # descriptors
        self._starts: dict[Name, int] = {}

    def open(self) -> None:
        """Open the files for writing, and only that: no page is read back and written again."""
        self._starts = {name: start_of(self.folder, name) for name in self.shapes}
        self._synced = time.monotonic()
        for file in [*dict.fromkeys(file_of(name)[0] for name in self.shapes), FINISHED]:
            self._files[file] = os.open(
                self.folder / file, os.O_WRONLY | getattr(os, "O_BINARY", 0)
            )

    def put(self, name: Name, rows: IntArray, values: FloatArray) -> None:
        """Write rows, sorted, where they belong: each run of neighbours at once."""
        file = self._files[file_of(name)[0]]
        row_bytes = math.prod(self.shapes[name][1:]) * SIZES[self.dtype]
        data = rounded_to(self.dtype, values)
        ends = [*(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        first = 0
        for end in ends:
            place = self._starts[name] + int(rows[first]) * row_bytes
            write_at(file, place, data[first * row_bytes : end * row_bytes])
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
            os.fsync(file)
        for places in self._pending:
            write_at(finished, places.start, memoryview(b"\1" * (places.stop - places.start)))
        os.fsync(finished)
        self._pending, self._synced = [], time.monotonic()

    def close(self) -> None:
        try:
            if self._files:
                self.sync()
        finally:
            for file in self._files.values():
                os.close(file)
            self._files = {}

    def states(self, names: Iterable[Name]) -> Mapping[Name, FloatArray]:
        return StoredArrays(self.folder, tuple(names))

    def array(self, name: Name) -> FloatArray:
        return read_array(self.folder, name)


def write_at(file: int, place: int, data: memoryview) -> None:
    """Write all bytes at a place of a file: one call may take a part of them."""
    os.lseek(file, place, os.SEEK_SET)
    while len(data):
        data = data[os.write(file, data) :]


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
        if not (folder / file).is_file():  # a pipe would be waited for
            raise FileNotFoundError("no such file")
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
    the files; None is that of the folder, and float32 for a new one. Any number of jobs can read a
    finished folder, even one that they must not write to.
    """
    layout = _layout(folder, key, shapes, dtype)  # in each process: a refusal leaves none alone
    finished = from_first(_finished(folder, layout, n_sentences))
    if finished.all():
        yield FolderStore(folder, shapes, layout.dtype, finished)
        return
    with _locked(folder):
        if rank_and_size()[0] == 0:
            layout = _layout(folder, key, shapes, dtype)  # another job may have been faster
            finished = _finished(folder, layout, n_sentences)
            if not finished.any():
                _create(folder, key, layout, n_sentences)
        finished = from_first(finished)  # and the files are there
        store = FolderStore(folder, layout.shapes, layout.dtype, finished)
        try:
            store.open()
            yield store
        finally:  # also if it was interrupted: what is finished need not be computed again
            store.close()
        wait_for_all()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other jobs from writing to the folder; the lock is that of the first process."""
    if rank_and_size()[0] > 0:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    # The lock of a process that died is free at once: so never a soft lock, whose file would stay.
    try:
        with FileLock(folder / LOCK, blocking=False, fallback_to_soft=False):
            yield
    except Timeout:
        raise ActivationError(f"another extraction is writing to {folder}") from None


@dataclass(frozen=True)
class Layout:
    """The arrays of a folder, and their precision."""

    shapes: Shapes
    dtype: str

    def files(self) -> dict[str, tuple[bytes, int]]:
        """The header and the size of each file."""
        files: dict[str, dict[str, tuple[int, ...]]] = {}
        for name, shape in self.shapes.items():
            file, tensor = file_of(name)
            files.setdefault(file, {})[tensor] = shape
        headers = {file: header_of(tensors, self.dtype) for file, tensors in files.items()}
        numbers = {file: sum(map(math.prod, tensors.values())) for file, tensors in files.items()}
        return {
            file: (header, len(header) + numbers[file] * SIZES[self.dtype])
            for file, header in headers.items()
        }


def _layout(folder: Path, key: dict[str, Any], shapes: Shapes, dtype: str | None) -> Layout:
    """The layout of a folder, if it was begun, or that of a new one; others are refused."""
    earlier = manifest_of(folder, key, dtype)
    if not earlier:
        return Layout(dict(shapes), dtype or "float32")
    missing = sorted({label_of(name) for name in shapes} - earlier["arrays"].keys())
    if missing:
        raise ActivationError(
            f"{folder} holds activations of another choice of arrays, without {missing[0]}; "
            "delete it or give another folder"
        )
    held = {name_of(label): tuple(shape) for label, shape in earlier["arrays"].items()}
    return Layout(held, earlier["dtype"])


def _finished(folder: Path, layout: Layout, n_sentences: int) -> BoolArray:
    """The sentences whose rows are on disk: none, if a file is missing or has another size."""
    none = np.zeros(n_sentences, dtype=bool)
    sizes = {file: size for file, (_, size) in layout.files().items()} | {FINISHED: n_sentences}
    paths = {folder / file: size for file, size in sizes.items()}
    if not all(path.is_file() and path.stat().st_size == size for path, size in paths.items()):
        return none
    for file, (header, _) in layout.files().items():
        with (folder / file).open("rb") as stream:
            if stream.read(len(header)) != header:
                return none
    return np.frombuffer((folder / FINISHED).read_bytes(), dtype=np.uint8) == 1


def _create(folder: Path, key: dict[str, Any], layout: Layout, n_sentences: int) -> None:
    """Make files of full size in which no sentence is finished; the manifest comes first."""
    arrays = {label_of(name): list(shape) for name, shape in layout.shapes.items()}
    manifest = {"key": key, "dtype": layout.dtype, "arrays": arrays}
    (folder / PARTIAL).write_text(json.dumps(manifest, indent=1))
    (folder / PARTIAL).replace(folder / MANIFEST)
    (folder / FINISHED).write_bytes(b"\0" * n_sentences)
    for file, (header, size) in layout.files().items():
        with (folder / file).open("wb") as stream:
            stream.write(header)
            stream.truncate(size)


def manifest_of(folder: Path, key: dict[str, Any], dtype: str | None) -> dict[str, Any] | None:
    """The manifest of a folder, or None if it is new; a folder of other inputs is refused."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        if folder.exists() and {path.name for path in folder.iterdir()} - {PARTIAL, LOCK}:
            raise ActivationError(f"{folder} holds other files; give a folder of its own")
        return None
    stored = json.loads(manifest.read_text(encoding="utf-8"))
    if "key" not in stored:  # such as the manifest of a dataset
        raise ActivationError(f"{folder} holds other files; give a folder of its own")
    earlier = stored["key"]
    names = sorted(earlier | key)
    differs = [name for name in names if earlier.get(name) != key.get(name)]
    differs += ["precision"] if dtype not in (None, stored["dtype"]) else []
    if differs:
        raise ActivationError(
            f"{folder} holds activations of another {' and '.join(differs)}; "
            "delete it or give another folder"
        )
    return stored


def stored_dtype(folder: Path | None) -> str:
    """The precision of the states in a folder and its sub-folders; float32 where there are none.

    A folder with several precisions is refused.
    """
    manifests = [] if folder is None else [*folder.rglob(MANIFEST)]
    dtypes = {json.loads(path.read_text(encoding="utf-8"))["dtype"] for path in manifests}
    if len(dtypes) > 1:
        raise ActivationError(
            f"{folder} holds states in {' and '.join(sorted(dtypes))}; delete one"
        )
    return dtypes.pop() if dtypes else "float32"


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


def start_of(folder: Path, name: Name) -> int:
    """The place of an array's first byte in its file."""
    file, tensor = file_of(name)
    with (folder / file).open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    return 8 + length + int(header[tensor]["data_offsets"][0])
