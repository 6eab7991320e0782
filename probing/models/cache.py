"""The folder of models that were converted or downloaded once, each whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from probing.models.errors import ModelError


def cache_folder() -> Path:
    """SLR_PROBING_CACHE, or the folder slr-probing in the user's cache."""
    if folder := os.environ.get("SLR_PROBING_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slr-probing"


@contextmanager
def new_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder that takes its name when it is complete; another process may be faster.

    ``replace`` removes an earlier folder of this name first. What else is written next to the new
    folder, into its parent, is removed.
    """
    made = [path for path in (folder.parent, *folder.parent.parents) if not path.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=folder.parent, prefix="partial-")
    except OSError as error:
        raise ModelError(
            f"{folder.parent} cannot be written ({error.strerror}); "
            "name another folder for models in SLR_PROBING_CACHE"
        ) from error
    try:
        with temporary as parent:
            partial = Path(parent) / "model"
            partial.mkdir()
            yield partial
            if replace:
                shutil.rmtree(folder, ignore_errors=True)
            try:
                partial.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
    finally:
        for path in made:  # nothing is left where nothing came
            with suppress(OSError):
                path.rmdir()
