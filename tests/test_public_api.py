"""What the packages export can be imported."""

import pkgutil
from typing import Any

import pytest

import data_gen
import probing
import slr


@pytest.mark.parametrize("package", [probing, data_gen, slr])
def test_no_public_name_hides_a_module(package: Any) -> None:
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert modules
    assert not modules & set(package.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(probing, "nothing")  # noqa: B009
    assert dir(probing) == probing.__all__
