"""The style of all figures, and the figures that several studies share: arrays in, Figure out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import MaxNLocator

from slr.dynamics.portrait import FixedPoint, flow
from slr.dynamics.trajectory import Trajectory
from slr.overlaps import Overlaps
from slr.risks import RiskGate, excess_risk
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
KAPPA, NU = r"$\kappa = k^\top k^\star$", r"$\nu = v^\top v^\star$"
PATH_COLOURS, PATH_SHADES = (RED, BLUE, BLACK), ("Oranges", "Blues", "Greys")
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
    for letter, ax in zip("abcdefghi" if len(axes) > 1 else "", axes, strict=False):
        ax.set_title(f"({letter})", loc="left", fontweight="bold")
    return figure, axes


def task_in_words(task: Task) -> str:
    numbers = rf"$d={task.d}$, $L={task.L}$, $\gamma^2={task.gamma**2:g}$"
    return rf"{numbers}, $\varepsilon={task.noise_std:g}$" if task.noise_std else numbers


def plot_experiment(
    name: str, trajectory: Trajectory, highlighted: Sequence[int] = (0, 1), *, bands: bool = True
) -> Figure:
    """Risk, alignment, paths in the (kappa, nu) square and distance to M, as the paper draws them.

    Lines are means over runs and bands 95% percentile intervals; without ``bands`` alignment and
    distance have one line per run. Runs that diverged are thin grey lines. The square shows the
    ``highlighted`` runs.
    """
    with journal_style():
        figure, (risk, alignment, square, distance) = panels(1, 4, (11.0, 2.9))
        ok = ~trajectory.diverged
        step = trajectory.step

        def draw(ax: Axes, values: FloatArray, colour: str, label: str, bands: bool) -> None:
            _draw_runs(ax, step, values[~ok], GREY, "diverged" if colour == BLUE else "")
            if bands:
                draw_bands(ax, step, values[ok], colour, label, centre=np.mean)
            else:
                _draw_runs(ax, step, values[ok], colour, label)

        draw(risk, trajectory.excess_risk, BLUE, "trained", True)
        zero = zero_excess_risk(trajectory.task)
        oracle = oracle_excess_risk(trajectory.task, trajectory.lam[0], trajectory.gate)
        risk.axhline(zero, color=GREY, ls=":", label="zero predictor")
        label = r"oracle $(k^\star, v^\star)$ at $\lambda_t$"
        risk.plot(step, oracle, color=RED, ls="--", label=label)
        risk.set(xlabel="step", ylabel="excess risk", ylim=(0, None))
        risk.legend(fontsize=7)

        draw(alignment, abs(trajectory.overlaps.kappa), BLUE, r"$|\kappa|$", bands)
        draw(alignment, abs(trajectory.overlaps.nu), ORANGE, r"$|\nu|$", bands)
        alignment.set(xlabel="step", ylabel=r"alignment with $k^\star$, $v^\star$")
        alignment.set_ylim(-0.03, 1.03)
        alignment.legend(loc="center right")

        _draw_paths(square, trajectory, highlighted)
        distance.set(xlabel="step", ylabel=r"distance to $\mathcal{M}$", yscale="log")
        if trajectory.distance_to_manifold.any():
            draw(distance, trajectory.distance_to_manifold, PURPLE, "", bands)
        else:
            distance.text(0.5, 0.5, "0 at every step", transform=distance.transAxes, ha="center")
        distance.set(ylim=(1e-8, 2), xlim=alignment.get_xlim())
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


def draw_bands(
    ax: Axes, step: Any, values: FloatArray, colour: str, label: str, centre: Any = np.median
) -> None:
    """The median (or other centre) over runs, the first axis, and the 95% percentile interval."""
    if len(values) == 0:
        return
    low, high = np.percentile(values, [2.5, 97.5], axis=0)
    ax.fill_between(step, low, high, color=colour, alpha=0.2, lw=0)
    ax.plot(step, centre(values, axis=0), color=colour, label=label)


def _draw_runs(ax: Axes, step: Any, values: FloatArray, colour: str, label: str) -> None:
    if len(values):
        ax.plot(step, values.T, color=colour, alpha=0.35, lw=0.8)
        ax.plot([], [], color=colour, label=label or None)


def _draw_paths(ax: Axes, trajectory: Trajectory, which: Sequence[int]) -> None:
    """The paths of some runs, from light to dark by step."""
    for run, colour, shades in zip(which, PATH_COLOURS, PATH_SHADES, strict=False):
        kappa, nu = trajectory.overlaps.kappa[run], trajectory.overlaps.nu[run]
        ax.plot(kappa, nu, color=colour, lw=0.8, alpha=0.6, label=f"run {run}")
        shade = 0.3 + 0.7 * trajectory.step / trajectory.step[-1]
        ax.scatter(kappa, nu, c=shade, cmap=shades, vmin=0, vmax=1, s=6, lw=0, zorder=3)
        ax.plot(kappa[0], nu[0], "o", color=colour, mfc="white", ms=5, zorder=4)
        ax.plot(kappa[-1], nu[-1], "*", color=colour, ms=9, mec="black", mew=0.5, zorder=4)
    ax.set(xlabel=KAPPA, ylabel=NU, xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))
    if len(which):
        ax.legend(fontsize=7, title="o start, * end", title_fontsize=7)


def plot_portrait(
    task: Task,
    lam: float,
    points: Sequence[FixedPoint],
    trajectory: Trajectory | None = None,
    gate: RiskGate = "erf",
) -> Figure:
    """Fixed points and runs on the landscape of the risk; the flow with its speed as colour."""
    with journal_style():
        figure, (landscape, field) = panels(1, 2, (9.2, 4.4))
        axis = np.linspace(-1, 1, 121)
        kappa, nu = np.meshgrid(axis, axis)
        zero = np.zeros_like(kappa)
        risk = excess_risk(task, Overlaps(kappa, nu, zero, zero, zero), lam, gate)
        filled = landscape.contourf(axis, axis, risk, levels=24, cmap="cividis")
        landscape.contour(axis, axis, risk, levels=24, colors="white", linewidths=0.3)
        figure.colorbar(filled, ax=landscape, label="excess risk", shrink=0.85)
        if trajectory is not None:
            paths = trajectory.overlaps.kappa.T, trajectory.overlaps.nu.T
            edge = [Stroke(linewidth=2.2, foreground=BLACK), Normal()]  # seen on any background
            first, *_ = landscape.plot(*paths, color="white", lw=1.2, path_effects=edge)
            first.set_label(f"{trajectory.runs} PGD runs")
            landscape.plot(paths[0][0], paths[1][0], "o", color="white", mec=BLACK, ms=4)
        stream = draw_flow(field, task, lam, points, gate)
        figure.colorbar(stream, ax=field, label="speed of the flow", shrink=0.85)
        field.set_title("gradient flow")
        _draw_fixed_points(landscape, points)
        landscape.grid(visible=False)
        landscape.set(xlabel=KAPPA, ylabel=NU, xlim=(-1, 1), ylim=(-1, 1), aspect="equal")
        landscape.set_title(r"risk on $\mathcal{M}$")
        legend = landscape.get_legend_handles_labels()
        figure.legend(*legend, loc="outside lower center", ncols=4)
        title = rf"$d={task.d}$, $L={task.L}$, $\gamma^2={task.gamma**2:g}$, $\lambda={lam:g}$"
        figure.suptitle(title, fontsize=9)
        return figure


def draw_flow(
    ax: Axes, task: Task, lam: float, points: Sequence[FixedPoint], gate: RiskGate = "erf"
) -> Any:
    """Streamlines of the flow on the manifold, coloured by speed, and its fixed points."""
    axis = np.linspace(-1, 1, 121)
    velocity = flow(task, *np.meshgrid(axis, axis), lam, gate)
    stream = ax.streamplot(
        axis, axis, *velocity, color=np.hypot(*velocity), cmap="viridis", density=1.4,
        linewidth=1.0, arrowsize=0.9,
    )  # fmt: skip
    _draw_fixed_points(ax, points)
    ax.grid(visible=False)
    ax.set(xlabel=KAPPA, ylabel=NU, xlim=(-1, 1), ylim=(-1, 1), aspect="equal")
    return stream.lines


def _draw_fixed_points(ax: Axes, points: Sequence[FixedPoint]) -> None:
    for kind, (marker, colour) in KIND_MARKERS.items():
        places = [(point.kappa, point.nu) for point in points if point.kind == kind]
        if places:
            ax.plot(
                *zip(*places, strict=True), marker, color=colour, ms=9, mec="black", mew=0.7,
                ls="", label=kind, clip_on=False, zorder=5,
            )  # fmt: skip
