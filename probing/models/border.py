"""The border to the libraries that read models: what they throw, print and change stays behind it.

They throw anything at a file of any content: the errors of four libraries, of their parsers, and
panics of Rust code, which are not even an Exception.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from unittest.mock import patch

import torch
from huggingface_hub import constants
from transformers.integrations import hub_kernels
from transformers.utils import logging

from probing.models.errors import ModelError, reason

PANIC = "PanicException"  # of a type that each library makes for itself


@contextmanager
def model_errors(what: str) -> Iterator[None]:
    """Turn every failure of the block into a ModelError: ``what``, and the library's reason.

    >>> with model_errors(f"{path} is damaged"):
    ...     AutoTokenizer.from_pretrained(path)
    """
    try:
        yield
    except ModelError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise  # Ctrl-C
        raise ModelError(f"{what}: {reason(error)}") from error


@contextmanager
def quiet(*, offline: bool) -> Iterator[None]:
    """Silence bars, warnings and reports of the libraries, and leave their settings as they were.

    ``offline``: nothing is downloaded. Compiled code (kernels) never is: the library would fetch it
    for some architectures if the package kernels is installed.
    """
    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    dtype = torch.get_default_dtype()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    no_hub = patch.object(constants, "HF_HUB_OFFLINE", True) if offline else nullcontext()
    try:
        with (
            no_hub,
            patch.object(hub_kernels, "_kernels_enabled", False),
            warnings.catch_warnings(action="ignore"),
        ):
            yield
    finally:
        torch.set_default_dtype(dtype)
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()


def without_bars() -> redirect_stderr[io.StringIO]:
    """A context without the bar of the GGUF reader, which does not ask whether it is wanted."""
    return redirect_stderr(io.StringIO())
