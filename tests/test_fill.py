"""Documents get their numbers from findings, between marks, and nothing else of them changes."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parent.parent / "docs" / "fill.py"


@pytest.fixture
def fill() -> Any:
    spec = importlib.util.spec_from_file_location("fill", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_planted_finding_is_filled_in_and_the_rest_is_left(
    fill: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = "<!-- findings: {} -->\n{}<!-- end -->"
    text = "# 0.5\n" + marks + " <!-- end -->\n\n- 0.7\n" + marks + "\n"
    found = {"bridge": ["The cosine is 0.92 [0.90, 0.94].", "v is first."], "slr/layer": ["x"]}
    monkeypatch.setattr(fill, "findings_of", lambda results, name: found[name])
    (tmp_path / "docs").mkdir()
    document = tmp_path / "docs" / "page.md"
    (tmp_path / "README.md").write_text("no marks")
    document.write_text(text.format("bridge", "- older\n", "slr/layer", ""))
    expected = text.format(
        "bridge", "- The cosine is 0.92 [0.90, 0.94].\n- v is first.\n", "slr/layer", "- x\n"
    )
    for _ in range(2):
        fill.main(tmp_path / "results", tmp_path)
        assert document.read_text() == expected
    assert (tmp_path / "README.md").read_text() == "no marks"


def test_without_results_nothing_is_written(fill: Any, tmp_path: Path) -> None:
    text = "<!-- findings: {} -->\n- kept\n<!-- end -->"
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(text.format("all"))
    (tmp_path / "docs" / "page.md").write_text(text.format("bridge"))
    with pytest.raises(SystemExit, match="has no findings of all; make them with"):
        fill.main(tmp_path / "results", tmp_path)
    assert "- kept" in (tmp_path / "README.md").read_text()
