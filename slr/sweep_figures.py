"""A sweep as heat maps: the share of runs that align, over the two axes with the most values."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slr.cells import ALIGNMENT
from slr.figures import journal_style, panels
from slr.grid import Grid
from slr.scaling import predicted_stability_limit
from slr.task import Task

LABELS = {
    "lam": r"$\lambda$", "lam_decay": r"decay of $\lambda$", "step_size": "step size",
    "gamma": r"$\gamma$", "noise_std": r"noise $\varepsilon$", "d": "$d$", "L": "$L$",
}  # fmt: skip
MOST_PANELS = 4


def plot_sweep(table: Any, grid: Grid) -> Figure:
    """One heat map for each value of a third axis (if few); over all further axes, the mean."""
    by_length = sorted(grid.varied, key=lambda name: -len(grid.axes[name]))
    x, y = sorted([*by_length[:2], *[name for name in grid.axes if name not in by_length]][:2])
    third = next((n for n in by_length[2:] if len(grid.axes[n]) <= MOST_PANELS), None)
    values = grid.axes[third] if third else (None,)
    with journal_style():
        figure, axes = panels(1, len(values), (1.2 + 3.7 * len(values), 3.9))
        for ax, value in zip(axes, values, strict=True):
            rows = table[table[third] == value] if third else table
            share = rows.pivot_table(index=y, columns=x, values="share_aligned", aggfunc="mean")
            share = share.reindex(index=list(grid.axes[y]), columns=list(grid.axes[x]))
            ax.grid(visible=False)
            places = [_axis(ax, which, name, grid) for which, name in (("x", x), ("y", y))]
            image = ax.pcolormesh(
                *places, share.to_numpy(), cmap="cividis", vmin=0, vmax=1, shading="nearest"
            )
            limit = _draw_stability_limit(ax, x, y, grid)
            if third:
                ax.set_title(f"{LABELS.get(third, third)} = {_text(value)}")
        label = rf"share of runs with $|\kappa|, |\nu| > {ALIGNMENT}$"
        figure.colorbar(image, ax=axes, label=label)
        caption = _caption(table, grid, {x, y, third})
        if limit:
            caption += "\ndashed: largest stable step size at the aligned point, off the manifold"
        figure.suptitle(caption, fontsize=8)
        return figure


def _axis(ax: Axes, which: str, name: str, grid: Grid) -> Any:
    """Where the values of an axis lie: as numbers, logarithmic if so spaced, else one by one."""
    values, label = grid.axes[name], LABELS.get(name, name.replace("_", " "))
    ax.set(**{f"{which}label": label})
    if len(values) > 1 and not isinstance(values[0], str):
        numbers = np.array(values, dtype=float)
        order = np.sort(numbers)
        if order[0] > 0 and len(order) > 2:
            ratios, gaps = np.diff(np.log(order)), np.diff(order)
            if np.ptp(ratios) / ratios.mean() < np.ptp(gaps) / gaps.mean():
                ax.set(**{f"{which}scale": "log"})
        return numbers
    ax.set(**{f"{which}ticks": range(len(values)), f"{which}ticklabels": map(_text, values)})
    return np.arange(len(values))


def _draw_stability_limit(ax: Axes, x: str, y: str, grid: Grid) -> bool:
    """The largest stable step size at the aligned point, where it is a curve in this panel."""
    fixed = [name for name in ("d", "L", "gamma") if len(grid.axes[name]) == 1]
    if (x, y) != ("lam", "step_size") or len(fixed) < 3 or grid.axes["lam_decay"] != (0.0,):
        return False
    d, L, gamma = (grid.axes[name][0] for name in fixed)
    task = Task(int(d), int(L), float(gamma))
    lam = np.geomspace(min(grid.axes["lam"]), max(grid.axes["lam"]), 200)
    limits = ax.get_xlim(), ax.get_ylim()
    ax.plot(lam, [predicted_stability_limit(task, z) for z in lam], "--", color="white", lw=1.2)
    ax.set(xlim=limits[0], ylim=limits[1])
    return True


def _caption(table: Any, grid: Grid, shown: set[str | None]) -> str:
    fixed = [
        f"{LABELS.get(name, name.replace('_', ' '))} = {_text(grid.axes[name][0])}"
        for name in ("optimiser", "d", "L", "gamma", "noise_std")
        if len(grid.axes[name]) == 1
    ]
    fixed += [
        f"{grid.axes[name][0]} {text}"
        for name, text in (("n_steps", "steps"), ("runs", "runs a cell"))
        if len(grid.axes[name]) == 1
    ]
    averaged = [name.replace("_", " ") for name in grid.varied if name not in shown]
    text = f"{len(table)} cells; " + ", ".join(fixed)
    if averaged:
        text += f"; mean over {', '.join(averaged)}"
    return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
