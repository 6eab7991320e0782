"""The gate of results: a digit that changes is refused unless a reason is named for it."""

import json
from pathlib import Path

import compare_results
import numpy as np
import pandas as pd
import pytest
from compare_results import differences, main
from safetensors.numpy import save_file

TABLE = pd.DataFrame({"risk": [0.5, 2.0, np.nan], "gate": ["erf", "erf", None], "seconds": 1.0})


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with the same results, made at other times by other code."""
    for name, seconds in (("before", 1.0), ("after", 2.0)):
        folder = tmp_path / name / "slr"
        folder.mkdir(parents=True)
        TABLE.assign(seconds=seconds).to_parquet(folder / "risks.parquet")
        save_file({"k": np.arange(6.0).reshape(2, 3)}, folder / "ends.safetensors")
        settings = {"seed": 0, "inputs": [{"code_sha256": name, "runs": 5}]}
        (folder / "settings.json").write_text(json.dumps(settings))
    return tmp_path / "before", tmp_path / "after"


def test_equal_results_made_at_other_times_by_other_code(folders: tuple[Path, Path]) -> None:
    assert not main(*folders, expected=None)


def test_one_digit_of_one_table_is_refused(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    changed = TABLE.assign(risk=[0.5, np.nextafter(2.0, 3.0), np.nan])
    changed.to_parquet(folders[1] / "slr" / "risks.parquet")
    assert main(*folders, expected=None)
    assert "risk by at most 2.2e-16 in 1 of 3 rows" in capsys.readouterr().out


def test_a_named_change_is_not_refused_and_one_that_did_not_happen_is_said(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TABLE.assign(risk=[0.5, 2.1, np.nan]).to_parquet(folders[1] / "slr" / "risks.parquet")
    expected = tmp_path / "expected.txt"
    expected.write_text("slr/risks.*\tanother grid\nslr/ends.*  # longer runs\n")
    assert not main(*folders, expected=expected)
    said = capsys.readouterr().out
    assert "# another grid" in said
    assert "did not happen: slr/ends.*  # longer runs" in said
    expected.write_text("slr/risks.parquet\n")
    with pytest.raises(SystemExit, match="no reason"):
        main(*folders, expected=expected)


def test_new_files_are_listed_and_gone_ones_refused(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    TABLE.to_parquet(folders[1] / "more.parquet")
    assert not main(*folders, expected=None)
    assert "more.parquet: new" in capsys.readouterr().out
    before, after = folders
    assert main(after, before, expected=None)


def test_what_changed_is_said_by_column_tensor_and_line(folders: tuple[Path, Path]) -> None:
    after = folders[1] / "slr"
    TABLE.assign(gate=["erf", "softmax", None]).drop(columns="risk").to_parquet(
        after / "risks.parquet"
    )
    save_file({"k": np.arange(6.0).reshape(3, 2)}, after / "ends.safetensors")
    (after / "settings.json").write_text(json.dumps({"seed": 1, "inputs": [{"runs": 5}]}))
    changes = differences(*folders)
    assert "without risk" in changes["slr/risks.parquet"]
    assert "gate in 1 of 3 rows" in changes["slr/risks.parquet"]
    assert "with k (3, 2)" in changes["slr/ends.safetensors"]
    assert '+ "seed": 1' in changes["slr/settings.json"]


def test_differences_of_trained_weights_alone_look_like_another_machine(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, weight in zip(folders, (1.0, 1.1), strict=True):
        (folder / "models").mkdir()
        save_file({"query": np.full(3, weight)}, folder / "models" / "model.safetensors")
    assert main(*folders, expected=None)
    assert "another machine" in capsys.readouterr().out


def test_a_slower_stage_is_refused(tmp_path: Path) -> None:
    logs = [tmp_path / "before.txt", tmp_path / "after.txt"]
    for log, seconds in zip(logs, (100, 112), strict=True):
        log.write_text(f"== 1/2 slr\n== slr took {seconds} s\n== report took 3 s\n")
    assert compare_results.is_slower(*logs)
    assert not compare_results.is_slower(*reversed(logs))
