"""Settings and fixtures that several test files share."""

import os
from typing import Any

import pytest
from hypothesis import settings

# The same examples on every machine: a failure seen in CI is seen here too.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("default")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
if "PYTEST_XDIST_WORKER" in os.environ:  # test processes share the cores: one thread for each
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def sentiment() -> Any:
    """The default dataset with all its splits."""
    from data_gen import build_dataset

    return build_dataset("sentiment", extended=True)
