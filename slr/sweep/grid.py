"""A grid of settings: lists of values, crossed. Any cell is made from its number alone.

Cells are numbered as nested loops would visit them, the last axis fastest (mixed radix). So even a
grid of a million cells takes no memory.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slr.checks import LARGEST, quoted

MOST_VALUES = 10**6  # of an axis
Value = Any  # int, float or str, of the same type within an axis


@dataclass(frozen=True)
class Grid:
    """Axes in order, each a name and its values.

    >>> Grid({"x": (1, 2), "y": (3, 4)}).cell(2)
    {'x': 2, 'y': 3}
    """

    axes: Mapping[str, tuple[Value, ...]]

    def __post_init__(self) -> None:
        if not self.axes:
            raise ValueError("the grid is empty: name at least one setting and its values")
        for name, values in self.axes.items():
            if not isinstance(values, tuple | list):
                raise ValueError(f"{name} must list its values, as in (0.1, 0.2): {quoted(values)}")
            if not values:
                raise ValueError(f"the grid is empty: {name} has no values")
            if len(set(values)) < len(values):
                twice, _ = Counter(values).most_common(1)[0]
                raise ValueError(f"{name} lists {quoted(twice)} twice")
        if (cells := math.prod(self.shape)) > LARGEST:
            raise ValueError(f"a grid of {quoted(cells)} cells is too large; at most 2^63 - 1")

    def __len__(self) -> int:
        return math.prod(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self.axes.values())

    @property
    def varied(self) -> list[str]:
        """The axes with more than one value."""
        return [name for name, values in self.axes.items() if len(values) > 1]

    def cell(self, number: int) -> dict[str, Value]:
        """The settings of one cell."""
        if not 0 <= number < len(self):
            raise IndexError(f"no cell {number} in a grid of {len(self)}")
        places = np.unravel_index(number, self.shape)
        return {name: self.axes[name][i] for name, i in zip(self.axes, places, strict=True)}

    def columns(self, numbers: Iterable[int] | np.ndarray[Any, Any]) -> dict[str, Any]:
        """The settings of many cells, one array per axis."""
        places = np.unravel_index(np.asarray(numbers), self.shape)
        return {
            name: np.array(self.axes[name])[i] for name, i in zip(self.axes, places, strict=True)
        }


def expand_range(text: str) -> list[float]:
    """The numbers of a range first:last:count or first:last:count:log, both ends included.

    >>> expand_range("0.01:1:3:log")
    [0.01, 0.1, 1.0]
    """
    try:
        first, last, count, *scale = str(text).split(":")
        ends, n = (float(first), float(last)), int(count)
        if scale not in ([], ["log"]) or n < 1 or not math.isfinite(ends[1] - ends[0]):
            raise ValueError
    except ValueError:
        shown = quoted(text)
        raise ValueError(f"{shown} is not a range; write first:last:count, or ...:log") from None
    if scale and min(ends) <= 0:
        raise ValueError(f"{quoted(text)}: a range on a log scale must be positive")
    if n > MOST_VALUES:
        raise ValueError(f"{quoted(text)} has too many values; at most {MOST_VALUES}")
    values = (np.geomspace if scale else np.linspace)(*ends, n)
    return [float(f"{value:.12g}") for value in values]  # 0.3, not 0.30000000000000004
