"""What decides a result: the study's code, its options and its inputs.

Every option counts except those that say where and how (`PLACES`). The code is that of the study's
file and of all modules that it imports, directly or through others, without comments, docstrings
and layout; the versions of the packages that compute count as well. Models and data count by their
content, wherever they are stored; a model on the hub counts by its revision.
"""

import ast
import functools
import hashlib
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Any

from data_gen.quoting import one_line
from data_gen.text_files import exists
from probing.models.downloads import MODELS
from probing.models.inspection.files import model_files, path_of
from probing.models.packaged import VECTORS
from studies.study import Options, Study

ROOT = Path(__file__).parent.parent
PACKAGES = ("data_gen", "probing", "slr", "studies")
COMPUTING = (
    "numpy scipy numba scikit-learn torch transformers tokenizers datasets accelerate "
    "concept-erasure"
).split()
FRAME = {  # modules of studies/ that handle results without changing them
    f"studies.{name}"
    for name in (
        "study bounds making rendering settings workers command_line ending catalogue "
        "storage.results storage.tables"
    ).split()
}
PLACES = {  # where and how, not what
    *("output", "overwrite", "jobs", "cluster", "results"),
    *("device", "device_map"),
}


def settings_of(study: Study, options: Options) -> dict[str, Any]:
    """The settings of a result; runs with equal settings give equal results."""
    options = options.resolved()
    values = {
        field.name: key_of(field.name, getattr(options, field.name))
        for field in fields(options)
        if field.name not in PLACES
    }
    code = code_sha256(inspect.getfile(getattr(study.run, "func", study.run)))
    inputs = study.inputs(options) or [settings_of(*need) for need in study.needs(options)]
    settings = {"study": study.name, "code_sha256": code, **values}
    return settings | ({"inputs": inputs} if inputs else {})


def differences(earlier: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """The options that differ between an earlier result and what is asked now, in words.

    Code and inputs do not count: a result of older code answers the same question.
    """
    asked = [name for name in settings if name not in ("code_sha256", "inputs")]
    asked.sort(key=lambda name: name not in earlier)  # what somebody chose comes first
    return [
        f"{name} {_short(earlier.get(name))} instead of {_short(settings[name])}"
        for name in asked
        if earlier.get(name) != settings[name]
    ]


def _short(value: Any) -> str:
    words = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return one_line(words.split(", sha256")[0], 60) or "none"


def key_of(name: str, value: Any) -> Any:
    """The value of an option for JSON; models, data and other files by their content."""
    if name == "model":
        return model_key(value)
    if name == "embeddings" and value in VECTORS:  # verified when they are read
        return value
    if name == "states":  # the same, wherever they are stored, but for their precision
        from probing.states.store import stored_dtype

        return stored_dtype(value)
    if name in ("data", "spec", "embeddings", "grid"):
        return data_key(value)
    return list(value) if isinstance(value, tuple) else value


def data_key(data: str | Path | None) -> str | None:
    """Key of data: the user's files by content, built-in data by name, since they are code."""
    if data is None:
        return None
    path = Path(data)
    if not exists(path):
        return str(data)
    # A FIFO is not a file: whoever reads the data refuses it.
    files = [file for file in (path.glob("data/*") if path.is_dir() else [path]) if file.is_file()]
    return f"{path.name}, sha256 {_content(files)}"


def model_key(model: str) -> str:
    """Key of a model: a folder or GGUF file by name and content, a hub name with its revision."""
    if model in MODELS:  # verified when it is loaded
        return model
    path = path_of(model)
    if path.is_dir():
        return f"{path.name}, sha256 {_content(model_files(path))}"
    if path.suffix == ".gguf" and path.is_file():
        return f"{path.name}, sha256 {_content([path])}"
    from probing.models.pretrained import revision_of

    return f"{model}, revision {revision_of(model)}"


def _content(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode())
        with file.open("rb") as content:  # in parts: a model may be larger than the memory
            hashlib.file_digest(content, lambda: digest)
    return digest.hexdigest()


# ---- code


@functools.cache  # the code of a running program does not change
def code_sha256(module: str | Path) -> str:
    """Hash of a module and of all modules of this project that it imports, even indirectly."""
    digest = hashlib.sha256(",".join(map(_version, COMPUTING)).encode())
    for path in sorted(_reached(Path(module).resolve())):
        digest.update(path.relative_to(ROOT).as_posix().encode())
        digest.update(path.read_bytes() if path.suffix != ".py" else _meaning(path).encode())
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"no {package}"


def _reached(start: Path) -> set[Path]:
    reached: set[Path] = set()
    frontier = {start}
    while frontier:
        path = frontier.pop()
        reached.add(path)
        if path.suffix == ".py":
            frontier |= set(_imported(path)) - reached
    return reached


def _imported(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from _files(node.module, [name.name for name in node.names])
        elif isinstance(node, ast.Import):
            for name in node.names:
                yield from _files(name.name)


def _files(module: str, names: Iterable[str] = ()) -> Iterator[Path]:
    """The files behind an import; of a package all files, as a name may come from any of them."""
    package, *rest = module.split(".")
    if package not in PACKAGES or module in FRAME:
        return
    path = ROOT.joinpath(package, *rest)
    yield from (ROOT / package).rglob("*.toml")
    if not path.is_dir():
        yield path.with_suffix(".py")
        return
    modules = [path / f"{name}.py" for name in names]
    if names and all(file.is_file() for file in modules):  # from slr.dynamics import reduced
        yield from modules
    else:
        yield from path.rglob("*.py")


def _meaning(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        # Docstrings, of modules, functions and the fields of a dataclass.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    return ast.dump(tree)
