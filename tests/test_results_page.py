"""The page of results says what the results files say, and nothing else."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import results_page
import results_practice
import results_times
from matplotlib.figure import Figure
from results_page import SECTIONS, Config, page_of

ROOT = Path(__file__).parent.parent
SPLITS = ("train", "test", "ood_tokens", "ood_structure", "ood_structure_tokens")


def complete(folder: Path, *figures: str) -> None:
    """Draw the figures and write the file that a whole result has."""
    for name in figures:
        Figure(figsize=(8, 2), dpi=200).savefig(folder / name)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    (folder / "files.json").write_text(json.dumps(sizes))


def tables(folder: Path, **found: Any) -> Path:
    folder.mkdir(parents=True)
    for name, table in found.items():
        pd.DataFrame(table).to_parquet(folder / f"{name}.parquet")
    return folder


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A small results folder with numbers made up to be recognised."""
    root = tmp_path / "results"
    (root / "dataset").mkdir(parents=True)
    split = {"rows": 1234, "distinct": 1233, "unknown_share": 0.25, "isolates": "this | that"}
    (root / "dataset" / "manifest.json").write_text(json.dumps({"splits": {"train": split}}))
    complete(root / "dataset")
    for seed, accuracy in enumerate((0.5, 0.75)):
        row = {"split": ["test"], "accuracy": [accuracy], "attention_mass": [0.125]}
        complete(tables(root / "models" / f"tiny-{seed}", metrics=row))
    bars = [
        {"series": series, "split": split, "accuracy": 0.375, "low": low, "high": 0.5}
        for series, low in (("bert-published", np.nan), ("tiny", 0.25))
        for split in SPLITS
    ]
    sparsity = {"model": ["trained"], "split": ["test"], "mass": [0.91], "top1": [1.0]}
    sparsity["effective_tokens"] = [1.5]
    complete(tables(root / "figure1", bars=bars, sparsity=sparsity), "figure1.png")
    ends = np.array([0.99, 0.96, 0.02])  # of kappa: the last run is swapped
    run = pd.DataFrame({"run": [0, 1, 2], "step": 5000, "kappa": ends, "nu": [-0.99, 0.96, 0.02]})
    run = run.assign(eta=[0, 0, -0.98], excess_risk=[0.1, 0.2, 0.3], diverged=False)
    early = run.assign(step=0, kappa=1.0, nu=1.0)
    experiment = tables(root / "slr" / "pgd-schedule", trajectory=pd.concat([early, run]))
    complete(experiment, "pgd-schedule.png")
    claim = {"claim": "none diverge", "paper": "none", "target": "none", "measured": "1 of 3"}
    claims = [claim | {"interval": "", "passed": False, "command": "python x.py"}]
    claim = {"claim": "small risk", "paper": "", "target": "below 0.2", "measured": "0.1"}
    claims.append(claim | {"interval": "[0.0, 0.15]", "passed": True, "command": "python y.py"})
    (root / "claims.json").write_text(json.dumps(claims))
    return root


def page(results: Path) -> str:
    return page_of(results, results.with_name("times.json"))


def test_the_page_says_what_the_files_say(results: Path) -> None:
    text = page(results)
    assert "| train | 1234 | 1233 | 0.25 | this \\| that |" in text
    assert "over 2 training seeds" in text
    assert "| test | 0.62 (0.50 to 0.75) | 0.12 (0.12 to 0.12) |" in text
    assert "| BERT [CLS], published |" + 5 * " 0.38 |" in text
    assert "| 1-layer Transformer, from scratch |" + 5 * " 0.38 [0.25, 0.50] |" in text
    assert "| trained | 0.91 | 1.00 | 1.50 |" in text
    assert "2 of 3 runs align" in text
    assert "within 5,000 steps, 1 end at the swapped point" in text
    assert "median 0.2000 (0.1000 to 0.3000)" in text


def test_another_number_gives_another_page(results: Path) -> None:
    before = page(results)
    path = results / "models" / "tiny-0" / "metrics.parquet"
    pd.read_parquet(path).assign(accuracy=0.25).to_parquet(path)
    assert "0.50 (0.25 to 0.75)" in page(results)
    assert page(results) != before


def test_what_is_missing_or_half_there_is_named(results: Path) -> None:
    assert "Not made yet: `python scripts/bridge.py`" in page(results)
    assert "Not made yet: `python scripts/figure1.py`" not in page(results)
    (results / "figure1" / "bars.parquet").unlink()  # files.json still lists it
    assert "Not made yet: `python scripts/figure1.py`" in page(results)


def test_writes_the_page_with_small_pictures_and_checks_it(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "results.md"
    config = Config(results=results, output=page)
    with pytest.raises(ValueError, match="write it again"):
        results_page.main(Config(results=results, output=page, check=True))
    results_page.main(config)
    results_page.main(Config(results=results, output=page, check=True))
    pictures = re.findall(r"!\[.*\]\((.*)\)", page.read_text())
    assert len(pictures) == 2
    for name in pictures:
        from PIL import Image

        with Image.open(page.parent / name) as image:
            assert image.width == results_page.WIDTH
    page.write_text(page.read_text().replace("1234", "1235"))
    with pytest.raises(ValueError, match="is not what"):
        results_page.main(Config(results=results, output=page, check=True))


def test_without_results_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make reproduce"):
        results_page.main(Config(results=tmp_path / "none"))


def test_bridge_tables_are_means_over_seeds(tmp_path: Path) -> None:
    heads = [
        {"model": "tiny", "trained": True, "seed": seed, "attention_mass": mass, "kappa": kappa}
        | {"nu": -0.5, "rho": 0.0, "kappa_null_95": 0.3, "nu_null_95": 0.34}
        for seed, mass, kappa in ((0, 0.9, 0.75), (0, 0.1, 0.0), (1, 0.9, -0.25))
    ]
    effect = {"accuracy": 0.5, "flips": 1.0, "attention_mass": 0.9, "model": "tiny"}
    causal = [
        effect | {"test": "reflect", "edit": "v_hat", "site": "informative", "dose": dose}
        | {"layer": layer, "split": "test", "seed": seed}
        for layer, dose in ((0, np.nan), (1, np.nan))
        for seed in (0, 1)
    ]  # fmt: skip
    beside = [
        {"quantity": "kappa", "when": when, "model": "Transformer"}
        | {"median": 0.25, "low": 0.125, "high": 0.5}
        for when in ("start", "end")
    ]
    ideal = [
        {"gate": "erf", "source": "fitted", "split": split, "accuracy": x, "attention_mass": 0.25}
        for split, x in (("test", 0.75), ("test", 0.5), ("train", 0.0))
    ]
    folder = tables(
        tmp_path / "bridge",
        directions=heads,
        causal=causal,
        theory_practice=beside,
        idealised=ideal,
    )
    _, cosines, _, effects, _, predictor, _, compared = results_practice.directions(folder)
    assert predictor.splitlines()[-1] == "| erf | fitted | 0.625 | 0.250 |"
    assert compared.splitlines()[-1].count("0.25 [0.12, 0.50]") == 2
    row = "0.50 (0.25 to 0.75) | 0.50 (0.50 to 0.50) | 0.00 (0.00 to 0.00) | 0.34 |"
    assert cosines.splitlines()[-1] == f"| tiny | True | {row}"  # the weaker head does not count
    assert len(effects.splitlines()) == 3, "the edit of layer 0 alone"
    assert "1.00 (1.00 to 1.00)" in effects


def test_claims_are_in_the_page_with_their_verdict(results: Path) -> None:
    text = page(results)
    assert "1 of 2 pass." in text
    assert "| **miss** | none diverge | none | none | 1 of 3 |" in text
    assert "| pass | small risk |  | below 0.2 | 0.1 [0.0, 0.15] |" in text


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
    assert "took 3.2 GiB" in text
    assert "40 tables and weights, of which 2 differ" in text


def test_the_page_that_is_kept_has_every_section() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    assert text.startswith(results_page.INTRODUCTION)
    titles = ["Claims", *(one.title for one in SECTIONS), "Times"]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == titles
    assert "Not made yet" not in text
    for part in results_times.times_part(ROOT / "docs" / "times.json"):
        assert part in text


@pytest.mark.parametrize("name", ["README.md", "docs/probing.md"])
def test_every_number_said_to_be_measured_stands_in_the_results(name: str) -> None:
    parts = (ROOT / name).read_text().split("<!-- measured")[1:]
    texts = [part.split("-->", 1)[1].split("<!-- /measured")[0] for part in parts]
    numbers = re.findall(r"\d+\.\d+", " ".join(texts))
    assert len(numbers) > 5
    results = (ROOT / "docs" / "results.md").read_text()
    assert [number for number in numbers if number not in results] == []


def test_every_time_of_the_readme_is_one_that_was_measured() -> None:
    times = json.loads((ROOT / "docs" / "times.json").read_text())
    readme = (ROOT / "README.md").read_text()
    rows = list(results_times.readme_rows(readme))
    assert len(rows) > 8
    for commands, said in rows:
        assert said == results_times.readme_time(commands, times), commands
    whole = times["reproduce"]
    for name, seconds in (
        ("set-up", times["setup"]["seconds"]),
        ("`make reproduce`", whole["seconds"]),
        ("a second run", whole["again_seconds"]),
        ("`make test`", times["test"]["seconds"]),
    ):
        assert f"{name} {results_times.rounded(seconds)}" in readme, name
    assert f"{whole['peak_gib']:.1f} GiB" in readme
