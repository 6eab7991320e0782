"""What the packages export: documented, importable, and light until it is used."""

import pkgutil
import subprocess
import sys
from typing import Any

import pytest

import data_gen
import probing


@pytest.mark.parametrize("name", probing.__all__)
def test_every_public_name_of_probing_has_a_docstring_with_an_example(name: str) -> None:
    doc = getattr(probing, name).__doc__
    assert ">>>" in doc
    assert not doc.startswith("Of ")


@pytest.mark.parametrize("package", [probing, data_gen])
def test_no_public_name_hides_a_module(package: Any) -> None:
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert modules
    assert not modules & set(package.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(probing, "nothing")  # noqa: B009
    assert dir(probing) == probing.__all__


def test_importing_probing_loads_nothing_heavy() -> None:
    code = "import probing, sys; probing.LinearProbe; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert "sklearn" in loaded
    assert not loaded & {"torch", "transformers", "datasets", "matplotlib"}
