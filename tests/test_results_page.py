"""The page of results says what the results files say, and nothing else."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from slr import EXPERIMENTS
from studies.catalogue import STUDIES
from studies.findings import Finding
from studies.pages import results as results_page
from studies.pages.paper_table import PARAMETERS, paper_table
from studies.pages.pictures import read_picture, small_png
from studies.pages.results import WIDTH, Options, page_of
from studies.practice import bridge, figure1
from studies.practice.probed import PROBED
from studies.practice.probes import paper_bars
from studies.rendering import markdown_table
from studies.storage.results import result_folder
from studies.study import Study, Tables
from studies.theory import paper

ROOT = Path(__file__).parent.parent
SPLITS = ("train", "test", "ood_tokens", "ood_structure", "ood_structure_tokens")


ALWAYS = [study.title for study in STUDIES if not study.optional]


def keep(results: Path, study: Study, **tables: Any) -> Path:
    """The result of a study with these tables, and its figures."""
    with result_folder(results / study.folder, {}) as folder:
        for name, table in tables.items():
            pd.DataFrame(table).to_parquet(folder / f"{name}.parquet")
        for name in study.figures:
            Figure(figsize=(8, 2), dpi=200).savefig(folder / f"{name}.png")
    return results / study.folder


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A small results folder with numbers made up to be recognised."""
    root = tmp_path / "results"
    split = {"rows": 1234, "distinct": 1233, "unknown_share": 0.25, "isolates": "this | that"}
    split |= {"balance": {"negative": 600, "positive": 634}}
    with result_folder(root / "dataset", {}) as folder:
        (folder / "manifest.json").write_text(json.dumps({"splits": dict.fromkeys(SPLITS, split)}))
    columns = {"data": "published", "kind": "interval", "low": 0.25, "high": 0.5, "words": 6.0}
    dots = [{**columns, "series": "tiny", "split": split, "accuracy": 0.375} for split in SPLITS]
    sparsity: dict[str, Any] = {
        "model": ["1 layer", "2 layers", "untrained"],
        "split": "test",
        "mass": [0.5, 0.91, 0.08],
        "low": [0.25, 0.9, np.nan],
        "high": [0.75, 0.92, np.nan],
        "seeds": [20, 6, np.nan],
    }
    models = {"series": ["tiny"], "data": "published", "split": "test", "accuracy": 1.0}
    plane = {"role": ["neutral", "distractor", "informative"] * 2, "k": [0, 0.5, 1] * 2, "v": 1.0}
    keep(root, figure1.STUDY, dots=dots, sparsity=sparsity, models=models, plane=plane)
    means = [
        {"model": "trained", "control": "none", "probe": "summary", "split": split}
        | {"accuracy": 0.375, "low": 0.25, "high": 0.5, "words": 6}
        for split in SPLITS
    ]
    layers = {"model": "trained", "control": "none", "layer": [0, 1], "split": ["test", "train"]}
    first = pd.DataFrame({**layers, "accuracy": 0.5, "low": np.nan, "high": np.nan})
    first["state_sd"] = 0.25
    keep(
        root,
        PROBED["probes-paper"].study,
        means=means,
        probes=first,
        bars=paper_bars(first, pd.DataFrame(means)),
        splits={"split": ["train", "test"], "sentences": [1500, 96], "of": [15552, 96]},
        subject={"n_layers": [6]},
    )
    runs = {"aligned": [True, True, False], "swapped": [False, False, True], "diverged": False}
    runs |= {"excess_risk": [0.1, 0.2, 0.3], "distance_to_manifold": 0.5, "start": "published"}
    steps = {"step": [0, 200, 5000], "lam": 0.1}
    keep(root, paper.STUDIES[0], runs=runs, trajectory=steps)
    return root


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings that can be recognised, as the results have few tables."""
    findings = [
        Finding(text="Two of {}.", value=3, form=".0f", published="all", holds=True, headline=True),
        Finding(text="A share of {}.", value=0.5, low=0.25, high=0.75, required="at least 0.9",
                holds=False, why="it is small"),
    ]  # fmt: skip
    monkeypatch.setattr(results_page, "read_findings", lambda _: findings)


def page(results: Path) -> str:
    return page_of(results, results.with_name("times.json"))


def test_the_page_says_what_the_files_say(results: Path) -> None:
    text = page(results)
    assert "| train | 1234 | 600 | 634 | 1233 | 0.25 | this \\| that |" in text
    assert "| 1-layer Transformer, from scratch |" + 5 * " 0.38 [0.25, 0.50] |" in text
    assert "| accuracy | train (6 words) |" in text
    assert "| test | 0.50 [0.25, 0.75] | 0.91 [0.90, 0.92] | 0.08 |" in text
    assert "(20 of `1 layer`, 6 of `2 layers`)" in text
    assert "| BERT, published | 0.50 | 1.00 | 0.95 | 0.64 | 0.75 | 0.69 |" in text
    assert "| MiniLM | 0.50 |" + 5 * " 0.38 [0.25, 0.50] |" in text
    assert "here over layer 1 (of 6). Sentences here: 1,500 of 15,552 in `train`, 96 in" in text
    assert "How the runs end, after 5,000 steps:" in text
    assert "| published starts | 3 | 2 | 1 | 0 | 0.2000 (0.1000 to 0.3000) | 0.5 |" in text


def test_the_paper_stands_beside_our_results(results: Path) -> None:
    table = paper_table(results)
    assert list(table.columns) == ["what", "paper", "here", "difference"]
    manifold = table.loc["Figure 3b"]
    assert manifold["here"] == "2 of 3 align, 1 swapped"
    assert manifold["difference"] == "other steps, runs", "5000 steps and 3 runs"
    assert "OOD tokens 0.38 (-0.27)" in table.loc["Figure 1b", "here"]
    assert table.loc["Figure 4", "here"] == "not made: `python scripts/run_slr.py sgd-schedule`"


def test_a_result_in_another_dimension_is_said_to_differ(tmp_path: Path) -> None:
    steps = {"step": [0, 200, 20_000], "lam": 0.1}
    runs = {"aligned": [True] * 30, "swapped": False, "start": "random"}
    with result_folder(tmp_path / paper.STUDIES[0].folder, {"d": 90}) as folder:
        pd.DataFrame(steps).to_parquet(folder / "trajectory.parquet")
        pd.DataFrame(runs).to_parquet(folder / "runs.parquet")
    assert paper_table(tmp_path).loc["Figure 3b", "difference"] == "other d, starts"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_our_experiments_have_the_parameters_of_the_paper(name: str) -> None:
    """The paper's table, typed in twice: here from the paper, in slr for training."""
    published, ours = PARAMETERS[name], EXPERIMENTS[name]
    values = {
        "d": ours.d, "L": ours.L, "gamma^2": pytest.approx(ours.gamma**2), "lambda": ours.lam,
        "decay": ours.lam_decay, "step size": ours.step_size, "steps": ours.n_steps,
        "logged every": ours.log_every, "runs": ours.runs, "start": ours.start,
    }  # fmt: skip
    if ours.optimiser == "sgd":
        values |= {"batch": ours.batch_size, "noise": ours.noise_std}
    assert published == values


def test_another_number_gives_another_page(results: Path) -> None:
    before = page(results)
    folder = results / "figure1"
    table = pd.read_parquet(folder / "dots.parquet")
    table["accuracy"] = 0.125
    table.to_parquet(folder / "dots.parquet")
    assert "0.12 [0.25, 0.50]" in page(results)
    assert page(results) != before


def test_what_is_missing_or_half_there_is_named(results: Path) -> None:
    assert "Not made yet: `python scripts/bridge.py`" in page(results)
    assert "Not made yet: `python scripts/figure1.py`" not in page(results)
    (results / "figure1" / "dots.parquet").unlink()
    with pytest.raises(ValueError, match=r"dots\.parquet is missing; .*scripts/figure1\.py"):
        page(results)
    shutil.rmtree(results / "figure1")
    assert "Not made yet: `python scripts/figure1.py`" in page(results)


def test_writes_the_page_with_small_pictures_and_replaces_no_other(
    results: Path, tmp_path: Path
) -> None:
    page = tmp_path / "docs" / "results.md"
    config = Options(results=results, output=page)
    results_page.main(config)
    pictures = re.findall(r"!\[.*\]\((.*)\)", page.read_text())
    assert len(pictures) == 3
    for name in pictures:
        from PIL import Image

        with Image.open(page.parent / name) as image:
            assert image.width == results_page.WIDTH
    results_page.main(config)  # a page of ours is replaced
    page.write_text("Mine.")
    with pytest.raises(FileExistsError, match="was not written by this command"):
        results_page.main(config)


def test_small_pictures_keep_the_colours_of_small_markers(tmp_path: Path) -> None:
    from PIL import Image

    figure = Figure(figsize=(8, 4), dpi=100)
    ax = figure.subplots()
    ax.imshow(np.random.default_rng(0).uniform(size=(40, 80)), cmap="gray")  # takes most colours
    ax.plot([20, 40, 60], [20, 20, 20], "o", color="#CC79A7", ms=5)
    figure.savefig(tmp_path / "large.png")
    (tmp_path / "small.png").write_bytes(small_png(read_picture(tmp_path / "large.png"), WIDTH))
    with Image.open(tmp_path / "large.png") as large, Image.open(tmp_path / "small.png") as small:
        before, after = (np.asarray(image.convert("RGB"), int) for image in (large, small))
    assert (before == (0xCC, 0x79, 0xA7)).all(axis=2).any()
    assert abs(before - after).max() < 25


def test_without_results_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make reproduce"):
        results_page.main(Options(results=tmp_path / "none"))


def test_bridge_tables_are_medians_over_seeds(tmp_path: Path) -> None:
    heads = [
        {"model": "tiny", "trained": True, "seed": seed, "attention_mass": mass, "kappa": kappa}
        | {"nu": -0.5, "rho": 0.0, "kappa_null_95": 0.3, "nu_null_95": 0.34, "v_share": 0.5}
        | {"kappa_covariance_null_95": 0.6, "nu_covariance_null_95": 0.7}
        for seed in range(6)
        for mass, kappa in ((0.9, 0.75 - seed / 5), (0.1, 0.0))
    ]
    heads += [head | {"model": "tiny-glove"} for head in heads]
    effect = {"accuracy": 0.5, "flips": 1.0, "attention_mass": 0.9, "model": "tiny"}
    causal = [
        effect | {"test": "reflect", "edit": "v_hat", "site": "informative", "dose": dose}
        | {"layer": layer, "split": "test", "seed": seed}
        for layer, dose in ((0, np.nan), (1, np.nan))
        for seed in range(6)
    ]  # fmt: skip
    beside = [
        {"quantity": "kappa", "when": when, "model": "Transformer"}
        | {"median": 0.25, "low": 0.125, "high": 0.5}
        for when in ("start", "end")
    ]
    ideal = [
        {"gate": "erf", "source": "fitted", "split": split, "accuracy": x, "attention_mass": 0.25}
        for split, x in (*[("test", 0.1 * seed) for seed in range(6)], ("train", 0.0))
    ]
    order = {"model": ["ours"], "directions": "of each snapshot", "level": 0.9, "n": 5}
    order |= {"v_first": 4, "k_first": 0, "together": 0, "neither": 1, "share": 0.8, "low": 0.28}
    order |= {"high": 0.99, "p_value": 0.1875, "v": 0.125, "k": np.inf}
    near: dict[str, Any] = {
        "model": ["ours"],
        "beside": "theory",
        "quantity": "nu",
        "reading": "at the error",
    }
    near |= {"rms": 0.25, "low": 0.125, "high": 0.5, "lowest_error": 0.2}
    by_lam = {name: value for name, value in order.items() if name not in ("model", "directions")}
    by_lam |= {"lam": 0.1, "learned": [True], "excess_risk": 1e-5}
    raw = {"directions": heads, "causal": causal, "idealised": ideal}
    folder = keep(
        tmp_path,
        bridge.STUDY,
        **bridge.over_seeds_of({name: pd.DataFrame(rows) for name, rows in raw.items()}),
        order=order,
        order_by_lam=by_lam,
        nearness=near,
        theory_practice=beside,
    )
    said = bridge.says(Tables(folder))
    cosines, effects, predictor, compared, near_by, first, lams = (
        markdown_table(x) for x in said[2::2]
    )
    assert "(6 of each 1-layer model)" in said[0]
    assert near_by.splitlines()[-1] == "| at the error | ours | theory | 0.25 [0.12, 0.50] |"
    assert "crosses 0.9, ..., 0.2" in said[9]
    assert lams.splitlines()[-1] == "| 0.1 | learned | 5 | 4 | 0 | 0.125 | never | 1e-05 |"
    row = "0.25 [0.00, 0.50] | 0.25 [0.25, 0.25] |"
    assert predictor.splitlines()[-1] == f"| erf, the paper's | labels alone | {row}"
    row = "5 | 4 | 0 | 0 | 1 | 0.80 [0.28, 0.99] | 0.19 | 0.125 | never |"
    assert first.splitlines()[-1] == f"| ours | of each snapshot | 0.9 | {row}"
    assert "holds 0.50 [0.50, 0.50] of the variance" in said[3]
    assert compared.splitlines()[-1].count("0.25 [0.12, 0.50]") == 2
    # Absolute values .75 .55 .35 .15 .05 .25; the weaker head does not count.
    row = "0.30 [0.05, 0.75] | 0.60 [0.60, 0.60] | 0.30 |"
    assert f"| 1 layer, from scratch | True | {row} 0.50 [0.50, 0.50] |" in cosines
    assert len(effects.splitlines()) == 3, "the edit of layer 0 alone"
    assert "1.00 [1.00, 1.00]" in effects


def test_bars_that_are_chance_by_construction_have_no_interval() -> None:
    models = pd.DataFrame({"series": "tiny", "split": ["test", "ood_tokens"]})
    models = models.assign(data="published", words=6, accuracy_low=0.1, accuracy_high=0.9)
    models["accuracy"], models["unknown_words"] = [1.0, 0.5], [False, True]
    ours = figure1.transformer_dots(models).set_index("split")
    assert ours["kind"].tolist() == ["interval", ""], "one seed has the interval over words"
    assert ours.loc["test", ["low", "high"]].tolist() == [0.1, 0.9]
    assert ours.loc["ood_tokens", ["low", "high"]].isna().all()
    seeds = pd.DataFrame({"accuracy": [0.5, 0.9, 0.7, 0.6, 1.0, 0.8], "series": "tiny"})
    seeds = seeds.assign(split="test", data="published", words=6, unknown_words=False)
    seeds["accuracy_low"], seeds["accuracy_high"] = seeds["accuracy"] - 0.1, 1.0
    (many,) = figure1.transformer_dots(seeds).to_dict("records")
    assert (many["accuracy"], many["low"], many["high"]) == (0.75, 0.5, 1.0)
    assert many["kind"] == "seeds"
    (few,) = figure1.transformer_dots(seeds[:4]).to_dict("records")
    assert (few["accuracy"], few["low"], few["kind"]) == (0.6, 0.5, "interval"), "the lower middle"


def test_the_page_begins_with_what_holds_and_then_the_findings_by_group(results: Path) -> None:
    begin, rest = page(results).split("## Published values, and ours\n")
    assert begin == (
        "# Results\n\nTwo of 3.\n\n1 published values are the same here, 0 different and 0 not "
        "comparable. Of 1 predictions that were written down before their runs 0 held and 1 are "
        "missed, each with the reason.\n\n"
    )
    assert "| Two of 3. | all | same |" in rest
    assert "| A share of 0.50 [0.25, 0.75]. | at least 0.9 | missed: it is small |" in rest


def test_times_are_those_measured(results: Path) -> None:
    times = {
        "machine": {"Processor": "a processor, 2 cores", "Memory": "24.0 GiB"},
        "setup": {"seconds": 123},
        "reproduce": {"seconds": 777, "stages": {"slr": 70}, "peak_gib": 3.25, "again_seconds": 9},
        "killed": {"killed_in": {"slr": 35}, "tables_compared": 40, "different": ["a", "b"]},
        "test": {"seconds": 222, "says": "1 passed"},
        "commands": {"python scripts/x.py": 44},
    }
    assert "## Times" not in page(results)
    results.with_name("times.json").write_text(json.dumps(times))
    text = page(results)
    assert "| `make reproduce` | 777 s (slr 70 s) |" in text
    assert "| `python scripts/x.py` | 44 s |" in text
    assert "took at most 3.2 GiB" in text
    assert "of 40 files of results, 2 differ" in text
