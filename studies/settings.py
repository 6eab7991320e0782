"""What decides a result: the code it runs, the options it was asked with, and what it was made of.

Every option counts but those that say where and how (`PLACES`). Of the code those modules count
that the study's file imports, directly or through others, without comments, docstrings and layout,
and the versions of the packages that compute. Models and data count by their content, wherever they
stand; a model of the hub by its revision.
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

from studies.study import Options, Study

ROOT = Path(__file__).parent.parent
PACKAGES = ("data_gen", "probing", "slr", "studies")
COMPUTING = (
    "numpy scipy numba scikit-learn torch transformers tokenizers datasets accelerate "
    "concept-erasure"
).split()
FRAME = {  # modules of studies/ that carry results, and change none
    f"studies.{name}"
    for name in "study making rendering results settings workers command_line catalogue".split()
}
PLACES = {"output", "overwrite", "jobs", "cluster", "results"}  # where and how, not what


def settings_of(study: Study, options: Options) -> dict[str, Any]:
    """Two runs with equal settings give equal results."""
    given = {
        field.name: key_of(field.name, getattr(options, field.name))
        for field in fields(options)
        if field.name not in PLACES
    }
    code = code_sha256(inspect.getfile(getattr(study.run, "func", study.run)))
    inputs = study.inputs(options) or [settings_of(*need) for need in study.needs(options)]
    return {"study": study.name, "code_sha256": code, **given} | (
        {"inputs": inputs} if inputs else {}
    )


def differences(earlier: Any, settings: dict[str, Any]) -> list[str]:
    """What an earlier result was asked with that is asked otherwise now, in words.

    Neither code nor inputs count: a result of older code answers the same question.
    """
    if not isinstance(earlier, dict):
        return ["unknown ones"]
    asked = [name for name in settings if name not in ("code_sha256", "inputs")]
    return [
        f"{name} {_short(earlier.get(name))} instead of {_short(settings[name])}"
        for name in asked
        if earlier.get(name) != settings[name]
    ]


def _short(value: Any) -> str:
    words = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return words.split(", sha256")[0] or "none"


def key_of(name: str, value: Any) -> Any:
    """An option as JSON has it; models, data and other files by what is in them."""
    if name == "model":
        return model_key(value)
    if name in ("data", "spec", "embeddings", "grid"):
        return data_key(value)
    return list(value) if isinstance(value, tuple) else value


def data_key(data: str | Path | None) -> str | None:
    """The user's own files by their content; built-in data by name, since they are code."""
    if data is None:
        return None
    path = Path(data)
    files = path.glob("data/*") if path.is_dir() else [path] if path.is_file() else []
    return f"{path.name}, sha256 {_content(files)}" if path.exists() else str(data)


def model_key(model: str) -> str:
    """A folder by its own name and what is in it, a name on the hub with its revision."""
    path = Path(model)
    if path.is_dir():
        kinds = ("config.json", "tokenizer*.json", "*.safetensors")
        return f"{path.name}, sha256 {_content(file for kind in kinds for file in path.glob(kind))}"
    if model == "minilm":  # comes with a package, and is verified when it is loaded
        return model
    from probing.models.pretrained import revision_of

    return f"{model}, revision {revision_of(model)}"


def _content(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


# ---- code


@functools.cache  # the code of a running program does not change
def code_sha256(module: str | Path) -> str:
    """Hash of a module's file and of every module of ours that it reaches by imports."""
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
    waiting = {start}
    while waiting:
        path = waiting.pop()
        reached.add(path)
        if path.suffix == ".py":
            waiting |= set(_imported(path)) - reached
    return reached


def _imported(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from _files(node.module, [name.name for name in node.names])
        elif isinstance(node, ast.Import):
            for name in node.names:
                yield from _files(name.name)


def _files(module: str, names: Iterable[str] = ()) -> Iterator[Path]:
    """The files behind an import: of a package all, as its names may come from anywhere in it."""
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
