"""The examples in the docstrings of public names of slr are true."""

import doctest
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import slr
import slr.sweep

PACKAGES = (slr, slr.sweep)


def failures(docstring: str, names: dict[str, Any]) -> str:
    """What doctest says against the examples of a docstring; names become those it defines."""
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(docstring, names, "docstring", None, None)
    doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
    names |= test.globs
    return "".join(said)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_the_examples_of_public_names_are_true(package: ModuleType, tmp_path: Path) -> None:
    names: dict[str, Any] = {"folder": tmp_path / "package"}
    for each in dict.fromkeys((slr, package)):
        assert not failures(each.__doc__ or "", names)
    for name in package.__all__:
        public = getattr(package, name)
        if callable(public):
            assert not failures(public.__doc__, names | {"folder": tmp_path / name}), name
