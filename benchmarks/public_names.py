"""Gate: the public names of slr, data_gen and probing with their signatures, one per line.

They are those of the packages and of all modules that docs/api names, in the current folder; diff
compares the output of two commits.
"""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

PACKAGES = ("slr", "data_gen", "probing")


def main() -> None:
    pages = [page.read_text() for name in PACKAGES for page in Path("docs/api", name).glob("*.md")]
    for name in sorted({*PACKAGES, *re.findall(r"(?m)^::: (\S+)", "\n".join(pages))}):
        module = importlib.import_module(name)
        own = [key for key in vars(module) if getattr(vars(module)[key], "__module__", "") == name]
        for key in sorted(getattr(module, "__all__", own)):
            describe(f"{name}.{key}", getattr(module, key))


def describe(name: str, value: Any) -> None:
    """Print a public name with its signature, or the type of a value; a class with its methods."""
    if "._" in name:
        return
    try:
        signature = str(inspect.signature(getattr(value, "__func__", value)))
        print(name + re.sub(r" at 0x\w+", "", signature))
    except (TypeError, ValueError):
        print(f"{name}: {type(value).__name__}")
    for part, each in sorted(vars(value).items()) if inspect.isclass(value) else ():
        describe(f"{name}.{part}", each)


if __name__ == "__main__":
    main()
