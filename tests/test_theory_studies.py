"""The studies of the idealised model: what they write, keep and refuse."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from slr import EXPERIMENTS, Task, published_start
from slr.attentions.layer_training import LayerRuns, LayerTraining, joined, train_layer
from slr.gates.softmax import attention_mass
from slr.sweep import cell_grid
from studies import slr_commands as group
from studies.catalogue import STUDIES, THEORY
from studies.ending import fail
from studies.making import make
from studies.study import SlrOptions, Study, Tables
from studies.theory import (
    layer,
    paper,
    portrait,
    scaling,
    success,
    sweep,
)
from studies.theory.figures.sweep import plot_sweep

ROOT = Path(__file__).parent.parent
MANIFOLD, _, SGD = paper.STUDIES[:3]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slr")


@pytest.mark.parametrize("study", THEORY, ids=lambda study: study.name)
def test_a_study_writes_tables_settings_and_figures_and_says_where(
    study: Study, smoke: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make(study, study.options(output=smoke, smoke=True))  # type: ignore[call-arg]
    out = capsys.readouterr().out
    assert out.startswith(f"{study.title}\n")
    assert out.endswith(f"written to {folder}\n")
    assert json.loads((folder / "settings.json").read_text())["seed"] == 0
    assert {path.stem for path in folder.glob("*.png")} == set(study.figures)
    for stem in study.figures:
        assert (folder / f"{stem}.png").stat().st_size > 5000
        assert (folder / f"{stem}.pdf").read_bytes().startswith(b"%PDF")
    (table, *_) = folder.glob("*.parquet")
    assert len(pd.read_parquet(table)) > 0
    assert all(finding.sentence for finding in study.findings(Tables(folder)))


@pytest.mark.parametrize("study", THEORY, ids=lambda study: study.name)
def test_an_entry_that_is_not_a_number_is_in_a_documented_column(study: Study, smoke: Path) -> None:
    folder = make(study, study.options(output=smoke, smoke=True))  # type: ignore[call-arg]
    assert not undocumented(folder)


MISSING = {  # columns in which an entry may be missing: what that means
    "steps_to_align": "no run of the setting aligns, or steps of fresh starts were not logged",
    **dict.fromkeys(("steps", "steps_low", "steps_high"), "no run of the setting aligns"),
    **dict.fromkeys(("median", "low", "high"), "no run of the setting aligns"),
    **dict.fromkeys(("above", "above_stderr", "lam", "threshold", "scale"), "Bayes has none"),
    **dict.fromkeys(("difference", "error"), "a part of the statistic has the other number only"),
    **dict.fromkeys(("mass", "value_cosine"), "the predictor has no attention"),
    **dict.fromkeys(("key_cosine", "swap_cosine"), "no attention, or a key of length 0"),
    **dict.fromkeys(("early", "late"), "no length of the study is learned"),
    "on_the_map": "the paper's schedule is not a setting of the map",
    "predicted": "the rate is that of d far larger than L",
}
INFINITE = {"steps_to_align", "steps_to_learn"}  # most runs do not


def undocumented(folder: Path) -> set[str]:
    """Columns with entries that are missing or infinite, unless it is known why."""
    found = set()
    for path in folder.glob("*.parquet"):
        table = pd.read_parquet(path)
        infinite = table.select_dtypes("float").map(np.isinf).any()
        missing = table.isna().any()
        found |= {f"{path.stem}: {name}" for name in missing[missing].index if name not in MISSING}
        found |= {
            f"{path.stem}: {name}" for name in infinite[infinite].index if name not in INFINITE
        }
    return found


def test_titles_and_folders_are_used_once() -> None:
    """A study of two models has one name, and a title and a folder for each."""
    for field in ("title", "folder"):
        values = [getattr(study, field) for study in STUDIES]
        assert len(set(values)) == len(values)


def test_what_was_made_alike_is_kept_and_the_rest_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = portrait.Options(output=tmp_path, smoke=True)
    make(portrait.STUDY, options)
    make(portrait.STUDY, options)
    assert "unchanged" in capsys.readouterr().out
    with pytest.raises(FileExistsError, match="other settings"):
        make(portrait.STUDY, replace(options, seed=1))


def test_pgd_runs_from_the_published_starts_and_from_fresh_ones(smoke: Path) -> None:
    options = paper.Options(output=smoke, smoke=True)
    tables = Tables(make(MANIFOLD, options))
    begin = tables["trajectory"].query("step == 0")
    assert begin["kappa"].tolist() == published_start("pgd-manifold").kappa[:4].tolist()
    assert tables["runs"]["start"].value_counts().to_dict() == {"published": 4, "random": 8}
    random = replace(options, starts="random", d=500, runs=31, output=smoke / "random")
    tables = Tables(make(MANIFOLD, random))
    assert tables["runs"]["start"].value_counts().to_dict() == {"random": 31}
    begin = tables["trajectory"].query("step == 0")
    assert (begin["distance_to_manifold"] == 0).all(), "drawn in float64"


@pytest.mark.parametrize(
    ("study", "options", "message"),
    [
        (MANIFOLD, {"runs": -1}, "runs must be"),
        (MANIFOLD, {"d": 1}, "d must be"),
        (SGD, {"d": 5}, "sgd needs d of at least 6"),
        (MANIFOLD, {"d": 500}, "30 starts at d = 400; --d 500 needs --starts random"),
        (MANIFOLD, {"runs": 31}, "30 starts at d = 400; --runs 31 needs --starts random"),
        (MANIFOLD, {"steps": -5}, "--steps must be at least 1"),
        (MANIFOLD, {"seed": -1}, "--seed must be at least 0"),
        (sweep.STUDY, {"vary": ("lam",)}, "--vary takes name=value"),
        (sweep.STUDY, {"vary": ("lam=",)}, "the grid is empty: lam has no values"),
        (sweep.STUDY, {"vary": ("seed=3",), "seed": 4}, "seed is given twice"),
        (sweep.STUDY, {"grid": Path("empty.toml")}, "empty.toml is an empty grid"),
        (sweep.STUDY, {"grid": Path("bad.toml")}, "bad.toml is not a TOML file"),
        (sweep.STUDY, {"grid": Path("missing.toml")}, "missing.toml"),
    ],
)
def test_what_cannot_be_is_refused(
    study: Study,
    options: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.toml").touch()
    Path("bad.toml").write_text("lam = [")
    with pytest.raises((ValueError, OSError), match=message):
        make(study, study.options(**{"output": tmp_path / "out"} | options))
    assert not (tmp_path / "out").exists()


# ---- layers


def layer_runs(risk: Any, key: Any, swap: Any) -> LayerRuns:
    training = LayerTraining(Task(d=12, L=4, gamma=0.7), n_steps=8)
    rest = np.full((2, *np.shape(risk)), 0.5)
    return LayerRuns(training, np.arange(9), np.array(risk), rest[0], key, rest[1], swap)


def test_runs_of_a_layer_are_told_apart_by_where_their_key_ended() -> None:
    risk = [[9, 9, 9, 9, 9, 0.2, 0.4, 0.1, 0.2]] * 4  # two readings per quarter
    key, swap = np.full((4, 9), np.nan), np.full((4, 9), np.nan)
    key[:3, -1], swap[:3, -1] = [-0.8, 0.3, 0.5], [0.5, -0.9, 0.6]
    found = layer.ends("name", layer_runs(risk, key, swap))
    assert found["ended"].tolist() == ["aligned", "swapped", "neither", "no key"]
    np.testing.assert_allclose(found["excess_risk"], 0.15)
    np.testing.assert_allclose(found["change"], 0.15 / 0.3 - 1)


def test_findings_on_the_layer_are_on_medians_of_late_readings_and_on_the_worst_run(
    tmp_path: Path,
) -> None:
    steps = np.arange(0, 8001, 100)
    columns = {"mass": 0.99, "key_cosine": 0.9}
    jumps = np.where(steps > 8000 - 400, 0.02, 0.001)  # four of the last ten readings
    layers = [
        pd.DataFrame({"run": run, "step": steps, "excess_risk": risk, **columns})
        for run, risk in ((0, jumps), (1, 0.006))
    ]
    for name, table in (("layer", layers[0]), ("reduced", pd.concat(layers))):
        table.to_parquet(tmp_path / f"{name}.parquet")
    pd.DataFrame({"oracle": [0.18]}).to_parquet(tmp_path / "yardsticks.parquet")
    risk, key, reduced = layer.findings(Tables(tmp_path))
    assert (risk.value, key.verdict) == (0.001, "not comparable")
    assert (reduced.value, reduced.verdict) == (0.006, "missed")


def test_the_step_size_of_a_layer_is_the_best_of_other_runs(smoke: Path) -> None:
    folder = make(layer.STUDY, layer.Options(output=smoke, smoke=True))
    tables = Tables(folder)
    sizes, reported = tables["step_sizes"], tables["ends"]
    for name, rows in sizes.groupby("architecture"):
        best = rows.loc[rows["excess_risk"].idxmin()]
        assert set(reported[reported["architecture"] == name]["step_size"]) == {best["step_size"]}
        assert rows["chosen"].tolist() == (rows.index == best.name).tolist()
    task = Task(d=80, L=10, gamma=np.sqrt(1 / 2), noise_std=0.1)
    training = LayerTraining(task, optimiser="adam", n_steps=12, log_every=12, n_test=200)
    for _, row in sizes[sizes["architecture"] == "softmax"].iterrows():
        sized = replace(training, step_size=row["step_size"])
        layers = joined([train_layer(sized, run) for run in (2, 3, 4)])
        assert np.median(layers.excess_risk[:, -1]) == row["excess_risk"]  # runs 0, 1 are reported


def test_the_reduced_softmax_is_that_of_the_theory_and_its_step_size_of_other_runs(
    smoke: Path,
) -> None:
    tables = Tables(make(layer.STUDY, layer.Options(output=smoke, smoke=True)))
    reduced, sizes = tables["reduced"], tables["reduced_step_sizes"]
    assert set(zip(reduced["run"], reduced["step"], strict=True)) == set(
        zip(tables["layer"]["run"], tables["layer"]["step"], strict=True)
    )
    task = Task(d=80, L=10, gamma=np.sqrt(1 / 2), noise_std=0.1)
    mass = attention_mass(task, reduced["kappa"].to_numpy(), reduced["lam"].to_numpy())
    np.testing.assert_allclose(reduced["mass"], mass, rtol=1e-8)  # tables of different ranges
    assert reduced[reduced["step"] == 0]["lam"].tolist() == [1 / np.sqrt(80)] * 2
    training = LayerTraining(task, n_steps=20, log_every=20)
    for row in sizes.to_dict("records"):
        others = layer.train_reduced(training, range(2, 5), row["step_size"])
        assert np.median(others.excess_risk[:, -1]) == pytest.approx(row["excess_risk"])
    assert sizes["chosen"].tolist() == (sizes.index == sizes["excess_risk"].idxmin()).tolist()
    (chosen,) = sizes[sizes["chosen"]]["step_size"]
    alone = layer.train_reduced(training, [1], chosen)
    ours = reduced[reduced["run"] == 1]["kappa"].iloc[-1]
    assert alone.overlaps.kappa[0, -1] == ours, "run 1 alone is run 1 of two"


# ---- the command line


def run_slr(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "run_slr.py"), *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pgd"], "error: no study 'pgd'; there are pgd-manifold, pgd-schedule"),
        (["yardsticks", "--d", "80"], "error: Unrecognized options: --d"),
        (["portrait", "--steps", "10"], "error: Unrecognized options: --steps"),
        (["portrait", "--runs", "x"], "error: "),
        (["layer", "--full"], "error: Unrecognized options: --full"),
        (
            ["layer", "--variant-steps", "3"],
            "error: --variant-steps must be at least 4",
        ),
    ],
)
def test_an_option_that_a_study_would_ignore_is_an_error(
    words: list[str], message: str, tmp_path: Path
) -> None:
    run = run_slr(*words, cwd=tmp_path)
    assert run.returncode == 2
    (line,) = run.stderr.splitlines()
    assert line.startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_help_lists_the_studies_and_each_shows_its_own_options(tmp_path: Path) -> None:
    out = run_slr("--help", cwd=tmp_path).stdout
    for name in (*(study.name for study in THEORY), "paper", "all"):
        assert f"\n  {name} " in out
    assert "--d INT" in run_slr("portrait", "--help", cwd=tmp_path).stdout
    assert "--d INT" not in run_slr("yardsticks", "--help", cwd=tmp_path).stdout


def test_a_failure_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        fail("two\nlines")
    assert capsys.readouterr().err == "error: two lines\n"


# ---- sweeps


def test_a_sweep_makes_a_table_and_a_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text('lam = "0.02:0.2:3:log"\nstep_size = [4e-3, 4e-2]\nn_steps = 100\n')
    options = sweep.Options(output=tmp_path, jobs=1, grid=grid)
    options = replace(options, vary=("start=manifold,sphere", "runs=2"))
    folder = make(sweep.STUDY, options)
    table = pd.read_parquet(folder / "cells.parquet")
    assert len(table) == 3 * 2 * 2
    assert set(table["n_steps"]) == {100}
    assert {path.name for path in folder.iterdir()} == {
        "cells.parquet", "settings.json", "sweep.png", "sweep.pdf",
    }  # fmt: skip
    assert not sweep.rows_folder(options, "sweep").exists()
    make(sweep.STUDY, replace(options, jobs=2))  # how, not what
    assert "unchanged" in capsys.readouterr().out
    grid.write_text("lam = 0.1\n")
    with pytest.raises(FileExistsError, match="made with other settings"):
        make(sweep.STUDY, options)


def test_a_sweep_goes_on_where_it_was_and_starts_again_when_told(tmp_path: Path) -> None:
    options = sweep.Options(output=tmp_path, jobs=1, vary=("lam=0.1,0.2", "n_steps=10", "runs=2"))
    other = replace(options, vary=("lam=0.1,0.2", "n_steps=10", "runs=3"))
    sweep.run(options)
    assert "2 cells, 0 computed now" in sweep.run(options).remark
    with pytest.raises(ValueError, match="was begun with another grid"):
        sweep.run(other)
    assert "2 cells, 2 computed now" in sweep.run(replace(other, overwrite=True)).remark


def test_the_success_map_is_a_sweep_and_its_figure_shows_the_shares(smoke: Path) -> None:
    table = pd.read_parquet(
        make(success.STUDY, success.Options(output=smoke, smoke=True)) / "success.parquet"
    )
    assert len(table) == 6 * 6
    assert table["share_aligned"].between(0, 1).all()
    axes = {
        "lam": table["lam"].unique().tolist(),
        "lam_decay": table["lam_decay"].unique().tolist(),
    }
    (mesh,) = plot_sweep(table, cell_grid(axes)).axes[0].collections[:1]
    wide = table.pivot_table(index="lam_decay", columns="lam", values="share_aligned")
    assert (np.ravel(mesh.get_array()) == wide.to_numpy().ravel()).all()  # type: ignore[arg-type]


def test_the_best_cells_are_confirmed_on_fresh_runs(smoke: Path) -> None:
    folder = make(success.STUDY, success.Options(output=smoke, smoke=True))
    table = pd.read_parquet(folder / "success.parquet")
    confirmed = pd.read_parquet(folder / "confirmed.parquet")
    cells = confirmed[~confirmed["paper"]]
    assert len(cells) == success.BEST
    assert (cells["on_the_map"] == table["share_aligned"].max()).all()
    schedule = confirmed[confirmed["paper"]].iloc[0]
    assert (schedule["lam"], schedule["lam_decay"]) == (1.0, 1e-4)
    assert (confirmed["low"] <= confirmed["aligned"] / confirmed["runs"]).all()


def test_fresh_runs_are_not_those_of_the_map() -> None:
    """On the manifold every run aligns, from the sphere at this lam about half: both are seen."""
    base = replace(EXPERIMENTS["pgd-small-lambda"], runs=60, seed=1, log_every=20_000)
    cell = pd.DataFrame([{"lam": base.lam, "lam_decay": 0.0, "share_aligned": 1.0}])
    share = success.confirm(cell, base)["aligned"] / base.runs
    assert share.between(0.3, 0.8).all()  # 4 standard errors around 0.55
    on_manifold = success.confirm(cell, replace(base, start="manifold"))
    assert (on_manifold["aligned"] == base.runs).all()


def test_the_exponent_of_a_power_law_is_found_among_runs_that_fail() -> None:
    rng = np.random.default_rng(0)
    steps = {("sphere", d): d**1.2 * np.exp(rng.normal(0, 0.1, 40)) for d in (10**3, 10**4, 10**5)}
    for values in steps.values():
        values[::3] = np.inf
    row = scaling.growth(steps, rng).iloc[0]
    assert row["low"] < 1.2 < row["high"]
    assert row["high"] - row["low"] < 0.1


def test_paper_and_all_make_their_studies_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, Any]] = []
    monkeypatch.setattr(group, "make", lambda study, options: made.append((study.name, options)))
    group.run_paper(paper.Options(output=tmp_path, seed=3))
    assert [name for name, _ in made] == [study.name for study in paper.STUDIES]
    made.clear()
    group.run_all(SlrOptions(output=tmp_path, seed=3))
    assert [name for name, _ in made] == [study.name for study in THEORY]
    assert {(options.output, options.seed) for _, options in made} == {(tmp_path, 3)}
