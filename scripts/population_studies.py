"""Studies of run_slr.py on the idealised model beyond the paper. (Heavy imports wait inside.)"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from study import Result, progress_bar

if TYPE_CHECKING:
    from run_slr import Config

# What is drawn: (activation, threshold fitted too).
DRAWN = {
    "softmax": ("softmax", False),
    "sigmoid, threshold": ("sigmoid", True),
    "relu, threshold": ("relu", True),
    "relu": ("relu", False),
    "erf": ("erf", False),
    "linear": ("linear", False),
    "sigmoid": ("sigmoid", False),
}


def activations(config: "Config", name: str) -> Result:
    """The best excess risk of each attention against d, L and gamma, with Bayes."""
    import numpy as np
    import pandas as pd

    from slr.population_figures import plot_activations
    from slr.task import Task

    n_samples = 500 if config.smoke else 500_000 if config.full else 50_000
    points = 2 if config.smoke else 9  # odd: gamma = 1 is one of them
    base = Task(d=20, L=10, gamma=1.0)
    axes: dict[str, list[Any]] = {
        "d": sorted({round(x) for x in np.geomspace(2, 48, points)}),  # beyond, softmax never errs
        "L": sorted({round(x) for x in np.geomspace(2, 100, points)}),
        "gamma": [float(x) for x in np.geomspace(0.5, 2, points)],
    }
    total = sum(len(values) for values in axes.values())
    rngs = iter(np.random.default_rng(config.seed).spawn(total))
    rows = []
    with progress_bar(name, total) as progress:
        for axis, values in axes.items():
            for value in values:
                task = replace(base, **{axis: value})
                rows += [{"axis": axis, **row} for row in best_rows(task, n_samples, next(rngs))]
                progress(1)
    table = pd.DataFrame(rows)
    caption = (
        rf"best over $\lambda$, scale of $v$ (and threshold), at $k^\star, v^\star$: $d={base.d}$,"
        rf" $L={base.L}$, $\gamma={base.gamma:g}$ but for the axis; {n_samples:,} samples,"
        " bars: 2 standard errors"
    )
    figure = plot_activations(table, DRAWN, caption)
    at_one = table[(table["axis"] == "d") & (table["attention"].isin(["softmax", "bayes"]))]
    wide = at_one.pivot_table(index="d", columns="attention", values=["excess_risk", "stderr"])
    gap = (wide["excess_risk"]["softmax"] - wide["excess_risk"]["bayes"]).abs()
    error = np.hypot(wide["stderr"]["softmax"], wide["stderr"]["bayes"])
    top = table[(table["axis"] == "d") & (table["d"] == max(axes["d"]))]
    lines = [
        f"softmax against Bayes at gamma = 1, d = {min(axes['d'])} to {max(axes['d'])}: "
        f"at most {(gap / error).max():.1f} standard errors apart",
        f"at d = {max(axes['d'])}, L = {base.L}, gamma = 1: "
        + ", ".join(f"{row.attention} {row.excess_risk:.4f}" for row in top.itertuples()),
    ]
    return Result({"activations": table}, {name: figure}, lines)


def best_rows(task: Any, n_samples: int, rng: Any) -> list[dict[str, Any]]:
    """One row an attention, and one for Bayes."""
    from slr.attentions.best import best_attention
    from slr.yardsticks import bayes_excess_risk

    setting = {"d": task.d, "L": task.L, "gamma": task.gamma}
    bayes = bayes_excess_risk(task, n_samples, rng)
    rows = [setting | {"attention": "bayes", "excess_risk": bayes.value, "stderr": bayes.stderr}]
    for label, (activation, fit_threshold) in DRAWN.items():
        found = best_attention(task, activation, n_samples, rng, fit_threshold=fit_threshold)  # type: ignore[arg-type]
        risk = {"excess_risk": found.excess_risk.value, "stderr": found.excess_risk.stderr}
        at = {"lam": found.lam, "threshold": found.threshold, "scale": found.scale}
        rows.append(setting | {"attention": label} | risk | {"mass": found.mass} | at)
    return rows


def conditional_mean(config: "Config", name: str) -> Result:
    """Error of softmax and kernel attention against L, and of what was learned at one length."""
    import numpy as np
    import pandas as pd

    from slr.attentions.conditional_mean import LatentTask, fit_slope
    from slr.attentions.learned import learn_attention
    from slr.population_figures import plot_conditional_mean

    task = LatentTask()
    lengths = [8, 16] if config.smoke else [8, 16, 32, 64, 128, 256, 512]
    learned_at = [8] if config.smoke else [8, 32, 128]
    n_contexts = 10 if config.smoke else 400 if config.full else 80
    n_steps = 5 if config.smoke else 1500 if config.full else 300
    learn_rng, test_rng, boot_rng = np.random.default_rng(config.seed).spawn(3)
    learned = {}
    with progress_bar("learning", len(learned_at) * n_steps) as progress:
        for L, rng in zip(learned_at, learn_rng.spawn(len(learned_at)), strict=True):
            learned[L] = learn_attention(task, L, rng, n_steps=n_steps, progress=progress)
    with progress_bar("testing", len(lengths)) as progress:
        errors: dict[tuple[str, int], Any] = {}
        for L in lengths:
            errors |= errors_at(task, L, n_contexts, learned, test_rng)
            progress(1)
    fitted = lengths[len(lengths) // 3 :]  # the first lengths are too short to tell f_z from 0
    slopes = {
        label: fit_slope(fitted, [errors[label, L] for L in fitted], boot_rng)
        for label in ("softmax, best", "kernel")
    }
    rows = [
        {"attention": label, "L": L, "error": x.mean(), "stderr": x.std(ddof=1) / len(x) ** 0.5}
        for (label, L), x in errors.items()
    ]
    found = [
        {"L": L, "beta": np.trace(x.metric) / task.d_key, "precision": x.precision}
        | {"ridge": x.ridge}
        for L, x in learned.items()
    ]
    tables = {"errors": pd.DataFrame(rows), "learned": pd.DataFrame(found)}
    tables["slopes"] = pd.DataFrame([{"attention": key} | s._asdict() for key, s in slopes.items()])
    few = "" if config.full else " (400 and 1500 with --full)"
    caption = (
        rf"keys on the sphere of $R^{task.d_key}$, noise {task.noise_std:g}; "
        f"{n_contexts} latents a length, {n_steps} steps of learning{few}; bars: 2 standard errors"
    )
    figure = plot_conditional_mean(tables["errors"], learned_at, slopes, fitted, caption)
    lines = [
        f"{label}: slope {s.value:.2f} [{s.low:.2f}, {s.high:.2f}] for L >= {fitted[0]}"
        for label, s in slopes.items()
    ]
    ends = [row for row in rows if row["L"] == lengths[-1]]
    lines += [
        f"L = {r['L']}, {r['attention']}: {r['error']:.4f} +- {r['stderr']:.4f}" for r in ends
    ]
    lines += [
        f"learned at {r['L']}: beta {r['beta']:.1f}, precision {r['precision']:.2f} (true "
        f"{task.precision:g}), ridge {r['ridge']:.3f} (noise^2 {task.noise_std**2:g})"
        for r in found
    ]
    return Result(tables, {name: figure}, lines)


def errors_at(
    task: Any, L: int, n_contexts: int, learned: dict[int, Any], rng: Any
) -> dict[tuple[str, int], Any]:
    """Errors by context of each attention at length L: those best there, and learned ones."""
    import numpy as np

    from slr.attentions import conditional_mean as c

    tuning = c.sample_contexts(task, 2 * n_contexts, L, 16, rng)
    beta = c.best_beta(tuning, np.geomspace(1, 300, 30))
    settings: dict[str, tuple[Any, ...]] = {
        "softmax, best": (beta,),
        "kernel": (task.precision, task.noise_std**2),
    }
    for at, x in learned.items():
        settings[f"softmax, learned at {at}"] = (x.metric,)
        settings[f"kernel, learned at {at}"] = (x.precision, x.ridge)
    contexts = c.sample_contexts(task, n_contexts, L, 32, rng)
    kinds: dict[str, Any] = {"softmax": c.softmax_attention, "kernel": c.kernel_attention}
    return {
        (label, L): c.squared_errors(kinds[label.split(",")[0]](contexts, *values), contexts)
        for label, values in settings.items()
    }


def noise_length(config: "Config", name: str) -> Result:
    """PGD and SGD from the sphere over noise, L and gamma: where they end, and how soon."""
    import numpy as np
    import pandas as pd

    from slr.dynamics.experiment import EXPERIMENTS, run_experiment
    from slr.dynamics.trajectory import ALIGNMENT
    from slr.population_figures import plot_noise_length
    from slr.yardsticks import oracle_excess_risk

    # The paper's SGD with steps four times as large, and so a schedule four times as fast.
    base = EXPERIMENTS["sgd-schedule"]
    base = replace(base, step_size=4 * base.step_size, lam_decay=4 * base.lam_decay)
    n_steps = config.steps or (200 if config.smoke else base.n_steps // 4)
    runs = config.runs or (2 if config.smoke else 30 if config.full else 6)
    base = replace(
        base, runs=runs, seed=config.seed, n_steps=n_steps, log_every=max(1, n_steps // 100)
    )
    gammas = [0.5, 1.0] if config.smoke else [0.5, float(np.sqrt(0.5)), 1.0]
    lengths = [5] if config.smoke else [5, 10, 20, 40]
    noises: list[float | None] = [None, 0.0] if config.smoke else [None, 0.0, 0.3, 1.0, 3.0]
    cells = [(gamma, L, noise) for gamma in gammas for L in lengths for noise in noises]
    tokens = sum(L for _, L, noise in cells if noise is not None) * runs * n_steps
    rows = []
    with progress_bar(name, tokens) as progress:
        for gamma, L, noise in cells:
            cell = replace(base, gamma=gamma, L=L, noise_std=noise or 0.0)
            if noise is None:  # PGD sees the risk itself, from which noise is only a constant off
                found = run_experiment(replace(cell, optimiser="pgd"))
            else:
                found = run_experiment(cell, progress=lambda n, L=L: progress(n * L))  # type: ignore[misc]
            setting = {"gamma": gamma, "L": L, "noise": "PGD" if noise is None else f"{noise:g}"}
            risk = np.percentile(found.excess_risk[:, -1], [2.5, 50, 97.5])
            reached = found.steps_to_align()
            reached = reached[found.aligned()]
            steps = np.percentile(reached, [2.5, 50, 97.5]) if len(reached) else [np.nan] * 3
            ends = dict(
                zip(("excess_risk_low", "excess_risk", "excess_risk_high"), risk, strict=True)
            )
            ends |= dict(zip(("steps_low", "steps", "steps_high"), steps, strict=True))
            oracle = float(oracle_excess_risk(cell.task, found.lam[0, -1]))
            share = {"runs": runs, "share": len(reached) / runs, "oracle": oracle}
            rows.append(setting | share | ends)
    table = pd.DataFrame(rows)
    few = "" if config.full else " (30 with --full)"
    caption = (
        rf"$d={base.d}$, batch {base.batch_size}, step size {base.step_size:g}, "
        rf"{n_steps} steps, {runs} runs{few}: median and 95% interval"
        "\n"
        rf"aligned: $|\kappa|, |\nu| > {ALIGNMENT}$; dotted: zero predictor; "
        r"dash: oracle at the last $\lambda$; x: no run aligns"
    )
    middle = table[table["gamma"] == gammas[len(gammas) // 2]]
    lines = [
        f"gamma = {r.gamma:.2g}, L = {r.L}, {'' if r.noise == 'PGD' else 'SGD, noise '}{r.noise}: "
        f"excess risk {r.excess_risk:.4f}, {r.share:.0%} aligned, {r.steps:.0f} steps"
        for r in middle.itertuples()
    ]
    return Result({"noise_length": table}, {name: plot_noise_length(table, caption)}, lines)
