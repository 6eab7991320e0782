"""A sweep as heat maps: the share of runs that align, over the two axes with the most values."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator
from pandas.api.types import is_numeric_dtype

from slr.dynamics.stability import predicted_stability_limit
from slr.dynamics.trajectory import ALIGNMENT
from slr.figures import BLUE, journal_style, panels
from slr.sweep.grid import Grid
from slr.task import FloatArray, Task

LABELS = {
    "lam": r"$\lambda$", "lam_decay": r"decay of $\lambda$", "step_size": "step size",
    "gamma": r"$\gamma$", "noise_std": r"noise $\varepsilon$", "d": "$d$", "L": "$L$",
    "n_steps": "steps", "log_every": "steps between logs", "batch_size": "batch size",
}  # fmt: skip
MOST_PANELS = 4
MOST_LABELS = 6  # an axis with more values has matplotlib's ticks
SHARE = rf"share of runs that align ($|\kappa|, |\nu| > {ALIGNMENT}$)"


def plot_sweep(table: Any, grid: Grid) -> Figure:
    """Heat maps, one per value of a third axis (if it has few); further axes are averaged over.

    If fewer than two settings vary, the figure is the share against that setting.
    """
    by_length = sorted(grid.varied, key=lambda name: -len(grid.axes[name]))
    with journal_style():
        if len(by_length) < 2:
            return _plot_curve(table, grid, by_length[0] if by_length else "lam")
        x, y = sorted(by_length[:2])
        third = next((n for n in by_length[2:] if len(grid.axes[n]) <= MOST_PANELS), None)
        values = grid.axes[third] if third else (None,)
        figure, axes = panels(1, len(values), (1.6 + 3.6 * len(values), 3.9))
        for ax, value in zip(axes, values, strict=True):
            rows = table[table[third] == value] if third else table
            share = rows.pivot_table(index=y, columns=x, values="share_aligned", aggfunc="mean")
            ax.grid(visible=False)
            edges = [_axis(ax, which, name, grid) for which, name in (("x", x), ("y", y))]
            image = ax.pcolormesh(
                *edges, share.sort_index(axis=0).sort_index(axis=1), cmap="cividis", vmin=0, vmax=1
            )
            unstable = rows.pivot_table(index=y, columns=x, values="share_diverged")
            limit = _draw_stability_limit(ax, x, y, grid) or _draw_instability(ax, unstable)
            if third:
                ax.set_title(f"{_label(third)} = {in_words(value)}")
        figure.colorbar(image, ax=axes, label=SHARE)
        caption = _caption(table, grid, {x, y, third}, 24 + 52 * len(values))
        if limit:
            caption += f"\ndashed: {limit}"
        figure.suptitle(caption, fontsize=8)
        return figure


def _plot_curve(table: Any, grid: Grid, name: str) -> Figure:
    figure, (ax,) = panels(1, 1, (4.8, 3.6))
    edges = _axis(ax, "x", name, grid)
    rows = table.sort_values(name)
    is_word = isinstance(grid.axes[name][0], str)
    places = np.arange(len(rows)) if is_word else rows[name].to_numpy(float)
    p, runs = rows["share_aligned"].to_numpy(), rows["runs"].to_numpy()
    z = 1.96  # Wilson's interval: honest at 0 and 1 too
    middle = (p + z**2 / (2 * runs)) / (1 + z**2 / runs)
    half = z / (1 + z**2 / runs) * np.sqrt(p * (1 - p) / runs + (z / (2 * runs)) ** 2)
    error = np.maximum([p - (middle - half), middle + half - p], 0)
    ax.errorbar(places, p, error, fmt="o", color=BLUE, ms=4, capsize=2)
    ax.set(xlim=(edges[0], edges[-1]), ylim=(-0.05, 1.05), ylabel=SHARE)
    caption = _caption(table, grid, {name}, 85) + "\nbars: 95% intervals (Wilson)"
    figure.suptitle(caption, fontsize=8)
    return figure


def _axis(ax: Axes, which: str, name: str, grid: Grid) -> FloatArray:
    """Label an axis, logarithmic if its values are, and return the edges between its values."""
    values = sorted(grid.axes[name])
    ax.set(**{f"{which}label": _label(name)})
    is_word = isinstance(values[0], str)
    places = np.array(range(len(values)) if is_word else values, dtype=float)
    is_log = bool(not is_word and len(places) > 1 and places[0] > 0 and _grows(places))
    if is_log:
        ax.set(**{f"{which}scale": "log"})
    axis = getattr(ax, f"{which}axis")
    if len(values) <= MOST_LABELS:
        ax.set(**{f"{which}ticks": places, f"{which}ticklabels": [in_words(v, 3) for v in values]})
        axis.set_minor_locator(NullLocator())
    elif is_log and places[-1] < 100 * places[0]:  # else powers of ten are enough
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda tick, _: f"{tick:g}")
        axis.set_minor_formatter(NullFormatter())
    scaled = np.log(places) if is_log else places
    gap = np.diff(scaled) if len(scaled) > 1 else np.ones(1)
    inner = scaled[:-1] + np.diff(scaled) / 2
    edges = np.concatenate([[scaled[0] - gap[0] / 2], inner, [scaled[-1] + gap[-1] / 2]])
    return np.exp(edges) if is_log else edges


def _grows(values: FloatArray) -> bool:
    """Whether ratios are more even than differences or, for two values, the ratio is large."""
    ratios, gaps = np.diff(np.log(values)), np.diff(values)
    if len(values) == 2:
        return bool(values[1] / values[0] > 5)
    return bool(np.ptp(ratios) / ratios.mean() < np.ptp(gaps) / gaps.mean())


def _draw_instability(ax: Axes, unstable: Any) -> str:
    """Draw where half of the runs are still unstable at the end, if both axes are numbers."""
    crossed = (unstable > 0.5).to_numpy()
    axes = (unstable.columns, unstable.index)
    if crossed.all() or not crossed.any() or not all(map(is_numeric_dtype, axes)):
        return ""
    ax.contour(*axes, unstable, levels=[0.5], colors="white", linestyles="--", linewidths=1)
    return "beyond it most runs are still unstable at the end"


def _draw_stability_limit(ax: Axes, x: str, y: str, grid: Grid) -> str:
    """Draw the largest stable step size at the aligned point, if it is a curve in this panel."""
    fixed = [grid.axes[name] for name in ("d", "L", "gamma")]
    is_curve = (x, y) == ("lam", "step_size") and min(grid.axes["lam"]) > 0
    if not is_curve or max(map(len, fixed)) > 1 or grid.axes["lam_decay"] != (0.0,):
        return ""
    task = Task(*(values[0] for values in fixed))
    lam = np.geomspace(min(grid.axes["lam"]), max(grid.axes["lam"]), 200)
    limits = ax.get_xlim(), ax.get_ylim()
    ax.plot(lam, [predicted_stability_limit(task, z) for z in lam], "--", color="white", lw=1.2)
    ax.set(xlim=limits[0], ylim=limits[1])
    return "largest stable step size at the aligned point, off the manifold"


def _caption(table: Any, grid: Grid, shown: set[str | None], width: int) -> str:
    """The settings that all cells share, and those that were averaged over."""
    parts = [
        f"{_label(name)} = {in_words(grid.axes[name][0])}"
        for name in ("start", "optimiser", "d", "L", "gamma", "noise_std", "lam", "step_size")
        if len(grid.axes[name]) == 1 and name not in shown
    ]
    parts += [
        f"{grid.axes[name][0]} {text}"
        for name, text in (("n_steps", "steps"), ("runs", "runs per cell"))
        if len(grid.axes[name]) == 1
    ]
    averaged = [name.replace("_", " ") for name in grid.varied if name not in shown]
    mean = f"; mean over {', '.join(averaged)}" if averaged else ""
    return textwrap.fill(f"{len(table)} cells; {', '.join(parts)}{mean}", width)


def _label(name: str) -> str:
    return LABELS.get(name, name.replace("_", " "))


def in_words(value: Any, digits: int = 4) -> str:
    return value if isinstance(value, str) else f"{value:.{digits}g}"
