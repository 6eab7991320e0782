"""What a figure shows, read off its artists."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text

Array = npt.NDArray[np.float64]


class Curve(NamedTuple):
    x: Array
    y: Array


class Range(NamedTuple):
    low: Array
    high: Array


def lines(ax: Axes) -> list[Curve]:
    return [_curve(line) for line in ax.lines]


def curve(ax: Axes, label: str) -> Curve:
    """The line, or the points with error bars, that the legend calls so."""
    found = [line for line in ax.lines if line.get_label() == label and len(_curve(line).x)]
    found += [one.lines[0] for one in _error_bars(ax, label)]
    (line,) = found
    return _curve(line)


def error_bars(ax: Axes, label: str) -> Range:
    """The ends of the vertical error bars of the points that the legend calls so."""
    (container,) = _error_bars(ax, label)
    return _ends(container)


def all_error_bars(ax: Axes) -> list[Range]:
    """Those of each call of errorbar, in order."""
    return [_ends(one) for one in ax.containers if isinstance(one, ErrorbarContainer)]


def bars(ax: Axes, label: str) -> Array:
    """The heights of the bars that the legend calls so, from left to right."""
    (container,) = (
        one for one in ax.containers if isinstance(one, BarContainer) and one.get_label() == label
    )
    ordered = sorted(container.patches, key=lambda bar: bar.get_x())
    return np.array([bar.get_height() for bar in ordered])


def all_bars(ax: Axes) -> Curve:
    """Every bar: its middle and its height."""
    found = [bar for one in ax.containers if isinstance(one, BarContainer) for bar in one.patches]
    found.sort(key=lambda bar: bar.get_x())
    middles = [bar.get_x() + bar.get_width() / 2 for bar in found]
    return Curve(np.array(middles), np.array([bar.get_height() for bar in found]))


def horizontals(ax: Axes) -> list[tuple[float, float, float]]:
    """The horizontal lines of hlines in the units of the axes: y, left end, right end."""
    return sorted(
        (float(part[0, 1]), float(part[:, 0].min()), float(part[:, 0].max()))
        for one in ax.collections
        if isinstance(one, LineCollection) and one.get_transform().contains_branch(ax.transData)
        for part in map(np.asarray, one.get_segments())
        if len(part)  # an end that is not a number leaves no line
    )


def texts(figure: Figure) -> list[Text]:
    """Every text that is seen: titles, labels, ticks within the axes, legends, words."""
    found = list(figure.texts)
    legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes)]
    found += [text for legend in legends if legend is not None for text in legend.get_texts()]
    for ax in figure.axes:
        found += ax.texts
        if ax.axison:
            found += [ax.title, ax.xaxis.label, ax.yaxis.label]
            for axis in (ax.xaxis, ax.yaxis):
                low, high = sorted(axis.get_view_interval())
                ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
                found += [text for place, text in ticks if low <= place <= high]
    return [text for text in found if text.get_text().strip()]


def bands(ax: Axes, x: Any) -> list[Range]:
    """The lower and upper edge of each filled band at these x."""
    found = []
    for one in ax.collections:
        if type(one).__name__ == "FillBetweenPolyCollection":
            points = np.concatenate([path.vertices for path in one.get_paths()])
            at = [points[points[:, 0] == place, 1] for place in np.asarray(x, dtype=float)]
            found.append(Range(np.array([y.min() for y in at]), np.array([y.max() for y in at])))
    return found


def points(ax: Axes, label: str) -> Curve:
    """The points of a scatter plot that the legend calls so."""
    (found,) = (one for one in ax.collections if one.get_label() == label)
    x, y = np.asarray(found.get_offsets(), dtype=float).T
    return Curve(x, y)


def _error_bars(ax: Axes, label: str) -> list[ErrorbarContainer]:
    return [
        one
        for one in ax.containers
        if isinstance(one, ErrorbarContainer) and one.get_label() == label
    ]


def _ends(container: ErrorbarContainer) -> Range:
    segments: Any = next(
        part.get_segments() for part in container.lines[2] if isinstance(part, LineCollection)
    )
    low, high = np.array([(one[:, 1].min(), one[:, 1].max()) for one in segments]).T
    return Range(low, high)


def _curve(line: Any) -> Curve:
    return Curve(np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float))
