"""The style of all figures, and the figures that several studies share: arrays in, Figure out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slr.dynamics.portrait import FixedPoint, flow
from slr.dynamics.trajectory import Trajectory
from slr.task import FloatArray, Task
from slr.yardsticks import oracle_excess_risk, zero_excess_risk

# Okabe and Ito's palette, which colour-blind readers can tell apart, too.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, BLACK = COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000",
)  # fmt: skip
GREY = "#777777"

MARKERS = "osD^vP*X"
YARDSTICK_STYLES: dict[str, tuple[str, str, Any]] = {  # name: label, colour, line
    "zero": ("zero predictor", GREY, ":"),
    "linear": ("best linear", ORANGE, "-."),
    "oracle": (r"erf oracle, best $\lambda$", RED, "--"),
    "bayes": ("Bayes", BLACK, (0, (1, 1))),
}
KIND_MARKERS = {"minimum": ("o", GREEN), "saddle": ("s", ORANGE), "maximum": ("X", RED)}


@contextmanager
def journal_style() -> Iterator[None]:
    """Sizes and fonts for a page, whatever the user's settings of matplotlib are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rc("font", size=9)
        mpl.rc("axes", titlesize=9, labelsize=9, grid=True, axisbelow=True)
        mpl.rc("axes.spines", top=False, right=False)
        mpl.rc("legend", fontsize=8, frameon=False)
        mpl.rc("grid", color="#E5E5E5", linewidth=0.6)
        mpl.rc("lines", linewidth=1.4)
        mpl.rc("figure", dpi=150)
        mpl.rc("savefig", dpi=200)
        mpl.rc("pdf", fonttype=42)
        yield


def panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, lettered (a), (b), ... if there are several. No pyplot needed."""
    figure = Figure(figsize=size, layout="constrained")
    axes = list(np.ravel(figure.subplots(rows, columns)))
    for letter, ax in zip("abcdefgh" if len(axes) > 1 else "", axes, strict=False):
        ax.set_title(f"({letter})", loc="left", fontweight="bold")
    return figure, axes


def task_in_words(task: Task) -> str:
    numbers = rf"$d={task.d}$, $L={task.L}$, $\gamma^2={task.gamma**2:g}$"
    return rf"{numbers}, $\varepsilon={task.noise_std:g}$" if task.noise_std else numbers


def plot_experiment(name: str, trajectory: Trajectory, *, bands: bool = True) -> Figure:
    """Risk, alignment, paths of two runs in the (kappa, nu) square, and distance to M, by step.

    Lines are medians and bands 95% percentile intervals; without ``bands`` every run is one line.
    Runs that diverged are thin grey lines.
    """
    with journal_style():
        figure, (risk, alignment, square, distance) = panels(2, 2, (7.0, 5.2))
        ok = ~trajectory.diverged
        step = trajectory.step

        def draw(ax: Axes, values: FloatArray, colour: str, label: str) -> None:
            _draw_runs(ax, step, values[~ok], GREY, "diverged" if colour == BLUE else "")
            (draw_bands if bands else _draw_runs)(ax, step, values[ok], colour, label)

        draw(risk, trajectory.excess_risk, BLUE, "trained")
        zero = zero_excess_risk(trajectory.task)
        oracle = oracle_excess_risk(trajectory.task, trajectory.lam[0])
        risk.axhline(zero, color=GREY, ls=":", label="zero predictor")
        label = r"oracle $(k^\star, v^\star)$ at $\lambda_t$"
        risk.plot(step, oracle, color=RED, ls="--", label=label)
        risk.set(xlabel="step", ylabel="excess risk", yscale="log")
        risk.legend()

        draw(alignment, abs(trajectory.overlaps.kappa), BLUE, r"$|\kappa|$")
        draw(alignment, abs(trajectory.overlaps.nu), ORANGE, r"$|\nu|$")
        alignment.set(xlabel="step", ylabel="alignment", ylim=(-0.03, 1.03))
        alignment.legend(loc="center right")

        _draw_paths(square, trajectory, np.flatnonzero(ok)[:2])
        _draw_distance(distance, trajectory, draw)
        for ax in (risk, alignment, distance):
            ax.xaxis.set_major_locator(MaxNLocator(3))  # six digits take room
        figure.suptitle(_headline(name, trajectory), fontsize=9)
        return figure


def _headline(name: str, trajectory: Trajectory) -> str:
    task, n_diverged = trajectory.task, int(trajectory.diverged.sum())
    first, last = trajectory.lam[0, 0], trajectory.lam[0, -1]
    lam = rf"$\lambda={first:g}$" if first == last else rf"$\lambda={first:g} \to {last:.2g}$"
    line = f"{name}: {task_in_words(task)}, {lam}, "
    line += f"{trajectory.aligned().sum()} of {trajectory.runs} runs align"
    return f"{line}, {n_diverged} diverged (grey)" if n_diverged else line


def draw_bands(ax: Axes, step: Any, values: FloatArray, colour: str, label: str) -> None:
    """The median over runs (the first axis) and the 95% percentile interval, by step."""
    if len(values) == 0:
        return
    low, middle, high = np.percentile(values, [2.5, 50, 97.5], axis=0)
    ax.fill_between(step, low, high, color=colour, alpha=0.2, lw=0)
    ax.plot(step, middle, color=colour, label=label)


def _draw_runs(ax: Axes, step: Any, values: FloatArray, colour: str, label: str) -> None:
    if len(values):
        ax.plot(step, values.T, color=colour, alpha=0.35, lw=0.8)
        ax.plot([], [], color=colour, label=label or None)


def _draw_paths(ax: Axes, trajectory: Trajectory, which: Any) -> None:
    for run, colour in zip(which, (BLUE, ORANGE), strict=False):
        kappa, nu = trajectory.overlaps.kappa[run], trajectory.overlaps.nu[run]
        ax.plot(kappa, nu, color=colour, lw=1.0, marker=".", ms=2.5, label=f"run {run}")
        ax.plot(kappa[0], nu[0], "o", color=colour, mfc="white", ms=5)
        ax.plot(kappa[-1], nu[-1], "*", color=colour, ms=9, mec="black", mew=0.5)
    ax.set(xlabel=r"$\kappa = k^\top k^\star$", ylabel=r"$\nu = v^\top v^\star$")
    ax.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal")
    if len(which):
        ax.legend(title="o start, * end", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_distance(ax: Axes, trajectory: Trajectory, draw: Any) -> None:
    distance = trajectory.distance_to_manifold
    ax.set(xlabel="step", ylabel=r"distance to $\mathcal{M}$")
    if distance.max() == 0:
        ax.text(0.5, 0.5, "exactly 0 at every step", transform=ax.transAxes, ha="center")
        ax.set(xlim=(trajectory.step[0], trajectory.step[-1]), yticks=[])
        return
    ax.set_yscale("log")
    draw(ax, np.maximum(distance, 1e-16), PURPLE, "")


def plot_portrait(
    task: Task, lam: float, points: Sequence[FixedPoint], trajectory: Trajectory | None = None
) -> Figure:
    """The flow on the manifold, its fixed points, and runs on it."""
    with journal_style():
        figure, (ax,) = panels(1, 1, (4.6, 4.2))
        ax.grid(visible=False)
        axis = np.linspace(-1, 1, 60)
        kappa, nu = np.meshgrid(axis, axis)
        velocity = flow(task, kappa, nu, lam)
        ax.streamplot(axis, axis, *velocity, color=GREY, density=1.1, linewidth=0.7, arrowsize=0.8)
        if trajectory is not None:
            paths = trajectory.overlaps.kappa.T, trajectory.overlaps.nu.T
            first, *_ = ax.plot(*paths, color=BLUE, lw=1.1, alpha=0.8)
            first.set_label(f"{trajectory.runs} PGD runs")
            ax.plot(paths[0][0], paths[1][0], ".", color=BLUE, ms=4)
        for kind, (marker, colour) in KIND_MARKERS.items():
            places = [(point.kappa, point.nu) for point in points if point.kind == kind]
            if places:
                ax.plot(
                    *zip(*places, strict=True), marker, color=colour, ms=9, mec="black", mew=0.7,
                    ls="", label=kind, clip_on=False, zorder=5,
                )  # fmt: skip
        ax.set(xlabel=r"$\kappa = k^\top k^\star$", ylabel=r"$\nu = v^\top v^\star$")
        ax.set(xlim=(-1, 1), ylim=(-1, 1), aspect="equal")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, handletextpad=0.3)
        title = rf"Flow on $\mathcal{{M}}$: $d={task.d}$, $\gamma^2={task.gamma**2:g}$"
        figure.suptitle(rf"{title}, $\lambda={lam:g}$", fontsize=9)
        return figure
