"""Gate: the public names of slr, data_gen and probing with their signatures, one per line.

They are those of the packages and of all modules that docs/api names, in the current folder; diff
compares the output of two commits.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = ("slr", "data_gen", "probing")


def main() -> None:
    pages = [page.read_text() for name in PACKAGES for page in Path("docs/api", name).glob("*.md")]
    modules = {*PACKAGES, *re.findall(r"^::: (\S+)", "\n".join(pages), re.MULTILINE)}
    lines = {line for module in modules for line in names_of(importlib.import_module(module))}
    print(re.sub(r" at 0x\w+", "", "\n".join(sorted(lines))))


def names_of(module: Any) -> Iterator[str]:
    own = [name for name in vars(module) if is_own(name, module)]
    for name in getattr(module, "__all__", own):
        yield from described(f"{module.__name__}.{name}", getattr(module, name))


def is_own(name: str, module: Any) -> bool:
    home = getattr(getattr(module, name), "__module__", None)
    return home == module.__name__ and not name.startswith("_")


def described(name: str, value: Any) -> Iterator[str]:
    """A name with its signature, or with its type if it has none; a class with its methods."""
    try:
        yield f"{name}{inspect.signature(getattr(value, '__func__', value))}"
    except (TypeError, ValueError):
        yield f"{name}: {type(value).__name__}"
    for part, each in vars(value).items() if inspect.isclass(value) else ():
        if not part.startswith("_"):
            yield from described(f"{name}.{part}", each)


if __name__ == "__main__":
    main()
