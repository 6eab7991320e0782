"""What a study of run_slr.py hands back, and how it tells its progress."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Result:
    tables: "dict[str, pd.DataFrame]"
    figures: "dict[str, Figure]"
    lines: list[str]  # what to say about it
    scratch: Path | None = None  # a folder to remove once the result is in place


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], Any]]:
    """A tqdm bar as the callback that slr's functions take; silent where nobody watches."""
    from tqdm import tqdm

    with tqdm(total=total, desc=label, unit_scale=True, unit="step", disable=None) as bar:
        yield bar.update
