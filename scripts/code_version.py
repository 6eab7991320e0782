"""Which code a result depends on: the modules that its script imports, directly or through others.

A change anywhere else leaves the result current, as do comments, docstrings and layout. Versions of
the packages that compute count too, and so do inputs: data and models by their content, wherever
they stand.
"""

import ast
import functools
import hashlib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("data_gen", "probing", "slr")
COMPUTING = "numpy scipy numba scikit-learn torch transformers tokenizers datasets".split()
FRAME = (
    "code_version",
    "command_line",
    "run_directory",
    "side_by_side",
)  # they carry results, and change none


@functools.cache  # the code of a running program does not change
def code_sha256(script: str | Path) -> str:
    digest = hashlib.sha256(",".join(map(_version, COMPUTING)).encode())
    for path in sorted(_reached(Path(script).resolve())):
        digest.update(path.relative_to(ROOT).as_posix().encode())
        digest.update(path.read_bytes() if path.suffix != ".py" else _meaning(path).encode())
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"no {package}"


def data_sha256(data: str) -> str:
    """Of the files behind a dataset that is none of ours, whose code is in code_sha256."""
    path = Path(data)
    return _content(path.glob("data/*") if path.is_dir() else [path] if path.is_file() else [])


def model_key(model: str) -> str:
    """A name on the hub as it is; a folder by its own name and what is in it."""
    path = Path(model)
    if not path.is_dir():
        return model
    kinds = ("config.json", "tokenizer*.json", "*.safetensors")
    return f"{path.name}, sha256 {_content(file for kind in kinds for file in path.glob(kind))}"


def _content(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def _reached(start: Path) -> set[Path]:
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            if path.suffix == ".py":
                waiting += _imported(path)
    return found


def _imported(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from _files(node.module)
        elif isinstance(node, ast.Import):
            for name in node.names:
                yield from _files(name.name)


def _files(module: str) -> Iterator[Path]:
    """The files behind an import: of a package all, as its names may come from anywhere in it."""
    package, *rest = module.split(".")
    if package in PACKAGES:
        path = ROOT.joinpath(package, *rest)
        if path.is_dir():
            yield from path.rglob("*.py")
        else:
            yield path.with_suffix(".py")
        yield from (ROOT / package).rglob("*.toml")
    elif package not in FRAME and (script := ROOT / "scripts" / f"{package}.py").is_file():
        yield script


def _meaning(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        # Docstrings, of modules, functions and the fields of a dataclass.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    return ast.dump(tree)
