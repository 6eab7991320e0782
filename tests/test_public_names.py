"""Every public name of slr says what it is and gives an example, and the example is true."""

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
            assert ">>> " in public.__doc__, name
            assert not failures(public.__doc__, names | {"folder": tmp_path / name}), name


def test_the_check_sees_a_false_example() -> None:
    assert "Expected:" in failures(">>> 1 + 1\n3\n", {})


def test_no_function_shadows_its_module() -> None:
    for name in slr.__all__:
        assert not (Path(slr.__file__).parent / f"{name}.py").exists(), name
