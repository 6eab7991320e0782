"""The notebooks: what they keep is whole and small, and they still run."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MAX_BYTES = 300_000
# tqdm says at its import that there are no widgets, where a progress bar would show: noise.
QUIET = {"PYTHONWARNINGS": "ignore:IProgress not found", "OMP_NUM_THREADS": "1"}


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def errors(notebook: Any) -> list[str]:
    """Tracebacks and whatever was written to stderr: warnings, too, are not for keeping."""
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    return [
        str(output.get("ename") or output.get("text"))
        for output in outputs
        if output.output_type == "error" or output.get("name") == "stderr"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_kept_outputs_are_whole_and_small(path: Path) -> None:
    notebook = read(path)
    assert path.stat().st_size < MAX_BYTES
    assert not errors(notebook)
    assert str(ROOT) not in path.read_text(), "it holds a path of the machine it was made on"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_where_there_are_no_results(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # this copy, whatever is installed
    kept, notebook = read(path), read(path)
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    assert not errors(notebook)
    for old, new in zip(code_cells(kept), code_cells(notebook), strict=True):
        assert kinds(old) == kinds(new), "what is kept is not what it gives now"
    assert not list(tmp_path.iterdir()), "it left files behind"


def kinds(cell: Any) -> list[str]:
    """What a cell shows: text, tables, pictures. (Numbers may differ from machine to machine.)"""
    # A stream may come in one piece or in several.
    found = [
        "text" if output.output_type == "stream" else max(output.data) for output in cell.outputs
    ]
    return [kind for i, kind in enumerate(found) if kind != "text" or found[:i][-1:] != ["text"]]
